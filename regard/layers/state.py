"""What a generator carries from one step to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention import Past


def each_tensor(change: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """The same tree of tuples and dataclasses with every tensor that has rows changed.

    Scalars (how far a buffer is filled) belong to no row and stay as they are."""
    if isinstance(tree, Tensor):
        return change(tree) if tree.dim() else tree
    if isinstance(tree, Past):
        return tree.each(change)
    if isinstance(tree, tuple):
        return tuple(each_tensor(change, part) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
        return dataclasses.replace(tree, **{name: each_tensor(change, part) for name, part in parts.items()})
    return tree


@dataclass(frozen=True)
class State:
    """Tensors under `memory` have one row a sentence (B), those under `rows` one row a hypothesis
    (B * W: the W beams of a sentence stand side by side). Beams share one memory; it is never copied."""

    memory: Any
    rows: Any
    width: int = 1

    def spread(self, width: int) -> State:
        """One hypothesis a sentence becomes `width` equal ones."""
        rows = each_tensor(lambda x: x.repeat_interleave(width, 0), self.rows)
        return State(self.memory, rows, self.width * width)

    def reorder(self, beams: Tensor) -> State:
        """Row i goes on from what was row beams[i]; beams is (B * W,)."""
        return State(self.memory, each_tensor(lambda x: x.index_select(0, beams), self.rows), self.width)

    def drop(self, keep: Tensor) -> State:
        """Only the sentences in keep (B',) go on, each with all its beams."""
        beams = (keep[:, None] * self.width + torch.arange(self.width, device=keep.device)).flatten()
        return State(
            each_tensor(lambda x: x.index_select(0, keep), self.memory),
            each_tensor(lambda x: x.index_select(0, beams), self.rows),
            self.width,
        )

    def fork(self) -> State:
        """A branch that shares no buffer with this one. The memory is only read, so it is shared."""
        return State(self.memory, each_tensor(torch.clone, self.rows), self.width)
