"""The vocabulary of a tokenizer in a folder: vocab.json, merges.txt, vocab.txt; and whether it fits the model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from regard.base.files import LARGEST_TOKENIZER
from regard.errors import RunError
from regard.foreign.contents import Contents, say_once

PADDED = 64, 1024  # embeddings are padded to a multiple of 64 or 128, at most of 1024
BRACKETS = re.compile(r"<.*>|\[.*\]")  # how special tokens are written, which no merge makes


def read_ids(contents: Contents, vocabulary: int) -> dict[str, int]:
    """vocab.json: pieces and their ids."""
    path, ids = contents.path / "vocab.json", contents.json("vocab.json", LARGEST_TOKENIZER)
    if not ids:
        raise RunError(f"{path} must hold a JSON object of pieces and their ids, got an empty one")
    for piece, i in ids.items():
        if type(i) is not int or i < 0:
            raise RunError(f"{path}: the id of {piece[:40]!r} must be a whole number from 0 on, got {str(i)[:40]}")
    check_ids(ids, vocabulary, path)
    return ids


def read_pieces(contents: Contents, vocabulary: int) -> dict[str, int]:
    """vocab.txt: the piece on line n, counted from 0, has the id n."""
    lines = contents.text("vocab.txt", LARGEST_TOKENIZER).split("\n")
    path = contents.path / "vocab.txt"
    ids: dict[str, int] = {}
    twice = ""
    for place, line in enumerate(lines):
        if not (piece := line.removesuffix("\r")):
            continue
        if piece in ids and not twice:
            twice = f"{piece[:40]!r} is on the lines {ids[piece] + 1:,} and {place + 1:,}"
        ids[piece] = place  # as transformers, which takes the last
    check_ids(ids, vocabulary, path)
    if twice:
        say_once(
            f"{path}: {twice}; the id of the earlier line has no piece. If a line was changed, texts are read "
            "wrongly"
        )
    return ids


def read_merges(contents: Contents, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """merges.txt: two pieces on a line, the most frequent first."""
    path, merges = contents.path / "merges.txt", []
    for number, line in enumerate(contents.text("merges.txt", LARGEST_TOKENIZER).split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if len(pair) != 2:
            raise RunError(f"{path}, line {number}: must be two pieces with a space between, got {line[:40]!r}")
        for piece in (*pair, "".join(pair)):
            if piece not in ids:
                raise RunError(f"{path}, line {number}: {piece[:40]!r} has no id in vocab.json")
        merges.append((pair[0], pair[1]))
    made = {first + second for first, second in merges}
    long = [piece for piece in ids if len(piece) > 1 and not BRACKETS.fullmatch(piece)]
    lost = [piece for piece in long if piece not in made]
    if 2 * len(lost) > len(long):
        raise RunError(
            f"{path} has {len(merges):,} merges, which make {len(long) - len(lost):,} of the {len(long):,} longer "
            f"pieces of vocab.json, and not {lost[0][:40]!r}; the file is incomplete"
        )
    return merges


def check_ids(ids: Mapping[str, int], vocabulary: int, path: Path) -> None:
    """Every piece has an id of its own that the model knows."""
    named: dict[int, str] = {}
    for piece, i in ids.items():
        if i in named:
            raise RunError(f"{path}: {named[i][:40]!r} and {piece[:40]!r} have the same id, {i}")
        named[i] = piece
    if ids and (last := max(named)) >= vocabulary:
        raise RunError(
            f"{path}: {named[last][:40]!r} has the id {last}, but the model's vocabulary ends at {vocabulary - 1}; "
            f"tokenizer and model do not belong together"
        )


def check_complete(ids: Iterable[int], vocabulary: int, path: Path) -> None:
    """A tokenizer may have fewer ids than the model, whose embeddings are often padded to a round number. If others
    are missing, say so; if most are, refuse the folder."""
    named = len(set(ids))
    missing, (least, most) = vocabulary - named, PADDED
    if 2 * named < vocabulary:
        raise RunError(
            f"{path} names {named:,} of the model's {vocabulary:,} ids; it is incomplete, or tokenizer and model "
            "do not belong together"
        )
    multiple = min(vocabulary & -vocabulary, most)  # the largest power of 2 that divides it
    if missing and not (multiple >= least and missing < multiple):
        say_once(
            f"{path} names {named:,} of the model's {vocabulary:,} ids; if a line or an entry is missing, texts "
            "are read wrongly"
        )
