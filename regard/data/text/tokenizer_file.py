"""Read a tokenizer.json, and refuse a file with which texts cannot be encoded or decoded."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import tokenizers
from tokenizers import models
from tokenizers.pre_tokenizers import ByteLevel

from regard.base.files import MOST_VALUES_OF_TOKENIZER, parse_json
from regard.errors import BadInput, DataError, RunError

TRIALS = ("a", "Ab c.\n", "é 日本 \U0010ffff")  # texts that every tokenizer must be able to read
MOST_GROWTH = 10_000  # how many times longer a normaliser may make a text
# What `tokenizers` says of a fault, and what is wrong then.
FAULTS = {
    "UnkIdNotInVocabulary": "unk_id in its model is not the id of a piece; set it to that of the unknown piece",
    "`unk_id` is missing": "its model has no unknown piece for other characters; set unk_id to the id of one",
    "EmptyVocabulary": "its vocabulary is empty; it must have at least one piece",
    "Oniguruma error": "one of its patterns is not a valid regular expression; correct it",
    "out of vocabulary": "a merge needs a piece that is not in its vocabulary; add that piece, or remove the merge",
    "Merges text file invalid": "a merge must be two pieces, and one is not",
    "Model missing": 'it has no "model", where the vocabulary is',
    "ModelUntagged": "its model is of no known type, or an entry of it is missing or wrong",
    "NormalizerUntagged": "its normalizer is of no known type, or an entry of it is missing or wrong",
    "PreTokenizerUntagged": "its pre_tokenizer is of no known type, or an entry of it is missing or wrong",
    "PostProcessor": "its post_processor is of no known type, or an entry of it is missing or wrong",
    "DecoderUntagged": "its decoder is of no known type, or an entry of it is missing or wrong",
}
SAVE_AGAIN = "save the tokenizer again with the library that made it"

Out = TypeVar("Out")


def without_panic(
    call: Callable[..., Out],
    *args: Any,
    said: str = "the run's tokenizer.json is at fault",
    kind: type[BadInput] = RunError,
    **options: Any,
) -> Out:
    """Call a function of `tokenizers`; if it fails, raise an error that begins with `said`.

    A panic of the library is a BaseException, which nobody would catch."""
    try:
        return call(*args, **options)
    except MemoryError:
        raise
    except Exception as error:
        fault = str(error)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Ctrl-C, for one
            raise
        fault = str(error)
    wrong = next((words for theirs, words in FAULTS.items() if theirs in fault), SAVE_AGAIN)
    raise kind(f"{said}: {wrong} (tokenizers says: {fault:.200})")


def read_tokenizer(raw: bytes, path: str | Path) -> tokenizers.Tokenizer:
    """A tokenizer.json that can read and write texts."""
    try:
        described = parse_json(raw, MOST_VALUES_OF_TOKENIZER)
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); it must be a complete tokenizer.json") from None
    if not isinstance(described, dict):
        raise DataError(f"{path} is JSON but describes no tokenizer: it must be an object, got {described!r:.40}")
    _check_steps(described, path)
    trial = partial(without_panic, kind=DataError)
    said = f"{path} is JSON but describes no tokenizer"
    inner: tokenizers.Tokenizer = trial(tokenizers.Tokenizer.from_str, raw.decode("utf-8"), said=said)
    inner.no_padding()  # before a text is encoded: it may be to any length
    inner.no_truncation()
    _check_unknown(inner, path)
    for text in TRIALS:
        encoding = trial(inner.encode, text, add_special_tokens=False, said=f"{path} cannot read every text")
        trial(inner.decode, encoding.ids, said=f"{path} cannot write every text")
    return inner


def _check_unknown(inner: tokenizers.Tokenizer, path: str | Path) -> None:
    """Otherwise the first text with an unknown piece would fail. Byte-level BPE has none: it has every byte."""
    unknown = getattr(inner.model, "unk_token", None)
    if unknown is None or inner.model.token_to_id(unknown) is not None:
        return
    if not isinstance(inner.model, models.BPE) or None in map(inner.model.token_to_id, ByteLevel.alphabet()):
        raise DataError(
            f"{path}: its unk_token, {unknown[:40]!r}, is not in its vocabulary; add it, or name another"
        )


def _check_steps(described: dict[str, Any], path: str | Path) -> None:
    """Refuse steps at which `tokenizers` would panic, and normalisers that make a text enormous."""
    length = 1.0  # of what one character may become
    for step in chain(*(_steps(described.get(name)) for name in ("normalizer", "pre_tokenizer", "decoder"))):
        if step.get("type") == "FixedLength" and step.get("length") == 0:
            raise DataError(f"{path}: FixedLength must have a length of at least 1, got 0")
        if step.get("type") == "Replace":
            pattern, content = step.get("pattern"), step.get("content")
            if isinstance(pattern, dict) and "" in pattern.values():
                raise DataError(f"{path}: Replace must have a pattern, got an empty one")
            length *= max(len(content), 1) if isinstance(content, str) else 1
        elif step.get("type") == "Prepend":
            length += len(str(step.get("prepend")))
        elif step.get("type") == "Precompiled":
            length *= _longest_in_table(step.get("precompiled_charsmap"))
    if length > MOST_GROWTH:
        raise DataError(
            f"{path}: its steps of type Replace, Prepend and Precompiled may make a text {length:.0e} times "
            f"longer, and at most {MOST_GROWTH:,} times is allowed"
        )


def _longest_in_table(charsmap: Any) -> int:
    """What one character may become by a table of SentencePiece: a trie after its length, then texts that end with
    a zero byte. `tokenizers` says what is wrong with a table that is none."""
    try:
        table = base64.b64decode(charsmap)
    except (ValueError, TypeError):
        return 1
    texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
    return max(1, *map(len, texts))


def _steps(described: Any) -> Iterator[dict[str, Any]]:
    """Every step of a normaliser or another part, also those inside of others."""
    if isinstance(described, dict):
        yield described
    inside = described.values() if isinstance(described, dict) else described if isinstance(described, list) else ()
    for part in inside:
        yield from _steps(part)
