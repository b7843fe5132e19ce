"""The decoding state that a generator carries from one step to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention import GrowingMemory
from regard.data.short_repr import short_repr


def each_tensor(change: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Apply `change` to every tensor with rows in a tree of tuples and dataclasses. Scalars stay as they are."""
    if isinstance(tree, Tensor):
        return change(tree) if tree.dim() else tree
    if isinstance(tree, GrowingMemory):
        return tree.change_rows(change)
    if isinstance(tree, tuple):
        return tuple(each_tensor(change, part) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
        return dataclasses.replace(tree, **{name: each_tensor(change, part) for name, part in parts.items()})
    return tree


@dataclass(frozen=True)
class State:
    """Tensors in `memory` have one row per sentence (B), those in `rows` one row per hypothesis (B * W, the W
    beams of a sentence side by side). The beams of a sentence share its memory; it is never copied per beam."""

    memory: Any
    rows: Any
    width: int = 1

    __repr__ = short_repr

    def spread(self, width: int) -> State:
        """Repeat every hypothesis `width` times."""
        rows = each_tensor(lambda x: x.repeat_interleave(width, 0), self.rows)
        return State(self.memory, rows, self.width * width)

    def reorder(self, beams: Tensor) -> State:
        """Row i continues row beams[i]; beams is (B * W,)."""
        return State(self.memory, each_tensor(lambda x: x.index_select(0, beams), self.rows), self.width)

    def drop(self, keep: Tensor) -> State:
        """Keep only the sentences in keep (B',), each with all its beams."""
        beams = (keep[:, None] * self.width + torch.arange(self.width, device=keep.device)).flatten()
        return State(
            each_tensor(lambda x: x.index_select(0, keep), self.memory),
            each_tensor(lambda x: x.index_select(0, beams), self.rows),
            self.width,
        )

    def fork(self) -> State:
        """A copy to continue separately: it shares no buffer of `rows`. The memory is read-only and shared."""
        return State(self.memory, each_tensor(torch.clone, self.rows), self.width)
