"""The kernels of a Neural Turing machine against its steps in plain PyTorch in float64.

They run on a GPU, or on a CPU by Triton's interpreter: TRITON_INTERPRET=1."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.models.ntm import sequence
from regard.models.ntm.model import NTM, NTMConfig, NTMState

GPU = torch.cuda.is_available()
INTERPRETED = importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = pytest.mark.skipif(not (GPU or INTERPRETED), reason="needs a GPU, or Triton with TRITON_INTERPRET=1")

TINY: dict[str, Any] = {"inputs": 5, "outputs": 4, "dim": 6, "heads": 1, "places": 7, "width": 3, "shift": 1}
TINY_KINDS: dict[str, dict[str, Any]] = {
    "lstm": TINY,
    "feedforward": TINY | {"controller": "feedforward"},
    "three heads": TINY | {"heads": 3, "shift": 2},
    "far moves": TINY | {"shift": 6, "heads": 2, "controller": "feedforward"},
    "one place wide": TINY | {"width": 1, "places": 2, "shift": 1},
    "powers of two": TINY | {"width": 4, "places": 8, "dim": 8},
}
LARGE = {"inputs": 9, "outputs": 8}
LARGE_KINDS = {
    f"{controller}, {heads} heads": LARGE | {"controller": controller, "heads": heads}
    for controller in ("lstm", "feedforward")
    for heads in (1, 4)
}
LARGE_KINDS["large memory"] = LARGE | {"places": 500, "width": 30, "dim": 200}
KINDS = {name: (config, 3, 4) for name, config in TINY_KINDS.items()}
KINDS |= {} if INTERPRETED else {name: (config, 10, 16) for name, config in LARGE_KINDS.items()}
Found = tuple[Tensor, list[Tensor]]


@pytest.fixture(autouse=True)
def _kernels_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    if INTERPRETED:
        monkeypatch.setattr(sequence, "fits", lambda ahead, memory: ahead.dtype == torch.float32)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each call of the kernels had."""
    seen: list[int] = []
    run = sequence.run
    monkeypatch.setattr(sequence, "run", lambda given: (seen.append(len(given.ahead)), run(given))[1])
    return seen


def machine(config: dict[str, Any]) -> NTM:
    """With heads that differ, in float32."""
    torch.manual_seed(0)
    model = NTM(NTMConfig(**config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.to(DEVICE)


def state(model: NTM, rows: int) -> NTMState:
    """In the middle of a sequence."""
    torch.manual_seed(1)
    first = model.begin(rows)
    held = first.memory
    held = held._replace(matrix=torch.randn_like(held.matrix), weights=torch.randn_like(held.weights).softmax(-1))
    cell = tuple(torch.randn_like(one) for one in first.cell)
    return NTMState(cell, torch.randn_like(first.read), held)


def parts(one: NTMState) -> list[Tensor]:
    return [*one.cell, one.read, *one.memory]


def found(model: NTM, inputs: Tensor, begin: NTMState | None) -> Found:
    """Logits, the state after the last step, and the gradients of the weights and of the state before the first."""
    given = [one.requires_grad_() for one in parts(begin)] if begin else []
    logits, after = model._run(inputs, begin or model.begin(len(inputs)))
    total = logits.square().sum() + (sum((one**2).sum() for one in parts(after)) if begin else 0)
    slopes = torch.autograd.grad(total, [*model.parameters(), *given], materialize_grads=True)
    return torch.cat([logits.flatten(), *(one.flatten() for one in parts(after))]), list(slopes)


def in_double(one: NTMState) -> NTMState:
    cell, held = tuple(part.double() for part in one.cell), one.memory
    return NTMState(
        cell, one.read.double(), held._replace(matrix=held.matrix.double(), weights=held.weights.double())
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "one place wide" else pytest.mark.thorough) for name in KINDS]
)
@pytest.mark.parametrize("middle", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_outputs_and_gradients_are_those_of_the_plain_steps(name: str, middle: bool, calls: list[int]) -> None:
    config, steps, rows = KINDS[name]
    model = machine(config)
    torch.manual_seed(2)
    inputs = torch.rand(rows, steps, config["inputs"], device=DEVICE).round()
    begin = state(model, rows) if middle else None
    ours, slopes = found(model, inputs, begin)
    assert calls == [steps]
    double = in_double(state(model, rows)) if middle else None
    theirs, exact = found(model.double(), inputs.double(), double)
    assert calls == [steps]
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=2e-4)
    for one, two in zip(slopes, exact, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=1e-3, atol=5e-4 * float(two.abs().max()) + 1e-7)


@pytest.mark.parametrize("config", [TINY, TINY | {"controller": "feedforward"}])
@torch.no_grad()
def test_steps_without_gradients(config: dict[str, Any], calls: list[int]) -> None:
    model, inputs = machine(config), torch.rand(2, 5, 5, device=DEVICE)
    whole, now = model(inputs), model.begin(2)
    for step in range(5):
        logits, now = model.step(inputs[:, step], now)
        torch.testing.assert_close(logits, whole[:, step])
    assert calls == [5, 1, 1, 1, 1, 1]
    torch.testing.assert_close(whole.double(), model.double()(inputs.double()), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_trace_takes_the_plain_steps(calls: list[int]) -> None:
    model, inputs = machine(TINY | {"heads": 2}), torch.rand(2, 3, 5, device=DEVICE)
    plain = model(inputs)
    with trace(model, model.alignment) as seen:
        torch.testing.assert_close(model(inputs), plain, rtol=1e-4, atol=1e-5)
    assert calls == [3]
    assert seen[model.alignment].shape == (2, 4, 3, 7)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize(("changes", "fits"), [({}, True), ({"places": 1000}, False), ({"width": 200}, False)])
def test_a_large_memory_takes_the_plain_steps(changes: dict[str, int], fits: bool, calls: list[int]) -> None:
    model = machine(LARGE | changes)
    model(torch.rand(2, 3, 9, device=DEVICE))
    assert calls == ([3] if fits else [])
