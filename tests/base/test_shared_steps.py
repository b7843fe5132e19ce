"""Gradients that are computed once for all steps of a recurrence are those of autograd, which adds them up."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from small_models import batch, fresh
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import trace
from regard.attention.kernels.products import inner_products, weighted_sums
from regard.base import shared_steps
from regard.base.shared_steps import linear, steps_share

MODELS = [
    *(("bahdanau", variant) for variant in ("plain", "dot soft", "general local-p", "cosine hard", "deep lstm")),
    *(("luong", variant) for variant in ("plain", "deep", "tied", "gru", "scaled_dot local-m")),
    ("luong", "plain, context fed, tied"),
    ("elmo", "plain"),
    *(("show_attend_tell", variant) for variant in ("plain", "general", "straight through")),
]  # fmt: skip
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]
DIM, ROWS, SIZE, STEPS = 5, 3, 4, 6


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls a function with autograd's own gradients."""

    def call(run: Any) -> Any:
        with monkeypatch.context() as inside:
            inside.setattr(shared_steps, "_steps_share", lambda memory: nullcontext())
            return run()

    return call


def gradients(model: nn.Module, dtype: torch.dtype | None = None, *, watched: bool = False) -> dict[str, Tensor]:
    torch.manual_seed(1)
    model.zero_grad()
    first = next(model.parameters())
    examples = batch(model).each(lambda x: x.to(first) if x.is_floating_point() else x.to(first.device))
    with (
        torch.autocast(first.device.type, dtype, enabled=dtype is not None),
        trace(model) if watched else nullcontext(),
    ):
        total = model.loss(examples).total  # type: ignore[operator]
    total.backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "variant"), MODELS)
def test_gradients_of_a_model_are_those_of_autograd(name: str, variant: str, device: str, without: Any) -> None:
    model = fresh(name, variant).to(device, torch.float64).train()
    wanted, found = without(lambda: gradients(model)), gradients(model)
    assert found.keys() == wanted.keys()
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["bahdanau", "luong", "show_attend_tell"])
def test_under_autocast_they_are_as_near_to_those_of_float32(name: str, device: str, without: Any) -> None:
    """A sum over steps is rounded once, not at every step."""
    model = fresh(name).to(device).train()
    exact = gradients(model)
    far, near = (
        sum(float((grads[each] - exact[each]).square().sum()) for each in exact)
        for grads in (without(lambda: gradients(model, torch.bfloat16)), gradients(model, torch.bfloat16))
    )
    assert near < 1.3 * far  # of different roundings
    assert near < 2e-3 * sum(float(grad.square().sum()) for grad in exact.values())


def test_a_trace_changes_nothing() -> None:
    model = fresh("bahdanau").double().train()
    torch.testing.assert_close(gradients(model, watched=True), gradients(model), rtol=1e-9, atol=1e-12)


def test_frozen_weights_get_none(without: Any) -> None:
    model = fresh("luong").double().train()
    for name in ("cells.0.hidden.weight", "feed.weight", "attend.score.weight.weight"):
        model.get_parameter(name).requires_grad_(False)
    model.combine.requires_grad_(False)
    wanted, found = without(lambda: gradients(model)), gradients(model)
    assert "cells.0.hidden.bias" in found
    assert "feed.weight" not in found
    assert "combine.bias" not in found
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


class Steps(nn.Module):
    """A small recurrence with a memory. The first weight is read outside the steps too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM, bias=False)
        self.memory, self.first = (
            nn.Parameter(torch.randn(ROWS, SIZE, DIM)),
            nn.Parameter(torch.randn(ROWS, 1, DIM)),
        )
        self.double()

    def step(self, state: Tensor, memory: Tensor) -> Tensor:
        weights = inner_products(linear(self.other, state), memory).softmax(-1)
        return (linear(self.one, state) + weighted_sums(weights, memory)).tanh()

    def forward(self) -> list[Tensor]:
        memory = self.one(self.memory)
        states = [self.first]
        with steps_share(memory):
            for _ in range(STEPS):
                states.append(self.step(states[-1], memory))
        return states


def both(run: Any, without: Any) -> None:
    torch.testing.assert_close(run(), without(run), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("read", [slice(1, 3), slice(5, 7), slice(2, 3), slice(0, 7), slice(0, 1)])
def test_where_some_steps_have_gradients(read: slice, without: Any) -> None:
    model = Steps()
    weights = list(model.parameters())
    both(lambda: torch.autograd.grad(sum(x.sum() for x in model()[read]), weights, allow_unused=True), without)


def test_several_backward_passes_of_a_graph(without: Any) -> None:
    """The first asks for no weight, the next for some, of some steps; then twice for all."""
    model = Steps()
    weights = list(model.parameters())

    def run() -> list[Tensor]:
        states = model()
        first = torch.autograd.grad(states[-1].sum(), model.first, retain_graph=True)
        some = torch.autograd.grad(states[3].square().sum(), [model.first, model.one.bias], retain_graph=True)
        every = [torch.autograd.grad(states[-1].sum(), weights, retain_graph=keep) for keep in (True, False)]
        return [*first, *some, *every[0], *every[1]]

    both(run, without)


def test_passes_add_up_and_a_graph_is_used_once(without: Any) -> None:
    model = Steps()

    def run() -> list[Tensor | None]:
        model.zero_grad()
        for _ in range(2):
            states = model()
            (states[-1] * states[2]).sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            states[-1].sum().backward()
        return [weight.grad for weight in model.parameters()]

    both(run, without)


def test_gradients_of_gradients(without: Any) -> None:
    model = Steps()
    weights = list(model.parameters())

    def run() -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(model()[-1].sum(), weights, create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), weights)

    both(run, without)


def test_a_hook_of_a_weight_sees_the_whole_gradient_once() -> None:
    """As those of processes that average gradients."""
    model, seen = Steps(), Counter[str]()
    for name, weight in model.named_parameters():
        weight.register_post_accumulate_grad_hook(lambda _, name=name: seen.update([name]))
    model()[-1].sum().backward()
    assert seen == dict.fromkeys(dict(model.named_parameters()), 1)


def test_layers_that_are_watched_or_not_torchs_own_are_called() -> None:
    model, seen = Steps(), []
    model.one.register_forward_hook(lambda *_: seen.append("hook"))
    model.other = nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh()).double()  # type: ignore[assignment]
    model()[-1].sum().backward()
    assert len(seen) == 1 + STEPS
    assert all(weight.grad is not None for weight in model.parameters())


def test_without_gradients_steps_leave_nothing_behind() -> None:
    """A step inside `no_grad`, as a trace computes it, must not give later steps what has no gradient."""
    model = Steps()
    with steps_share(model.memory):
        with torch.no_grad():
            assert model.step(model.first, model.memory).grad_fn is None
        model.step(model.first, model.memory).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_products_for_gradients_are_one_for_all_steps(without: Any) -> None:
    """Of the products of a step's backward pass, those for the gradients of weights and memory are gone."""

    def products(model: Steps) -> int:
        states = model()
        with Counting() as seen:
            states[-1].sum().backward()
        return sum(seen.counts[name] for name in ("mm", "bmm"))

    per_step = 4  # two weights, keys and values
    assert without(lambda: products(Steps())) - products(Steps()) == per_step * STEPS - 3  # keys are the values
