"""Coverage penalty: rank finished hypotheses by how much of the source their attention covered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.decode.hypothesis import Hypothesis

# A place never looked at costs beta * 9.2 instead of infinity: hard and local attention skip many places.
FLOOR = 1e-4


def coverage_penalty(weights: Tensor, source_mask: Tensor | None = None, *, beta: float) -> Tensor:
    """cp = beta sum_i log min(sum_t a_ti, 1)   (Wu 2016, eq. 14), at most 0: weights (.., T, S) -> (..).

    Padding (source_mask (.., S) False) costs nothing. The sum over t is clamped to at least FLOOR."""
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be 0 or more and finite, got {beta}; 0 is no coverage penalty")
    looked = weights.sum(-2, dtype=torch.promote_types(weights.dtype, torch.float32))  # (.., S)
    cost = looked.clamp(FLOOR, 1).log()
    if source_mask is not None:
        if source_mask.dtype != torch.bool or source_mask.shape[-1:] != cost.shape[-1:]:
            raise ValueError(
                f"source_mask must be boolean (True = a real token) of the {cost.shape[-1]} places of the weights; "
                f"got {source_mask.dtype} of shape {tuple(source_mask.shape)}"
            )
        cost = cost.masked_fill(~source_mask, 0)
    return beta * cost.sum(-1)


def rerank(
    hypotheses: Sequence[Hypothesis],
    weights: Tensor | Sequence[Tensor],
    source_mask: Tensor | None = None,
    *,
    length_penalty: float,
    coverage: float,
) -> list[Hypothesis]:
    """One sentence's hypotheses with their cp, best first by score / length^alpha + cp, with beta = `coverage`.

    The weights of each are (T, S), a row for every token its score sums over, the end token included; further rows
    are padding. This only reranks; cp does not steer the search, so search with a larger `n_best` than needed."""
    if len(weights) != len(hypotheses):
        raise ValueError(
            f"every hypothesis needs weights: got {len(hypotheses)} hypotheses and weights of {len(weights)}"
        )
    covered = []
    for hypothesis, rows in zip(hypotheses, weights, strict=True):
        if len(rows) < hypothesis.length:
            raise ValueError(
                f"a hypothesis of {hypothesis.length} tokens, the end token included, came with weights of "
                f"{len(rows)}; trace a teacher-forced pass over the whole answer"
            )
        cp = coverage_penalty(rows[: hypothesis.length], source_mask, beta=coverage)
        covered.append(replace(hypothesis, coverage=cp.item()))
    return sorted(covered, key=lambda hypothesis: hypothesis.normalised(length_penalty), reverse=True)
