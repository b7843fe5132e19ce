"""Products of queries with keys, and of weights with values, in the form that is fast on the device.

A batched matrix product of a single row is slow on a GPU; there it is multiplied element by element and added up
(not in half precision, in which each product would be rounded). On a CPU the backward pass of @ is several times
slower than that of einsum where there are few queries."""

from __future__ import annotations

import torch
from torch import Tensor


def inner_products(query: Tensor, keys: Tensor) -> Tensor:
    """(.., Q, D), (.., K, D) -> (.., Q, K)"""
    return one_query_products(query, keys) if _adds_up(query) else query @ keys.transpose(-2, -1)


def weighted_sums(weights: Tensor, values: Tensor) -> Tensor:
    """(.., Q, K), (.., K, V) -> (.., Q, V)"""
    if not weights.is_cuda:
        return torch.einsum("...qk,...kv->...qv", weights, values)
    return one_weighted_sum(weights, values) if _adds_up(weights) else weights @ values


def _adds_up(rows: Tensor) -> bool:
    return rows.is_cuda and rows.shape[-2] == 1 and rows.dtype in (torch.float32, torch.float64)


def one_query_products(query: Tensor, keys: Tensor) -> Tensor:
    """(.., 1, D), (.., K, D) -> (.., 1, K)"""
    return (query * keys).sum(-1).unsqueeze(-2)


def one_weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """(.., 1, K), (.., K, V) -> (.., 1, V)"""
    return (weights.mT * values).sum(-2, keepdim=True)
