"""The decoding state that a generator carries from one step to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention import BufferedMemory, GrowingMemory, Memory
from regard.base.short_repr import short_repr

SOURCES = 16  # the size of a source's memory is padded to a multiple of this


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


def join_trees(first: Any, second: Any, rows: tuple[int, int]) -> Any:
    """The rows of two trees of the same kind, the second behind the first. Pasts of different lengths are padded on
    the left, fixed memories on the right."""
    if isinstance(first, Tensor):
        return torch.cat([first, second]) if first.dim() else first
    if isinstance(first, GrowingMemory):
        return first.join(second, rows)
    if isinstance(first, Memory):
        return first.join(second)
    if isinstance(first, tuple):
        return tuple(join_trees(*parts, rows) for parts in zip(first, second, strict=True))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        parts = {name: join_trees(getattr(first, name), getattr(second, name), rows) for name in names}
        return dataclasses.replace(first, **parts)
    return first


class Room(NamedTuple):
    """What a state of fixed shapes has room for."""

    capacity: int  # places of a growing memory
    source: int  # most places of a fixed one
    place: Tensor  # () where growing memories are written next


def fixed_tree(tree: Any, rows: Tensor | None, room: Room) -> Any:
    """A copy of these rows (N',) of a tree, in tensors of shapes that later steps do not change: growing memories
    in buffers, fixed ones padded, so that few shapes occur. None: all rows; what has its shape is not copied."""
    if isinstance(tree, Tensor):
        return tree if rows is None or not tree.dim() else tree.index_select(0, rows)
    if isinstance(tree, GrowingMemory):
        return tree.buffered(rows, room.capacity, room.place)
    if isinstance(tree, tuple):
        return tuple(fixed_tree(part, rows, room) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        tree = tree.padded(SOURCES, room.source) if isinstance(tree, Memory) else tree
        parts = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
        fixed = {name: fixed_tree(part, rows, room) for name, part in parts.items()}
        return dataclasses.replace(tree, **fixed)
    return tree


def growing_tree(tree: Any, size: int) -> Any:
    """Every buffered memory as a growing one of so many places."""
    if isinstance(tree, BufferedMemory):
        return tree.growing(size)
    return tuple(growing_tree(part, size) for part in tree) if isinstance(tree, tuple) else tree


def moved_tree(tree: Any) -> Any:
    """Every buffered memory as before a step, since the search has moved its place on."""
    if isinstance(tree, BufferedMemory):
        return dataclasses.replace(tree, written=False)
    return tuple(moved_tree(part) for part in tree) if isinstance(tree, tuple) else tree


def reorder_tree(tree: Any, after: Any, order: Tensor, beams: int) -> None:
    """Overwrite the rows of a tree: row i becomes row order[i] of the tree `after` it, whose buffered memories are
    the same."""
    if isinstance(tree, BufferedMemory):
        tree.reorder(order, beams)
    elif isinstance(tree, Tensor):
        if tree.dim():
            torch.index_select(after.clone() if after is tree else after, 0, order, out=tree)
    else:
        for part, other in zip(_parts(tree), _parts(after), strict=True):
            reorder_tree(part, other, order, beams)


def _parts(tree: Any) -> list[Any]:
    if isinstance(tree, tuple):
        return list(tree)
    fields = dataclasses.fields(tree) if dataclasses.is_dataclass(tree) else ()
    return [getattr(tree, field.name) for field in fields]


def past_sizes(tree: Any) -> set[int]:
    """How many places the growing memories of a tree have; -1: one has no shape yet."""
    if isinstance(tree, GrowingMemory):
        return {-1 if tree.keys is None else tree.size}
    return set().union(*map(past_sizes, tree)) if isinstance(tree, tuple) else set()


def each_past(change: Callable[[GrowingMemory], GrowingMemory], tree: Any) -> Any:
    """Apply `change` to every growing memory of a tree of tuples."""
    if isinstance(tree, GrowingMemory):
        return change(tree)
    return tuple(each_past(change, part) for part in tree) if isinstance(tree, tuple) else tree


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
        beams = self._beams(keep)
        return State(
            each_tensor(lambda x: x.index_select(0, keep), self.memory),
            each_tensor(lambda x: x.index_select(0, beams), self.rows),
            self.width,
        )

    def _beams(self, sentences: Tensor) -> Tensor:
        """The rows of these sentences."""
        if self.width == 1:
            return sentences
        return (sentences[:, None] * self.width + torch.arange(self.width, device=sentences.device)).flatten()

    def tensors(self) -> list[Tensor]:
        """All tensors with rows, of the memory and then of the rows."""
        tensors: list[Tensor] = []

        def collect(tensor: Tensor) -> Tensor:
            tensors.append(tensor)
            return tensor

        each_tensor(collect, (self.memory, self.rows))
        return tensors

    def fixed(self, sentences: Tensor | None, room: Room) -> State:
        """A copy of these sentences (B',) in tensors whose shapes stay the same later; see `fixed_tree`."""
        beams = None if sentences is None else self._beams(sentences)
        memory = fixed_tree(self.memory, sentences, room)
        return State(memory, fixed_tree(self.rows, beams, room), self.width)

    def growing(self, size: int) -> State:
        """A state of `fixed` whose pasts have so many places, as one that grows."""
        return State(self.memory, growing_tree(self.rows, size), self.width)

    def moved(self) -> State:
        """A state of `fixed` after a step, once the place of its pasts was moved on."""
        return State(self.memory, moved_tree(self.rows), self.width)

    def past_sizes(self) -> set[int]:
        """How many places its pasts have, -1 where one has no shape yet; empty if it has no pasts."""
        return past_sizes(self.rows)

    def join(self, other: State, rows: tuple[int, int]) -> State:
        """The sentences of both states, so many of each, those of the other behind. For states of width 1."""
        assert self.width == other.width == 1
        return State(join_trees(self.memory, other.memory, rows), join_trees(self.rows, other.rows, rows))

    def trim(self) -> State:
        """Without the places at the start of every past that no row has, after longer rows were dropped."""
        return State(self.memory, each_past(GrowingMemory.trim, self.rows), self.width)

    def since(self, first: int) -> State:
        """Without the places of every past before this one."""
        return State(self.memory, each_past(lambda past: past.since(first), self.rows), self.width)
