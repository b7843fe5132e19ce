"""Settings of GPT-2's tokenizer that change its ids: as in `transformers`, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch

from regard.data.artifacts import Artifacts
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign.contents import Contents
from regard.foreign.tokenizers import open_bert, open_text
from regard.models.gpt2 import GPT2, GPT2Config
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import load
from regard.tasks.shared.export import export

TEXTS = ["The cat sat.", "", " a dog", "naïve 😀", "\n"]
END = "<|endoftext|>"
VECTORS = {"dim": 8, "layers": 1, "heads": 2, "max_positions": 32}


def write_tokens(folder: Path, *, whole: dict[str, Any] | None = None, config: dict[str, Any] | None = None) -> int:
    """vocab.json and merges.txt; with `whole` a tokenizer.json of the same, changed so. How many ids there are."""
    folder.mkdir(parents=True, exist_ok=True)
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator(["The cat sat on the mat, and the dog, too."] * 9, trainer)
    described = json.loads(inner.to_str())
    model = described["model"]
    size = len(model["vocab"]) + 1
    model["vocab"][END] = size - 1
    if whole is None:
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, model["merges"]), ""]))
    else:
        (folder / "tokenizer.json").write_text(json.dumps(described | whole))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return size


def template(*names: str) -> dict[str, Any]:
    """A post-processor; "$A" is the text."""
    made = tokenizers.processors.TemplateProcessing(single=list(names), special_tokens=[(END, SIZE - 1)])
    return {"post_processor": json.loads(made.__getstate__())}


SIZE = 278
SPACE = {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}
TRIM = {"post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}}
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
CASES: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {
    "as it is": (None, None),
    "a space": (None, {"add_prefix_space": True}),
    "no space": (None, {"add_prefix_space": False, "add_bos_token": False}),
    "a start": (None, {"add_bos_token": True}),
    "a start by another name": (None, {"add_bos_token": True, "bos_token": "!"}),
    "both": (None, {"add_bos_token": True, "add_prefix_space": True, "tokenizer_class": "GPT2Tokenizer"}),
    "whole": ({}, None),
    "whole, trimmed": (TRIM, None),
    "whole with a space, which is not asked for": (SPACE, {"tokenizer_class": "GPT2TokenizerFast"}),
    "whole with a space, asked for": (SPACE, {"add_prefix_space": True}),
    "whole and a space asked for": ({}, {"add_prefix_space": True}),
    "whole with a space of its own": (SPACE, FAST),
    "whole and a space that is not asked": ({}, FAST | {"add_prefix_space": True}),
    "whole with a start": (template(END, "$A"), None),
    "whole with a start of its own": (template(END, "$A"), FAST | {"bos_token": END}),
    "whole with two": (template(END, END, "$A"), FAST),
    "whole and a start that is not asked": ({}, {"add_bos_token": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_prompts_are_the_ids_of_transformers(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    whole, config = CASES[name]
    assert write_tokens(tmp_path, whole=whole, config=config) == SIZE
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = open_text(Contents(tmp_path), vocabulary=SIZE, special=Special(*[SIZE - 1] * 3, -1))
    assert isinstance(ours, Tokenizer)
    for text in TEXTS:
        if "another name" not in name or "!" not in text:
            assert [*ours.before, *ours.encode(text)] == peer(text)["input_ids"], text


def save_model(folder: Path) -> None:
    """The model's part of the folder; the tokenizer's is there."""
    torch.manual_seed(0)
    model = GPT2(GPT2Config(SIZE, **VECTORS)).eval()
    tokens = open_text(Contents(folder), vocabulary=SIZE, special=Special(*[SIZE - 1] * 3, -1))
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    begin(folder, model, Artifacts(tokens), "")
    save_weights(folder, model)
    (folder / "tokenizer.json").unlink()
    for path, raw in kept.items():
        path.write_bytes(raw)


def test_a_model_reads_them_and_an_export_keeps_them(tmp_path: Path) -> None:
    write_tokens(tmp_path / "run", config={"add_bos_token": True, "add_prefix_space": True})
    save_model(tmp_path / "run")
    run = load(tmp_path / "run")
    ids = run.read("The cat")
    assert run.tokenizer.tokens(ids) == [END, " ", "The", " cat"]
    assert run.read("") == [SIZE - 1]
    assert run.generate("The").text is not None
    export(tmp_path / "run", tmp_path / "out")
    assert load(tmp_path / "out").read("The cat") == ids


BAD: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None, str]] = {
    "an end": (
        None,
        {"add_eos_token": True},
        r"tokenizer_config\.json: add_eos_token puts the ids \[277\] after a text, .* then; set it to false",
    ),
    "an end in the file": (template("$A", END), None, r"tokenizer\.json: its post-processor puts .* remove post"),
    "the text twice": (template("$A", "$A"), None, "its post-processor must add ids of the model to a text"),
    "no text": (template(END), None, "its post-processor must add ids of the model to a text"),
    "a start that is no token": (
        None,
        {"add_bos_token": True, "bos_token": "<s>"},
        "adds '<s>' to texts, which has",
    ),
    "a start that is no name": (
        None,
        {"add_bos_token": True, "bos_token": 3},
        "bos_token must be the name of a tok",
    ),
    "a word for a switch": (None, {"add_bos_token": "yes"}, "add_bos_token must be true or false, got 'yes'"),
    "a number for a switch": (None, {"add_prefix_space": 1}, "add_prefix_space must be true or false, got 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_followed_is_refused(name: str, tmp_path: Path) -> None:
    whole, config, message = BAD[name]
    write_tokens(tmp_path, whole=whole, config=config)
    with pytest.raises(RunError, match=message):
        open_text(Contents(tmp_path), vocabulary=SIZE, special=Special(*[SIZE - 1] * 3, -1))


def test_ids_that_a_post_processor_adds_must_be_the_models(tmp_path: Path) -> None:
    write_tokens(tmp_path, whole=template(END, "$A"))
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"ids": [277]', '"ids": [9000]'))
    with pytest.raises(RunError, match=r"must add ids of the model to a text, got \[9000, "):
        open_text(Contents(tmp_path), vocabulary=SIZE, special=Special(*[SIZE - 1] * 3, -1))


def test_a_translator_closes_texts_itself(tmp_path: Path) -> None:
    """As the post-processor says, or without one; nothing else may be added."""
    special, end = Special(0, 0, SIZE - 1, -1), {"vocabulary": SIZE, "closes": True}
    for some in ((), ("$A", END)):
        write_tokens(tmp_path, whole=template(*some) if some else {})
        assert open_text(Contents(tmp_path), special=special, **end).before == ()
    write_tokens(tmp_path, whole=template(END, "$A"))
    with pytest.raises(RunError, match=r"adds the ids \[277\] to a text, and only the end token after it, 277"):
        open_text(Contents(tmp_path), special=special, **end)


# ---- BERT


def bert(folder: Path, post: Any, config: dict[str, Any]) -> Tokenizer:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat"]
    inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(dict(zip(pieces, range(7), strict=True))))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    if post is not None:
        inner.post_processor = post
    inner.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return open_bert(Contents(folder), vocabulary=7, pad=0, pairs=config.get("pairs", True))


USUAL = ("[SEP]", 3), ("[CLS]", 2)
NAMED = [("[CLS]", 2), ("[SEP]", 3)]
PAIR = "[CLS] $A [SEP] $B:1 [SEP]:1"


def test_bert_is_told_by_its_post_processor(tmp_path: Path) -> None:
    process = tokenizers.processors
    for post in (process.BertProcessing(*USUAL), process.TemplateProcessing("[CLS] $A [SEP]", PAIR, NAMED)):
        assert bert(tmp_path, post, FAST).encode("the cat") == [5, 6]
    assert bert(tmp_path, None, {}).encode("the cat") == [5, 6]
    for post in (None, process.TemplateProcessing("[CLS] $A", PAIR, NAMED)):
        with pytest.raises(RunError, match=r"makes something else of a text than \[CLS\] A \[SEP\], .*; save"):
            bert(tmp_path, post, FAST)
    for post in (
        process.RobertaProcessing(*USUAL),
        process.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", NAMED),
    ):
        with pytest.raises(RunError, match="makes something else of a pair than"):
            bert(tmp_path, post, {})
        assert bert(tmp_path, post, {"pairs": False}).encode("the") == [5]
