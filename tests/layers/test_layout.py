"""Weights laid out for the processor are the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_models import build

import regard
from regard.base.tensors import checksum, named_tensors
from regard.layers import layout
from regard.layers.layout import lay_out


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small weights too, on every processor."""
    monkeypatch.setattr(layout, "X86", True)
    monkeypatch.setattr(layout, "SMALL", 1)


@pytest.mark.parametrize("name", ["transformer", "gpt2", "bahdanau", "rnnlm"])
def test_the_same_numbers_stand_input_first(name: str) -> None:
    model = build(name).eval()
    before, first = checksum(named_tensors(model).items()), model.out.weight.detach().clone()
    tied = sum(part.weight is model.out.weight for part in model.modules() if hasattr(part, "weight"))
    lay_out(model)
    assert model.out.weight.stride()[0] == 1
    assert torch.equal(model.out.weight, first)
    assert checksum(named_tensors(model).items()) == before
    assert sum(part.weight is model.out.weight for part in model.modules() if hasattr(part, "weight")) == tied
    x = torch.randn(3, model.out.in_features)
    torch.testing.assert_close(model.out(x), torch.nn.functional.linear(x, first, model.out.bias))


def test_a_run_that_is_loaded_is_saved_and_loaded_again(tmp_path: Path) -> None:
    run = regard.load("shakespeare", device="cpu")
    assert run.model.blocks[0].feed.inner.weight.stride()[0] == 1
    run.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy", device="cpu")
    for name, tensor in named_tensors(run.model).items():
        assert torch.equal(tensor, named_tensors(again.model)[name])
    run.export(tmp_path / "out")
    assert regard.load(tmp_path / "out").generate("a", max_tokens=3, temperature=0.0).text
