"""Cross-entropy from states, without storing the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.base.dtype import at_least_float32
from regard.data.text.windows import TextBatch
from regard.layers.replay import must_not_sync

try:
    from regard.layers import loss_cuda
except ImportError:  # no Triton: plain operations on any device
    loss_cuda = None  # type: ignore[assignment]

ROWS = 1024  # rows of logits held at once; even, so that the two passes of R-Drop stay together
FEWEST_ROWS = 256  # of large vocabularies on a CPU, so that products stay large
ROOM_ON_CPU = 1 << 22  # logits held at once on a CPU: memory that the next chunk gets again, not the system
ROOM = 1 << 28  # logits held at once on a GPU, where many short chunks take longer than few
ALIGNED = 64  # in half precision GPUs multiply matrices of other numbers of words several times more slowly
NEVER = -1e4  # the logit of a word that does not exist: its exp is 0


@dataclass(frozen=True)
class Loss:
    """What `model.loss(batch)` returns. `total` is differentiated; the rest is for metrics and REINFORCE."""

    total: Tensor  # scalar: (smoothed) negative log-likelihood of all target tokens, plus the R-Drop term
    likelihood: Tensor  # (B,) log p(target | source) of each row, unsmoothed, without gradient
    tokens: Tensor  # scalar: number of target tokens that total sums over
    sampled: Sampled | None = None  # hard attention's places, or an agent's actions
    penalty: Tensor | None = None  # scalar: differentiated beside total, but not logged


@dataclass(frozen=True)
class Sampled:
    """The places that hard attention sampled, one for each target token (B, T), and what each of them earned; or
    the actions of an agent, one for each step, and their advantages."""

    reward: Tensor  # log p(y_t) of the token that followed the look, or the advantage, without gradient
    log_probability: Tensor  # of the sampled place or action, with gradient
    entropy: Tensor  # of the distribution it was sampled from, with gradient
    mask: Tensor  # True = a target token
    before: Tensor | None = None  # log p of an agent's actions when they were taken


def label_loss(
    logits: Tensor, labels: Tensor, *, counted: Tensor | None = None, label_smoothing: float = 0.0
) -> Loss:
    """Cross-entropy of logits (B, classes) with one class each (B,), smoothed as in `class_loss`. Rows where
    `counted` (B,) is False are left out; None: there are none."""
    logs = at_least_float32(logits).log_softmax(-1)
    if counted is not None:
        logs = logs * counted[:, None]
    right = logs.gather(1, labels[:, None]).squeeze(1)
    total = -(1 - label_smoothing) * right.sum()
    if label_smoothing:
        total = total - label_smoothing * logs.mean(1).sum()
    rows = torch.full((), len(logs), device=logs.device) if counted is None else counted.sum()
    return Loss(total, right.detach(), rows)


def class_loss(logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0) -> Loss:
    """Cross-entropy of logits (B, classes) with soft targets t, smoothed: (1 - e) t + e / classes (Szegedy 2016)"""
    logs = at_least_float32(logits).log_softmax(-1)
    wanted = (1 - label_smoothing) * targets + label_smoothing / logits.shape[1]
    right = targets.argmax(1, keepdim=True)
    rows = torch.full((), len(logs), device=logs.device)
    return Loss(-(wanted * logs).sum(), logs.detach().gather(1, right).squeeze(1), rows)


def bit_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Loss:
    """Binary cross-entropy of logits with bits (B, T, O), at the steps where the mask (B, T) is True. A token
    is one bit."""
    logits = at_least_float32(logits)
    logs = -F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none")
    rows = (logs * mask[..., None]).sum((1, 2))
    return Loss(-rows.sum(), rows.detach(), mask.sum() * logits.shape[-1])


def next_token_loss(states: Tensor, out: nn.Linear, batch: TextBatch, *, label_smoothing: float = 0.0) -> Loss:
    """The loss of each next token; states (B, T - 1, D)"""
    total, likelihoods = token_loss(
        states,
        out.weight,
        out.bias,
        batch.tokens[:, 1:],
        batch.counted,
        label_smoothing=label_smoothing,
        # So that a training step can be captured.
        fixed_shapes=shapes_stay() or (states.is_cuda and torch.is_grad_enabled()),
    )
    return Loss(total, likelihoods.sum(1), batch.counted.sum())


def check_one_document(batch: TextBatch, model: str) -> None:
    """ValueError for rows of several documents that must not see each other."""
    if batch.since is not None:
        raise ValueError(
            f"{model} reads a row from left to right and cannot separate its documents; "
            "set data.separate_documents = false"
        )


def shapes_stay() -> bool:
    """Whether the loss is part of a graph, which may not depend on how many tokens are real."""
    return torch.compiler.is_compiling() or must_not_sync()


def token_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Tensor,
    *,
    label_smoothing: float = 0.0,
    r_drop: float = 0.0,
    fixed_shapes: bool = False,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of softmax(W x + b) (b may be None) against the target, where the mask is True.

    states (B, T, D), weight (V, D), target and mask (B, T) -> the sum, and log p(target) of each token (B, T), 0
    where the mask is False.
    label_smoothing e: the target is (1 - e) at the right token plus e / V everywhere (Szegedy 2016).
    r_drop a: the second half of the rows repeats the first with another dropout mask; where the two predict p and
    q, a (KL(p || q) + KL(q || p)) / 2 is added (R-Drop, Liang 2021).
    fixed_shapes: logits of padding are computed too and left out of the sum, so that no GPU sync is needed to count
    what is not padding."""
    if torch.is_autocast_enabled(states.device.type):
        dtype = torch.get_autocast_dtype(states.device.type)
        states, weight = states.to(dtype), weight.to(dtype)
    learning = torch.is_grad_enabled()  # inside an autograd.Function it is always off
    sides = [side.flatten(0, 1) if fixed_shapes else side[mask] for side in (states, target, mask)]
    if r_drop:  # the two predictions of a token side by side
        sides = [side.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1) for side in sides]
    states, target, real = sides  # (N, D), (N,) and (N,)
    counted = real if fixed_shapes else None
    total, likelihoods = _TokenLoss.apply(states, weight, bias, target, counted, label_smoothing, r_drop, learning)
    if r_drop:
        likelihoods = likelihoods.view(-1, 2).T.flatten()
    if fixed_shapes:
        return total, likelihoods.view_as(mask)
    return total, torch.zeros_like(mask, dtype=likelihoods.dtype).masked_scatter(mask, likelihoods)


class _TokenLoss(torch.autograd.Function):
    """The gradient of the logits is softmax minus target, so the forward pass already computes the gradients of
    states and weight, chunk by chunk, and discards the logits."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        counted: Tensor | None,
        label_smoothing: float,
        r_drop: float,
        learning: bool,
    ) -> tuple[Tensor, Tensor]:
        size = len(weight)
        weight, added = _aligned(states, weight, bias)
        dtype = torch.promote_types(states.dtype, torch.float32)
        likelihoods = torch.empty(len(states), dtype=dtype, device=states.device)  # log p of each target
        total = torch.zeros((), dtype=dtype, device=states.device)
        slopes = _Slopes(states, weight, bias is not None) if learning else None
        count = rows_at_once(states, len(weight))
        for begin in range(0, len(states), count):
            part = slice(begin, begin + count)
            right, real = target[part, None], None if counted is None else counted[part]
            if not r_drop and _has_kernel(states):
                slope = F.linear(states[part], weight, added)
                likelihoods[part], mean = loss_cuda.losses_(
                    slope, target[part], real, size, label_smoothing, learn=slopes is not None
                )
                total -= (1 - label_smoothing) * likelihoods[part].sum()
                if mean is not None:
                    total -= label_smoothing * mean.sum()
                if slopes is not None:
                    slopes.add(part, slope, None)  # 0 already where a row does not count
                continue
            logs = F.log_softmax(F.linear(states[part], weight, added), -1, dtype=dtype)  # (n, V)
            likelihood = logs.gather(1, right).squeeze(1)
            likelihoods[part] = likelihood if real is None else likelihood * real
            total -= (1 - label_smoothing) * likelihoods[part].sum()
            if label_smoothing:
                total -= label_smoothing * _sum(logs[:, :size].mean(-1), real)
            if not (r_drop or slopes):
                continue
            slope = logs.exp() if r_drop else logs.exp_()  # of the logits
            if r_drop:
                apart, pull = _disagreement(slope, logs)
                total += r_drop / 2 * _sum(apart, real)
                slope.add_(pull, alpha=r_drop / 2)
            if slopes is not None:
                slopes.add(part, _less_target_(slope, right, size, label_smoothing), real)
        if slopes is not None:
            ctx.save_for_backward(*slopes.of_words(size))
        ctx.mark_non_differentiable(likelihoods)
        return total, likelihoods

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        for_states, for_weight, for_bias = ctx.saved_tensors
        by_bias = None if for_bias is None else grad * for_bias
        return grad.to(for_states.dtype) * for_states, grad * for_weight, by_bias, *[None] * 5


def rows_at_once(states: Tensor, words: int) -> int:
    """How many rows of logits are held at once."""
    if states.is_cuda:
        return max(ROWS, ROOM // words // ROWS * ROWS)
    return min(ROWS, max(FEWEST_ROWS, ROOM_ON_CPU // words // 2 * 2))


def _has_kernel(states: Tensor) -> bool:
    half_or_single = states.dtype in (torch.float32, torch.float16, torch.bfloat16)
    return loss_cuda is not None and states.is_cuda and half_or_single and not torch.compiler.is_compiling()


class _Slopes:
    """The gradients of states (N, D), weight (V, D) and bias (V,), chunk by chunk."""

    def __init__(self, states: Tensor, weight: Tensor, bias: bool):
        self.states, self.weight = states, weight
        self.for_states = torch.empty_like(states)
        wide = torch.promote_types(weight.dtype, torch.float32)
        self.for_weight = torch.zeros_like(weight, dtype=wide, memory_format=torch.contiguous_format)
        self.for_bias = torch.zeros(len(weight), dtype=wide, device=weight.device) if bias else None

    def add(self, part: slice, slope: Tensor, real: Tensor | None) -> None:
        """slope (n, V): the gradient of the logits of these rows; real (n,): which rows count, None: all."""
        slope, rows = slope.to(self.states.dtype), self.states[part]
        if self.for_bias is not None:
            self.for_bias += (
                slope.sum(0, dtype=self.for_bias.dtype) if real is None else real.to(slope.dtype) @ slope
            )
        self.for_states[part] = slope @ self.weight
        if real is not None:  # cheaper here than on the slope
            self.for_states[part] *= real[:, None]
            rows = rows * real[:, None]
        _add_product(self.for_weight, slope.T, rows)

    def of_words(self, size: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """All three, without the words that were added behind the first `size`."""
        for_bias = None if self.for_bias is None else self.for_bias[:size]
        return self.for_states, self.for_weight[:size].to(self.weight.dtype), for_bias


def _aligned(states: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Weight and bias with so many more words, which are never likely, that products with these states are fast."""
    added = None if bias is None else bias.to(states.dtype)
    if more := words_missing(states, len(weight)):
        added = F.pad(states.new_zeros(len(weight)) if added is None else added, (0, more), value=NEVER)
        weight = F.pad(weight, (0, 0, 0, more))
    return weight, added


def _less_target_(shares: Tensor, right: Tensor, size: int, label_smoothing: float) -> Tensor:
    """softmax (n, V) minus the smoothed target, in place: the gradient of the logits."""
    if label_smoothing:
        shares[:, :size].sub_(label_smoothing / size)
    return shares.scatter_add_(1, right, torch.full_like(right, label_smoothing - 1, dtype=shares.dtype))


def words_missing(states: Tensor, size: int) -> int:
    """How many words to add to a vocabulary for fast products with these states."""
    return -size % ALIGNED if states.is_cuda and states.dtype != torch.float32 else 0


def _sum(rows: Tensor, real: Tensor | None) -> Tensor:
    """The sum of the rows (N,) that are not padding; None: of all rows."""
    return rows.sum() if real is None else (rows * real).sum()


def _add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype == into.dtype:
        into.addmm_(left, right)
    else:
        into += left @ right


def _disagreement(chances: Tensor, logs: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (2 N, V), alternating p and q -> KL(p || q), KL(q || p) (2 N,), and the gradient of their sum w.r.t. the
    logits.

    The gradient of KL(p || q) is p (log p - log q - KL(p || q)) w.r.t. the logits of p, q - p w.r.t. those of q."""
    p, log = chances.view(-1, 2, chances.shape[-1]), logs.view(-1, 2, logs.shape[-1])
    ratio = log - log.flip(1)
    divergence = (p * ratio).sum(-1, keepdim=True)  # (N, 2, 1)
    return divergence.flatten(), (p * (ratio - divergence + 1) - p.flip(1)).flatten(0, 1)
