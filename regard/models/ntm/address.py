"""Where a head of a Neural Turing machine is: its addressing as a way to weigh (Graves 2014, section 3.3).

Letters: B rows, Q heads, K places, W width of a place, S moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention import Question, TemperedQuestion, Weigh
from regard.attention.shapes import check_broadcast
from regard.attention.weigh import Places, Weighed, masked_softmax


@dataclass(frozen=True, kw_only=True)
class HeadQuestion(TemperedQuestion):
    """What heads ask: with their keys (B, Q, W) as queries, the strengths beta (B, Q) of these, and"""

    previous: Tensor  # (B, Q, K): the weights of the step before
    gate: Tensor  # (B, Q): how much the content counts against them, in [0, 1]
    shift: Tensor  # (B, Q, S): chances to move by -(S // 2) .. S // 2 places, S odd
    gamma: Tensor  # (B, Q): the exponent that sharpens, at least 1

    query_axis: ClassVar[dict[str, int]] = TemperedQuestion.query_axis | {
        **dict.fromkeys(("gate", "gamma"), -1),
        **dict.fromkeys(("previous", "shift"), -2),
    }

    def check(self, size: int) -> None:
        """ValueError unless all numbers fit the keys and a memory of `size` places."""
        super().check(size)
        heads, moves = tuple(self.query.shape[:-1]), self.shift.shape[-1]
        for name in ("gate", "gamma"):
            check_broadcast(name, getattr(self, name), heads)
        check_broadcast("previous", self.previous, (*heads, size))
        check_broadcast("shift", self.shift, (*heads, moves))
        if moves % 2 == 0:
            raise ValueError(f"shift has an odd number of moves, -s .. s, got {moves}")


class Address(Weigh):
    """The addressing of a head (Graves 2014, eq. 5-9), of what the question brings:

    w^c = softmax(scores)                    the scores are beta cos(k, M_i)
    w^g = g w^c + (1 - g) w_{t-1}
    w~_i = sum_j w^g_j s(i - j)              round the memory
    w_i = w~_i^gamma / sum_j w~_j^gamma

    The last is softmax(gamma log w~), since powers of small numbers underflow. A move, or the step before, may lead
    to masked places, so the mask is applied to it too."""

    name = "address"
    fused = False
    beside = ("gate", "previous", "shift", "gamma", "beta")

    def forward(self, scores: Tensor, mask: Tensor | None, places: Places | None, question: Question) -> Weighed:
        if not isinstance(question, HeadQuestion):
            raise ValueError("a head asks with beta, previous, gate, shift and gamma: pass a HeadQuestion")
        content = masked_softmax(scores, mask)
        gated = torch.lerp(question.previous, content, question.gate[..., None])
        moved = rotate(gated, question.shift)
        logs = moved.clamp_min(torch.finfo(moved.dtype).tiny).log()
        return Weighed(masked_softmax(logs * question.gamma[..., None], mask))


def rotate(weights: Tensor, shift: Tensor) -> Tensor:
    """w~_i = sum_j w_j s(i - j), round the memory: (.., K) and (.., S), moves by -(S // 2) .. S // 2 -> (.., K)"""
    size, reach = weights.shape[-1], shift.shape[-1] // 2
    if reach >= size:
        raise ValueError(f"a memory of {size} places allows moves by at most {size - 1} places, got {reach}")
    around = torch.cat([weights[..., size - reach :], weights, weights[..., :reach]], -1)
    parts = [around[..., start : start + size] for start in range(2 * reach, -1, -1)]  # moved by -reach .. reach
    chances = shift.split(1, -1)
    moved = parts[0] * chances[0]
    for part, chance in zip(parts[1:], chances[1:], strict=True):
        moved = torch.addcmul(moved, part, chance)
    return moved
