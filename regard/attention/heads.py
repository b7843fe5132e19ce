"""Multi-head attention: the projections are split so that each head attends separately."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from regard.attention.attend import Attend, Look, check_mask
from regard.attention.memory import Memory
from regard.attention.score import Question, ScaledDot, Score
from regard.attention.weigh import Weigh


class MultiHead(Attend):
    """head_j = attend(X W_j^Q, Y W_j^K, Y W_j^V), concat(heads) W^O   (Vaswani 2017, 3.2.2), d_k = dim / heads.

    One projection serves all heads and is reshaped. `score` (default scaled dot) works on vectors of d_k."""

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        memory_dim: int | None = None,
        score: Score | None = None,
        weigh: Weigh | None = None,
        causal: bool = False,
        strict: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        if heads < 1 or dim % heads:
            raise ValueError(f"dim must be a multiple of heads, got dim {dim} and {heads} heads")
        head = dim // heads
        super().__init__(score or ScaledDot(head, head), weigh, causal=causal, strict=strict, dropout=dropout)
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(memory_dim or dim, dim, bias=bias)
        self.value = nn.Linear(memory_dim or dim, dim, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)  # (B, L, H D) -> (B, H, L, D)

    def _merge(self, x: Tensor) -> Tensor:
        return self.out(x.transpose(-3, -2).flatten(-2))  # (B, H, Q, D) -> (B, Q, H D)

    def _ask(self, query: Tensor | Question) -> Question:
        question = super()._ask(query)
        return replace(question, query=self._split(self.query(question.query)))

    def remember(self, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None) -> Memory:
        if mask is not None:  # before the projections, which would spread NaN
            check_mask(mask, keys)
            hidden = ~mask[..., None]
            keys, values = keys.masked_fill(hidden, 0), None if values is None else values.masked_fill(hidden, 0)
        values = keys if values is None else values
        keys, values = self._split(self.key(keys)), self._split(self.value(values))
        if self.causal:  # again after them: a query may have only padding before it, and their bias is not 0
            return super().remember(keys, values, mask)
        return replace(super().remember(keys, values), mask=mask)

    def forward(self, query: Tensor | Question, memory: Memory) -> Tensor:
        return self._merge(super().forward(query, memory))

    def look(self, query: Tensor | Question, memory: Memory) -> Look:
        """Weights and scores are per head; the read is merged and projected."""
        look = super().look(query, memory)
        return replace(look, read=self._merge(look.read))
