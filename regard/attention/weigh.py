"""From scores to weights: soft, hard, local-m and local-p.

A weighing may choose places before scoring (`places`), so that only those are scored and read.
Masked places get weight exactly 0; a query without any allowed place gets weight 0 everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.question import Question
from regard.attention.shapes import check_sizes
from regard.base.arguments import checked
from regard.base.dtype import at_least_float32
from regard.base.shared_batch import draw
from regard.base.shared_steps import linear
from regard.base.short_repr import short_repr
from regard.errors import BadInput


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the allowed keys of each query; 0 where none is allowed, and so is the gradient."""
    if mask is None:
        return scores.softmax(-1)
    hidden, low = ~mask, torch.finfo(scores.dtype).min  # not -inf: a row of -inf would give NaN
    return scores.masked_fill(hidden, low).softmax(-1).masked_fill(hidden, 0)


@dataclass(frozen=True)
class Places:
    """The places (B, .., Q, S) that each query scores, around its centre (B, .., Q); may be out of range."""

    index: Tensor
    centre: Tensor

    __repr__ = short_repr

    def inside(self, size: int) -> Tensor:
        """Which of all `size` places of a memory these are: boolean (B, .., Q, K)"""
        every = torch.arange(size, device=self.index.device)
        return (every >= self.index[..., :1]) & (every <= self.index[..., -1:])

    def of_all(self, size: int) -> Places:
        """All places of the memory instead, around the same centre."""
        every = torch.arange(size, device=self.index.device)
        return Places(every.expand(*self.index.shape[:-1], size), self.centre)


@dataclass(frozen=True)
class Weighed:
    """Weights over the scored places and, for hard attention, the chosen place (B, .., Q)."""

    weights: Tensor
    chosen: Tensor | None = None
    log_probability: Tensor | None = None  # (B, .., Q) of a place that was sampled, with gradient
    entropy: Tensor | None = None  # (B, .., Q) of the distribution it was sampled from, with gradient

    __repr__ = short_repr


class Weigh(nn.Module):
    """Soft: softmax over the allowed places."""

    name = "soft"
    fused = True  # the fused kernel computes the same
    beside: tuple[str, ...] = ()  # the kinds, as a trace records them, of what weights are made from beside scores

    def numbers(self) -> dict[str, float]:
        """The settings of the formula."""
        return {}

    def places(self, question: Question, memory: Memory) -> Places | None:
        """Which places to score; None: all."""
        return None

    def forward(self, scores: Tensor, mask: Tensor | None, places: Places | None, question: Question) -> Weighed:
        return Weighed(masked_softmax(scores, mask))


@checked
class Hard(Weigh):
    """One place: sampled in training, the most likely place in eval mode (Xu 2015, sec. 4.1).

    Sampling has no gradient; `log_probability` and `entropy` are for REINFORCE (`learn.reinforce`). As in the
    paper, `soft_share` of the looks in training read the expectation instead (the soft weights, which have a
    gradient). The paper decides it once for an image: then a question says which rows are `soft`. Otherwise it is
    decided for each look.
    With straight_through every look is sampled, and the backward pass uses the gradient of the soft weights
    (Bengio 2013)."""

    name = "hard"
    fused = False

    def __init__(self, *, soft_share: float = 0.5, straight_through: bool = False):
        super().__init__()
        if not 0 <= soft_share < 1:
            raise BadInput(f"soft_share must lie in [0, 1), got {soft_share}")
        self.soft_share, self.straight_through = soft_share, straight_through

    def forward(self, scores: Tensor, mask: Tensor | None, places: Places | None, question: Question) -> Weighed:
        soft = masked_softmax(at_least_float32(scores), mask)
        chosen = self.choose(soft)
        probability = soft.gather(-1, chosen[..., None]).squeeze(-1)
        looks = probability > 0  # False where no place is allowed
        every = torch.arange(soft.shape[-1], device=soft.device)  # not F.one_hot, which exports one size alone
        weights = (every == chosen[..., None]).to(scores.dtype) * looks[..., None]
        if not self.training:
            return Weighed(weights, chosen)
        if self.straight_through:
            return Weighed(weights + (soft - soft.detach()).to(scores.dtype), chosen)
        log = soft.clamp_min(torch.finfo(soft.dtype).tiny).log()
        picked = log.gather(-1, chosen[..., None]).squeeze(-1) * looks
        if self.soft_share:
            if question.soft is None:
                expected = draw(picked, Tensor.uniform_) < self.soft_share
            else:
                expected = question.soft.view(-1, *[1] * (picked.dim() - 1)).expand_as(picked)
            weights = torch.where(expected[..., None], soft.to(weights.dtype), weights)
            picked = picked.masked_fill(expected, 0)  # nothing was sampled
        return Weighed(weights, chosen, picked, -(soft * log).sum(-1))

    def choose(self, soft: Tensor) -> Tensor:
        """Probabilities (B, .., Q, S) -> one place for each query"""
        if not self.training:
            return soft.argmax(-1)
        # argmax(p / Exponential(1)) is a sample from p; a masked place has p = 0 and is never sampled.
        return (soft / draw(soft, Tensor.exponential_)).argmax(-1)


@checked
class LocalMonotonic(Weigh):
    """local-m (Luong 2015): a window of half-width w centred at p_t = t, softmax inside it.

    The window is round(p_t) - w .. round(p_t) + w, so that every look has 2 w + 1 places. Where p_t is no whole
    number (local-p), the paper's [p_t - w, p_t + w] holds one place less."""

    name = "local-m"
    fused = False
    beside = ("centre",)

    def numbers(self) -> dict[str, float]:
        return {"window": self.window}

    def __init__(self, *, window: int):
        super().__init__()
        if window < 1:
            raise BadInput(f"window must be at least 1, got {window}")
        self.window = window

    def centre(self, question: Question, memory: Memory) -> Tensor:
        """(B, .., Q): the centre of each query's window."""
        query = question.query
        position = question.positions().to(torch.promote_types(query.dtype, torch.float32))
        if position.dim() == 2:
            position = position.view(position.shape[0], *[1] * (query.dim() - 3), -1)
        return position.expand(query.shape[:-1])

    def places(self, question: Question, memory: Memory) -> Places:
        centre = self.centre(question, memory)
        offsets = torch.arange(-self.window, self.window + 1, device=centre.device)
        return Places(centre.detach().round().long()[..., None] + offsets, centre)


@checked
class LocalPredictive(LocalMonotonic):
    """local-p (Luong 2015): p_t = n sigmoid(v . tanh(W s_t)), n the row's true length; the softmax inside the
    window times exp(-(i - p_t)^2 / 2 sigma^2), sigma = w / 2, not renormalised, so that p_t gets a gradient.

    W and v are stored sqrt(D) times larger than they are used. Adam moves all weights by similar amounts; without
    this scaling, sums over D features saturate the sigmoid, and its gradient vanishes before the scores learn."""

    name = "local-p"

    def __init__(self, query_dim: int, *, window: int):
        super().__init__(window=window)
        check_sizes(query_dim=query_dim)
        self.hidden = nn.Linear(query_dim, query_dim, bias=False)
        self.out = nn.Linear(query_dim, 1, bias=False)
        self.scale = query_dim**-0.5
        for part in (self.hidden, self.out):
            nn.init.uniform_(part.weight, -1, 1)

    def centre(self, question: Question, memory: Memory) -> Tensor:
        hidden = (self.scale * linear(self.hidden, question.query)).tanh()
        share = at_least_float32((self.scale * linear(self.out, hidden)).squeeze(-1)).sigmoid()  # (B, .., Q)
        return memory.lengths().view(-1, *[1] * (share.dim() - 1)) * share

    def forward(self, scores: Tensor, mask: Tensor | None, places: Places | None, question: Question) -> Weighed:
        assert places is not None
        distance = places.index - places.centre[..., None]
        near = torch.exp(-2 * (distance / self.window) ** 2)  # 1 / (2 sigma^2) = 2 / w^2
        return Weighed(masked_softmax(scores, mask) * near.to(scores.dtype))


WAYS = ("soft", "hard", "local-m", "local-p")


@checked
def build_weigh(
    name: str, query_dim: int, *, window: int, soft_share: float = 0.5, straight_through: bool = False
) -> Weigh:
    """The weighing of that name; `window` is the half-width of the local ones, the last two are for hard."""
    if name == "soft":
        return Weigh()
    if name == "hard":
        return Hard(soft_share=soft_share, straight_through=straight_through)
    if name == "local-m":
        return LocalMonotonic(window=window)
    if name == "local-p":
        return LocalPredictive(query_dim, window=window)
    raise BadInput(f"unknown way to weigh {name!r}; there are {', '.join(WAYS)}")
