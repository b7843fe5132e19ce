"""A tokenizer.json with which `tokenizers` would panic or fail: refused when it is read, else named when asked."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from peak_memory import peak_memory

from regard.data.text.special_tokens import REGARD
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_file import without_panic
from regard.errors import DataError, RunError

WHOLE = json.loads(Tokenizer.train(["abc def"], kind="bpe").inner.to_str())
LETTERS = json.loads(Tokenizer.train(["abc def"], kind="character").inner.to_str())


def replace(pattern: dict[str, str], content: str = "x") -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


def charsmap(*texts: str) -> dict[str, Any]:
    """A table of SentencePiece: its trie, and the texts that characters become."""
    table = struct.pack("<I", 4) + bytes(4) + b"".join(text.encode() + b"\0" for text in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def unigram(**changes: Any) -> dict[str, Any]:
    return {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]], "byte_fallback": False} | changes


QUIET: dict[str, tuple[dict[str, Any], str]] = {
    "pieces of no length": (
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        "FixedLength must have a length of at least 1, got 0",
    ),
    "pieces of no length, inside": (
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "FixedLength", "length": 0}]}},
        "FixedLength must have a length of at least 1, got 0",
    ),
    "nothing replaced": ({"normalizer": replace({"String": ""})}, "Replace must have a pattern, got an empty one"),
    "nothing replaced, inside": ({"normalizer": sequence(replace({"Regex": ""}))}, "Replace must have a pattern"),
    "a bomb": (
        {"normalizer": sequence(*[replace({"String": "a"}, "aa")] * 40)},
        r"may make a text 1e\+12 times longer, and at most 10,000 times is allowed",
    ),
    "a bomb of two steps": (
        {"normalizer": sequence({"type": "Prepend", "prepend": "a" * 200}, replace({"String": "a"}, "b" * 200))},
        "may make a text 4e\\+04 times longer, and at most 10,000 times is allowed",
    ),
    "a bomb in a table": (
        {"normalizer": sequence(*[charsmap("x" * 200)] * 2)},
        "may make a text 4e\\+04 times longer",
    ),
    "a list": ({"normalizer": [1]}, "describes no tokenizer"),
    "an unknown token that is none": (
        {"model": WHOLE["model"] | {"type": "WordLevel", "unk_token": "[UNK]"}},
        r"its unk_token, '\[UNK\]', is not in its vocabulary; add it, or name another",
    ),
    "the same of letters": (
        {"model": LETTERS["model"] | {"unk_token": "?"}},
        "its unk_token, '\\?', is not in its",
    ),
    "the same of pairs": (
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "?"}, "pre_tokenizer": None},
        "its unk_token, '\\?', is not in its vocabulary",
    ),
    "no unknown token": (
        {"model": unigram()},
        r"cannot read every text: its model has no unknown piece .*; set unk_id .* \(tokenizers says: .*missing\)",
    ),
    "an unknown token beyond": (
        {"model": unigram(unk_id=9)},
        r"tokenizer\.json .*no tokenizer: unk_id in its model is not the id of a piece; set it to .* \(tokenizers",
    ),
    "no pieces": ({"model": unigram(vocab=[], unk_id=0)}, "its vocabulary is empty"),
    "half a pattern": (
        {"normalizer": replace({"Regex": "(a"})},
        r"one of its patterns is not a valid regular expression; correct it \(tokenizers says: Oniguruma",
    ),
    "a merge of nothing": (
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}},
        "a merge needs a piece that is not in its vocabulary",
    ),
    "an unknown model": ({"model": {"type": "Foo"}}, "its model is of no known type"),
}
PANICS: dict[str, dict[str, Any]] = {
    "at a zero-width match": {"normalizer": replace({"Regex": "(?=a)"})},
    "at a table of nothing": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}},
    "at writing": {"decoder": {"type": "Strip", "content": "a", "start": 9, "stop": 9}},
}


def write(folder: Path, changes: dict[str, Any]) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(WHOLE | changes))
    return folder / "tokenizer.json"


@pytest.mark.parametrize("name", QUIET)
def test_it_is_refused_without_a_panic(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    changes, message = QUIET[name]
    with pytest.raises(DataError, match=message):
        Tokenizer.load(write(tmp_path, changes))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", PANICS)
def test_panics_are_refused_when_it_is_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tokenizer\.json cannot (read|write) every text: ."):
        Tokenizer.load(write(tmp_path, PANICS[name]))


def test_panics_are_named_when_it_is_asked() -> None:
    """Where the texts of the trial did not show them."""
    inner = tokenizers.Tokenizer.from_str(json.dumps(WHOLE | {"normalizer": replace({"Regex": "(?=q)"})}))
    ours = Tokenizer(inner, REGARD)
    assert ours.encode("abc")
    for call in (ours.encode, ours.encode_words, ours.pieces, lambda text: ours.encode_batch([text])):
        with pytest.raises(
            RunError, match=r"the run's tokenizer\.json is at fault: save the tokenizer again .*index out of bounds"
        ):
            call("q")
    inner = tokenizers.Tokenizer.from_str(json.dumps(WHOLE | {"decoder": PANICS["at writing"]["decoder"]}))
    ours, ids = (
        Tokenizer(inner, REGARD),
        Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(WHOLE)), REGARD).encode("a"),
    )
    for write_out in (ours.decode, lambda ids: ours.decode(ids, []), ours.word_of):
        with pytest.raises(
            RunError, match=r"the run's tokenizer\.json is at fault: save the tokenizer again .*index out of bounds"
        ):
            write_out(ids)


def test_ctrl_c_is_no_fault_of_the_file() -> None:
    for kind in (KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit):

        def stop(kind: type[BaseException] = kind) -> None:
            raise kind

        with pytest.raises(kind):
            without_panic(stop)


def test_byte_pairs_need_no_unknown_token(tmp_path: Path) -> None:
    """GPT-2's own file names "" as one."""
    path = write(tmp_path, {"model": WHOLE["model"] | {"unk_token": ""}})
    assert Tokenizer.load(path).encode("abc é") == Tokenizer.train(["abc def"], kind="bpe").encode("abc é")


@pytest.mark.parametrize("strategy", [{"Fixed": 1_000_000}, "BatchLongest"])
def test_padding_and_truncation_are_never_used(strategy: Any, tmp_path: Path) -> None:
    """Padding to a length that the file names could take any memory; the texts of the trial are not padded."""
    padding = {"direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
    many = {"pad_to_multiple_of": 1_000_000, "strategy": strategy}
    truncation = {"max_length": 1, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    path = write(tmp_path, {"padding": padding | many, "truncation": truncation})
    with peak_memory() as peak:
        ours = Tokenizer.load(path)
    assert peak.mib < 30
    assert len(ours.encode("abc def")) > 1
