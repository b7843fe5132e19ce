"""How well a key matches a query: the six scores of `SCORES`.

A score has three parts, so that the part that depends only on the keys is computed once per memory:
`query(q)` and `keys(k)` prepare the two sides, `compare` scores every query against every key."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels.additive import exponentials, sum_of_tanh
from regard.attention.kernels.products import inner_products
from regard.attention.question import Question, TemperedQuestion
from regard.attention.shapes import check_sizes
from regard.base.arguments import checked
from regard.base.dtype import at_least_float32
from regard.base.exporting import exporting
from regard.base.shared_steps import linear
from regard.errors import BadInput


def gather(items: Tensor, places: Tensor) -> Tensor:
    """items[b, .., places[b, .., q, s]]: (B, .., K, D) at (B, .., Q, S) -> (B, .., Q, S, D).

    Makes no Q x K tensor, forward or backward, and does not copy a memory that is split into heads. An embedding
    lookup, since the backward pass of `items[index]` is ten times slower on the CPU and not deterministic."""
    axes = list(range(items.dim() - 1))
    if not exporting():  # strides are unknown there
        axes.sort(key=items.stride, reverse=True)  # in memory order
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
        check_sizes(query_dim=query_dim, key_dim=key_dim)
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

    def asked(self, question: Question) -> tuple[Tensor, Tensor | None] | None:
        """The query, and v, as `few.look_once` takes them; None: it does not know this score."""
        return (self.query(question), None) if self.inner else None

    def plain(self, prepared: Tensor) -> Tensor:
        """A prepared query or key as the formula has it."""
        return prepared

    def numbers(self) -> dict[str, list[float]]:
        """What the formula needs beside query and key."""
        return {}

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, .., Q, D) against (B, .., K, D) -> (B, .., Q, K)"""
        scores, scale = inner_products(query, keys), self.scale(query.shape[-1])
        return scores if scale == 1 else scores * scale

    def compare_at(self, query: Tensor, keys: Tensor, places: Tensor) -> Tensor:
        """As `compare`, for S places (B, .., Q, S) of each query; the other keys are not read."""
        return self.compare(query.unsqueeze(-2), gather(keys, places)).squeeze(-2)


@checked
class Dot(Score):
    """q . k   (Luong 2015). No parameters."""

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__(query_dim, key_dim)
        if query_dim != key_dim:
            raise BadInput(
                f"this score needs queries and keys of the same size, got {query_dim} and {key_dim}; "
                "make them equal, or use general or additive"
            )


class ScaledDot(Dot):
    """q . k / sqrt(D)   (Vaswani 2017): keeps the variance of the scores near 1 for every D."""

    def scale(self, dim: int) -> float:
        return 1 / math.sqrt(dim)


@checked
class General(Score):
    """q^T W k   (Luong 2015). W k is computed once per memory.

    With a `rank` r, W = U^T V of that rank: (U q) . (V k), U (`query_weight`) and V (`weight`) of r rows."""

    def __init__(self, query_dim: int, key_dim: int, *, rank: int | None = None):
        super().__init__(query_dim, key_dim)
        most = min(query_dim, key_dim)
        if rank is not None and not 1 <= rank <= most:
            raise BadInput(f"the rank of a matrix of {query_dim} x {key_dim} lies in [1, {most}], got {rank}")
        self.query_weight = None if rank is None else nn.Linear(query_dim, rank, bias=False)
        self.weight = nn.Linear(key_dim, query_dim if rank is None else rank, bias=False)

    def query(self, question: Question) -> Tensor:
        return question.query if self.query_weight is None else linear(self.query_weight, question.query)

    def keys(self, keys: Tensor) -> Tensor:
        return self.weight(keys)


@checked
class Cosine(Dot):
    """beta cos(q, k)   (Graves 2014). beta is learned (positive by softplus), fixed, or that of each query
    (`TemperedQuestion`).

    A cosine lies in [-1, 1], so with beta = 1 weights could differ at most by a factor e^2: beta starts at 10."""

    def __init__(self, query_dim: int, key_dim: int, *, beta: float | None = None):
        super().__init__(query_dim, key_dim)
        self.fixed = 1.0 if beta is None else beta
        self.free = nn.Parameter(torch.tensor(math.log(math.expm1(10.0)))) if beta is None else None

    def query(self, question: Question) -> Tensor:
        if isinstance(question, TemperedQuestion):
            beta: Tensor | float = question.beta[..., None]
        else:
            beta = self.fixed if self.free is None else F.softplus(self.free)
        return self.keys(question.query) * beta

    def keys(self, keys: Tensor) -> Tensor:
        # In float32 or more: in float16 the sum of squares overflows at norm 256. At norm 0 the gradient is 1 / eps
        # and must not overflow either.
        eps = 1e-4 if keys.dtype == torch.float16 else 1e-6
        return F.normalize(at_least_float32(keys), dim=-1, eps=eps).to(keys.dtype)


@checked
class Additive(Score):
    """v . tanh(W q + U k)   (Bahdanau 2015, A.1.2; Luong's concat). U k is computed once per memory.

    Both sides are prepared as e^{2x}, since tanh(q + k) = 1 - 2 / (1 + e^{2q} e^{2k}) needs no tanh per pair."""

    inner = False

    def __init__(self, query_dim: int, key_dim: int, *, dim: int | None = None):
        super().__init__(query_dim, key_dim)
        dim = query_dim if dim is None else dim
        check_sizes(dim=dim)
        self.query_weight = nn.Linear(query_dim, dim, bias=False)
        self.key_weight = nn.Linear(key_dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))

    def query(self, question: Question) -> Tensor:
        return exponentials(self.project(question))

    def project(self, question: Question) -> Tensor:
        """W q"""
        return linear(self.query_weight, question.query)

    def asked(self, question: Question) -> tuple[Tensor, Tensor | None]:
        return self.query_weight(question.query), self.v

    def keys(self, keys: Tensor) -> Tensor:
        return exponentials(self.key_weight(keys))

    def plain(self, prepared: Tensor) -> Tensor:
        return prepared.log() / 2  # W q and U k

    def numbers(self) -> dict[str, list[float]]:
        return {"v": self.v.tolist()}

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        return sum_of_tanh(query, keys, self.v)


@checked
class Location(Score):
    """e = W q   (Luong 2015): one score per position up to `max_positions`, whatever the key is."""

    inner = False

    def __init__(self, query_dim: int, key_dim: int, *, max_positions: int):
        super().__init__(query_dim)
        self.weight = nn.Linear(query_dim, max_positions, bias=False)

    def query(self, question: Question) -> Tensor:
        return linear(self.weight, question.query)

    def keys(self, keys: Tensor) -> Tensor:
        max_positions, size = self.weight.out_features, keys.shape[-2]
        if size > max_positions:
            raise BadInput(
                f"the location score has {max_positions} positions, this memory has {size}; "
                "shorten the input, or train with a larger model.max_positions"
            )
        return keys

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        size = self.keys(keys).shape[-2]  # checked again: the memory may have grown
        if exporting():  # a slice would be exported for less than all positions
            return query.index_select(-1, torch.arange(size, device=query.device))
        return query[..., :size]

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
KEY_SCORES = [name for name in SCORES if name != "location"]  # those that read the keys


def check_score(name: str, *, rank: int = 0, beta: float = 0.0) -> None:
    """BadInput where a setting is given to a score that does not have it, or has no such value."""
    if name not in SCORES:
        raise BadInput(f"unknown score {name!r}; there are {', '.join(SCORES)}")
    if rank and name != "general":
        raise BadInput(f"rank is of the matrix of score = general, and this score is {name}; leave rank at 0")
    if beta and name != "cosine":
        raise BadInput(f"beta is the factor of score = cosine, and this score is {name}; leave beta at 0")
    if beta < 0:
        raise BadInput(f"beta must be above 0, or 0 (learned), got {beta}")


@checked
def build_score(
    name: str, query_dim: int, key_dim: int, *, max_positions: int, rank: int = 0, beta: float = 0.0
) -> Score:
    """The score of that name; only the location score needs `max_positions`. `rank` is that of general's matrix (0:
    full), `beta` the fixed factor of cosine (0: learned)."""
    check_score(name, rank=rank, beta=beta)
    if name == "location":
        return Location(query_dim, key_dim, max_positions=max_positions)
    if name == "general":
        return General(query_dim, key_dim, rank=rank or None)
    if name == "cosine":
        return Cosine(query_dim, key_dim, beta=beta or None)
    return SCORES[name](query_dim, key_dim)
