"""Tokenizers of models trained with other libraries, from the files in their folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.data.files import read_bytes
from regard.data.special_tokens import UNKNOWN_NAME, Special
from regard.data.tokenizer import Tokenizer, read_tokenizer
from regard.data.wordpiece import NAMES, word_pieces
from regard.errors import DataError
from regard.foreign.sentencepiece import SentencePieceTokenizer, read_model

LARGEST = 64 << 20  # bytes of a file; the largest in use have about 20 MB
SHORTEST = 8  # tokens of a text with the special ones; a smaller number is a placeholder
BERT_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
# Settings of normalisation: their names in tokenizer_config.json and in `tokenizers`.
LETTERS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def open_text(folder: Path, *, vocabulary: int, special: Special) -> Tokenizer | SentencePieceTokenizer:
    """tokenizer.json, else vocab.json and merges.txt (GPT-2), else source.spm, target.spm and vocab.json (Marian).

    `vocabulary`: how many ids the model has; the files may have fewer, but not more. Without an unknown token in
    `special`, the one of the files is taken. In user text the names of special tokens are plain text."""
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for name, number in vars(special).items():
        if not (-1 if name in ("unknown", "mask") else 0) <= number < vocabulary:
            raise DataError(f"{folder}: the id of {name} must lie in 0 to {vocabulary - 1}, got {number}")
    if "tokenizer.json" in found:
        inner = _read_whole(folder / "tokenizer.json", vocabulary)
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
    if special.unknown in (special.pad, special.start, special.end):  # GPT-2 lists <|endoftext|> as unknown, too
        special = replace(special, unknown=-1)
    return Tokenizer(inner, special, size=vocabulary)


def open_bert(folder: Path, *, vocabulary: int, pad: int) -> Tokenizer:
    """tokenizer.json, else vocab.txt. The names of special tokens come from tokenizer_config.json, else from
    special_tokens_map.json; normalisation is as tokenizer_config.json says, also against tokenizer.json.

    `mask` is -1 where the vocabulary has none. In user text the names of special tokens are plain text."""
    if not 0 <= pad < vocabulary:
        raise DataError(f"{folder}: the id of pad must lie in 0 to {vocabulary - 1}, got {pad}")
    settings = _read_settings(folder / "tokenizer_config.json")
    named = _read_settings(folder / "special_tokens_map.json") | settings
    names = tuple(_name(named, key, usual, folder) for key, usual in zip(BERT_NAMES, NAMES, strict=True))
    _, unknown, start, end, mask = names
    inner = None
    if (path := folder / "tokenizer.json").exists():
        inner = _read_whole(path, vocabulary)
        ids, unknown = inner.get_vocab(), getattr(inner.model, "unk_token", None) or ""
    elif (path := folder / "vocab.txt").exists():
        ids = _read_pieces(path, vocabulary)
    else:
        raise DataError(f"{folder} holds no tokenizer of BERT's; it needs tokenizer.json or vocab.txt")
    for name in (start, end, unknown):
        if name and name not in ids:
            raise DataError(
                f"{path} has no token {name[:40]!r}; if it has another name, set that in "
                f"{folder / 'tokenizer_config.json'}"
            )
    if inner is None:
        _check_class(settings, folder)
        inner = word_pieces(ids, lowercase=True, names=names)
    if isinstance(inner.normalizer, normalizers.BertNormalizer):
        _change_letters(inner.normalizer, settings, folder)
    special = Special(pad, ids[start], ids[end], ids.get(unknown, -1), ids.get(mask, -1))
    return Tokenizer(inner, special, size=vocabulary)


def read_max_length(folder: Path) -> int:
    """How many tokens of a text are read, by tokenizer_config.json; 0 where it has no sensible number."""
    length = _read_settings(folder / "tokenizer_config.json").get("model_max_length")
    return length if type(length) is int and length >= SHORTEST else 0


def _read_settings(path: Path) -> dict[str, Any]:
    """The settings of a JSON file; none where there is no such file."""
    return _read_table(path) if path.exists() else {}


def _name(named: dict[str, Any], key: str, usual: str, folder: Path) -> str:
    """A special token's name: a string, or an object with it as "content"."""
    found = named.get(key)
    name = found.get("content") if isinstance(found, dict) else usual if found is None else found
    if not isinstance(name, str) or not name:
        raise DataError(f"{folder}: {key} must be the name of a token, got {found!r:.40}")
    return name


def _check_class(settings: dict[str, Any], folder: Path) -> None:
    """Other tokenizers have a vocab.txt too, but split words in other ways."""
    found = settings.get("tokenizer_class")
    if found not in (None, "BertTokenizer", "BertTokenizerFast"):
        raise DataError(
            f"{folder}: vocab.txt belongs to a {found!r:.40}; without tokenizer.json only a BertTokenizer can be "
            "read; save the tokenizer again, with tokenizer.json"
        )


def _change_letters(normal: normalizers.BertNormalizer, settings: dict[str, Any], folder: Path) -> None:
    for key, name in LETTERS.items():
        if key not in settings:
            continue
        value = settings[key]
        if type(value) is not bool and not (value is None and name == "strip_accents"):
            raise DataError(f"{folder}: {key} in tokenizer_config.json must be true or false, got {value!r:.40}")
        setattr(normal, name, value)


def _read_pieces(path: Path, vocabulary: int) -> dict[str, int]:
    """vocab.txt: the piece on line n, counted from 0, has the id n."""
    try:
        lines = _read(path).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start + 1})") from None
    ids = {piece: place for place, line in enumerate(lines) if (piece := line.removesuffix("\r"))}
    _check_ids(ids, vocabulary, path)
    return ids


def _open_marian(folder: Path, found: set[str], vocabulary: int, special: Special) -> SentencePieceTokenizer:
    if "target_vocab.json" in found:
        raise DataError(f"{folder} has target_vocab.json: separate vocabularies are not supported")
    path = folder / "vocab.json"
    ids = _read_ids(path, vocabulary)
    if UNKNOWN_NAME not in ids:
        raise DataError(f"{path} must have an id for {UNKNOWN_NAME}, and has none")
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
        raise DataError(f"{path} must be a file, and is not")
    if path.exists() and path.stat().st_size > LARGEST:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes; a tokenizer's file has at most {LARGEST:,}")
    return read_bytes(path)


def _read_whole(path: Path, vocabulary: int) -> tokenizers.Tokenizer:
    inner = read_tokenizer(_read(path), path)
    _check_ids(inner.get_vocab(), vocabulary, path)
    return inner


def _read_table(path: Path) -> dict[str, Any]:
    raw = _read(path)
    try:
        table = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise DataError(f"{path} must hold a JSON object, got a {type(table).__name__}")
    return table


def _read_ids(path: Path, vocabulary: int) -> dict[str, int]:
    ids = _read_table(path)
    if not ids:
        raise DataError(f"{path} must hold a JSON object of pieces and their ids, got an empty one")
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
