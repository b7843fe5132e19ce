"""Folders without a tokenizer, as `model.save_pretrained(folder)` leaves them: the model opens, text is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard.tasks.core.recipe import read
from regard.tasks.core.training import train

transformers = pytest.importorskip("transformers")

SMALL = {"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=12, n_embd=8, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def bert() -> Any:
    config = transformers.BertConfig(**SMALL, intermediate_size=16, max_position_embeddings=16)
    return transformers.BertForMaskedLM(config)


def marian() -> Any:
    sizes = {f"{side}_{name}": 1 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    sizes |= {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "d_model": 8, "max_position_embeddings": 16}
    tokens = {"pad_token_id": 11, "eos_token_id": 0, "decoder_start_token_id": 11, "forced_eos_token_id": 0}
    return transformers.MarianMTModel(transformers.MarianConfig(vocab_size=12, **sizes, **tokens))


def vit() -> Any:
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4
    )
    return transformers.ViTForImageClassification(config)


ASKED = {
    gpt2: lambda run: run.generate("a"),
    bert: lambda run: run.fill("a [MASK]"),
    marian: lambda run: run.translate("a"),
}


@pytest.mark.parametrize("build", ASKED)
def test_the_model_opens_and_text_is_refused(build: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    build().save_pretrained(tmp_path / "bare")
    model = regard.load_model(tmp_path / "bare")
    assert isinstance(model, nn.Module)
    assert not model.training
    run = regard.load(tmp_path / "bare", device="cpu")
    assert type(model).__name__ in repr(run)
    with pytest.raises(regard.NoTokenizer, match=r"bare holds no tokenizer.*; it needs tokenizer\.json"):
        ASKED[build](run)
    run.save(tmp_path / "saved")  # as bare as it was
    for one, other in zip(model.parameters(), regard.load_model(tmp_path / "saved").parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(regard.NoTokenizer, match="holds no tokenizer"):
        run.export(tmp_path / "exported")
    assert {path.name for path in tmp_path.iterdir()} == {"bare", "saved"}


def test_a_bare_language_model_computes_the_same(tmp_path: Path) -> None:
    theirs = gpt2().eval()
    theirs.save_pretrained(tmp_path)
    model: Any = regard.load_model(tmp_path)
    tokens = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        states = model.states(tokens)
        logits = states @ model.embed.weight.T
        assert torch.allclose(logits, theirs(tokens).logits, atol=1e-5)


def test_images_need_no_tokenizer(tmp_path: Path) -> None:
    vit().save_pretrained(tmp_path)
    image = torch.randint(0, 256, (8, 8, 3), dtype=torch.uint8).numpy()
    assert regard.load(tmp_path, task="recognise").recognise(image).label.startswith("LABEL_")


@pytest.mark.parametrize("name", ["dates", "shapes"])
def test_the_module_of_a_shipped_run(name: str) -> None:
    model, run = regard.load_model(name), regard.load(name, device="cpu")
    assert type(model) is type(run.model)
    assert not model.training
    for one, other in zip(model.parameters(), run.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_run_without_its_tokenizer(run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    (folder / "tokenizer.json").unlink()
    opened = regard.load(folder, task="translate")
    with pytest.raises(
        regard.NoTokenizer, match=r"tokenizer\.json does not exist, and without it this run reads no text"
    ):
        opened.translate("ab")
    with pytest.raises(regard.NoTokenizer, match="reads no text"):
        opened.evaluate()


def test_without_the_tokenizer_of_the_source(words: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    job, text = read(words, ["train.steps=1", "decode.max_length=2"])
    train(job, folder, recipe=text, command="")
    (folder / "source_tokenizer.json").unlink()
    with pytest.raises(regard.NoTokenizer, match=r"source_tokenizer\.json does not exist"):
        regard.load(folder, task="translate").translate("one")


def test_training_does_not_begin_with_a_bare_model(tmp_path: Path) -> None:
    gpt2().save_pretrained(tmp_path / "bare")
    (tmp_path / "text.txt").write_text("a b c\n" * 20)
    job, text = read("gpt2-text", [f"data.train={tmp_path / 'text.txt'}"], tmp_path / "bare")
    with pytest.raises(regard.NoTokenizer, match="holds no tokenizer"):
        train(job, tmp_path / "out", recipe=text, command="", start=tmp_path / "bare")
    assert not (tmp_path / "out").exists()


def test_torch_is_not_imported_before_it_is_needed() -> None:
    code = """
import sys, regard
kinds = {name: kind for name, kind in vars(regard.errors).items() if isinstance(kind, type)}
assert len(kinds) > 8
assert all(getattr(regard, name) is kind and name in regard.__all__ for name, kind in kinds.items())
assert {"load", "train", "learn", "Translator"} <= set(dir(regard))
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
