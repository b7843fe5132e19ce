"""Tokens beside the vocabulary: added_tokens_decoder in tokenizer_config.json, else added_tokens.json; and the
extra special tokens of these files. Where there is a tokenizer.json, it has them itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken

from regard.data.text.tokenizer_file import without_panic
from regard.errors import RunError
from regard.foreign.contents import Contents, Json
from regard.foreign.hf_files import TOKENIZER_CONFIG

SPECIAL_MAP = "special_tokens_map.json"
ADDED = "added_tokens.json"
DECODER = "added_tokens_decoder"
NAMED = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
EXTRA = ("additional_special_tokens", "extra_special_tokens")
FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")
SAVE = "save the tokenizer with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"


def add_tokens(inner: tokenizers.Tokenizer, contents: Contents, vocabulary: int, named: Iterable[str]) -> None:
    """As transformers does: in the order of their ids, each with its id in the vocabulary, else the next free one.
    Where that is not the id in the file, the folder is refused. `named`: the usual names of special tokens."""
    where, tokens = _read_added(contents, vocabulary, named)
    inner.add_tokens([token for _, token in sorted(tokens.items())])
    for number, token in tokens.items():
        if (actual := inner.token_to_id(token.content)) != number:
            raise RunError(
                f"{where}: {token.content[:40]!r} has the id {number} there, and would have {actual} by the "
                f"vocabulary; {SAVE}"
            )
    _check_extra(contents, inner.get_vocab())


def refuse_tokens(contents: Contents, ids: Mapping[str, int], vocabulary: int, named: Iterable[str]) -> None:
    """For tokenizers to which nothing can be added: special tokens of the vocabulary only."""
    where, tokens = _read_added(contents, vocabulary, named)
    for number, token in tokens.items():
        if not token.special or ids.get(token.content) != number:
            raise RunError(
                f"{where} adds the token {token.content[:40]!r} with the id {number}, which is not supported in a "
                "SentencePiece tokenizer; open the folder with transformers"
            )
    _check_extra(contents, ids)


def _read_added(contents: Contents, vocabulary: int, named: Iterable[str]) -> tuple[str, dict[int, AddedToken]]:
    """The file, for messages, and the added tokens by their ids."""
    settings, listed = contents.json(TOKENIZER_CONFIG), contents.json(ADDED)
    tables = (settings,) if DECODER in settings else (contents.json(SPECIAL_MAP), settings)
    special = {*named, *(_content(table.get(key)) for table in tables for key in NAMED)}
    where, entries = f"{contents.path / ADDED}", [(i, {"content": content}) for content, i in listed.items()]
    if DECODER in settings:  # transformers reads no added_tokens.json then
        where = f"{contents.path / TOKENIZER_CONFIG}, {DECODER}"
        entries = _entries(settings[DECODER], where)
    else:
        special |= set(_extra(contents))
    tokens = {}
    for number, entry in entries:
        if type(number) is not int or not 0 <= number < vocabulary:
            raise RunError(
                f"{where}: the id of {entry.get('content')!r:.40} must be a whole number, and lie in the model's "
                f"vocabulary, 0 to {vocabulary - 1}, got {number!r:.40}; tokenizer and model do not belong together"
            )
        token = _token(entry, where)
        token.special = token.special or token.content in special
        if number in tokens:
            raise RunError(f"{where}: two tokens have the same id, {number}; {SAVE}")
        tokens[number] = token
    return where, tokens


def _entries(table: Any, where: str) -> list[tuple[Any, Json]]:
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
        raise RunError(f"{where} must be an object of ids and tokens, each an object, got {table!r:.80}")
    return [(int(key) if key.isdecimal() and len(key) < 12 else key, entry) for key, entry in table.items()]


def _token(entry: Json, where: str) -> AddedToken:
    content, flags = entry.get("content"), {key: entry[key] for key in FLAGS if key in entry}
    if not isinstance(content, str) or not content:
        raise RunError(f"{where}: the content of a token must be a text, got {content!r:.40}")
    for key, value in flags.items():
        if type(value) is not bool:
            raise RunError(f"{where}: {key} of {content[:40]!r} must be true or false, got {value!r:.40}")
    return without_panic(AddedToken, content, said=f"{where}: {content[:40]!r} cannot be a token", **flags)


def _check_extra(contents: Contents, ids: Mapping[str, int]) -> None:
    """They are special tokens, so their names are plain text in a text; but they need an id."""
    for name in _extra(contents):
        if name not in ids:
            raise RunError(f"{contents.path}: the special token {name[:40]!r} has no id in the vocabulary; {SAVE}")


def _extra(contents: Contents) -> Iterator[str]:
    settings = contents.json(TOKENIZER_CONFIG)
    for table in (settings,) if DECODER in settings else (settings, contents.json(SPECIAL_MAP)):
        for key in EXTRA:
            tokens = table.get(key) or ()
            for token in (
                tokens.values() if isinstance(tokens, dict) else tokens if isinstance(tokens, list) else ()
            ):
                if name := _content(token):
                    yield name


def _content(entry: Any) -> str:
    """A token's name: a string, or an object with it as "content"."""
    name = entry.get("content") if isinstance(entry, dict) else entry
    return name if isinstance(name, str) else ""
