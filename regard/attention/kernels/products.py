"""Products of queries with keys, and of weights with values, in the form that is fast on the device.

A batched matrix product of a single row is slow on a GPU; there it is multiplied element by element and added up
(not in half precision, in which each product would be rounded). On a CPU the backward pass of @ is several times
slower than that of einsum where there are few queries."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.base.shared_steps import Kept, of_products, product_dtype, sharing_of


def inner_products(query: Tensor, keys: Tensor) -> Tensor:
    """(.., Q, D), (.., K, D) -> (.., Q, K)"""
    return _of_steps(_InnerProducts, query, keys)


def _inner_products(query: Tensor, keys: Tensor) -> Tensor:
    return one_query_products(query, keys) if _adds_up(query) else query @ keys.transpose(-2, -1)


def weighted_sums(weights: Tensor, values: Tensor) -> Tensor:
    """(.., Q, K), (.., K, V) -> (.., Q, V)"""
    return _of_steps(_WeightedSums, weights, values)


def _weighted_sums(weights: Tensor, values: Tensor) -> Tensor:
    if not weights.is_cuda:
        return torch.einsum("...qk,...kv->...qv", weights, values)
    return one_weighted_sum(weights, values) if _adds_up(weights) else weights @ values


def _of_steps(product: Any, x: Tensor, memory: Tensor) -> Tensor:
    """The product; where a recurrence shares the memory, its gradient is one product for all steps."""
    shared = sharing_of(memory)
    if shared is not None and x.shape[:-2] == memory.shape[:-2]:
        dtype, other = (side.dtype if _adds_up(x) else product_dtype(side) for side in (x, memory))
        if dtype == other:
            kept, (alias,) = shared.alias(of_products, dtype, memory)
            of_step: Tensor = product.apply(kept, x.to(dtype), alias)
            return of_step
    plain: Tensor = product.plain(x, memory)
    return plain


class _InnerProducts(torch.autograd.Function):
    plain = staticmethod(_inner_products)

    @staticmethod
    def forward(ctx: Any, kept: Kept, query: Tensor, keys: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys)
        ctx.kept = kept
        return _inner_products(query, keys)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, keys = ctx.saved_tensors
        for_query = _weighted_sums(grad, keys) if ctx.needs_input_grad[1] else None
        if torch.is_grad_enabled():  # this gradient is to be differentiated
            return None, for_query, grad.mT @ query
        if ctx.needs_input_grad[2]:
            ctx.kept.add(grad, query)
        return None, for_query, None


class _WeightedSums(torch.autograd.Function):
    plain = staticmethod(_weighted_sums)

    @staticmethod
    def forward(ctx: Any, kept: Kept, weights: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.kept = kept
        return _weighted_sums(weights, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, values = ctx.saved_tensors
        for_weights = _inner_products(grad, values) if ctx.needs_input_grad[1] else None
        if torch.is_grad_enabled():
            return None, for_weights, weights.mT @ grad
        if ctx.needs_input_grad[2]:
            ctx.kept.add(weights, grad)
        return None, for_weights, None


def _adds_up(rows: Tensor) -> bool:
    return rows.is_cuda and rows.shape[-2] == 1 and rows.dtype in (torch.float32, torch.float64)


def one_query_products(query: Tensor, keys: Tensor) -> Tensor:
    """(.., 1, D), (.., K, D) -> (.., 1, K)"""
    return (query * keys).sum(-1).unsqueeze(-2)


def one_weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """(.., 1, K), (.., K, V) -> (.., 1, V)"""
    return (weights.mT * values).sum(-2, keepdim=True)
