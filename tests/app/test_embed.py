"""`regard embed`: the same vectors in every format, whole files or none."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.tasks.core.table import load
from regard.tasks.embed import writing
from regard.tasks.shared.reader import Reader

MOST = 16  # tokens the model takes


def as_arrays(name: str) -> tuple[list[str] | None, np.ndarray]:
    path = Path(name)
    if path.suffix == ".npy":
        return None, np.load(path, allow_pickle=False)
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [row["text"] for row in rows], np.array([row["vector"] for row in rows], np.float32)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(path)
    return table["text"].to_pylist(), np.stack(table["vector"].to_numpy())


@pytest.mark.parametrize("name", ["out.npy", "out.parquet", "out.jsonl"])
@pytest.mark.parametrize("options", [[], ["--pool", "cls", "--normalise"]], ids=["mean", "cls"])
def test_vectors_are_the_same_in_every_form(call: Any, filler: str, name: str, options: list[str]) -> None:
    texts = ["the cat", "", "dogs ☃ outside", "cat " * 40, " a\tb "]
    Path("in.txt").write_text("\r\n".join([*texts, ""]))
    done = call("embed", filler, "--input", "in.txt", "--output", name, *options)
    assert done.code == 0
    assert done.err.startswith(f"1 text was truncated to the {MOST} tokens this model takes: the one that begins")
    named, found = as_arrays(name)
    assert named in (None, texts)
    assert found.dtype == np.float32
    wanted = load(filler).embed(texts, pool="cls" if options else "mean", normalise=bool(options))
    np.testing.assert_array_equal(found, wanted)
    assert sorted(path.name for path in Path().iterdir()) == sorted(["in.txt", name])


def test_thousands_of_lines_keep_their_order(call: Any, filler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PART", 700)
    texts = [" ".join(["cat"] * (1 + number * 7 % 11)) for number in range(2000)]
    Path("in.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    by_text = {text: load(filler).embed(text) for text in sorted(set(texts))}
    wanted = np.stack([by_text[text] for text in texts])
    for name in ("out.npy", "out.parquet"):
        assert call("embed", filler, "--input", "in.txt.gz", "--output", name).code == 0
        named, found = as_arrays(name)
        assert named in (None, texts)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_vectors_on_stdout_are_lines_of_json(call: Any, headless: str) -> None:
    for words in (["the cat", "a dog"], ["the cat", "a dog", "--output", "-"]):
        rows = [json.loads(line) for line in call("embed", headless, *words).out.splitlines()]
        assert [row["text"] for row in rows] == ["the cat", "a dog"]
        assert [len(row["vector"]) for row in rows] == [16, 16]


@pytest.mark.parametrize("name", ["out.npy", "out.parquet", "out.jsonl"])
@pytest.mark.parametrize("options", [[], ["--layer", "1", "--normalise"]], ids=["last", "layer"])
def test_tokens_are_the_same_in_every_form(call: Any, filler: str, name: str, options: list[str]) -> None:
    texts = ["the cat", "", "dogs outside", "the cat"]
    Path("in.txt").write_text("\n".join([*texts, ""]))
    assert call("embed", filler, "--input", "in.txt", "--output", name, "--tokens", *options).code == 0
    wanted = load(filler).embed_tokens(texts, layer=1 if options else None, normalise=bool(options))
    names = [token for one in wanted for token in one.tokens]
    assert names[:4] == ["[CLS]", "the", "cat", "[SEP]"]
    vectors = np.concatenate([one.vectors for one in wanted])
    if name == "out.npy":
        found = np.load(name, allow_pickle=False)
    elif name == "out.parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(name)
        assert table["token"].to_pylist() == names
        assert table["text"].to_pylist() == [one.text for one in wanted for _ in one.tokens]
        assert table["place"].to_pylist() == [place for one in wanted for place in range(len(one.tokens))]
        found = np.stack(table["vector"].to_numpy())
    else:
        rows = [json.loads(line) for line in Path(name).read_text().splitlines()]
        assert [row["text"] for row in rows] == texts
        assert [token for row in rows for token in row["tokens"]] == names
        found = np.concatenate([np.array(row["vectors"], np.float32) for row in rows])
    np.testing.assert_array_equal(found, vectors)


def test_the_last_layer_is_what_is_given_without_one(filler: str) -> None:
    reader, texts = load(filler), ["the cat sat", "dogs"]
    layers = reader.model.config.layers
    for one, other in zip(reader.embed_tokens(texts), reader.embed_tokens(texts, layer=layers), strict=True):
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-6)
    first = reader.embed_tokens("the cat", layer=0).vectors
    model = reader.model
    ids = torch.tensor([reader.read("the cat").row[0]])
    with torch.no_grad():
        wanted = model.norm(model.embed(ids) + model.segments.weight[0] + model.positions(torch.arange(4), most=3))
    np.testing.assert_allclose(first, wanted[0].numpy(), atol=1e-6)


def test_a_line_that_cannot_be_read_has_one_row_among_the_tokens(call: Any, filler: str) -> None:
    Path("in.txt").write_bytes(b"the cat\n\xff\na\n")
    assert call("embed", filler, "--input", "in.txt", "--output", "v.npy", "--tokens").code == 1
    found = np.load("v.npy")
    assert np.isnan(found).all(1).tolist() == [False] * 4 + [True] + [False] * 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output", "out.csv"], "vectors are written as .npy, .parquet, .jsonl, got 'out.csv'"),
        (["--output", "there/is/no.npy"], "there is no folder there/is to write no.npy in; make it first"),
        (["--output", "there/is/no.jsonl"], "there is no folder there/is to write no.jsonl in; make it first"),
        (["--pool", "max"], "--pool must be one of mean, cls, got 'max'"),
        (["--layer", "9"], "layer must lie in 0 to 2, 0 for the token embeddings; got 9"),
        (["--layer", "-1"], "Invalid value for '--layer': Input should be greater than or equal to 0"),
        (["--tokens", "--pool", "cls"], "--pool is for a vector of the whole text; leave it or --tokens out"),
        (["--input", "in.txt"], "give texts or --input, not both"),
        (["--sites", "x"], "say where with --show"),
        (["--output", "out.npy", "--json"], "--json asks for JSON lines and out.npy is another format"),
    ],
    ids=["form", "no folder", "no folder for lines", "pool", "layer", "below 0", "tokens", "both", "sites", "json"],
)
def test_embed_asked_wrongly(call: Any, filler: str, words: list[str], said: str) -> None:
    done = call("embed", filler, "the cat", *words)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("name", ["out.npy", "out.parquet", "out.jsonl"])
@pytest.mark.parametrize("what", ["stopped", "full"])
def test_what_is_stopped_leaves_the_old_file(
    call: Any, filler: str, name: str, what: str, ctrl_c: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Ctrl-C, after which the vectors so far are beside it, or where the disk is full."""
    Path(name).write_text("what was there before")
    Path("in.txt").write_text("cat\n" * 50)
    found = Reader.vectors

    def stop(*args: Any, **options: Any) -> Iterator[np.ndarray]:
        for number, vector in enumerate(found(*args, **options)):
            if number == 20:
                if what == "full":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
                ctrl_c()
            yield vector

    monkeypatch.setattr(Reader, "vectors", stop)
    done = call("embed", filler, "--input", "in.txt", "--output", name)
    assert done.code == (130 if what == "stopped" else 1)
    amount = "20 lines" if name.endswith("l") else "vectors of 20 texts"
    kept = f"{name}.partial keeps what was done, {amount}; {name} was not written\nstopped\n"
    assert done.err == (kept if what == "stopped" else f"error: {name}: No space left on device\n")
    assert Path(name).read_text() == "what was there before"
    partial = [f"{name}.partial"] if what == "stopped" else []
    assert sorted(path.name for path in Path().iterdir()) == sorted(["in.txt", name, *partial])
    if partial and name.endswith(".npy"):
        assert np.load(partial[0]).shape == (20, 16)
    if partial and name.endswith(".parquet"):
        assert pytest.importorskip("pyarrow.parquet").read_table(partial[0]).num_rows == 20


def test_an_empty_file_is_told(call: Any, filler: str) -> None:
    Path("in.txt").write_text("")
    for command in ("embed", "fill"):
        done = call(command, filler, "--input", "in.txt")
        assert (done.code, done.out) == (2, "")
        assert "in.txt is empty; it needs one text a line" in done.err


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"a\n\xff\n", "in.txt, line 2"), (b"a\nb\x00\n", "in.txt, line 2")],
    ids=["not utf-8", "nul"],
)
def test_lines_that_are_no_text_are_named(call: Any, filler: str, raw: bytes, said: str) -> None:
    Path("in.txt").write_bytes(raw)
    done = call("embed", filler, "--input", "in.txt", "--strict")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
