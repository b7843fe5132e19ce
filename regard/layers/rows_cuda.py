"""Rows of several tensors go on from others, in one Triton kernel.

Letters: N rows of each tensor."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

MOST = 4  # tensors of a kernel
TILE = 1024


@triton.jit
def _copy(old, new, size, n, source, TILE: tl.constexpr):
    for first in range(0, size, TILE):
        at = first + tl.arange(0, TILE)
        tl.store(new + n * size + at, tl.load(old + source * size + at, mask=at < size), mask=at < size)


@triton.jit
def _select(
    order,
    old_0,
    new_0,
    size_0,
    old_1,
    new_1,
    size_1,
    old_2,
    new_2,
    size_2,
    old_3,
    new_3,
    size_3,
    TILE: tl.constexpr,
):
    """Row n of each new tensor is row order[n] of the old one. Grid: rows, tensors."""
    n, which = tl.program_id(0).to(tl.int64), tl.program_id(1)
    source = tl.load(order + n)
    if which == 0:
        _copy(old_0, new_0, size_0, n, source, TILE)
    elif which == 1:
        _copy(old_1, new_1, size_1, n, source, TILE)
    elif which == 2:
        _copy(old_2, new_2, size_2, n, source, TILE)
    else:
        _copy(old_3, new_3, size_3, n, source, TILE)


def fits(old: Tensor, new: Tensor) -> bool:
    """Can `select` take them?"""
    return new.is_cuda and old.dtype == new.dtype and old.is_contiguous() and new.is_contiguous()


@on_own_gpu
def select(order: Tensor, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Row n of each new tensor becomes row order[n] (N,) of the old one, another tensor; pairs of old and new."""
    for first in range(0, len(pairs), MOST):
        part = pairs[first : first + MOST]
        sides = [(old, new, new[0].numel()) for old, new in part]
        sides += sides[:1] * (MOST - len(part))
        _select[(len(order), len(part))](order, *sides[0], *sides[1], *sides[2], *sides[3], TILE, num_warps=4)
