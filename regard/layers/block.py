"""The Transformer's block, told once: look at your own sequence, perhaps at another, then think by yourself.

Encoder (no mask of the future), decoder (with it, and a look at the source) and language model (with it, and no
source) are three uses of it. `norm` is "post" as in Vaswani 2017 or "pre" as in Radford 2019."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Memory, MultiHead, Past, Question
from regard.attention.kernels.dropout import Dropout

NORMS = ("post", "pre")


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),  # GPT-2's
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": quick_gelu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


def check_block(*, dim: int, heads: int, activation: str, norm: str) -> None:
    if dim % heads:
        raise ValueError(f"dim must be a multiple of heads, got dim {dim} and {heads} heads")
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}; there are {', '.join(ACTIVATIONS)}")
    if norm not in NORMS:
        raise ValueError(f"norm must be post (Vaswani 2017) or pre (Radford 2019), got {norm!r}")


class FeedForward(nn.Module):
    """W_2 act(W_1 x + b_1) + b_2, at every position alike   (Vaswani 2017, eq. 2)"""

    def __init__(self, dim: int, ff: int, *, activation: str, dropout: float):
        super().__init__()
        self.inner, self.outer = nn.Linear(dim, ff), nn.Linear(ff, dim)
        self.act, self.dropout = ACTIVATIONS[activation], Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.act(self.inner(x))))


class Block(nn.Module):
    """x + part(norm(x)) (pre-norm) or norm(x + part(x)) (post-norm), for each part in turn: the look at one's own
    sequence (`attend`), at another (`cross`), and the feed-forward layer (`feed`)."""

    def __init__(
        self,
        dim: int,
        heads: int,
        ff: int,
        *,
        activation: str = "relu",
        norm: str = "post",
        causal: bool = False,
        cross: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        eps: float = 1e-5,
    ):
        super().__init__()
        check_block(dim=dim, heads=heads, activation=activation, norm=norm)
        self.pre = norm == "pre"
        self.attend = MultiHead(dim, heads, causal=causal, dropout=attention_dropout)
        self.attend_norm = nn.LayerNorm(dim, eps)
        self.cross = MultiHead(dim, heads, dropout=attention_dropout) if cross else None
        self.cross_norm = nn.LayerNorm(dim, eps) if cross else None
        self.feed = FeedForward(dim, ff, activation=activation, dropout=activation_dropout)
        self.feed_norm = nn.LayerNorm(dim, eps)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        since: Tensor | None = None,
        past: Past | None = None,
        source: Memory | None = None,
    ) -> tuple[Tensor, Past | None]:
        """x (N, T, dim) -> the same shape, and the past with x behind it.

        mask (N, T): which of x may be looked at. since (N, T): where each one's document begins. With a past, x
        comes after it. source (B): what `cross` looks at; the N / B beams of a sentence ask it together."""
        grown = past

        def look(x: Tensor) -> Tensor:
            nonlocal grown
            memory = self.attend.remember(x, mask=mask)
            if past is not None:
                grown = past.append(memory)
                memory = grown.memory
            return self.attend(Question(x, since=since, newest=past is not None), memory)

        x = self._add(x, self.attend_norm, look)
        if self.cross is not None:
            assert source is not None
            x = self._add(x, self.cross_norm, partial(self._cross, source=source))
        return self._add(x, self.feed_norm, self.feed), grown

    def _cross(self, x: Tensor, source: Memory) -> Tensor:
        assert self.cross is not None
        return self.cross(x.reshape(len(source.keys), -1, x.shape[-1]), source).view_as(x)

    def _add(self, x: Tensor, norm: nn.LayerNorm | None, part: Callable[[Tensor], Tensor]) -> Tensor:
        assert norm is not None
        if self.pre:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))
