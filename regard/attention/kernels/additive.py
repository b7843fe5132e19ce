"""sum_d v_d tanh(q_d + k_d) for every query and key, without a tanh per pair and without storing the pairs.

tanh(q + k) = 1 - 2 t with t = 1 / (1 + e^{2q} e^{2k}): exponentials are computed once per query and once per key,
so a pair costs a multiplication, an addition and a reciprocal. Pairs are computed in chunks that fit the cache, and
recomputed in the backward pass, where d tanh = 4 t (1 - t)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.base.dtype import at_least_float32
from regard.base.exporting import exporting
from regard.base.shared_steps import Factors, Kept, joined, sharing_of

try:
    from regard.attention.kernels import additive_cuda
except ImportError:  # no Triton: the chunked code below runs on any device
    additive_cuda = None  # type: ignore[assignment]

# e^{2 * 43} e^{2 * 43} overflows to inf and its reciprocal to 0, which are the right limits; beyond 43 a
# single factor would overflow. For |k| <= 33, clamping |q| at 43 changes nothing in float32, and vice versa.
LIMIT = 43.0
WIDE_LIMIT = 350.0  # the same in float64
CHUNK = {"cpu": 1 << 20, "cuda": 1 << 26}  # pairs x features held at once
# Without the kernels, a single query with at most this many pairs x features keeps them all on a GPU, where chunks
# are launch-bound.
FEW = 1 << 23


def exponentials(x: Tensor) -> Tensor:
    """e^{2x} in float32 or more: the form of both inputs of `sum_of_tanh`."""
    if additive_cuda is not None and x.is_cuda and x.dtype != torch.float64 and not torch.compiler.is_compiling():
        return _Exponentials.apply(x)
    x = at_least_float32(x)
    limit = WIDE_LIMIT if x.dtype == torch.float64 else LIMIT
    return torch.exp(2 * x.clamp(-limit, limit))


def sum_of_tanh(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(B, .., Q, D), (B, .., K, D) as exponentials and v (D,) -> scores (B, .., Q, K) in v's dtype"""
    few = queries.is_cuda and queries.shape[-2] == 1 and keys.numel() <= FEW
    if exporting() or (few and (torch.compiler.is_compiling() or not _fused(queries))):
        with torch.autocast(queries.device.type, enabled=False):  # in float32 or more, as the kernel
            wide = at_least_float32(v)
            return (wide.sum() - 2 * (_gaps(queries, keys) @ wide)).to(v.dtype)
    lead = queries.shape[:-2]
    shared = sharing_of(keys)
    if shared is not None and _fused(queries) and keys.dim() == 3 and lead == keys.shape[:-2]:
        kept, (keys, wide) = shared.alias(of_keys_and_v, torch.float32, keys, v)
        of_step: Tensor = _StepOfTanh.apply(kept, queries, keys, wide)
        return of_step.to(v.dtype)
    keys = keys.expand(*lead, *keys.shape[-2:])
    scores = _SumOfTanh.apply(queries.flatten(0, -3), keys.flatten(0, -3), at_least_float32(v))
    return scores.unflatten(0, lead).to(v.dtype)


def _chunks(queries: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of rows and queries whose pairs fit one chunk."""
    (rows, count, dim), size = queries.shape, keys.shape[1]
    room = max(1, CHUNK.get(queries.device.type, CHUNK["cpu"]) // max(1, size * dim))  # queries at once
    if room >= count:
        step = room // max(1, count)
        for row in range(0, rows, step):
            yield slice(row, row + step), slice(0, count)
    else:
        for row in range(rows):
            for query in range(0, count, room):
                yield slice(row, row + 1), slice(query, query + room)


def _gaps(queries: Tensor, keys: Tensor) -> Tensor:
    """t = 1 / (1 + e^{2q} e^{2k})   (.., q, K, D)"""
    return torch.mul(queries.unsqueeze(-2), keys.unsqueeze(-3)).add_(1).reciprocal_()


def _fused(x: Tensor) -> bool:
    return additive_cuda is not None and x.is_cuda and x.dtype == torch.float32


class _Exponentials(torch.autograd.Function):
    """In one kernel instead of four."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        out: Tensor = additive_cuda.exponentials(x, LIMIT)
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x, out = ctx.saved_tensors
        found: Tensor = additive_cuda.exponentials_backward(x, out, grad.contiguous(), LIMIT)
        return found


class _SumOfTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(queries, keys, v)
        if _fused(queries):
            return additive_cuda.forward(queries, keys, v)
        scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
        for rows, part in _chunks(queries, keys):
            scores[rows, part] = _gaps(queries[rows, part], keys[rows]) @ v
        return v.sum() - 2 * scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, v = ctx.saved_tensors
        if _fused(queries):
            return additive_cuda.backward(queries, keys, v, grad)
        for_queries, for_keys = torch.empty_like(queries), torch.empty_like(keys)
        for_v = torch.zeros_like(v)
        for rows, part in _chunks(queries, keys):
            g = grad[rows, part]
            t = _gaps(queries[rows, part], keys[rows])
            for_v += g.reshape(-1) @ t.flatten(0, 2)
            t.addcmul_(t, t, value=-1).mul_(g[..., None])  # g t (1 - t)
            # d score / d x = 4 v t (1 - t) and d e^{2x} / dx = 2 e^{2x}; computed while the chunk is in the cache
            torch.div(t.sum(2).mul_(2 * v), queries[rows, part], out=for_queries[rows, part])
            of_keys = (t[:, 0] if t.shape[1] == 1 else t.sum(1)).mul_(2 * v).div_(keys[rows])
            for_keys[rows] = of_keys if part.start == 0 else for_keys[rows] + of_keys
        return for_queries, for_keys, grad.sum() - 2 * for_v


class _StepOfTanh(torch.autograd.Function):
    """As `_SumOfTanh`, by kernels, for a step of a recurrence: keys and v get their gradients from all steps."""

    @staticmethod
    def forward(ctx: Any, kept: Kept, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(queries, keys, v)
        ctx.kept = kept
        return additive_cuda.forward(queries, keys, v)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # this gradient is to be differentiated, which raises
            return None, *_SumOfTanh.backward(ctx, grad)
        queries, keys, v = ctx.saved_tensors
        ctx.kept.add(queries, grad, keys, v)
        return None, additive_cuda.backward_of_queries(queries, keys, v, grad), None, None


def of_keys_and_v(steps: list[Factors]) -> tuple[Tensor, Tensor]:
    """The gradients of keys and v."""
    _, _, keys, v = steps[0]
    queries, grad = joined([step[:2] for step in steps])
    return additive_cuda.backward_of_keys(queries, keys, v, grad)


def of_keys_and_v_from_projected(steps: list[Factors]) -> tuple[Tensor, Tensor]:
    """The same, where the queries are W q, no exponentials yet."""
    _, _, keys, v = steps[0]
    queries, grad = joined([step[:2] for step in steps])
    return additive_cuda.backward_of_keys(additive_cuda.exponentials(queries, LIMIT), keys, v, grad)
