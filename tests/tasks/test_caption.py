"""Captions: found by every search, alone and together, and where their words looked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.data.artifacts import Pixels
from regard.data.images.caption_batches import CaptionData
from regard.data.images.captions import CaptionSet, Named
from regard.data.images.images import Images
from regard.data.made.scenes import scenes
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.errors import BadInput, DataError, NoAttention
from regard.models.show_and_tell import ShowAndTell, ShowAndTellConfig
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from regard.show import Gates, Heads, Looks
from regard.tasks.caption import prepare
from regard.tasks.caption.evaluate import compare, evaluate, grade, plot, pointing
from regard.tasks.caption.run import LENGTH, Captioner

TEXTS = [caption for some in scenes("train", 60).captions for caption in some]
PIXELS = Pixels((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
EYE: dict[str, Any] = {"image_size": 32, "depths": (1, 1), "widths": (4, 8), "reduction": 2}


def lively(kind: Any, config: Any) -> Any:
    """Weights drawn so large that captions and looks differ from image to image."""
    torch.manual_seed(4)
    model = kind(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(3)
    return model


def captioner(tokens: str = "word", *, looks: bool = True, **changes: Any) -> Captioner:
    tokenizer = Tokenizer.train(TEXTS, kind=tokens, size=270 if tokens == "bpe" else 60, numbering="regard")
    kind, config = (ShowAttendTell, ShowAttendTellConfig) if looks else (ShowAndTell, ShowAndTellConfig)
    return Captioner(lively(kind, config(len(tokenizer), **EYE, embed=8, decoder=12, **changes)), tokenizer, PIXELS)


@pytest.fixture(scope="module")
def run() -> Captioner:
    return captioner()


@pytest.fixture(scope="module")
def plain() -> Captioner:
    return captioner(looks=False)


def image(seed: int = 0, high: int = 40, wide: int = 32) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(high, wide, 3), dtype=np.uint8)


# ---- captions


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"temperature": 1.0, "seed": 3}], ids=str)
def test_a_score_is_that_of_the_written_words(run: Captioner, options: dict[str, Any]) -> None:
    answer = run.caption(image(), max_length=6, **options)
    special = run.tokenizer.special
    ids = run.tokenizer.encode(answer.text)
    written = [*ids, special.end] if len(ids) < 6 else ids
    target = torch.tensor([[special.start, *written]])
    logits = run.model(run.read([image()]), target[:, :-1])  # type: ignore[operator]
    chosen = logits[0].log_softmax(-1).gather(-1, target[0, 1:, None]).sum()
    assert answer.score == pytest.approx(float(chosen), abs=1e-3)


def test_together_as_alone_and_in_order(run: Captioner, tmp_path: Path) -> None:
    """More than go through the model at once, of many sizes, from files and arrays."""
    arrays = [image(number, 20 + number % 9, 50 - number % 7) for number in range(70)]
    Image.fromarray(arrays[1]).save(tmp_path / "a photo.png")
    asked: list[Any] = [arrays[0], tmp_path / "a photo.png", *arrays[1:]]
    answers = run.caption(asked, max_length=8)
    assert [one.name for one in answers[:3]] == ["image", str(tmp_path / "a photo.png"), "image"]
    assert answers[1].text == answers[2].text
    assert len({one.text for one in answers}) > 5
    for number in (0, 1, 64, 70):
        alone = run.caption(asked[number], max_length=8)
        assert alone.text == answers[number].text
        assert alone.score == pytest.approx(answers[number].score, abs=1e-4)
    assert run.caption([]) == []


def test_the_next_best(run: Captioner) -> None:
    answer = run.caption(image(), n_best=3, max_length=6)
    assert len(answer.others) == 2
    data = answer.to_dict()
    assert data["file"] == "image"
    assert data["others"] == [{"text": text, "score": score} for text, score in answer.others]
    assert answer.line().splitlines()[1] == f"image\t{answer.ranks[1]:.4f}\t{answer.others[0][0]}"
    for penalty in (0.0, 1.0, 2.0):
        best = run.caption(image(), n_best=4, max_length=6, length_penalty=penalty)
        printed = [float(line.split("\t")[1]) for line in best.line().splitlines()]
        assert printed == sorted(printed, reverse=True)
        assert (best.ranks[0] == pytest.approx(best.score)) == (penalty == 0)
    assert run.caption(image()).line() == f"image\t{run.caption(image()).text}"


def test_a_space_has_no_panel() -> None:
    """A space before a full stop is a token of a vocabulary of words, and part of the word after it."""
    run = captioner()
    run.tokenizer = Tokenizer.train(["a red ring ."], kind="word", numbering="regard")
    tokens = run.tokenizer.encode("a red ring .")
    pieces = run.tokenizer.tokens(tokens)
    assert " " in pieces
    looks = run.picture(image(), tokens)
    assert list(looks.lines[0].words) == ["a", "red", "ring", "."]
    assert list(looks.pieces.lines[0].words) == pieces
    assert np.allclose(looks.lines[0].weights[-1], np.mean(looks.pieces.lines[0].weights[-2:], 0), atol=1e-6)


@pytest.mark.parametrize("beam", [1, 3])
def test_no_word_is_unknown(beam: int) -> None:
    run = captioner()
    with torch.no_grad():
        run.model.out.bias[run.tokenizer.special.unknown] = 100.0  # type: ignore[attr-defined]
    answer = run.caption(image(), beam=beam, min_length=2)
    assert len(answer.text.split()) >= 2
    assert answer.score < -100
    assert "<unk>" not in answer.attention.lines[0].words


def test_a_caption_ends(run: Captioner) -> None:
    assert len(run.tokenizer.encode(run.caption(image(), min_length=LENGTH + 2).text)) >= LENGTH + 2
    assert len(run.tokenizer.encode(run.caption(image(), max_length=2, min_length=1).text)) <= 2
    for wrong, words in (
        ({"beams": 3}, "caption has no option 'beams'; did you mean 'beam'"),
        ({"beam": 0}, r"beam must lie in \[1, 1,000\), got 0"),
        ({"decode": Decoding(stop=("\n",))}, "stop strings are for language models; a caption ends by itself"),
        ({"decode": Decoding(beam=2, coverage=0.1)}, "coverage and replace_unknown are for translators"),
        ({"min_length": 4, "max_length": 4}, "min_length must be below max_length"),
    ):
        with pytest.raises(BadInput, match=words):
            run.caption(image(), **wrong)  # type: ignore[arg-type]


def test_an_image_that_cannot_be_read_names_its_place(run: Captioner, tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("no image")
    with pytest.raises(DataError, match=r"images\[1\]: .*notes\.png cannot be decoded"):
        run.caption([image(), tmp_path / "notes.png"])
    with pytest.raises(BadInput, match="an image must be the name of a file, a PIL image"):
        run.caption(np.full((4, 4, 3), 2.0))
    with pytest.raises(BadInput, match=r"an image must be the name of a file, a PIL image.* got int"):
        run.caption(5)  # type: ignore[call-overload]


# ---- where it looked


@pytest.mark.parametrize("weigh", ["soft", "hard"])
def test_looks_are_those_of_a_pass_over_the_caption(weigh: str) -> None:
    run = captioner(weigh=weigh)
    answer = run.caption(image(), max_length=5, min_length=3)
    (line,) = answer.attention.lines
    assert line.text == answer.text
    assert line.weights.shape == (len(line.words), 16, 16)
    assert line.weights.sum((1, 2)) == pytest.approx(1, abs=1e-5)
    assert ((line.weights == 1).any((1, 2)) == (weigh == "hard")).all()
    assert line.gates is not None
    assert ((line.gates > 0) & (line.gates < 1)).all()
    ids = run.tokenizer.encode(answer.text)
    with torch.inference_mode():
        _, looks = run.model.decode(
            torch.tensor([[run.tokenizer.special.start, *ids[:-1]]]), *run.model.encode(run.read([image()]))
        )
    wanted = torch.cat([look.weights for look in looks], 1)[0].unflatten(-1, (16, 16))
    assert line.weights == pytest.approx(wanted.numpy(), abs=1e-6)
    assert answer.attention.image.shape == (40, 32, 3)


def test_without_a_gate_there_is_none() -> None:
    assert captioner(gate=False).caption(image(), min_length=1).attention.lines[0].gates is None


def test_pieces_of_words_are_merged() -> None:
    run = captioner("bpe")
    ids = run.tokenizer.encode("a purple triangle")
    found = run.picture(image(), ids)
    (words,), (pieces,) = found.lines, found.pieces.lines
    assert list(words.words) == ["a", "purple", "triangle"]
    assert len(pieces.words) == len(ids) > 3
    _, numbers = run.tokenizer.encode_words("a purple triangle")
    for number in range(3):
        rows = [place for place, word in enumerate(numbers) if word == number]
        assert words.weights[number] == pytest.approx(pieces.weights[rows].mean(0))
        assert words.gates is not None
        assert pieces.gates is not None
        assert words.gates[number] == pytest.approx(pieces.gates[rows].mean())


def test_pictures_by_sites(run: Captioner, plain: Captioner, tmp_path: Path) -> None:
    answer = run.caption(image(), min_length=2, max_length=4)
    for sites in ([], ["attend"], ["beta"], ["*"]):
        assert isinstance(answer.picture(sites), Looks)
    gates = answer.picture(["cell"])
    assert isinstance(gates, Heads)
    assert set(gates.panels) == {"cell, input", "cell, forget", "cell, output"}
    channels = answer.picture(["eye.*"])
    assert isinstance(channels, Gates)
    assert len(channels.panels) == 2
    with pytest.raises(NoAttention, match="no site has a name like 'nothing'"):
        answer.picture(["nothing"])
    for name in ("looks.png", "looks.svg", "looks.html"):
        answer.attention.save(tmp_path / name)
    assert "<svg" in answer._repr_html_()


def test_a_captioner_without_attention_shows_its_gates(plain: Captioner) -> None:
    answer = plain.caption(image(), min_length=2, max_length=4)
    with pytest.raises(NoAttention, match=r"ShowAndTell keeps the whole image in one vector .* gates\(\)"):
        answer.attention  # noqa: B018
    picture = answer.picture()
    assert isinstance(picture, Heads)
    (columns,) = {tuple(names) for names in picture.columns.values()}
    assert list(columns) == ["<s>", *answer.text.split()]


# ---- evaluation


def held(run: Captioner, asked: CaptionSet) -> prepare.TestCaptions:
    size = run.model.config.size
    ids = CaptionData(asked, run.tokenizer, image_size=size, pixels=PIXELS, batch_size=4, seed=0)
    return prepare.TestCaptions(ids, asked)


def test_metrics_of_right_captions(run: Captioner) -> None:
    """Data whose references are what the captioner says, in other case and with a full stop."""
    images = [image(number) for number in range(6)]
    said = [one.text for one in run.caption(images)]
    assert len(set(said)) > 1
    asked = CaptionSet(
        Images(6, name=str, pixels=np.stack(images)),
        [(f"{text.capitalize()} .", "a red star") for text in said],
    )
    found = evaluate(run, held(run, asked))
    assert found.counts == {"images": 6, "captions": 12}
    assert found.metrics["exact_match"] == 100
    assert found.metrics["bleu4"] == pytest.approx(100)
    assert found.metrics["rouge_l"] == pytest.approx(100)
    assert found.metrics["perplexity"] == pytest.approx(np.exp(found.metrics["loss"]))
    assert "pointing" not in found.metrics
    few = evaluate(run, held(run, asked), only=("loss", "cider"))
    assert few.metrics == {name: found.metrics[name] for name in ("loss", "cider")}


def test_pointing_by_hand(run: Captioner) -> None:
    """The heaviest cell of a word is known from its looks: a mask there is pointed at, one far away is not."""
    caption = "a red circle left of a blue square"
    pixels = image(1, 32, 32)
    weights, _ = run.looks(run.read([pixels]), [run.tokenizer.encode(caption)])
    masks = []
    for word, aside in ((2, 0), (7, 1), (7, 5)):
        row, column = np.unravel_index(weights[0, word].argmax(), (16, 16))
        mask = np.zeros((32, 32), bool)
        column = column + aside if column + aside < 16 else column - aside
        mask[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = True
        masks.append(Named(word, mask))
    asked = CaptionSet(Images(1, name=str, pixels=pixels[None]), [(caption,)], [tuple(masks)])
    found, by_chance = pointing(run, asked)
    assert found == {"pointing": pytest.approx(100 / 3), "pointing_near": pytest.approx(200 / 3)}
    assert by_chance["pointing_by_chance"] == pytest.approx(100 / 256)
    assert 100 * 4 / 256 <= by_chance["pointing_near_by_chance"] <= 100 * 9 / 256


def test_scenes_are_pointed_at_and_compared(run: Captioner, plain: Captioner) -> None:
    asked = scenes("test", 9, size=32)
    one, other = (evaluate(each, held(each, asked)) for each in (run, plain))
    assert 0 <= one.metrics["pointing"] <= one.metrics["pointing_near"] <= 100
    assert 0 < one.rows["pointing_by_chance"] < one.rows["pointing_near_by_chance"]
    assert "pointing" not in other.metrics  # it has no attention
    found = compare(one, other)
    assert [each.metric for each in found] == ["cider", "rouge_l"]
    assert found[0].first == pytest.approx(one.metrics["cider"])
    assert found[0].difference == pytest.approx(other.metrics["cider"] - one.metrics["cider"])
    others = evaluate(run, held(run, scenes("test", 6, size=32)))
    with pytest.raises(ValueError, match="the runs were evaluated on different captions"):
        compare(one, others)
    sheet = plot({"soft": one, "none": other})
    assert len(sheet.entries) == 9
    assert sheet.entries[0].caption.startswith("soft: ")
    assert "\nnone: " in sheet.entries[0].caption
    assert plot({"soft": one}).entries[0].image.shape == (32, 32, 3)


def test_the_shipped_captioner_says_what_is_where_and_looks_there() -> None:
    """Weights of half precision, of images that it was not trained on."""
    run, asked = regard.load("scenes", device="cpu"), scenes("test", 60)
    answers = run.caption([asked.images.read(row) for row in range(len(asked))])
    assert [answer.text for answer in answers] == [some[0] for some in asked.captions]
    found, by_chance = pointing(run, asked)
    assert found["pointing"] >= 95
    assert found["pointing_near"] == 100
    assert by_chance["pointing_near_by_chance"] < 40


def test_of_one_reference_only_that_is_right() -> None:
    assert grade("a red circle", ["A red circle."], 900) == "right"
    assert grade("a red square", ["a red circle"], 900) == "minor errors"
    assert grade("a red square", ["a red circle", "a square"], 900) == "right"
    assert grade("a dog", ["a red circle"], 0.0) == "unrelated"
