"""Attention of few queries, as in decoding: one kernel instead of torch's, which needs several more for a mask."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.kernels.additive import LIMIT

try:
    from regard.attention.kernels import look_cuda, newest_cuda
except ImportError:  # without Triton
    look_cuda = newest_cuda = None  # type: ignore[assignment]

MOST_QUERIES = 16
MOST_WIDTH = 256
MOST_PLACES, MOST_FEATURES = 512, 4096  # of an exact look
NEAR, FULL = 512, 64  # a larger memory needs so many rows and heads: one program reads all of it
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def has_kernel_for_few(query: Tensor, values: Tensor) -> bool:
    """Whether `read_few` can be called, and is worth it. It has no gradient."""
    return _decoding(query) and worth(query, values)


def _decoding(query: Tensor) -> bool:
    """Whether there are few queries on a GPU, without gradients."""
    return (
        newest_cuda is not None
        and query.is_cuda
        and query.shape[-2] <= MOST_QUERIES
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cuda")
    )


def worth(query: Tensor, values: Tensor) -> bool:
    """As `has_kernel_for_few`, without what concerns the device."""
    rows, heads, count, dim = query.shape
    places, width = values.shape[-2:]
    return (
        query.dtype in DTYPES
        and max(dim, width) <= MOST_WIDTH
        and min(rows, heads, count, places) > 0
        and (places <= NEAR or rows * heads >= FULL)
    )


def read_few(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, scale: float) -> Tensor:
    """query (B, H, Q, D), keys (B, H, K, D), values (B, H, K, V), mask (B, K) -> (B, H, Q, V); B and H of a memory
    may be 1. A query that may look nowhere reads 0."""
    return newest_cuda.read_few(query, keys, values, mask, scale=scale)


def has_kernel_for_look(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether `look_once` can be called. It has no gradient."""
    return _decoding(query) and can_look(query, keys, values)


def can_look(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """As `has_kernel_for_look`, without what concerns the device."""
    return (
        query.dim() == keys.dim() == values.dim() == 3
        and len(query) == len(keys) == len(values)
        and query.shape[1] == 1  # for several a memory that is read once, by products, is as fast
        and all(x.dtype in DTYPES for x in (query, keys, values))
        and 0 < keys.shape[1] <= MOST_PLACES
        and query.numel() > 0
        and values.numel() > 0
        and max(query.shape[-1], values.shape[-1]) <= MOST_FEATURES
    )


def look_once(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, v: Tensor | None, *, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """query (B, 1, D), keys (B, K, D), values (B, K, V), mask (B, K) -> scores and weights (B, 1, K), and what is
    read (B, 1, V). Scores are products times the scale, or with v (D,) sum_d v_d tanh(query_d + k_d) of keys
    e^{2 k}. A query that may look nowhere reads 0."""
    dtype = query.dtype if v is None else v.dtype
    return look_cuda.look_once(query, keys, values, mask, v, scale=scale, limit=LIMIT, dtype=dtype)


def read_now(
    query: Tensor, keys: Tensor, values: Tensor, look: tuple[Tensor, Tensor | None] | None, *, scale: float
) -> Tensor:
    """As `read_few`, by torch's kernel for the CPU; `look` is that of the memory."""
    if look is None:
        return F.scaled_dot_product_attention(query, keys, values, scale=scale)
    bias, blind = look
    read = F.scaled_dot_product_attention(query, keys, values, bias, scale=scale)
    return read if blind is None else read.masked_fill_(blind, 0)


def has_kernel_for_rows(keys: Tensor, values: Tensor) -> bool:
    """Whether `reorder_rows` can be called."""
    return (
        newest_cuda is not None
        and keys.is_cuda
        and all(x.dim() == 4 and x.is_contiguous() and x.shape[-1] <= MOST_WIDTH for x in (keys, values))
    )


def reorder_rows(keys: Tensor, values: Tensor, order: Tensor, place: Tensor, beams: int) -> None:
    """Row i of keys and values (N, H, C, D) becomes row order[i] of the same sentence, of which so many beams stand
    side by side; in place, up to the place."""
    newest_cuda.reorder_rows(keys, values, order, place, beams)
