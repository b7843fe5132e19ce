"""Language models from files: documents, what is held out, windows, and how a text is evaluated."""

from __future__ import annotations

import gzip
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError, RecipeError
from regard.models import MODELS
from regard.tasks.core.recipe import read
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.core.table import TASKS, load
from regard.tasks.generate import prepare
from regard.tasks.generate.run import LanguageModel
from regard.tasks.generate.settings import TextSettings

LINES = [f"{number} bottles of beer on the wall" for number in range(120, 0, -1)]
RECIPE = """
[data]
train = "{folder}/train.txt"
batch_tokens = 256

[tokens]
kind = "character"

[model]
name = "gpt2"
dim = 16
layers = 1
heads = 2
max_positions = 32

[train]
steps = 4
learning_rate = 0.01
eval_every = 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "train.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "tiny.toml").write_text(RECIPE.format(folder=tmp_path))
    return str(tmp_path / "tiny.toml")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The training data of each training, as it was made."""
    kept: list[Any] = []
    make = prepare.TextData

    def keep(*args: Any, **options: Any) -> Any:
        kept.append(make(*args, **options))
        return kept[-1]

    monkeypatch.setattr(prepare, "TextData", keep)
    return kept


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


# ---- what is learned from


@pytest.mark.parametrize(("documents", "ends"), [("file", 1), ("line", 120), ("blank", 3)])
def test_what_a_document_is(
    documents: str, ends: int, recipe: str, tmp_path: Path, train: Any, watched: list[Any]
) -> None:
    parted = ["\n".join(LINES[begin : begin + 40]) + "\n" for begin in (0, 40, 80)]
    text = ("\n" if documents == "blank" else "").join(parted)
    (tmp_path / "train.txt").write_text(text)
    (tmp_path / "valid.txt").write_text("99 bottles\n")
    changes = [f"data.documents={documents}", f"data.valid={tmp_path}/valid.txt"]
    train(recipe, tmp_path / "run", *changes)
    tokenizer = load(tmp_path / "run").tokenizer
    [data] = watched
    assert int((data.ids == tokenizer.special.end).sum()) == ends
    assert tokenizer.decode(data.ids.tolist()).count("bottles of beer on the wall") == 120


def test_rows_of_jsonl_and_compressed_files_are_documents(
    recipe: str, tmp_path: Path, train: Any, watched: list[Any]
) -> None:
    rows = "".join(json.dumps({"id": number, "body": line}) + "\n" for number, line in enumerate(LINES))
    (tmp_path / "some.jsonl").write_text(rows)
    (tmp_path / "more.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    files = json.dumps([f"{tmp_path}/some.jsonl", f"{tmp_path}/more.jsonl.gz"])
    train(recipe, tmp_path / "run", f"data.train={files}", "data.column=body", "data.valid_fraction=0.5")
    [data] = watched
    lines = sum(len(line) + 1 for line in LINES)
    assert len(data) == lines, "the half that is not held out"
    assert int((data.ids == load(tmp_path / "run").tokenizer.special.end).sum()) == 120
    card = (tmp_path / "run/README.md").read_text()
    assert "# gpt2 on some.jsonl, more.jsonl.gz" in card
    with pytest.raises(DataError, match=r"some\.jsonl, line 1: no key 'text'; the object has 'id', 'body'"):
        train(recipe, tmp_path / "other", f"data.train={tmp_path}/some.jsonl")


def test_the_last_part_is_held_out(recipe: str, tmp_path: Path, train: Any, watched: list[Any]) -> None:
    """The validation loss that is told is that of the held-out part by the weights that are kept."""
    report = train(recipe, tmp_path / "run", "data.valid_fraction=0.25")
    [data] = watched
    model = load(tmp_path / "run")
    ids = [*model.tokenizer.encode((tmp_path / "train.txt").read_text()), model.tokenizer.special.end]
    held = len(ids) // 4
    assert data.ids.tolist() == ids[:-held]
    rest = torch.tensor([model.tokenizer.special.end, *ids[-held:]])  # the first follows the end of a document
    nats = 0.0
    for begin in range(0, held, 32):
        place = min(begin, held - 32)  # the last window is as long as the others and counts what is left
        with torch.no_grad():
            logits = model.model(rest[None, place : place + 32])[0, begin - place :]
        targets = rest[begin + 1 : place + 33]
        nats += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
    assert report.best["valid_loss"] == pytest.approx(nats / held, rel=1e-4)


def test_from_python_it_is_evaluated_as_training_did(recipe: str, tmp_path: Path, train: Any) -> None:
    (tmp_path / "valid.txt").write_text("99 bottles of beer\n" * 30)
    report = train(recipe, tmp_path / "run", f"data.valid={tmp_path}/valid.txt", "data.stride=20")
    run = load(tmp_path / "run")
    for found in (run.evaluate(), run.evaluate(tmp_path / "valid.txt")):
        assert found.metrics["loss"] == pytest.approx(report.best["valid_loss"], rel=1e-6)
        assert found.metrics["perplexity"] == pytest.approx(math.exp(report.best["valid_loss"]), rel=1e-6)
        assert (found.counts["length"], found.counts["stride"]) == (32, 20)
    assert run.evaluate(stride=7).counts["stride"] == 7


def test_apart_documents_do_not_see_each_other(recipe: str, tmp_path: Path, train: Any, watched: list[Any]) -> None:
    train(recipe, tmp_path / "run", "data.separate_documents=true", "data.documents=line")
    [data] = watched
    batch = data.batch(data.order(0)[0])
    assert batch.since is not None
    end = load(tmp_path / "run").tokenizer.special.end
    for row, since in zip(batch.tokens[:, :-1].tolist(), batch.since.tolist(), strict=True):
        for place, begin in enumerate(since):
            assert end not in row[begin + 1 : place + 1]
    train(recipe, tmp_path / "across", "data.documents=line")
    assert watched[-1].batch(watched[-1].order(0)[0]).since is None
    assert losses(tmp_path / "run") != losses(tmp_path / "across")


def test_rnnlm_cannot_keep_documents_apart(recipe: str, tmp_path: Path, train: Any) -> None:
    small = ["model.name=rnnlm", "data.length=32"]
    (tmp_path / "rnn.toml").write_text(
        (tmp_path / "tiny.toml").read_text().replace("layers = 1\nheads = 2", "embed = 16")
    )
    with pytest.raises(ValueError, match=r"cannot separate its documents; set data\.separate_documents = false"):
        train(str(tmp_path / "rnn.toml"), tmp_path / "run", *small, "data.separate_documents=true")
    train(str(tmp_path / "rnn.toml"), tmp_path / "other", *small)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ["data.length=33"],
            r"data\.length is 33 and the model takes 32 tokens \(model\.max_positions\); set data\.length=32",
        ),
        (["data.stride=33"], "stride must be at most the length of a window, 32, got 33"),
        (["data.length=16", "data.stride=17"], "stride must be at most the length of a window, 16, got 17"),
        (["data.valid_fraction=0.0001"], r"train\.txt has too little text to hold some out .* set data\.valid"),
        (["data.train=nothing.txt"], r"nothing\.txt"),
    ],
)
def test_what_cannot_be_is_refused_before_training(
    changes: list[str], said: str, recipe: str, tmp_path: Path, train: Any
) -> None:
    with pytest.raises((ValueError, OSError), match=said):
        train(recipe, tmp_path / "run", *changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data.documents=page", "documents must be one of 'file', 'line', 'blank', 'heading', 'pairs', got 'page'"),
        ("data.length=1", "length must be at least 2, or 0"),
        ("data.stride=-1", "stride must be at least 0, got -1"),
        ("data.valid_fraction=1.0", r"valid_fraction must lie in \(0, 1\), got 1.0"),
        ("data.memory_mib=0", "memory_mib must be at least 1, got 0"),
        ("data.made=dates", r"unknown key of \[data\]: 'made'"),
        ("train.best_by=bleu", "best_by must be valid_loss for gpt2, got 'bleu'"),
        ("model.size=huge", "model.size of gpt2 must be one of small, medium, large, xl, got 'huge'"),
        ("decode.stop=[1]", "stop must be a text or a list of texts"),
        ('decode.stop=""', "stop must be a text or a list of texts, none empty"),
        ("decode.repetition_penalty=0", "repetition_penalty must lie in"),
        ("decode.no_repeat_ngram=-1", r"no_repeat_ngram must lie in \[0, 1,048,576\), got -1"),
    ],
)
def test_settings_check_themselves(change: str, said: str, recipe: str) -> None:
    with pytest.raises(RecipeError, match=said):
        read(recipe, [change])


# ---- going on, and more than fits in memory


@pytest.mark.parametrize("valid", [False, True])
def test_text_on_the_disk_trains_the_same_and_goes_on_bit_for_bit(
    valid: bool, recipe: str, tmp_path: Path, train: Any, interrupt: Any, watched: list[Any], monkeypatch: Any
) -> None:
    (tmp_path / "valid.txt").write_text("99 bottles\n" * 30)
    changes = [f"data.valid={tmp_path}/valid.txt"] if valid else []
    whole = train(recipe, tmp_path / "whole", *changes)
    encode = prepare.encode_documents
    monkeypatch.setattr(
        prepare, "encode_documents", lambda *args, **options: encode(*args, **options | {"budget": 64})
    )
    interrupt(recipe, tmp_path / "run", *changes)
    assert isinstance(watched[-1].ids, np.memmap)
    assert len(losses(tmp_path / "run")) == 2
    assert not (tmp_path / "run/.blocks").exists()
    assert train(recipe, tmp_path / "run", *changes, resume=True) == whole
    for name in ("model.safetensors", "README.md", "tokenizer.json", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert not (tmp_path / "run/.blocks").exists()


def test_the_card_tells_tokens_and_command(recipe: str, tmp_path: Path, train: Any, watched: list[Any]) -> None:
    report = train(recipe, tmp_path / "run")
    card = (tmp_path / "run/README.md").read_text()
    for part in (
        "# gpt2 on train.txt",
        "Radford et al. 2019",
        f"`train.txt`, {len(watched[0]):,} training tokens",
        "that of your data",
        f"valid_loss {report.best['valid_loss']:.4f}",
        "`regard train tiny`",
        'regard generate DIR "..."',
    ):
        assert part in card


# ---- how well a text is predicted


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    """Drawn weights are enough to be evaluated."""
    tokenizer = Tokenizer.train(["\n".join(LINES)], kind="character", numbering="gpt2")
    torch.manual_seed(0)
    gpt2 = MODELS["gpt2"]
    network = gpt2(gpt2.Config(vocabulary=len(tokenizer), dim=16, layers=2, heads=2, max_positions=24))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return LanguageModel(network, tokenizer)


def evaluate(model: LanguageModel, settings: TextSettings, file: Path, tick: Tick = no_tick) -> Evaluation:
    task = TASKS["generate"].desk
    with task.test_data(model, replace(settings, test=str(file))) as held:
        return task.evaluate(model, held, tick=tick)


def by_hand(model: LanguageModel, text: str, length: int, stride: int) -> tuple[float, int]:
    """Nats of each token after those before it, one at a time, and how many."""
    end = model.tokenizer.special.end
    ids = [end, *model.tokenizer.encode(text), end]
    total = 0.0
    for place in range(1, len(ids)):
        first = 0 if place <= length else math.ceil((place - length) / stride) * stride
        first = min(first, len(ids) - 1 - length) if len(ids) > length else 0
        logits = model.model(torch.tensor([ids[first:place]]))[0, -1]
        total -= float(logits.log_softmax(-1)[ids[place]])
    return total, len(ids) - 1


@pytest.mark.parametrize(("length", "stride"), [(0, 0), (24, 5), (16, 16), (10, 1)])
def test_perplexity_is_that_worked_out_token_by_token(
    length: int, stride: int, model: LanguageModel, tmp_path: Path
) -> None:
    text = "9 bottles of beer on the wall\n8 bottles of beer\n\non the wall\n"
    (tmp_path / "test.txt").write_text(text)
    settings = TextSettings(train="x", length=length, stride=stride)
    with torch.no_grad():
        nats, tokens = by_hand(model, text, length or 24, stride or length or 24)
        found = evaluate(model, settings, tmp_path / "test.txt").to_dict()
    assert (found["tokens"], found["characters"], found["words"]) == (tokens, len(text), 14 + 4)
    assert found["tokens"] == len(text) + 1
    assert (found["length"], found["stride"]) == (length or 24, stride or length or 24)
    assert found["loss"] == pytest.approx(nats / tokens, rel=1e-4)
    assert found["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert found["word_perplexity"] == pytest.approx(math.exp(nats / 18), rel=1e-3)
    assert found["bits_per_character"] == pytest.approx(nats / len(text) / math.log(2), rel=1e-4)


def test_lines_as_documents_have_as_many_words_as_the_file(model: LanguageModel, tmp_path: Path) -> None:
    """WikiText counts a word for every line break; as a document's end it is the same token and the same word."""
    (tmp_path / "test.txt").write_text("9 bottles\n\n of beer \n")
    as_file, as_lines = (
        evaluate(model, TextSettings(train="x", documents=one), tmp_path / "test.txt").counts
        for one in ("file", "line")
    )
    assert as_file["words"] == as_lines["words"] == 4 + 3
    assert as_file["characters"] == as_lines["characters"] == 21
    assert as_file["tokens"] == 21 + 1, "the end of the file is one more"
    assert as_lines["tokens"] == 21


def test_a_stride_longer_than_the_window_is_refused(model: LanguageModel, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stride must be at most the length of a window, 24, got 25"):
        evaluate(model, TextSettings(train="x", stride=25), tmp_path / "x")


def test_nothing_is_left_of_an_evaluated_text(
    model: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that does not fit in memory is kept on disk as long as it is needed."""
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "work"))
    encode, kept = prepare.encode_documents, []

    def keep(*args: Any, **options: Any) -> Any:
        kept.append(encode(*args, **options | {"budget": 64}))
        assert list((tmp_path / "work").rglob("*.*")), "it lies there while it is evaluated on"
        return kept[-1]

    monkeypatch.setattr(prepare, "encode_documents", keep)
    (tmp_path / "test.txt").write_text("9 bottles\n" * 20)
    ticks: list[int] = []
    settings = TextSettings(train="x", batch_tokens=48)
    evaluate(model, settings, tmp_path / "test.txt", tick=lambda: ticks.append(1))
    assert len(ticks) == 5, "201 tokens in windows of 24, two at a time"
    assert isinstance(kept[0], np.memmap)
    assert not list((tmp_path / "work").iterdir())
