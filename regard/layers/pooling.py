"""Many states become one vector: their mean, their maximum, the last one, or what a learned query reads of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import Attend, Memory, Question, Score
from regard.attention.kernels.dropout import Dropout
from regard.attention.kernels.products import weighted_sums
from regard.layers.recurrent import Encoder

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
    """u_i = tanh(W h_i + b), a = softmax(u_i . u_w), read = sum_i a_i h_i, with a learned u_w."""

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.context = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.attend = PoolingAttend(Context(hidden, dim))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        memory = Memory(self.attend.score.keys(states), states, mask)  # states at padding are finite
        query = self.context.to(memory.keys.dtype).expand(len(states), 1, -1)
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
        found = states.masked_fill(~mask[..., None], low).amax(1)
        return found.masked_fill(~mask.any(1)[:, None], 0)


class LastPool(nn.Module):
    """The last state; of both directions [forward_T; backward_1], where each has read the whole row."""

    def __init__(self, *, bidirectional: bool):
        super().__init__()
        self.bidirectional = bidirectional

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        place = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[-1])
        last = states.gather(1, place)[:, 0]
        if self.bidirectional:
            half = states.shape[-1] // 2
            last = torch.cat([last[:, :half], states[:, 0, half:]], -1)
        return last.masked_fill(~mask.any(1)[:, None], 0)


def build_pool(name: str, dim: int, *, hidden: int, bidirectional: bool) -> nn.Module:
    """The pooling of that name, finite states (B, T, dim) and mask (B, T) -> (B, dim). An empty row gives 0."""
    if name == "attention":
        return AttentionPool(dim, hidden)
    if name == "last":
        return LastPool(bidirectional=bidirectional)
    if name not in POOLS:
        raise ValueError(f"unknown pooling {name!r}; there are {', '.join(POOLS)}")
    return MeanPool() if name == "mean" else MaxPool()


class PooledEncoder(nn.Module):
    """A bidirectional recurrent encoder over rows, or none (layers = 0), and a pooling of its states."""

    def __init__(self, cell: str, inputs: int, dim: int, *, layers: int, pool: str, hidden: int, dropout: float):
        super().__init__()
        self.encoder = Encoder(cell, inputs, dim, layers=layers, dropout=dropout) if layers else None
        self.dim = 2 * dim if layers else inputs
        self.dropout = Dropout(dropout)
        self.pool = build_pool(pool, self.dim, hidden=hidden or self.dim, bidirectional=layers > 0)

    def forward(self, x: Tensor, mask: Tensor, embed: nn.Module | None = None) -> Tensor:
        """x (B, T, inputs), padded on the right, or tokens (B, T) and their embedding -> (B, dim)"""
        return self.pool(self.states(x, mask, embed), mask)

    def states(self, x: Tensor, mask: Tensor, embed: nn.Module | None = None) -> Tensor:
        """What is pooled (B, T, dim)."""
        if self.encoder is None:
            return x if embed is None else embed(x)
        states = self.encoder.states(x, mask) if embed is None else self.encoder.read(x, mask, embed)
        return self.dropout(states)


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
