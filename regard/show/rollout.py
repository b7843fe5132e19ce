"""Attention rollout: how much of each input token reaches each token of the top layer (Abnar and Zuidema 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array

MOST_BEFORE = 8  # tokens before the patches: a class token, one of distillation, registers


@checked
def rollout(layers: Sequence[np.ndarray], *, residual: float = 0.5) -> np.ndarray:
    """A'_L ... A'_2 A'_1 with A'_l = r I + (1 - r) mean over heads of A_l, its rows normalised to sum 1.

    `layers` are weights (H, T, T), the first layer first; r, the `residual`, is the share of the skip connection.
    Row t of the result (T, T) is the share of each input token in token t of the top layer. A row of zeros, from a
    token that may look at nothing, counts as the token itself."""
    layers = list(layers)
    if not layers:
        raise BadInput("no layers to roll out: give a list of weights (heads, tokens, tokens), first layer first")
    if not 0 <= residual <= 1:
        raise BadInput(f"residual must lie in [0, 1], got {residual}")
    tokens = np.shape(layers[0])[-1] if np.ndim(layers[0]) else 0
    whole = np.eye(tokens)
    for number, weights in enumerate(layers):
        weights = to_array(weights, f"layer {number}: weights")
        if weights.ndim != 3 or weights.shape[1:] != (tokens, tokens) or weights.size == 0:
            raise BadInput(
                f"layer {number}: weights must have shape (heads, tokens, tokens), with as many tokens in every "
                f"layer, got {weights.shape}: give one image or text at a time"
            )
        if not np.isfinite(weights).all() or weights.min() < 0:
            raise BadInput(f"layer {number}: weights must be finite and not negative: give them after the softmax")
        mixed = residual * np.eye(tokens) + (1 - residual) * weights.mean(0)
        total = mixed.sum(1, keepdims=True)
        mixed = np.where(total > 0, mixed / np.where(total > 0, total, 1), np.eye(tokens))
        whole = mixed @ whole
    return whole


@checked
def patch_map(
    weights: np.ndarray, grid: tuple[int, int], *, pool: str = "class", reads: np.ndarray | None = None
) -> np.ndarray:
    """How much the answer of an image model looks at each patch (rows, columns), from weights (T, T).

    `pool` says what the answer is read from: "class", the class token, which comes before the patches; or "mean",
    the mean of all patches, with or without a class token before them. `reads`: it is a sum of all tokens instead,
    by these weights (T,). The weight on the class token itself is left out, so the sum may be below 1."""
    weights, (rows, columns) = to_array(weights), grid
    before = (len(weights) if weights.ndim else 0) - rows * columns  # class token, registers
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or not 0 <= before <= MOST_BEFORE:
        raise BadInput(
            f"a grid of {rows} x {columns} patches needs square weights with {rows * columns} rows, or one more "
            f"for a class token, got {weights.shape}"
        )
    if reads is not None:
        reads = to_array(reads)
        if reads.shape != weights.shape[:1]:
            raise BadInput(f"reads must be a weight for each of {len(weights)} tokens, got {reads.shape}")
        return (reads @ weights)[before:].reshape(rows, columns)
    if pool not in ("class", "mean"):
        raise BadInput(f"pool must be 'class' or 'mean', got {pool!r}")
    if pool == "class" and not before:
        raise BadInput("pool 'class' needs a class token before the patches, and there is none; use pool='mean'")
    asking = weights[:1] if pool == "class" else weights[before:]
    return asking[:, before:].mean(0).reshape(rows, columns)
