"""The exact look of one query in one kernel, against the plain one in float64: on a GPU, or by Triton's
interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import Additive, Attend, Cosine, General, Location, Look, Memory, Question, ScaledDot, trace
from regard.attention import attend as attending
from regard.attention.kernels import few
from regard.attention.weigh import Hard, LocalPredictive

INTERPRETED = few.look_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]
SCORES: dict[str, Callable[[int], Any]] = {
    "additive": lambda dim: Additive(dim, dim, dim=dim + 3),
    "cosine": lambda dim: Cosine(dim, dim),
    "general": lambda dim: General(dim, dim),
    "scaled_dot": lambda dim: ScaledDot(dim, dim),
}
SMALL = [(3, 1, 7, 6, 9), (2, 1, 20, 40, 700)]  # B, Q, K, D, V
LARGE = [(64, 1, 32, 512, 512), (320, 1, 32, 512, 512), (64, 1, 64, 512, 1024), (5, 1, 512, 300, 70)]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(params=DEVICES)
def used(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[Any]]:
    """A device where the kernel is used, and its calls."""
    calls: list[Any] = []

    def look(*given: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
        calls.append(given)
        return few.look_once(*given, **options)

    monkeypatch.setattr(attending, "look_once", look)
    if request.param == "cpu":
        gradients = torch.is_grad_enabled
        monkeypatch.setattr(
            attending, "has_kernel_for_look", lambda *sides: not gradients() and few.can_look(*sides)
        )
    return request.param, calls


def compare(score: str, sizes: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    """Rows with padding, which holds NaN, and one that may look nowhere."""
    torch.manual_seed(0)
    rows, count, places, dim, width = sizes
    attend = Attend(SCORES[score](dim)).to(dtype).eval()
    query, keys = torch.randn(rows, count, dim).to(dtype), torch.randn(rows, places, dim).to(dtype)
    values = torch.randn(rows, places, width).to(dtype)
    mask = torch.arange(places) < places - torch.arange(rows)[:, None] % 3
    mask[-1] = False
    wide = attend.double()
    wanted = wide.look(query.double(), wide.remember(keys.double(), values.double(), mask))
    attend = attend.to(dtype).to(device)
    memory = attend.remember(keys.to(device), values.to(device), mask.to(device))
    hidden = ~mask.to(device)[..., None]
    memory = Memory(memory.keys, memory.values.masked_fill(hidden, torch.nan), memory.mask)
    look = attend.look(query.to(device), memory)
    for name in ("read", "weights", "scores"):
        found, want = getattr(look, name), getattr(wanted, name)
        assert found.dtype == dtype
        slack = TOLERANCE[dtype] * max(1.0, wanted.scores[:-1].abs().max().item())  # weights are e to the scores
        torch.testing.assert_close(found.cpu().double(), want, rtol=0, atol=slack)
    assert not look.weights[-1].any()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("sizes", SMALL)
@torch.no_grad()
def test_the_same_looks(sizes: tuple[int, ...], score: str, used: tuple[str, list[Any]]) -> None:
    device, calls = used
    compare(score, sizes, torch.float32, device)
    assert len(calls) == 1


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("sizes", LARGE)
@pytest.mark.parametrize("used", DEVICES[1:], indirect=True)
@torch.no_grad()
def test_the_same_looks_at_large_memories(
    sizes: tuple[int, ...], score: str, dtype: torch.dtype, used: tuple[str, list[Any]]
) -> None:
    compare(score, sizes, dtype, used[0])
    assert len(used[1]) == 1


@torch.no_grad()
def test_a_memory_without_a_mask_and_with_strides(used: tuple[str, list[Any]]) -> None:
    device, calls = used
    attend = Attend(ScaledDot(6, 6)).to(device).eval()
    keys = torch.randn(7, 3, 12, device=device).transpose(0, 1)[..., ::2]
    values, query = torch.randn(3, 9, 7, device=device).mT, torch.randn(3, 1, 6, device=device)
    wanted = attend.double().look(query.double(), Memory(keys.double(), values.double()))
    look = attend.float().look(query, Memory(keys, values))
    torch.testing.assert_close(look.read, wanted.read.float(), rtol=0, atol=1e-5)
    assert calls


@torch.no_grad()
def test_other_looks_keep_their_way(used: tuple[str, list[Any]]) -> None:
    device, calls = used
    x, one = torch.randn(2, 5, 6, device=device), torch.randn(2, 1, 6, device=device)
    for attend in (
        Attend(Location(6, 6, max_positions=5)).eval(),
        Attend(ScaledDot(6, 6), Hard()).eval(),
        Attend(ScaledDot(6, 6), LocalPredictive(6, window=1)).eval(),
        Attend(ScaledDot(6, 6), causal=True).eval(),
        Attend(ScaledDot(6, 6), dropout=0.5).train(),
    ):
        attend.to(device).look(one, attend.remember(x))
    soft = Attend(ScaledDot(6, 6)).to(device).eval()
    soft.look(Question(one, bias=torch.zeros(1, 5, device=device)), soft.remember(x))
    with trace(soft) as seen:
        soft.look(one, soft.remember(x))
    assert seen
    with torch.enable_grad():
        look: Look = soft.look(one.requires_grad_(), soft.remember(x))
        look.read.sum().backward()
    assert not calls
