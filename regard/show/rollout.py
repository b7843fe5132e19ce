"""Attention followed through all layers: from what a place reads, back to the input (Abnar and Zuidema 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rollout(layers: Sequence[np.ndarray], *, residual: float = 0.5) -> np.ndarray:
    """A'_L ... A'_2 A'_1 with A'_l = r I + (1 - r) mean over heads of A_l, its rows normalised.

    `layers` are weights (H, T, T), the first layer first; r, the `residual`, is how much of a place goes past the
    attention unchanged. Row t of what comes back (T, T) is how much each input place is part of place t at the top.
    A row that looks at nothing is only itself."""
    if not len(layers):
        raise ValueError("no layers to roll out: give the weights (heads, tokens, tokens) of each, the first first")
    if not 0 <= residual <= 1:
        raise ValueError(f"residual must lie in [0, 1], got {residual}")
    tokens = np.shape(layers[0])[-1] if np.ndim(layers[0]) else 0
    whole = np.eye(tokens)
    for number, weights in enumerate(layers):
        weights = np.asarray(weights, dtype=np.float64)
        if weights.ndim != 3 or weights.shape[1:] != (tokens, tokens) or weights.size == 0:
            raise ValueError(
                f"layer {number}: weights must have shape (heads, tokens, tokens), in every layer as many, "
                f"got {weights.shape}: give one picture or text at a time"
            )
        if not np.isfinite(weights).all() or weights.min() < 0:
            raise ValueError(
                f"layer {number}: weights must be finite and not negative: give them after the softmax"
            )
        mixed = residual * np.eye(tokens) + (1 - residual) * weights.mean(0)
        total = mixed.sum(1, keepdims=True)
        mixed = np.where(total > 0, mixed / np.where(total > 0, total, 1), np.eye(tokens))
        whole = mixed @ whole
    return whole


def patch_map(weights: np.ndarray, grid: tuple[int, int], *, pool: str = "class") -> np.ndarray:
    """Of weights (T, T), what the answer is read from: how much it looks at each patch, as (rows, columns).

    `pool` "class": the class token, which stands before the patches; "mean": all patches alike, where a class token
    may stand before them or not. What falls on the class token itself is left out, so the sum may be below 1."""
    weights, (rows, columns) = np.asarray(weights), grid
    before = len(weights) - rows * columns  # tokens before the patches
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or before not in (0, 1):
        raise ValueError(
            f"a grid of {rows} x {columns} patches needs square weights with {rows * columns} rows, or one more "
            f"with a class token, got {weights.shape}"
        )
    if pool not in ("class", "mean"):
        raise ValueError(f"pool must be 'class' or 'mean', got {pool!r}")
    if pool == "class" and not before:
        raise ValueError("pool 'class' needs a class token before the patches, and there is none; use pool='mean'")
    asking = weights[:1] if pool == "class" else weights[before:]
    return asking[:, before:].mean(0).reshape(rows, columns)
