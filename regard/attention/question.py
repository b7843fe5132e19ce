"""What a query brings along, beside the query itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from regard.attention.packing import Packing
from regard.attention.shapes import check_broadcast
from regard.base.short_repr import short_repr


@dataclass(frozen=True)
class Question:
    """The query and what some scores and weighings need besides it. A plain tensor stands for Question(query).

    A weighing that needs more has a subclass: its fields, which of their axes counts the queries (`query_axis`),
    and `check` for their shapes."""

    query: Tensor  # (B, .., Q, D)
    position: Tensor | None = None  # (Q,) or (B, Q): the step t of each query; None: 0, 1, 2, ...
    since: Tensor | None = None  # (B, Q): the first place that causal attention may see (the start of a document)
    mask: Tensor | None = None  # boolean (Q, K), (B, Q, K) or (B, H, Q, K): where each query may look
    bias: Tensor | None = None  # float of such a shape: added to the scores; -inf hides a place
    newest: bool = False  # the queries are the last places of the memory, as in decoding
    packing: Packing | None = None  # query and memory are packed rows; each looks only at itself
    soft: Tensor | None = None  # (B,): rows whose hard looks are soft in training; None: drawn for each look

    query_axis: ClassVar[dict[str, int]] = {"position": -1, "since": -1, "query": -2, "mask": -2, "bias": -2}

    __repr__ = short_repr

    def positions(self) -> Tensor:
        """The step of each query: `position`, or 0, 1, 2, ..."""
        if self.position is not None:
            return self.position
        return torch.arange(self.query.shape[-2], device=self.query.device)

    def select(self, rows: Tensor, heads: Sequence[int] | None = None) -> Self:
        """The question of these queries alone and, where queries are split into heads (B, H, Q, D), of these
        heads."""
        split, chosen = heads is not None and self.query.dim() == 4, {}
        for name, axis in self.query_axis.items():
            x = getattr(self, name)
            if x is None:
                continue
            x = x.index_select(axis, rows) if x.shape[axis] > 1 else x
            has_heads = split and x.dim() == 2 - axis and x.shape[1] > 1
            chosen[name] = x[:, heads] if has_heads else x
        return replace(self, **chosen)

    def spread(self, x: Tensor, size: int, places: Tensor | None) -> Tensor:
        """A mask or bias, broadcastable to (B, .., Q, K); or, where places (B, .., Q, S) of a memory of `size` are
        given, its entries there."""
        x = x.unsqueeze(1) if x.dim() == 3 and self.query.dim() == 4 else x
        if places is None:
            return x
        return x.expand(*places.shape[:-1], size).gather(-1, places.clamp(0, size - 1))

    def check(self, size: int) -> None:
        """ValueError unless all that comes with the query fits it and a memory of `size` places."""
        if self.position is self.since is self.mask is self.bias is None:
            return  # the usual case; a decoder's steps are short, so it should cost nothing
        batch, rows = self.query.shape[0], self.query.shape[-2]
        self._check_shape("position", ((rows,), (batch, rows), (1, rows)))
        self._check_shape("since", ((batch, rows), (1, rows)))
        for name, x in (("mask", self.mask), ("bias", self.bias)):
            if x is None:
                continue
            if (x.dtype == torch.bool) != (name == "mask"):
                raise ValueError(
                    f"a query's mask is boolean, True = may look, its bias is a float; got {x.dtype} as {name}"
                )
            heads = tuple(self.query.shape[1:-2])
            whole = (batch, *heads, rows, size) if x.dim() > 3 else (batch, rows, size)[-x.dim() :]
            check_broadcast(name, x, whole)

    def _check_shape(self, name: str, shapes: Sequence[tuple[int, ...]]) -> None:
        x = getattr(self, name)
        if x is not None and x.shape not in shapes:
            either = " or ".join(map(str, dict.fromkeys(shapes)))
            raise ValueError(f"{name} must have the shape {either}, got {tuple(x.shape)}")


@dataclass(frozen=True, kw_only=True)
class TemperedQuestion(Question):
    """A question to the cosine score with a beta for each query."""

    beta: Tensor  # (B, .., Q): inverse temperature

    query_axis: ClassVar[dict[str, int]] = Question.query_axis | {"beta": -1}

    def check(self, size: int) -> None:
        """ValueError unless beta, and all that comes with any question, fits the query and such a memory."""
        super().check(size)
        check_broadcast("beta", self.beta, tuple(self.query.shape[:-1]))
