"""Checks at the door: a wrong shape is answered in words. They compare sizes only, so they cost no GPU sync."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.score import Question


def check_width(what: str, x: Tensor, width: int | None) -> None:
    """x is (batch, .., places, width); None: any width."""
    shape = x.shape
    if len(shape) < 3 or (width is not None and shape[-1] != width):
        wanted = "width" if width is None else width
        raise ValueError(f"{what} must have the shape (batch, places, {wanted}), got {tuple(x.shape)}")


def check_memory(keys: Tensor, values: Tensor, mask: Tensor | None) -> None:
    if keys.dim() < 3 or (values is not keys and values.shape[:-1] != keys.shape[:-1]):
        raise ValueError(
            "a memory has keys (batch, places, key width) and values (batch, places, value width), one value for "
            f"each key; got keys {tuple(keys.shape)} and values {tuple(values.shape)}"
        )
    if mask is None:
        return
    wanted = (len(keys), keys.shape[-2])
    if mask.dtype != torch.bool or mask.shape != wanted:
        raise ValueError(
            f"a memory's mask is boolean, True = may look, of shape {wanted}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def check_growth(held: Tensor, new: Tensor) -> None:
    """Everything but the number of places must be the same."""
    *lead, _, width = held.shape
    *other, _, new_width = new.shape
    if lead != other or width != new_width:
        wanted = ", ".join(map(str, (*lead, "places", width)))
        raise ValueError(f"this memory holds ({wanted}) and can only grow by the same, got {tuple(new.shape)}")


def check_batch(query: Tensor, keys: Tensor) -> None:
    """A memory of one row serves all rows of a query."""
    if query.dim() == keys.dim() and all(
        k in (1, q) for q, k in zip(query.shape[:-2], keys.shape[:-2], strict=True)
    ):
        return
    raise ValueError(
        f"a query of shape {tuple(query.shape)} cannot look at a memory with keys {tuple(keys.shape)}: "
        "both need the same batch (and heads), as in (batch, queries, width) and (batch, places, width)"
    )


def check_extras(question: Question, size: int) -> None:
    """Whether what comes with a query fits it and a memory of this size."""
    query = question.query
    batch, rows = len(query), query.shape[-2]
    for name, x, shapes in (
        ("position", question.position, ((rows,), (batch, rows), (1, rows))),
        ("since", question.since, ((batch, rows), (1, rows))),
    ):
        if x is not None and x.shape not in shapes:
            raise ValueError(f"{name} must have the shape {_either(shapes)}, got {tuple(x.shape)}")
    for name, x in (("beta", question.beta), ("gate", question.gate), ("gamma", question.gamma)):
        if x is not None:
            _check_broadcast(name, x, tuple(query.shape[:-1]))
    if question.previous is not None:
        _check_broadcast("previous", question.previous, (*query.shape[:-1], size))
    if question.shift is not None:
        _check_broadcast("shift", question.shift, (*query.shape[:-1], question.shift.shape[-1]))
        if question.shift.shape[-1] % 2 == 0:
            raise ValueError(f"shift has an odd number of moves, -s .. s, got {question.shift.shape[-1]}")
    for name, x in (("mask", question.mask), ("bias", question.bias)):
        if x is None:
            continue
        if (x.dtype == torch.bool) != (name == "mask"):
            raise ValueError(
                f"a query's mask is boolean, True = may look, its bias is a float; got {x.dtype} as {name}"
            )
        heads = tuple(query.shape[1:-2])
        _check_broadcast(name, x, (batch, *heads, rows, size) if x.dim() > 3 else (batch, rows, size)[-x.dim() :])


def _check_broadcast(name: str, x: Tensor, wanted: tuple[int, ...]) -> None:
    if x.dim() != len(wanted) or any(n not in (1, w) for n, w in zip(x.shape, wanted, strict=True)):
        raise ValueError(f"{name} must have the shape {wanted} (1 is broadcast), got {tuple(x.shape)}")


def _either(shapes: tuple[tuple[int, ...], ...]) -> str:
    return " or ".join(map(str, dict.fromkeys(shapes)))
