"""`regard export`: a folder of `transformers` that answers the same, or a refusal that says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

import regard


@pytest.mark.parametrize("name", ["gpt2", "transformer"])
def test_an_exported_run_answers_the_same(name: str, call: Any, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    done = call("export", run, "--to", "out")
    assert (done.code, done.out, done.err) == (0, "out\n", "")
    names = {path.name for path in Path("out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "README.md"} <= names
    assert not names & {"recipe.toml", "log.jsonl", "training", "loss.svg"}
    command, words = (
        ("generate", ("--temperature", 0, "--max-tokens", 40))
        if name == "gpt2"
        else ("translate", ("--max-length", 20))
    )
    first, second = (call(command, run, "9 b", "a c", *words) for run in (run, "out"))
    assert first == second
    assert first.code == 0
    assert [path.name for path in Path().iterdir()] == ["out"]


def test_a_smaller_dtype_is_half_the_size(call: Any, gpt2: str) -> None:
    assert call("export", gpt2, "--to", "out", "--dtype", "bfloat16").code == 0
    small, large = (load_file(Path(name) / "model.safetensors") for name in ("out", gpt2))
    assert {tensor.dtype for tensor in small.values()} == {torch.bfloat16}
    assert all(torch.equal(small[name], tensor.bfloat16()) for name, tensor in large.items())
    assert json.loads(Path("out/config.json").read_text())["dtype"] == "bfloat16"
    assert call("generate", "out", "9 b", "--temperature", 0).code == 0


def test_what_cannot_be_exported_is_refused_by_name(
    call: Any, gpt2: str, run: str, rnnlm: str, texts: Path
) -> None:
    words = ("--set", "model.norm=pre", "--set", "train.steps=1")
    assert call("train", texts / "transformer.toml", *words, "--out", texts / "pre").code == 0
    for name, said in (
        (run, "cannot be exported: transformers has no model like bahdanau"),
        (texts / "pre", "cannot be exported: Marian is post-norm (model.norm = post), and this model is pre-norm"),
        (rnnlm, "cannot be exported: transformers has no model like rnnlm"),
        ("nothing", "there is no run 'nothing'"),
    ):
        done = call("export", name, "--to", "out")
        assert (done.code, done.out) == (2, "")
        assert said in done.err
    assert not list(Path().iterdir())
    Path("out").mkdir()
    done = call("export", gpt2, "--to", "out")
    assert (done.code, done.err) == (2, "error: out already exists; name a folder that does not\n")
    done = call("export", gpt2, "--to", "other", "--dtype", "int8")
    assert (done.code, done.out) == (2, "")
    assert "dtype must be one of float32, bfloat16, float16, got 'int8'" in done.err
    assert [path.name for path in Path().iterdir()] == ["out"]
    assert not list(Path("out").iterdir())


@pytest.mark.thorough  # docs/tools.md does so with a run that answers questions, test_onnx.py with every model
def test_a_classifier_becomes_a_graph_of_onnx(call: Any, classifier: str) -> None:
    done = call("export", classifier, "--to", "out", "--format", "onnx")
    assert (done.code, done.out, done.err) == (0, "out\n", "")
    assert {path.name for path in Path("out").iterdir()} >= {"model.onnx", "config.json", "tokenizer.json"}
    assert not list(Path("out").glob("*.safetensors"))
    tokenizer = Tokenizer.from_file("out/tokenizer.json")
    tokenizer.enable_padding()
    texts = ["the cat sat", "a dog barked at the cats !"]
    rows = tokenizer.encode_batch(texts)
    given = {
        "input_ids": np.array([row.ids for row in rows]),
        "attention_mask": np.array([row.attention_mask for row in rows]),
        "token_type_ids": np.array([row.type_ids for row in rows]),
    }
    [logits] = onnxruntime.InferenceSession("out/model.onnx").run(["logits"], given)
    found = torch.tensor(logits).softmax(-1)
    run = regard.load(classifier)
    for text, row in zip(texts, found, strict=True):
        wanted = run.classify(text).probabilities
        assert dict(zip(run.model.config.labels, row.tolist(), strict=True)) == pytest.approx(wanted, abs=1e-5)


def test_what_is_no_encoder_is_refused_by_name_with_what_to_do(call: Any, gpt2: str, run: str, rnnlm: str) -> None:
    grows = "writes one token after the other, from a state that grows, and a graph of ONNX has none; "
    for name, said in (
        (gpt2, f"a GPT2 {grows}leave --format out, which writes it for transformers, or take --format ctranslate2"),
        (run, f"a Bahdanau {grows}torch.export takes every model's forward"),
        (rnnlm, f"a RNNLM {grows}torch.export takes every model's forward"),
        ("copy", "the format onnx is for Bert, Pooling, HAN, ViT, SENet, and this is a NTM; torch.export takes"),
    ):
        done = call("export", name, "--to", "out", "--format", "onnx")
        assert (done.code, done.out) == (2, "")
        assert f"cannot be exported to ONNX: {said}" in done.err
    done = call("export", gpt2, "--to", "out", "--format", "onnx", "--dtype", "float16")
    assert (done.code, done.out) == (2, "")
    assert "dtype must be one of float32, got 'float16' for the format onnx" in done.err
    assert not list(Path().iterdir())
