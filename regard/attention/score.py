"""How well a key matches a query: the six scores of `SCORES`.

A score has three parts, so that the part that depends only on the keys is computed once per memory:
`query(q)` and `keys(k)` prepare the two sides, `compare` scores every query against every key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels.additive import exponentials, sum_of_tanh
from regard.attention.kernels.products import inner_products
from regard.attention.packing import Packing
from regard.base.short_repr import short_repr


@dataclass(frozen=True)
class Question:
    """The query and what some scores and weighings need besides it. A plain tensor stands for Question(query)."""

    query: Tensor  # (B, .., Q, D)
    position: Tensor | None = None  # (Q,) or (B, Q): the step t of each query; None: 0, 1, 2, ...
    beta: Tensor | None = None  # (B, .., Q): inverse temperature of each query, for the cosine score
    since: Tensor | None = None  # (B, Q): the first place that causal attention may see (the start of a document)
    mask: Tensor | None = None  # boolean (Q, K), (B, Q, K) or (B, H, Q, K): where each query may look
    bias: Tensor | None = None  # float of such a shape: added to the scores; -inf hides a place
    newest: bool = False  # the queries are the last places of the memory, as in decoding
    packing: Packing | None = None  # query and memory are packed rows; each looks only at itself
    soft: Tensor | None = None  # (B,): rows whose hard looks are soft in training; None: drawn for each look
    previous: Tensor | None = None  # (B, .., Q, K): each query's weights of the step before, for `Address`
    gate: Tensor | None = None  # (B, .., Q): how much the content counts against them, in [0, 1]
    shift: Tensor | None = None  # (B, .., Q, S): chances to move by -(S // 2) .. S // 2 places, S odd
    gamma: Tensor | None = None  # (B, .., Q): the exponent that sharpens, at least 1

    __repr__ = short_repr

    def positions(self) -> Tensor:
        """The step of each query: as given, else 0, 1, 2, ..."""
        if self.position is not None:
            return self.position
        return torch.arange(self.query.shape[-2], device=self.query.device)

    def select(self, rows: Tensor, heads: Sequence[int] | None = None) -> Question:
        """The same of some queries and, where they are split into heads (B, H, Q, D), of some heads."""
        split, chosen = heads is not None and self.query.dim() == 4, {}
        for name, axis in QUERY_AXIS.items():
            x = getattr(self, name)
            if x is None:
                continue
            x = x.index_select(axis, rows) if x.shape[axis] > 1 else x
            has_heads = split and x.dim() == 2 - axis and x.shape[1] > 1
            chosen[name] = x[:, heads] if has_heads else x
        return replace(self, **chosen)

    def spread(self, x: Tensor, size: int, places: Tensor | None) -> Tensor:
        """A mask or bias, broadcastable to (B, .., Q, K); or, where places (B, .., Q, S) of a memory of `size` are
        given, its entries there."""
        x = x.unsqueeze(1) if x.dim() == 3 and self.query.dim() == 4 else x
        if places is None:
            return x
        return x.expand(*places.shape[:-1], size).gather(-1, places.clamp(0, size - 1))


QUERY_AXIS = {
    **dict.fromkeys(("position", "since", "beta", "gate", "gamma"), -1),
    **dict.fromkeys(("query", "mask", "bias", "previous", "shift"), -2),
}


def gather(items: Tensor, places: Tensor) -> Tensor:
    """items[b, .., places[b, .., q, s]]: (B, .., K, D) at (B, .., Q, S) -> (B, .., Q, S, D).

    Makes no Q x K tensor, forward or backward, and does not copy a memory that is split into heads. An embedding
    lookup, since the backward pass of `items[index]` is ten times slower on the CPU and not deterministic."""
    axes = sorted(range(items.dim() - 1), key=items.stride, reverse=True)  # in memory order
    table = items.permute(*axes, -1).reshape(-1, items.shape[-1])
    step = dict.fromkeys(axes, 1)  # the stride of each axis, in rows of the table
    for outer, inner in reversed(list(pairwise(axes))):
        step[outer] = step[inner] * items.shape[inner]
    *lead, last = range(items.dim() - 1)
    index = places.clamp(0, items.shape[last] - 1) * step[last]  # (B, .., Q, S)
    for axis in lead:
        first = step[axis] * torch.arange(items.shape[axis], device=items.device)
        index = index + first.view(-1, *[1] * (items.dim() - 1 - axis))
    return F.embedding(index, table)


class Score(nn.Module):
    """scale * (prepared query . prepared key): scores of this form can use the fused kernel."""

    inner = True

    def __init__(self, query_dim: int | None = None, key_dim: int | None = None):
        """The widths of queries and keys; None: any."""
        super().__init__()
        self.query_dim, self.key_dim = query_dim, key_dim

    def scale(self, dim: int) -> float:
        """The factor of the product, for keys of this size."""
        return 1.0

    def query(self, question: Question) -> Tensor:
        """The query as it is multiplied with the keys."""
        return question.query

    def keys(self, keys: Tensor) -> Tensor:
        """What depends on the keys alone, computed once for a memory."""
        return keys

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, .., Q, D) against (B, .., K, D) -> (B, .., Q, K)"""
        scores, scale = inner_products(query, keys), self.scale(query.shape[-1])
        return scores if scale == 1 else scores * scale

    def compare_at(self, query: Tensor, keys: Tensor, places: Tensor) -> Tensor:
        """The same for S places (B, .., Q, S) of each query; the other keys are not read."""
        return self.compare(query.unsqueeze(-2), gather(keys, places)).squeeze(-2)


class Dot(Score):
    """q . k   (Luong 2015). No parameters."""

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__(query_dim, key_dim)
        if query_dim != key_dim:
            raise ValueError(
                f"this score needs queries and keys of the same size, got {query_dim} and {key_dim}; "
                "make them equal, or use general or additive"
            )


class ScaledDot(Dot):
    """q . k / sqrt(D)   (Vaswani 2017): keeps the variance of the scores near 1 for every D."""

    def scale(self, dim: int) -> float:
        return 1 / math.sqrt(dim)


class General(Score):
    """q^T W k   (Luong 2015). W k is computed once per memory."""

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__(query_dim, key_dim)
        self.weight = nn.Linear(key_dim, query_dim, bias=False)

    def keys(self, keys: Tensor) -> Tensor:
        return self.weight(keys)


class Cosine(Dot):
    """beta cos(q, k)   (Graves 2014). beta is learned (positive by softplus), fixed, or given per query.

    A cosine lies in [-1, 1], so with beta = 1 weights could differ at most by a factor e^2: beta starts at 10."""

    def __init__(self, query_dim: int, key_dim: int, *, beta: float | None = None):
        super().__init__(query_dim, key_dim)
        self.given = 1.0 if beta is None else beta
        self.free = nn.Parameter(torch.tensor(math.log(math.expm1(10.0)))) if beta is None else None

    def query(self, question: Question) -> Tensor:
        if question.beta is not None:
            beta: Tensor | float = question.beta[..., None]
        else:
            beta = self.given if self.free is None else F.softplus(self.free)
        return self.keys(question.query) * beta

    def keys(self, keys: Tensor) -> Tensor:
        # In float32 or more: in float16 the sum of squares overflows at norm 256. At norm 0 the gradient is 1 / eps
        # and must not overflow either.
        eps = 1e-4 if keys.dtype == torch.float16 else 1e-6
        wide = keys.to(torch.promote_types(keys.dtype, torch.float32))
        return F.normalize(wide, dim=-1, eps=eps).to(keys.dtype)


class Additive(Score):
    """v . tanh(W q + U k)   (Bahdanau 2015, A.1.2; Luong's concat). U k is computed once per memory.

    Both sides are prepared as e^{2x}, since tanh(q + k) = 1 - 2 / (1 + e^{2q} e^{2k}) needs no tanh per pair."""

    inner = False

    def __init__(self, query_dim: int, key_dim: int, *, dim: int | None = None):
        super().__init__(query_dim, key_dim)
        dim = dim or query_dim
        self.query_weight = nn.Linear(query_dim, dim, bias=False)
        self.key_weight = nn.Linear(key_dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))

    def query(self, question: Question) -> Tensor:
        return exponentials(self.query_weight(question.query))

    def keys(self, keys: Tensor) -> Tensor:
        return exponentials(self.key_weight(keys))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        return sum_of_tanh(query, keys, self.v)


class Location(Score):
    """e = W q   (Luong 2015): one score per position up to `max_positions`, whatever the key is."""

    inner = False

    def __init__(self, query_dim: int, key_dim: int, *, max_positions: int):
        super().__init__(query_dim)
        self.weight = nn.Linear(query_dim, max_positions, bias=False)

    def query(self, question: Question) -> Tensor:
        return self.weight(question.query)

    def keys(self, keys: Tensor) -> Tensor:
        max_positions, size = self.weight.out_features, keys.shape[-2]
        if size > max_positions:
            raise ValueError(
                f"the location score has {max_positions} positions, this memory has {size}; "
                "shorten the input, or train with a larger model.max_positions"
            )
        return keys

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        return query[..., : self.keys(keys).shape[-2]]  # checked again: the memory may have grown

    def compare_at(self, query: Tensor, keys: Tensor, places: Tensor) -> Tensor:
        places = places.clamp(0, self.keys(keys).shape[-2] - 1)
        return query.gather(-1, places.expand(*query.shape[:-1], places.shape[-1]))


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "additive": Additive,
    "cosine": Cosine,
    "location": Location,
}


def build_score(name: str, query_dim: int, key_dim: int, *, max_positions: int) -> Score:
    """The score of that name; only the location score needs `max_positions`."""
    if name not in SCORES:
        raise ValueError(f"unknown score {name!r}; there are {', '.join(SCORES)}")
    if name == "location":
        return Location(query_dim, key_dim, max_positions=max_positions)
    return SCORES[name](query_dim, key_dim)
