"""Tokens added beside vocab.txt, or vocab.json and merges.txt: as in `transformers`, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign.added_tokens import refuse_tokens
from regard.foreign.contents import Contents
from regard.foreign.tokenizers import open_bert, open_text

Files = dict[str, dict[str, Any]]
TEXTS = ["The cat<u>sat", "a <u> b", "the cat <U>  cats", "<u><u>", "x<u>y Cat", "", "the <v> café"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "cat", "<", ">", "u", "a", "b", "x", "y"]
END = "<|endoftext|>"
SIZES = {"bert": len(PIECES), "gpt2": 257}


def write(kind: str, folder: Path, files: Files) -> None:
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    if kind == "bert":
        (folder / "vocab.txt").write_text("\n".join(PIECES))
    else:
        (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate([*letters, END])}))
        (folder / "merges.txt").write_text("#version: 0.2\n")
    for name, table in files.items():
        (folder / name).write_text(json.dumps(table))


def opened(kind: str, folder: Path, further: int = 4) -> Tokenizer:
    size = SIZES[kind] + further
    if kind == "bert":
        return open_bert(Contents(folder), vocabulary=size, pad=0)
    ours = open_text(Contents(folder), vocabulary=size, special=Special(256, 256, 256, -1))
    assert isinstance(ours, Tokenizer)
    return ours


def decoder(*entries: tuple[int, dict[str, Any]]) -> Files:
    return {"tokenizer_config.json": {"added_tokens_decoder": {str(i): entry for i, entry in entries}}}


def files_of(kind: str) -> dict[str, Files]:
    free = SIZES[kind]  # the first free id
    special, same, x = ("[SEP]", 3, 13) if kind == "bert" else (END, 256, 87)
    return {
        "listed": {"added_tokens.json": {"<u>": free}},
        "two": {"added_tokens.json": {"<v>": free + 1, "<u>": free}},
        "described": decoder((free, {"content": "<u>"})),
        "left": decoder((free, {"content": "<u>", "lstrip": True, "normalized": False})),
        "right": decoder((free, {"content": "<u>", "rstrip": True})),
        "a word": decoder((free, {"content": "<u>", "single_word": True})),
        "as it is written": decoder((free, {"content": "Cat", "normalized": False, "special": False})),
        "as it is read": decoder((free, {"content": "CAFÉ", "normalized": True})),
        "of the vocabulary": decoder((same, {"content": special, "special": True}), (free, {"content": "<u>"})),
        "only of the vocabulary": {"added_tokens.json": {special: same}},
        "described, so not listed": decoder() | {"added_tokens.json": {"<u>": free}},
        "a plain one of the vocabulary": {"added_tokens.json": {"x": x}},
    }


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", files_of("bert"))
def test_added_tokens_are_those_of_transformers(kind: str, name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write(kind, tmp_path, files_of(kind)[name])
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = opened(kind, tmp_path)
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == peer(text, add_special_tokens=False)["input_ids"], text
        if kind == "gpt2":
            assert ours.decode(ids) == peer.decode(ids)
    ours.save(tmp_path / "tokenizer.json")
    again = opened(kind, tmp_path)
    assert [again.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]


@pytest.mark.parametrize("kind", SIZES)
def test_special_tokens_are_plain_text_and_named(kind: str, tmp_path: Path) -> None:
    free = SIZES[kind]
    write(kind, tmp_path, {})
    plain = opened(kind, tmp_path).encode("a<u>")
    entry = {"content": "<u>", "special": True}
    named = {"pad_token": "<u>"}
    extra = {"additional_special_tokens": ["<u>"]}
    for files in (
        decoder((free, entry)),
        {"added_tokens.json": {"<u>": free}, "tokenizer_config.json": named},
        {"added_tokens.json": {"<u>": free}, "special_tokens_map.json": extra},
    ):
        (tmp_path / "tokenizer_config.json").unlink(missing_ok=True)
        write(kind, tmp_path, files)
        ours = opened(kind, tmp_path)
        assert ours.encode("a<u>") == plain
        assert ours.tokens([free]) == ["<u>"]
        assert ours.decode([free]) == ""


REFUSED: dict[str, tuple[Files, str]] = {
    "taken": ({"added_tokens.json": {"<u>": 5}}, r"added_tokens\.json: '<u>' has the id 5 there, .*; save the tok"),
    "a gap": ({"added_tokens.json": {"<u>": 258}}, "'<u>' has the id 258 there, and would have 257 by the"),
    "beyond": ({"added_tokens.json": {"<u>": 261}}, "in the model's vocabulary, 0 to 260, got 261"),
    "below": ({"added_tokens.json": {"<u>": -1}}, "got -1"),
    "no number": ({"added_tokens.json": {"<u>": "257"}}, "the id of '<u>' must be a whole number"),
    "moved": ({"added_tokens.json": {END: 5}}, "has the id 5 there, and would have 256"),
    "two of one id": ({"added_tokens.json": {"<u>": 257, "<v>": 257}}, "two tokens have the same id, 257"),
    "no name": ({"added_tokens.json": {"": 257}}, "the content of a token must be a text, got ''"),
    "half a character": (decoder((257, {"content": "\ud800"})), "cannot be a token"),
    "no id": (decoder((257, {})), "the content of a token must be a text, got None"),
    "a list": ({"tokenizer_config.json": {"added_tokens_decoder": []}}, "added_tokens_decoder must be an object"),
    "a word": ({"tokenizer_config.json": {"added_tokens_decoder": {"257": "x"}}}, "each an object, got"),
    "a key": ({"tokenizer_config.json": {"added_tokens_decoder": {"x": {"content": "y"}}}}, "number, .* got 'x'"),
    "a flag": (decoder((257, {"content": "<u>", "lstrip": 1})), "lstrip of '<u>' must be true or false, got 1"),
    "extra": (
        {"special_tokens_map.json": {"additional_special_tokens": ["<u>"]}},
        "the special token '<u>' has no id in the vocabulary; save the tokenizer with transformers: AutoTok",
    ),
    "extra, described": (
        {"tokenizer_config.json": {"extra_special_tokens": {"image": {"content": "<u>"}}}},
        "the special token '<u>' has no id in the vocabulary",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_added_tokens_are_refused(name: str, tmp_path: Path) -> None:
    files, message = REFUSED[name]
    write("gpt2", tmp_path, files)
    with pytest.raises(RunError, match=message):
        opened("gpt2", tmp_path)


def test_a_sentencepiece_tokenizer_takes_none(tmp_path: Path) -> None:
    ids = {"</s>": 0, "a": 1}
    for files in ({}, {"added_tokens.json": {"</s>": 0}}, decoder((0, {"content": "</s>", "special": True}))):
        write("marian", tmp_path, files)
        refuse_tokens(Contents(tmp_path), ids, 3, ["</s>"])
    for entry in ((1, {"content": "a"}), (2, {"content": "<u>", "special": True})):
        write("marian", tmp_path, decoder(entry))
        with pytest.raises(RunError, match=r"adds the token .* not supported in a SentencePiece tokenizer"):
            refuse_tokens(Contents(tmp_path), ids, 3, ["</s>"])
