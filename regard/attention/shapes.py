"""Checks at the door: a wrong shape is answered in words. They compare sizes only, so they cost no GPU sync."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import BadInput

MOST = 1 << 26  # features: beyond any model, and safe from integer overflow


def check_sizes(**sizes: int | None) -> None:
    """Numbers of features; None: there is none to check."""
    for name, size in sizes.items():
        if size is not None and not 1 <= size <= MOST:
            raise BadInput(f"{name} must lie in [1, {MOST:,}], got {size!r:.40}")


def check_width(what: str, x: Tensor, width: int | None) -> None:
    """x is (batch, .., places, width); None: any width."""
    shape = x.shape
    if len(shape) < 3 or (width is not None and shape[-1] != width):
        wanted = "width" if width is None else width
        raise BadInput(f"{what} must have the shape (batch, places, {wanted}), got {tuple(x.shape)}")


def check_memory(keys: Tensor, values: Tensor, mask: Tensor | None) -> None:
    if keys.dim() < 3 or (values is not keys and values.shape[:-1] != keys.shape[:-1]):
        raise BadInput(
            "a memory has keys (batch, places, key width) and values (batch, places, value width), one value for "
            f"each key; got keys {tuple(keys.shape)} and values {tuple(values.shape)}"
        )
    if mask is None:
        return
    wanted = (keys.shape[0], keys.shape[-2])
    if mask.dtype != torch.bool or mask.shape != wanted:
        raise BadInput(
            f"a memory's mask is boolean, True = may look, of shape {wanted}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def check_growth(old: Tensor, new: Tensor) -> None:
    """Everything but the number of places must be the same."""
    *lead, _, width = old.shape
    *other, _, new_width = new.shape
    if lead != other or width != new_width:
        wanted = ", ".join(map(str, (*lead, "places", width)))
        raise BadInput(f"this memory holds ({wanted}) and can only grow by the same, got {tuple(new.shape)}")


def check_batch(query: Tensor, keys: Tensor) -> None:
    """A memory of one row serves all rows of a query."""
    if query.dim() == keys.dim() and all(
        k in (1, q) for q, k in zip(query.shape[:-2], keys.shape[:-2], strict=True)
    ):
        return
    raise BadInput(
        f"a query of shape {tuple(query.shape)} cannot look at a memory with keys {tuple(keys.shape)}: "
        "both need the same batch (and heads), as in (batch, queries, width) and (batch, places, width)"
    )


def check_broadcast(name: str, x: Tensor, wanted: tuple[int, ...]) -> None:
    """x has this shape, or 1 in place of some of its sizes."""
    if x.dim() != len(wanted) or any(n not in (1, w) for n, w in zip(x.shape, wanted, strict=True)):
        raise BadInput(f"{name} must have the shape {wanted} (1 is broadcast), got {tuple(x.shape)}")
