"""A look of a decoder's step by one kernel, against the exact one in float64: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from small_models import batch, fresh
from torch import Tensor

from regard.attention import Attend, Question, trace
from regard.attention import attend as attending
from regard.attention.kernels import step_look
from regard.attention.score import build_score
from regard.base.shared_steps import steps_share

INTERPRETED = step_look.step_look_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]
# B, K, D (of a query), V
SIZES = [
    (3, 7, 9, 5),
    pytest.param((1, 1, 1, 1), marks=GPU),
    pytest.param((256, 20, 512, 1024), marks=GPU),
    pytest.param((5, 196, 513, 300), marks=GPU),
    pytest.param((3, 256, 8, 1030), marks=GPU),
]
SCORES = [("additive", True), ("general", False), ("scaled_dot", True), ("cosine", False)]  # and whether masked
STEPS = 3


@pytest.fixture(autouse=True)
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """How many looks were by the kernel, on a CPU too."""
    looks, usual = [], attending.look_of_step

    def counted(*args: Any, **options: Any) -> Any:
        looks.append(1)
        return usual(*args, **options)

    monkeypatch.setattr(attending, "look_of_step", counted)
    if not torch.cuda.is_available():
        monkeypatch.setattr(attending, "has_kernel_for_step", lambda *sides: sides[0].dtype != torch.float64)
    return looks


def steps(
    attend: Attend, states: Tensor, queries: Tensor, mask: Tensor | None, factors: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """What the steps computed, and the gradients of a sum of it; the last step gets none."""
    inputs = [states, queries, *attend.parameters()]
    memory = attend.remember(states, mask=mask)
    with steps_share(memory.keys, memory.values):
        looks = [attend.look(Question(query[:, None]), memory) for query in queries.unbind(1)]
    read, weights, scores = (
        torch.cat([getattr(look, x) for look in looks], 1) for x in ("read", "weights", "scores")
    )
    seen = True if mask is None else mask[:, None]
    scores = scores.where(torch.as_tensor(seen, device=scores.device), 0)
    early = slice(0, STEPS - 1)
    parts = ((x[:, early] * factor[: x.shape[0], early, : x.shape[2]]).sum() for x, factor in zip(
        (read, weights, scores), factors, strict=True
    ))  # fmt: skip
    grads = torch.autograd.grad(sum(parts), inputs)  # type: ignore[arg-type]
    return [x.detach() for x in (read, weights, scores)], list(grads)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("score", "masked"), SCORES)
@pytest.mark.parametrize("size", SIZES)
def test_looks_and_gradients_are_those_of_float64(
    size: tuple[int, ...], score: str, masked: bool, device: str, by_kernel: list[int]
) -> None:
    torch.manual_seed(0)
    rows, places, dim, width = size
    if score not in ("additive", "general"):
        dim = width  # the keys are the values, or made of them without a projection
    attend = Attend(build_score(score, dim, width, max_positions=1)).to(device)
    if score == "additive":
        attend.score.query_weight.weight.data[: dim // 2] *= 100  # beyond the limit of the exponentials
    states, queries = torch.randn(rows, width, places).mT, torch.randn(rows, STEPS, dim)  # strides of any kind
    factors = torch.randn(3, rows, STEPS, max(places, width))
    mask = torch.arange(places) < torch.randint(1, places + 1, (rows, 1)) if masked else None
    if mask is not None:
        mask[-1] = rows == 1  # nothing to look at
    wide = [x.to(device).double().requires_grad_() for x in (states, queries)]
    mask = None if mask is None else mask.to(device)
    wanted = steps(attend.double(), *wide, mask, factors.to(device).double())
    assert not by_kernel
    narrow = [x.to(device).requires_grad_() for x in (states, queries)]
    found = steps(attend.float(), *narrow, mask, factors.to(device))
    assert len(by_kernel) == STEPS
    for mine, its in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
        assert mine.dtype == torch.float32
        scale = max(1.0, float(its.abs().max()))
        assert float((mine.double() - its).abs().max()) < 3e-5 * scale


def distance(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """The squares of the differences, as a share of those of the numbers."""
    assert found.keys() == wanted.keys()
    far = sum(float((found[name] - wanted[name]).square().sum()) for name in wanted)
    return far / sum(float(grad.square().sum()) for grad in wanted.values())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("bahdanau", True),
        ("luong", False),
        pytest.param("bahdanau", False, marks=GPU),
        pytest.param("luong", True, marks=GPU),
        pytest.param("show_attend_tell", True, marks=GPU),
    ],
)
def test_models_learn_the_same(name: str, half: bool, device: str, by_kernel: list[int]) -> None:
    """As without the kernel, traced and under autocast too."""
    model = fresh(name).train().to(device)
    examples = batch(model).to(torch.device(device))

    def gradients(watched: bool) -> dict[str, Tensor]:
        model.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            if watched:
                with trace(model) as seen:
                    total = model.loss(examples).total
                assert seen
            else:
                total = model.loss(examples).total
        total.backward()
        return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}

    found = gradients(False)
    assert by_kernel
    assert distance(gradients(True), found) < (1e-5 if half else 1e-6)  # scores in bfloat16 are rounded
    by_kernel.clear()
    with pytest.MonkeyPatch.context() as without:
        without.setattr(attending, "has_kernel_for_step", lambda *sides: False)
        wanted = gradients(False)
    assert not by_kernel
    assert distance(found, wanted) < (1e-3 if half else 1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_gradients_are_refused(device: str) -> None:
    attend = Attend(build_score("dot", 4, 4, max_positions=1)).to(device)
    states = torch.randn(2, 3, 4, device=device, requires_grad=True)
    memory = attend.remember(states)
    with steps_share(memory.keys, memory.values):
        read = attend.look(Question(states[:, :1]), memory).read
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(read.sum(), states, create_graph=True)
