"""Encoders as `regard.load` gives them: blanks filled, vectors, classes, where tokens looked, and odd texts."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import save_encoder

from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.tasks.core.table import load, load_as
from regard.tasks.shared import text_reader
from regard.tasks.shared.reader import Reader
from regard.tasks.translate.run import Translator

LINES = ["The cat sat on the mat.", "A dog barked at the cats!", "Dogs and cats play outside, playing all day."]
LABELS = ("bad", "fair", "good")
LONGEST = 12
ODD = [
    "",
    " ",
    " \t ",
    "the cat",
    "中文 ☃ zebra",
    "a\x00b",
    "e\u0301" * 3,
    "x" * 300,
    "the cat " * 40,
    "[CLS] [PAD]",
]


def build(folder: Path, tokens: Tokenizer | None = None, **changes: Any) -> Reader:
    """A run with drawn weights, which say something different of every text."""
    tokens = tokens or Tokenizer.train(LINES * 3, kind="wordpiece", size=120, lowercase=True, numbering="bert")
    settings = {"dim": 24, "layers": 2, "heads": 3, "max_positions": LONGEST, **changes}
    save_encoder(folder, tokens, seed=3, **settings)
    return load(folder)


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return build(tmp_path_factory.mktemp("filler"))


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return build(tmp_path_factory.mktemp("sorter"), head="classify", labels=LABELS)


def states(reader: Reader, ids: list[int], segments: list[int] | None = None) -> torch.Tensor:
    with torch.no_grad():
        return reader.model(torch.tensor([ids]), None if segments is None else torch.tensor([segments]))


# ---- follows


def test_the_next_sentence_is_read_from_cls(filler: Reader) -> None:
    """p = softmax(W_n tanh(W_p x_0)), of which the first says that the second text follows."""
    pair = ("the cat sat", "the dog")
    ids, segments = filler.read(pair).row
    model, first = filler.model, states(filler, ids, segments)[0, 0]
    pooled = (model.pooler.weight @ first + model.pooler.bias).tanh()
    logits = (model.next.weight @ pooled + model.next.bias).tolist()
    answer = filler.follows(*pair)
    wanted = math.exp(logits[0]) / (math.exp(logits[0]) + math.exp(logits[1]))
    assert answer.probability == pytest.approx(wanted, abs=1e-6)
    assert answer.label == ("follows" if wanted > 0.5 else "elsewhere")
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    assert [each.probability for each in filler.follows([pair, pair])] == pytest.approx([wanted] * 2, abs=1e-6)
    assert list(answer.attention.rows) == ["[CLS]"]


# ---- fill


def test_each_blank_has_its_likeliest_tokens(filler: Reader) -> None:
    found = filler.fill("The [MASK] sat on [MASK] mat.", top=4)
    encode = filler.tokenizer.encode
    ids = [2, *encode("The"), 4, *encode("sat on"), 4, *encode("mat."), 3]
    shares = filler.model.masked_logits(states(filler, ids)).softmax(-1)[0]
    for blank, place in zip(found.blanks, [at for at, one in enumerate(ids) if one == 4], strict=True):
        shares[place][list(filler.tokenizer.silent | {filler.tokenizer.special.unknown})] = 0  # these fill no blank
        best = shares[place].topk(4)
        assert [token for token, _ in blank] == filler.tokenizer.tokens(best.indices.tolist())
        assert [share for _, share in blank] == pytest.approx(best.values.tolist(), abs=1e-6)
    assert found.source == "The [MASK] sat on [MASK] mat."


def test_every_token_may_be_asked_for_and_no_more(filler: Reader) -> None:
    [blank] = filler.fill("the [MASK]", top=10**6).blanks
    assert len(blank) == len(filler.tokenizer) - 5
    assert not {token for token, _ in blank} & {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    assert 0.5 < sum(share for _, share in blank) < 0.99, "the probabilities are those of the model"
    assert len(filler.fill("the [MASK]", top=1).blanks[0]) == 1


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("[MASK]", ["[MASK]"]),
        ("[MASK] cat", ["[MASK]", "cat"]),
        ("cat [MASK]", ["cat", "[MASK]"]),
        ("[MASK][MASK] cat [MASK]", ["[MASK]", "[MASK]", "cat", "[MASK]"]),
        ("cat[MASK]cat", ["cat", "[MASK]", "cat"]),
        ("[MASK]\r", ["[MASK]"]),
    ],
    ids=["alone", "first", "last", "three", "glued", "line end"],
)
def test_blanks_anywhere(text: str, tokens: list[str], filler: Reader) -> None:
    ids, segments = filler.read_blanks(text).row
    assert filler.tokenizer.tokens(ids) == ["[CLS]", *tokens, "[SEP]"]
    assert segments == [0] * len(ids)
    assert len(filler.fill(text).blanks) == tokens.count("[MASK]")


@pytest.mark.parametrize(
    "text", ["", "the cat", "[mask]", "[MASK", "MASK"], ids=["empty", "text", "small", "open", "bare"]
)
def test_a_text_without_a_blank_is_told(text: str, filler: Reader) -> None:
    with pytest.raises(ValueError, match=r"has no \[MASK\] to fill"):
        filler.fill(text)


def test_too_much_text_round_a_blank_is_told_and_not_cut(filler: Reader) -> None:
    filler.fill("[MASK] " + "cat " * (LONGEST - 3))
    with pytest.raises(ValueError, match=r"has 13 tokens and this model takes 12; shorten it"):
        filler.fill("[MASK] " + "cat " * (LONGEST - 2))
    short = Reader(filler.model, filler.tokenizer, 6)
    with pytest.raises(ValueError, match=r"takes 6; shorten it, or train one with a larger data\.length"):
        short.fill("[MASK] " + "cat " * 4)


def test_candidates_are_put_in_their_places(filler: Reader) -> None:
    assert filler.put("a [MASK] b [MASK] c", "x") == "a x b [MASK] c"
    assert filler.put("a [MASK] b [MASK] c", "x", 1) == "a [MASK] b x c"
    assert filler.put("play [MASK] here", "##ing") == "playing here"
    assert filler.put("[MASK]", "##ing") == "ing"


def test_special_tokens_are_no_fillings(filler: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the model finds [MASK] or [CLS] likeliest."""
    cat = filler.tokenizer.encode("cat")[0]

    def logits(found: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros(len(found), len(filler.tokenizer))
        scores[0, 4], scores[1, 2], scores[:, cat] = 9, 9, 8
        return scores

    monkeypatch.setattr(filler.model, "masked_logits", logits)
    assert filler.fill("a [MASK] b [MASK] c [MASK]").text == "a cat b cat c cat"


@pytest.mark.parametrize("top", [0, 1.5, "2", None])
def test_top_must_be_a_positive_number(top: Any, filler: Reader) -> None:
    with pytest.raises(ValueError, match=f"top must be a whole number of at least 1, got {top!r}"):
        filler.fill("[MASK]", top=top)


@pytest.mark.parametrize("wrong", [3, None, b"[MASK]", ("a [MASK]", "b [MASK]")], ids=str)
def test_only_texts_are_filled(wrong: Any, filler: Reader) -> None:
    for asked in (wrong, ["a [MASK]", wrong]):
        with pytest.raises(ValueError, match=f"a text with blanks must be a str, got {re.escape(repr(wrong))}"):
            filler.fill(asked)


# ---- embed


def test_a_vector_is_the_mean_of_the_states_or_the_first(filler: Reader) -> None:
    ids = [2, *filler.tokenizer.encode("the dog"), 3]
    found = states(filler, ids)[0]
    close(filler.embed("the dog"), found.mean(0).numpy())
    close(filler.embed("the dog", pool="cls"), found[0].numpy())
    unit = filler.embed("the dog", normalise=True)
    close(unit, torch.nn.functional.normalize(found.mean(0), dim=0).numpy())
    assert unit.dtype == np.float32
    assert np.linalg.norm(unit) == pytest.approx(1, abs=1e-6)


def test_only_known_pools(filler: Reader) -> None:
    with pytest.raises(ValueError, match="pool must be one of mean, cls, got 'max'"):
        filler.embed("a", pool="max")


@pytest.mark.parametrize("wrong", [None, 3, b"a", (), ("a",), ("a", "b", "c"), ("a", None), (1, "b")], ids=str)
def test_what_is_neither_a_text_nor_a_pair_is_refused(wrong: Any, filler: Reader, sorter: Reader) -> None:
    words = re.escape(f"a text must be a str, or a tuple of two for a pair; got {wrong!r}")
    for ask in (filler.embed, sorter.classify, filler.embed_tokens):
        with pytest.raises(ValueError, match=words):
            ask(["a", wrong])
    for ask in (filler.embed, sorter.classify, filler.look):
        with pytest.raises(ValueError, match=words):
            ask(wrong)


def test_a_tuple_is_a_pair_and_a_list_is_many(filler: Reader, sorter: Reader) -> None:
    pair = ("the cat", "a dog")
    found = states(filler, *filler.read(pair).row)[0]
    close(filler.embed(pair), found.mean(0).numpy())
    close(filler.embed([pair, "a dog"]), np.stack([filler.embed(pair), filler.embed("a dog")]))
    assert filler.embed(list(pair)).shape == (2, 24)
    assert sorter.classify(pair).source == pair
    for many in (list(pair), np.array(pair), iter(pair)):
        assert [one.source for one in sorter.classify(many)] == list(pair)


def test_no_text_gives_no_vector(filler: Reader) -> None:
    assert filler.embed([]).shape == (0, 24)
    assert filler.embed(["a"]).shape == (1, 24)
    assert filler.fill([]) == []


def test_a_batch_is_as_one_by_one(filler: Reader, sorter: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_reader, "BATCH", 40)
    monkeypatch.setattr(text_reader, "PART", 7)
    together = filler.embed(ODD)
    assert np.isfinite(together).all()
    for text, vector in zip(ODD, together, strict=True):
        close(vector, filler.embed([text])[0])
    there = [text for text in ODD if text.strip()]
    pairs: list[Any] = [*there, *((first, second) for first in there[:2] for second in [*ODD[:3], *ODD[-4:]])]
    for pair, one in zip(pairs, sorter.classify(pairs), strict=True):
        alone = sorter.classify(pair)
        assert (one.source, one.label) == (pair, alone.label)
        assert one.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
    blanks = [f"{text[:8]} [MASK]" for text in ODD]
    for text, filled in zip(blanks, filler.fill(blanks), strict=True):
        assert filled.source == text
        assert filled.text == filler.fill(text).text


def test_thousands_of_texts_keep_their_order(filler: Reader) -> None:
    texts = [" ".join(["cat"] * (1 + number * 7 % 9)) for number in range(3000)]
    found = filler.embed(texts, pool="cls")
    by_text = {text: filler.embed(text, pool="cls") for text in set(texts)}
    close(found, np.stack([by_text[text] for text in texts]))


def test_batches_hold_every_row_once_and_few_tokens() -> None:
    lengths = [5, 9000, 1, 8192, 3, 8000, 192, 4000, 4000]
    found = list(text_reader.batches(lengths, 8192))
    assert sorted(place for batch in found for place in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or sum(lengths[place] for place in batch) <= 8192 for batch in found)
    assert list(text_reader.batches([], 8192)) == []


def test_what_is_too_long_is_cut_and_said(filler: Reader) -> None:
    words = "cat " * (LONGEST - 2)
    close(filler.embed(words + "dog dog"), filler.embed(words))
    fit = (words, ("cat", "cat " * (LONGEST - 4)), (words, ""))
    long = (words + "cat", ("cat", "cat " * (LONGEST - 3)))
    for text in (*fit, *long):
        assert len(filler.read(text).row[0]) == LONGEST
        assert filler.read(text).truncated == (text in long)
    whole, cut = filler.vectors(map(filler.read, [words, long[0]]))
    assert (whole.cut, cut.input, cut.cut.parts) == (None, long[0], {"tokens": (LONGEST, LONGEST + 1)})
    assert f"cut=Cut({LONGEST} of {LONGEST + 1} tokens)" in repr(cut)
    assert "cut" not in repr(whole)


@pytest.mark.parametrize("text", ["\ud800", "a\udcffb"])
def test_half_a_character_is_refused(text: str, filler: Reader, sorter: Reader) -> None:
    for ask in (filler.embed, sorter.classify, lambda one: filler.fill(one + "[MASK]")):
        with pytest.raises(ValueError, match=r"surrogate|UTF-8|Unicode"):
            ask(text)


# ---- classify


def test_classes_are_told_by_the_head(sorter: Reader) -> None:
    encode = sorter.tokenizer.encode
    ids = [2, *encode("the cat"), 3, *encode("a dog"), 3]
    segments = [0] * (2 + len(encode("the cat"))) + [1] * (1 + len(encode("a dog")))
    model: Any = sorter.model
    wanted = model.classify(model.pooled(states(sorter, ids, segments))).softmax(-1)[0].tolist()
    found = sorter.classify(("the cat", "a dog"))
    assert found.source == ("the cat", "a dog")
    assert found.probabilities == pytest.approx(dict(zip(LABELS, wanted, strict=True)), abs=1e-6)
    assert found.label == LABELS[wanted.index(max(wanted))] == next(iter(found.probabilities))
    shares = list(found.probabilities.values())
    assert shares == sorted(shares, reverse=True)
    assert sorter.classify("the cat a dog").probabilities != found.probabilities


def test_an_empty_second_text_is_none_as_in_training(sorter: Reader) -> None:
    assert sorter.read(("the cat", "")).row == sorter.read("the cat").row
    assert sorter.read(("the cat", " ")).row != sorter.read("the cat").row


def test_a_model_of_one_segment_takes_no_pairs(tmp_path: Path) -> None:
    single = build(tmp_path, head="classify", labels=LABELS, segments=1)
    assert single.classify("the cat").label in LABELS
    with pytest.raises(ValueError, match=r"this model was made for single texts .*got a pair"):
        single.classify(("the cat", "a dog"))


def test_two_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    """The answers are by name."""
    with pytest.raises(ValueError, match="labels must differ, got 'b' twice"):
        build(tmp_path, head="classify", labels=("a", "b", "b"))


# ---- where tokens looked


def test_blanks_and_the_first_token_look_at_all(filler: Reader, sorter: Reader) -> None:
    found = filler.fill("the [MASK] sat [MASK]").attention
    assert (found.rows, found.columns) == (("[MASK]",) * 2, ("[CLS]", "the", "[MASK]", "sat", "[MASK]", "[SEP]"))
    assert found.weights.shape == (2, 6)
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)
    first = sorter.classify(("the cat", "a dog"))
    assert first.attention.columns == ("[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]")
    heads = first.heads("blocks.0.*")
    assert list(heads.panels) == ["blocks.0.attend"]
    assert heads.panels["blocks.0.attend"].shape == (3, 1, 7)
    whole = sorter.look(("the cat", "a dog"))
    assert len(whole.panels) == 2
    np.testing.assert_allclose(
        whole.panels["blocks.0.attend"][:, :1], heads.panels["blocks.0.attend"], rtol=1e-5, atol=1e-6
    )


def test_pictures_take_pieces_and_a_scale(filler: Reader, sorter: Reader) -> None:
    for found in (filler.fill("the [MASK] sat"), sorter.classify("the cat")):
        picture = found.picture().pieces.scaled(0.5)
        assert picture.looks.scale == 0.5
        assert picture.looks.columns == found.attention.pieces.columns
        assert picture.rows == found.picture().rows
        assert "≥ 0.001" in found.picture(["blocks.0.*"]).scaled(0.001).terminal(colour=False)
        np.testing.assert_array_equal(
            found.heads(pieces=True).panels["blocks.0.attend"], found.heads().pieces.panels["blocks.0.attend"]
        )


def test_a_text_in_a_batch_looks_as_it_does_alone(sorter: Reader) -> None:
    found = sorter.classify(["the dog sat on the mat", "cat"])[1]
    np.testing.assert_array_equal(found.attention.weights, sorter.classify("cat").attention.weights)


def test_text_of_any_kind_is_drawn(sorter: Reader, tmp_path: Path) -> None:
    found = sorter.classify("<b>&amp; the \"cat\" 'dog' ☃ ]]>")
    for name in ("look.svg", "look.html", "look.png"):
        found.attention.save(tmp_path / name)
        found.heads().save(tmp_path / f"heads-{name}")
        assert (tmp_path / name).stat().st_size > 100
    for name in ("look.svg", "look.html", "heads-look.svg", "heads-look.html"):
        assert "<b>" not in (tmp_path / name).read_text()


def test_a_site_that_is_not_there_is_told(sorter: Reader) -> None:
    with pytest.raises(ValueError, match="nothing"):
        sorter.classify("cat").heads("nothing.*")


# ---- what a run cannot do


def test_a_head_that_is_not_there_is_named(filler: Reader, sorter: Reader, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no classes to choose from \(its head is 'pretrain'\).*bert-labelled"):
        filler.classify("a")
    with pytest.raises(RunError, match=r"no head that predicts masked words \(its head is 'classify'\)"):
        sorter.fill("[MASK]")
    bare = build(tmp_path, head="none", pooler=False)
    assert bare.embed("the cat").shape == (24,)
    for ask in (bare.fill, bare.classify):
        with pytest.raises(RunError, match="its head is 'none'"):
            ask("[MASK]")


def test_a_run_is_opened_for_what_it_is(tmp_path: Path) -> None:
    build(tmp_path)
    assert isinstance(load_as(tmp_path, Reader, "embed"), Reader)
    with pytest.raises(
        RunError, match="has the model Bert, for `regard fill` or `regard follows` or `regard embed` and not"
    ):
        load_as(tmp_path, Translator, "translate")
    build(tmp_path / "bare", head="none", pooler=False)
    with pytest.raises(RunError, match="has the model Bert, for `regard embed` and not for `regard translate`"):
        load_as(tmp_path / "bare", Translator, "translate")


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_neighbours_name_what_the_model_does_not_know(filler: Reader, capsys: pytest.CaptureFixture[str]) -> None:
    filler.neighbours("cat", "cat", ["a cat"])
    assert capsys.readouterr().err == ""
    filler.neighbours("cat \u732b", "cat", ["a cat", "\u72d7 cat", "\u732b"])
    said = capsys.readouterr().err
    assert "3 texts have characters that this model does not know and cannot read: '\u732b', '\u72d7'" in said
