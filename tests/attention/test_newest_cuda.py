"""Attention of few queries in one kernel, against the exact one in float64: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import Attend, Dot, General, Memory, MultiHead, Question, ScaledDot, trace
from regard.attention import attend as attending
from regard.attention.kernels import few

INTERPRETED = few.newest_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]
# B, H, Q, K, D, V
SMALL = [(1, 1, 1, 1, 1, 1), (2, 2, 1, 70, 16, 16), (3, 1, 5, 33, 20, 12), (1, 2, 16, 18, 8, 40)]
LARGE = [(64, 4, 5, 48, 64, 64), (64, 4, 1, 64, 64, 64), (2, 12, 1, 512, 64, 64), (80, 1, 3, 700, 256, 130)]
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero")  # of the interpreter


def sides(sizes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Memory]:
    """Queries of heads as a projection leaves them, and a memory whose last row may not be looked at; padding is on
    either side, and NaN."""
    torch.manual_seed(0)
    rows, heads, count, places, dim, width = sizes
    query = torch.randn(rows, count, heads, dim).to(dtype).transpose(1, 2)
    keys, values = (torch.randn(rows, places, heads, x).to(dtype).transpose(1, 2) for x in (dim, width))
    numbers, first = torch.arange(places), torch.arange(rows)[:, None] % 3
    mask = (numbers >= first) & (numbers < places - first)
    mask[-1] &= rows == 1
    return query, Memory(keys, values, mask)


def compare(sizes: tuple[int, ...], device: str, dtype: torch.dtype, masked: bool) -> None:
    query, memory = sides(sizes, dtype)
    mask = memory.mask if masked else None
    exact = Memory(memory.keys.double(), memory.values.double(), mask)
    wanted = Attend(ScaledDot(sizes[4], sizes[4])).look(query.double(), exact).read
    keys, values = memory.keys, memory.values
    if mask is not None:
        hidden = ~mask[:, None, :, None]
        keys, values = (x.masked_fill(hidden, torch.nan) for x in (keys, values))
    moved = [None if x is None else x.to(device) for x in (query, keys, values, mask)]
    read = few.read_few(*moved, scale=sizes[4] ** -0.5)
    assert read.dtype == dtype
    assert read.transpose(1, 2).is_contiguous()
    torch.testing.assert_close(read.cpu().double(), wanted, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("sizes", SMALL)
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_reads(sizes: tuple[int, ...], device: str, masked: bool) -> None:
    compare(sizes, device, torch.float32, masked)


@pytest.mark.parametrize(("sizes", "dtype"), [(SMALL[2], torch.float16), (SMALL[1], torch.bfloat16)])
@pytest.mark.parametrize("device", DEVICES)
def test_half_precision(device: str, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    compare(sizes, device, dtype, True)  # the interpreter has no products of bfloat16 matrices


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", LARGE)
@pytest.mark.parametrize("device", DEVICES[1:])
def test_the_same_reads_of_large_memories(
    sizes: tuple[int, ...], device: str, dtype: torch.dtype, masked: bool
) -> None:
    compare(sizes, device, dtype, masked)


@pytest.fixture(params=DEVICES)
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[Any]]:
    """A device where the kernel is used, and its calls."""
    calls: list[Any] = []

    def read(*given: Any, **options: Any) -> Tensor:
        calls.append(given)
        return few.read_few(*given, **options)

    monkeypatch.setattr(attending, "read_few", read)
    if request.param == "cpu":
        gradients = torch.is_grad_enabled
        monkeypatch.setattr(attending, "has_kernel_for_few", lambda *sides: not gradients() and few.worth(*sides))
    return request.param, calls


@torch.no_grad()
def test_beams_share_a_memory(asked: tuple[str, list[Any]]) -> None:
    device, calls = asked
    torch.manual_seed(0)
    attend = MultiHead(32, 2).eval().to(device)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [False] * 5], device=device)
    memory = attend.remember(torch.randn(3, 5, 32, device=device), mask=mask)
    query = torch.randn(3, 4, 32, device=device)
    torch.testing.assert_close(attend(query, memory), attend.look(query, memory).read, rtol=0, atol=1e-5)
    one = attend.remember(torch.randn(1, 5, 32, device=device), mask=mask[1:2])  # for all rows
    torch.testing.assert_close(attend(query, one), attend.look(query, one).read, rtol=0, atol=1e-5)
    assert len(calls) == 2


@pytest.mark.parametrize("score", [Dot, General])
@torch.no_grad()
def test_scores_without_heads(score: Any, asked: tuple[str, list[Any]]) -> None:
    device, calls = asked
    torch.manual_seed(0)
    attend = Attend(score(6, 6)).eval().to(device)
    memory = attend.remember(torch.randn(3, 7, 6, device=device), torch.randn(3, 7, 9, device=device))
    query = torch.randn(3, 1, 6, device=device)
    torch.testing.assert_close(attend(query, memory), attend.look(query, memory).read, rtol=0, atol=1e-5)
    assert len(calls) == 1


@torch.no_grad()
def test_the_newest_query_sees_all(asked: tuple[str, list[Any]]) -> None:
    device, calls = asked
    attend = MultiHead(32, 2, causal=True).eval().to(device)
    x = torch.randn(2, 6, 32, device=device)
    memory, newest = attend.remember(x), Question(x[:, -1:], newest=True)
    torch.testing.assert_close(attend(newest, memory), attend.look(newest, memory).read, rtol=0, atol=1e-5)
    assert len(calls) == 1
    attend(x, memory)
    attend(Question(x[:, -1:], newest=True, bias=torch.zeros(1, 6, device=device)), memory)
    assert len(calls) == 1


def test_gradients_training_and_traces_keep_their_way(asked: tuple[str, list[Any]]) -> None:
    device, calls = asked
    attend = MultiHead(32, 2).eval().to(device)
    query, states = torch.randn(2, 1, 32, device=device), torch.randn(2, 5, 32, device=device)
    attend(query, attend.remember(states))
    with torch.no_grad():
        with trace(attend):
            attend(query, attend.remember(states))
        attend.train()(query, attend.remember(states))
    assert not calls


@torch.no_grad()
def test_the_cpu_keeps_its_way() -> None:
    query = torch.randn(2, 1, 1, 8)
    assert few.worth(query, query)
    assert not few.has_kernel_for_few(query, query)
    assert not few.worth(query.double(), query)
    long = torch.randn(2, 1, few.NEAR + 1, 8)
    assert not few.worth(query, long)


@pytest.mark.parametrize(("beams", "width"), [(5, 16), (1, 40), (3, 7)])
@pytest.mark.parametrize("device", DEVICES)
def test_beams_go_on_from_others(beams: int, width: int, device: str) -> None:
    torch.manual_seed(0)
    keys, values = torch.randn(4 * beams, 2, 70, 16), torch.randn(4 * beams, 2, 70, width)
    order = torch.randint(beams, (4, beams)) + torch.arange(4)[:, None] * beams
    mine = keys.clone().to(device), values.clone().to(device)
    few.newest_cuda.reorder_rows(*mine, order.flatten().to(device), torch.tensor(33, device=device), beams)
    for found, before in zip(mine, (keys, values), strict=True):
        assert torch.equal(found[:, :, :34].cpu(), before[order.flatten(), :, :34])
        assert torch.equal(found[:, :, 34:].cpu(), before[:, :, 34:])
