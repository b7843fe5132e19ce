"""Many states become one vector: their mean, maximum, the last state, or what a learned query reads of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import Attend, Memory, Question, Score
from regard.attention.kernels.products import weighted_sums
from regard.base.dropout import Dropout
from regard.layers.recurrent import last_real
from regard.layers.row_encoder import RowEncoder

POOLS = ("attention", "mean", "max", "last")


class Context(Score):
    """q . tanh(W k + b)   (Yang 2016, eq. 5-6): the query is a learned context vector."""

    inner = False  # one query for each row: the fused kernel has no advantage

    def __init__(self, dim: int, key_dim: int):
        super().__init__(dim, key_dim)
        self.weight = nn.Linear(key_dim, dim)

    def keys(self, keys: Tensor) -> Tensor:
        return self.weight(keys).tanh()

    def query(self, question: Question) -> Tensor:
        return question.query


class PoolingAttend(Attend):
    """One query for each row; several calls have other rows."""

    calls_add = 0


class AttentionPool(nn.Module):
    """a = softmax(score(u, h_i)), read = sum_i a_i h_i, with a learned query u."""

    def __init__(self, dim: int, hidden: int, score: type[Score]):
        super().__init__()
        self.context = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.attend = PoolingAttend(score(hidden, dim))

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        memory = Memory(self.attend.score.keys(states), states, mask)  # states at padding are finite
        query = self.context.to(memory.keys.dtype).expand(states.shape[0], 1, -1)
        return self.attend(query, memory)[:, 0]


class MeanPool(nn.Module):
    """The mean of the real states: attention with equal weights."""

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        weights = mask.to(states.dtype) / mask.sum(1, keepdim=True).clamp_(min=1)
        return weighted_sums(weights[:, None], states)[:, 0]


class MaxPool(nn.Module):
    """The maximum of each feature over the real states."""

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        low = torch.finfo(states.dtype).min
        highest = states.masked_fill(~mask[..., None], low).amax(1)
        return highest.masked_fill(~mask.any(1)[:, None], 0)


class LastPool(nn.Module):
    """The last real state."""

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return or_zero(last_real(states, mask), mask)


def or_zero(read: Tensor, mask: Tensor) -> Tensor:
    """0 for an empty row: padding is on the right, so it begins with it. read (B, D) is finite."""
    return read * mask[:, :1]


def build_pool(name: str, dim: int, *, hidden: int) -> nn.Module:
    """The pooling of that name, finite states (B, T, dim) and mask (B, T) -> (B, dim). An empty row gives 0."""
    if name == "attention":
        return AttentionPool(dim, hidden, Context)
    if name not in POOLS:
        raise ValueError(f"unknown pooling {name!r}; there are {', '.join(POOLS)}")
    return {"mean": MeanPool, "max": MaxPool, "last": LastPool}[name]()


class PooledEncoder(nn.Module):
    """A bidirectional recurrent encoder over rows, or none (layers = 0), and a pooling of its states."""

    def __init__(self, cell: str, inputs: int, dim: int, *, layers: int, pool: str, hidden: int, dropout: float):
        super().__init__()
        self.encoder = RowEncoder(cell, inputs, dim, layers=layers, dropout=dropout) if layers else None
        self.dim = 2 * dim if layers else inputs
        self.dropout = Dropout(dropout)
        self.pool = build_pool(pool, self.dim, hidden=hidden or self.dim)

    def forward(self, x: Tensor, mask: Tensor, embed: nn.Module | None = None) -> Tensor:
        """x (B, T, inputs), padded on the right, or tokens (B, T) and their embedding -> (B, dim)"""
        return self.pooled(*self.states(x, mask, embed), mask)

    def states(self, x: Tensor, mask: Tensor, embed: nn.Module | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The states (B, T, dim), and [forward_n, backward_1] (B, dim / 2), where each has read the whole row;
        without an encoder there are none."""
        if self.encoder is None:
            return x if embed is None else embed(x), ()
        return self.encoder.states(x, mask) if embed is None else self.encoder.read(x, mask, embed)

    def pooled(self, states: Tensor, ends: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        """What is read of them (B, dim)."""
        if self.encoder is None:
            return self.pool(states, mask)
        if isinstance(self.pool, LastPool):
            return or_zero(self.dropout(torch.cat(ends, -1)), mask)
        return self.pool(self.dropout(states), mask)


class WordEmbedding(nn.Module):
    """E[token], with dropout of single features (`locked`: of the same ones in all words) and of whole words."""

    def __init__(self, vocabulary: int, dim: int, *, dropout: float, word_dropout: float, locked: bool = False):
        super().__init__()
        self.table = nn.Embedding(vocabulary, dim)
        self.dropout = Dropout(dropout, shared=-2 if locked else None)
        self.word_dropout = Dropout(word_dropout, shared=-1)
        nn.init.uniform_(self.table.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(.., T) -> (.., T, dim)"""
        return self.word_dropout(self.dropout(self.table(tokens)))
