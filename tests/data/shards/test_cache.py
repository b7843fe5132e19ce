"""Tokens that are kept: made once, in parallel, found again, and made anew where they are damaged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from regard.base.cache_place import cache_folder
from regard.data.shards import cache
from regard.data.shards.cache import Kept, kept_shards
from regard.data.shards.reading import RunningText, ShardRows
from regard.data.shards.token_files import INDEX, Shard
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput, DataError

TEXTS = [f"{'abc'[n % 3] * (n + 1)} {n}" for n in range(5)]
OPTIONS = {"documents": "file", "column": "text"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for number, text in enumerate(TEXTS):
        Path(f"{number}.txt").write_text(text)
    return tmp_path


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="character")


def ids_of(shards: list[Shard]) -> list[int]:
    text = RunningText(shards)
    return np.asarray(text).tolist()


def files(count: int = 5) -> list[list[Path]]:
    return [[Path(f"{number}.txt")] for number in range(count)]


def expected(tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    return [token for text in texts for token in [*tokenizer.encode(text), tokenizer.special.end]]


def test_links_that_are_left_are_removed_and_not_followed(tokenizer: Tokenizer, here: Path) -> None:
    folder = cache_folder() / "tokens"
    folder.mkdir(parents=True)
    (here / "other").mkdir()
    (here / "other/mine").touch()
    for name, target in ((".tmp-a", here / "other"), (".tmp-b", here / "nosuch")):
        (folder / name).symlink_to(target)
        os.utime(folder / name, (0, 0), follow_symlinks=False)
    kept_shards(files(), Kept("text", OPTIONS, [tokenizer]), print)
    assert not list(folder.glob(".tmp-*"))
    assert (here / "other/mine").exists()


def test_tokens_are_made_once(tokenizer: Tokenizer) -> None:
    said: list[str] = []
    kept = Kept("text", OPTIONS, [tokenizer])
    shards = kept_shards(files(), kept, said.append)
    assert ids_of(shards) == expected(tokenizer, TEXTS)
    times = {shard.folder: (shard.folder / INDEX).stat().st_mtime_ns for shard in shards}
    again = kept_shards(files(), kept, said.append)
    assert again == shards
    assert times == {shard.folder: (shard.folder / INDEX).stat().st_mtime_ns for shard in again}
    folder = cache_folder() / "tokens"
    assert [line.partition(":")[0] for line in said] == [
        "Tokens of 5 files, 5 of them tokenised now",
        "Tokens of 5 files, all of them tokenised before",
    ]
    assert said[0].endswith(f"MiB in {folder}")
    assert sorted(path.name for path in folder.iterdir()) == sorted(shard.folder.name for shard in shards)


def test_what_changes_is_made_anew_and_alone(tokenizer: Tokenizer) -> None:
    said: list[str] = []
    first = kept_shards(files(), Kept("text", OPTIONS, [tokenizer]), said.append)
    Path("1.txt").write_text("aaa")
    Path("5.txt").write_text("bbb")
    second = kept_shards(files(6), Kept("text", OPTIONS, [tokenizer]), said.append)
    assert said[-1].startswith("Tokens of 6 files, 2 of them tokenised now")
    assert second[0] == first[0]
    assert ids_of(second) == expected(tokenizer, [TEXTS[0], "aaa", *TEXTS[2:], "bbb"])
    other = Tokenizer.train(["xyz", *TEXTS], kind="character")
    kept_shards(files(6), Kept("text", OPTIONS, [other]), said.append)
    assert said[-1].startswith("Tokens of 6 files, 6 of them tokenised now")
    kept_shards(files(6), Kept("text", OPTIONS | {"documents": "line"}, [other]), said.append)
    assert said[-1].startswith("Tokens of 6 files, 6 of them tokenised now")


@pytest.mark.parametrize("damage", ["truncate", "flip", "index", "gone", "no index"])
def test_damaged_tokens_are_made_anew(tokenizer: Tokenizer, damage: str) -> None:
    said: list[str] = []
    kept = Kept("text", OPTIONS, [tokenizer])
    shards = kept_shards(files(), kept, said.append)
    ids = shards[2].folder / "ids.ids"
    match damage:
        case "truncate":
            ids.write_bytes(ids.read_bytes()[:-1])
        case "flip":
            data = bytearray(ids.read_bytes())
            data[0] ^= 1
            ids.write_bytes(data)
        case "index":
            (shards[2].folder / INDEX).write_text(json.dumps({"format": 1}))
        case "gone":
            shutil.rmtree(shards[2].folder)
        case "no index":
            (shards[2].folder / INDEX).unlink()
    assert ids_of(kept_shards(files(), kept, said.append)) == expected(tokenizer, TEXTS)
    assert said[-1].startswith("Tokens of 5 files, 1 of them tokenised now")


def test_tokens_that_were_not_used_lately_are_deleted_beyond_a_limit(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Oldest first, and none that somebody uses: here the first file's, as long as its shard is there."""
    said: list[str] = []
    kept = Kept("text", OPTIONS, [tokenizer])
    folders = []
    for number in range(4):
        (shard,) = kept_shards([[Path(f"{number}.txt")]], kept, said.append)
        folders.append(shard.folder)
        os.utime(shard.folder, (number, number))
        if number == 0:
            used = shard
    del shard
    monkeypatch.setenv("REGARD_CACHE_GIB", str(2.5 * used.size / (1 << 30)))
    (last,) = kept_shards([[Path("4.txt")]], kept, said.append)
    assert [folder.exists() for folder in [*folders, last.folder]] == [True, False, False, False, True]
    assert "Deleted the tokens of 3 files that were not used lately (REGARD_CACHE_GIB)" in said
    assert ids_of([used, last]) == expected(tokenizer, [TEXTS[0], TEXTS[4]])
    del used
    Path("0.txt").write_text("abc")
    kept_shards(files(1), kept, said.append)
    assert not folders[0].exists()
    monkeypatch.setenv("REGARD_CACHE_GIB", "much")
    Path("0.txt").write_text("abcd")
    with pytest.raises(BadInput, match="REGARD_CACHE_GIB must be a number of GiB, 0 or more, got 'much'"):
        kept_shards(files(1), kept, said.append)


def test_processes_make_the_same_tokens(tokenizer: Tokenizer, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a module of the user's in the current folder is not taken for Python's own."""
    said: list[str] = []
    kept = Kept("text", OPTIONS, [tokenizer])
    alone = {shard.folder.name: shard.about for shard in kept_shards(files(), kept, said.append)}
    monkeypatch.setenv("REGARD_CACHE", str(here / "other"))
    monkeypatch.setattr(cache, "SMALL", 0)
    monkeypatch.setattr(cache, "cores", lambda: 2)
    Path("json.py").write_text("raise SystemExit")
    shards = kept_shards(files(), kept, said.append)
    assert {shard.folder.name: shard.about for shard in shards} == alone
    assert ids_of(shards) == expected(tokenizer, TEXTS)
    Path("3.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"3\.txt, line 1: the byte 0xff is not UTF-8"):
        kept_shards(files(), kept, said.append)
    left = [path.name for path in (here / "other/tokens").iterdir() if path.name.startswith(".")]
    assert left == []


def test_a_folder_that_cannot_be_written_is_named(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("REGARD_CACHE", "file")
    with pytest.raises(OSError, match="tokens are kept in file/tokens: make room, or set REGARD_CACHE"):
        kept_shards(files(), Kept("text", OPTIONS, [tokenizer]), print)


def test_tokens_that_vanish_while_they_are_read_are_told(tokenizer: Tokenizer) -> None:
    shards = kept_shards(files(), Kept("text", OPTIONS, [tokenizer]), lambda line: None)
    shutil.rmtree(shards[0].folder)
    with pytest.raises(DataError, match="start again with --resume, and they are made anew"):
        RunningText(shards).read(0, 2)


def test_rows_are_read_in_chunks(tokenizer: Tokenizer) -> None:
    pairs = [(f"a{n}" * 50, f"b{n}") for n in range(300)]
    for part in (0, 1):
        rows = pairs[150 * part : 150 * (part + 1)]
        Path(f"{part}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    kept = Kept("pairs", {"source": "", "target": ""}, [tokenizer, tokenizer])
    rows = ShardRows(kept_shards([[Path("0.tsv")], [Path("1.tsv")]], kept, lambda line: None))
    assert len(rows) == 300
    assert rows.chunks > 6
    every = rows.load(range(rows.chunks))
    told = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    got = [(list(every["source"][row]), list(every["target"][row])) for row in range(300)]
    assert got == told
    lengths = np.concatenate([source for source, _ in rows.lengths("source", "target", rows=40)])
    assert lengths.tolist() == [len(source) for source, _ in told]
    last = rows.load([rows.chunks - 1])["target"]
    assert list(last[len(last) - 1]) == told[-1][1]
