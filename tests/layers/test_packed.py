"""Products by packed weights are the same products."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_models import build

import regard
from regard.attention import BufferedMemory
from regard.base.tensors import checksum, named_tensors
from regard.layers import packed
from regard.layers.fused_step import fits
from regard.layers.packed import FEW, PackedLinear, pack_products
from regard.layers.recurrent import Stack

pytestmark = pytest.mark.skipif(not packed.X86 or not torch.backends.mkl.is_available(), reason="x86 with MKL")


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small weights too."""
    monkeypatch.setattr(packed, "LARGE", 1)


def made(inputs: int = 40, outputs: int = 56, *, bias: bool = True) -> Any:
    torch.manual_seed(0)
    part = torch.nn.Sequential(torch.nn.Linear(inputs, outputs, bias=bias)).eval()
    assert pack_products(part) == 1
    return part[0]


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 17, 64, 65, 200, 513])
@pytest.mark.parametrize("bias", [True, False])
def test_any_number_of_rows_is_multiplied(rows: int, bias: bool) -> None:
    part = made(bias=bias)
    with torch.no_grad():
        for inputs in (torch.randn(rows, 40), torch.randn(40, rows).t(), torch.randn(2, rows, 40)):
            torch.testing.assert_close(part(inputs), F.linear(inputs, part.weight, part.bias))
    assert (part.packed.weight is None) == (2 * rows < FEW)


def test_weights_that_change_are_packed_again() -> None:
    part, x = made(), torch.randn(8, 40)
    for change in (
        lambda: part.weight.mul_(2),
        lambda: part.load_state_dict({"weight": torch.randn(56, 40), "bias": torch.zeros(56)}),
        lambda: setattr(part.weight, "data", torch.randn(56, 40)),
        lambda: part.double().float(),
        lambda: part.double(),
    ):
        with torch.no_grad():
            part(x.to(part.weight.dtype))
            change()
            y = x.to(part.weight.dtype)
            torch.testing.assert_close(part(y), F.linear(y, part.weight, part.bias))


def test_it_learns_and_is_copied_as_any_other() -> None:
    part, x = made(), torch.randn(8, 40)
    with torch.inference_mode():
        right = part(x)
    for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
        with torch.no_grad():
            torch.testing.assert_close(other(x), right)
    part(x).sum().backward()
    torch.testing.assert_close(part.weight.grad, x.sum(0).expand(56, 40))
    assert str(part) == "Linear(in_features=40, out_features=56, bias=True)"
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert part(x).dtype == torch.bfloat16


def test_a_model_that_is_large_for_the_machine_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SHARE", 1 << 60)
    assert pack_products(torch.nn.Linear(64, 64)) == 0


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@torch.no_grad()
def test_steps_of_recurrent_layers_are_the_same(kind: str) -> None:
    stack = Stack(kind, 12, 16, layers=2).eval()
    x = torch.randn(FEW, 3, 12)
    usual = [stack(x[:, :1], stack.begin(x))]
    usual.append(stack(x[:, 1:2], usual[0][1]))
    assert pack_products(stack) == 4
    mine = [stack(x[:, :1], stack.begin(x))]
    mine.append(stack(x[:, 1:2], mine[0][1]))
    torch.testing.assert_close(mine, usual)
    assert all(part.weight is not None for layer in stack.packed for part in layer)
    few = stack(x[:2, :1], stack.begin(x[:2]))
    torch.testing.assert_close(few[0], usual[0][0][:2])
    torch.testing.assert_close(copy.deepcopy(stack)(x[:, :1], stack.begin(x)), usual[0])


@pytest.mark.parametrize("name", ["transformer", "gpt2", "bahdanau", "rnnlm"])
def test_a_model_keeps_its_weights(name: str) -> None:
    model = build(name).eval()
    before = checksum(named_tensors(model).items())
    tied = sum(part.weight is model.out.weight for part in model.modules() if hasattr(part, "weight"))
    assert pack_products(model)
    with torch.no_grad():
        model.out(torch.randn(FEW, model.out.in_features))
    assert model.out.packed.weight is not None
    assert checksum(named_tensors(model).items()) == before
    assert sum(part.weight is model.out.weight for part in model.modules() if hasattr(part, "weight")) == tied


def test_a_model_elsewhere_is_left_as_it_is() -> None:
    """Kernels of a GPU read the weights of plain layers."""
    model = build("gpt2")
    assert pack_products(model)
    model.to("meta")
    assert type(model.blocks[0].feed.inner) is torch.nn.Linear
    assert not pack_products(model)
    assert type(model.blocks[0].feed.inner) is torch.nn.Linear


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@torch.no_grad()
def test_a_run_on_a_gpu_takes_the_fused_step() -> None:
    run = regard.load("shakespeare", device="cuda")
    x = torch.zeros(1, run.model.config.dim, device="cuda")
    pasts = [BufferedMemory(*torch.zeros(2, 1, 1, 4, 16, device="cuda"), x > 0, x) for _ in run.model.blocks]
    assert fits(run.model.blocks, x, pasts) == ""


def test_a_run_that_is_loaded_is_saved_and_loaded_again(tmp_path: Path) -> None:
    run = regard.load("shakespeare", device="cpu")
    assert type(run.model.blocks[0].feed.inner) is PackedLinear
    run.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy", device="cpu")
    for name, tensor in named_tensors(run.model).items():
        assert torch.equal(tensor, named_tensors(again.model)[name])
    run.export(tmp_path / "out")
    assert regard.load(tmp_path / "out").generate("a", max_tokens=3, temperature=0.0).text
