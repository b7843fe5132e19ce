"""Tokenizers of models trained elsewhere, from the files that lie in their folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from regard.data.pairs import DataError, read_bytes
from regard.data.sentencepiece import SentencePieceTokenizer, read_model
from regard.data.text import UNKNOWN_NAME, Special, Tokenizer, read_tokenizer

LARGEST = 64 << 20  # bytes of a file; the largest in use have some 20 MB


def open_foreign(folder: Path, *, vocabulary: int, special: Special) -> Tokenizer | SentencePieceTokenizer:
    """tokenizer.json, else vocab.json and merges.txt (GPT-2), else source.spm, target.spm and vocab.json (Marian).

    `vocabulary` is how many ids the model knows, which may be more than the files name, but not fewer. Where
    `special` names no unknown token, the files do. In user text special tokens are text."""
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for name, number in vars(special).items():
        if not (-1 if name == "unknown" else 0) <= number < vocabulary:
            raise DataError(f"{folder}: the id of {name} must lie in 0 to {vocabulary - 1}, got {number}")
    if "tokenizer.json" in found:
        path = folder / "tokenizer.json"
        inner = read_tokenizer(_read(path), path)
        _check_ids(inner.get_vocab(), vocabulary, path)
    elif {"vocab.json", "merges.txt"} <= found:
        inner = _byte_pairs(_read_ids(folder / "vocab.json", vocabulary), folder / "merges.txt")
    elif {"vocab.json", "source.spm", "target.spm"} <= found:
        return _open_marian(folder, found, vocabulary, special)
    else:
        raise DataError(
            f"{folder} holds no tokenizer; it needs tokenizer.json, or vocab.json and merges.txt, "
            f"or vocab.json, source.spm and target.spm"
        )
    unknown = getattr(inner.model, "unk_token", None) or UNKNOWN_NAME
    if special.unknown < 0:
        special = replace(special, unknown=-1 if (i := inner.token_to_id(unknown)) is None else i)
    if special.unknown in (special.pad, special.start, special.end):  # GPT-2 lists <|endoftext|> as this too
        special = replace(special, unknown=-1)
    return Tokenizer(inner, special, size=vocabulary)


def _open_marian(folder: Path, found: set[str], vocabulary: int, special: Special) -> SentencePieceTokenizer:
    if "target_vocab.json" in found:
        raise DataError(f"{folder} has target_vocab.json: a vocabulary for each side, which is not supported")
    path = folder / "vocab.json"
    ids = _read_ids(path, vocabulary)
    if UNKNOWN_NAME not in ids:
        raise DataError(f"{path} must have an id for {UNKNOWN_NAME}, but has none")
    source, target = (read_model(_read(side), side) for side in (folder / "source.spm", folder / "target.spm"))
    return SentencePieceTokenizer(source, target, ids, replace(special, unknown=ids[UNKNOWN_NAME]), size=vocabulary)


def _byte_pairs(ids: dict[str, int], path: Path) -> tokenizers.Tokenizer:
    try:
        lines = _read(path).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start + 1})") from None
    merges = []
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if len(pair) != 2:
            raise DataError(f"{path}, line {number}: must be two pieces with a space between, got {line[:40]!r}")
        for piece in (*pair, "".join(pair)):
            if piece not in ids:
                raise DataError(f"{path}, line {number}: {piece[:40]!r} has no id in vocab.json")
        merges.append((pair[0], pair[1]))
    inner = tokenizers.Tokenizer(models.BPE(ids, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise DataError(f"{path} must be a file, but it is none")
    if path.exists() and path.stat().st_size > LARGEST:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes; a tokenizer's file has at most {LARGEST:,}")
    return read_bytes(path)


def _read_ids(path: Path, vocabulary: int) -> dict[str, int]:
    raw = _read(path)
    try:
        ids = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    if not isinstance(ids, dict) or not ids:
        raise DataError(f"{path} must be a JSON object of pieces and their ids")
    named: dict[int, str] = {}
    for piece, i in ids.items():
        if type(i) is not int or i < 0:
            raise DataError(f"{path}: the id of {piece[:40]!r} must be a whole number from 0 on, got {str(i)[:40]}")
        if i in named:
            raise DataError(f"{path}: {named[i][:40]!r} and {piece[:40]!r} have the same id, {i}")
        named[i] = piece
    _check_ids(ids, vocabulary, path)
    return ids


def _check_ids(ids: dict[str, int], vocabulary: int, path: Path) -> None:
    piece = max(ids, key=ids.__getitem__, default="")
    if ids and ids[piece] >= vocabulary:
        raise DataError(
            f"{path}: {piece[:40]!r} has the id {ids[piece]}, but the model's vocabulary ends at {vocabulary - 1}; "
            f"tokenizer and model do not belong together"
        )
