"""The decoding state that a generator carries from one step to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention import BufferedMemory, GrowingMemory, Memory
from regard.base.short_repr import short_repr

try:
    from regard.layers import rows_cuda
except ImportError:  # no Triton
    rows_cuda = None  # type: ignore[assignment]

SOURCES = 16  # the size of a source's memory is padded to a multiple of this


def each_tensor(
    change: Callable[[Tensor], Tensor],
    tree: Any,
    past: Callable[[GrowingMemory], GrowingMemory] | None = None,
) -> Any:
    """Apply `change` to every tensor with rows in a tree of tuples and dataclasses, and `past` to what grows, if
    that has a way of its own. Scalars stay as they are."""
    if isinstance(tree, Tensor):
        return change(tree) if tree.dim() else tree
    if isinstance(tree, GrowingMemory):
        return tree.change_rows(change) if past is None else past(tree)
    if isinstance(tree, tuple):
        return tuple(each_tensor(change, part, past) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
        return dataclasses.replace(tree, **{name: each_tensor(change, part, past) for name, part in parts.items()})
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


def fixed_tree(tree: Any, rows: int, room: Room) -> Any:
    """Tensors like those of a tree for so many rows, of shapes that later steps do not change: growing memories as
    empty buffers, fixed ones padded, so that few shapes occur. `State.loading` fills them."""
    if isinstance(tree, Tensor):
        return tree.new_zeros(rows, *tree.shape[1:]) if tree.dim() else tree
    if isinstance(tree, GrowingMemory):
        return tree.buffered(rows, room.capacity, room.place)
    if isinstance(tree, Memory):
        return tree.fixed(rows, tree.fixed_size(SOURCES, room.source))
    if isinstance(tree, tuple):
        return tuple(fixed_tree(part, rows, room) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
        return dataclasses.replace(tree, **{name: fixed_tree(part, rows, room) for name, part in parts.items()})
    return tree


Pairs = Iterator[tuple[Tensor, Tensor]]  # of a static tensor and what is copied into it


def over_rows(static: Tensor, new: Tensor, width: int = 1) -> Pairs:
    """Each row of `new` is copied `width` times; static rows beyond them repeat the first."""
    if width > 1:
        static, new = static.unflatten(0, (-1, width)), new[:, None].expand(-1, width, *new.shape[1:])
    if len(static) == len(new):
        yield static, new
    else:
        yield static[: len(new)], new
        yield static[len(new) :], new[:1].expand_as(static[len(new) :])


def over_places(static: Any, new: Any, width: int) -> Pairs:
    """As `over_rows`, for tensors and memories. Buffers are empty."""
    if isinstance(static, Tensor):
        yield from over_rows(static, new, width)
    elif isinstance(static, Memory):
        padded = new.padded(static.size)
        yield from over_rows(static.keys, padded.keys, width)
        yield from over_rows(static.values, padded.values, width)
        if static.mask is not None:
            yield from over_rows(static.mask, padded.mask, width)
    elif new.size:
        filled = new.memory
        yield from over_rows(static.keys[..., : new.size, :], filled.keys, width)
        yield from over_rows(static.values[..., : new.size, :], filled.values, width)
        if filled.mask is not None:
            yield from over_rows(static.mask[:, : new.size], filled.mask, width)


def empty(pasts: Sequence[BufferedMemory]) -> None:
    """Nothing is written yet, and what will be may be looked at. Old values are no matter, unless they are NaN."""
    torch._foreach_zero_([buffer for past in pasts for buffer in (past.keys, past.values)])
    masks = [past.mask for past in pasts]
    torch._foreach_copy_(masks, [torch.ones_like(masks[0])] * len(masks))


def copy_all(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy new tensors into static ones, those of a dtype together, in fewer kernels."""
    groups: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for old, now in pairs:
        if old.shape != now.shape:
            raise RuntimeError(f"a step makes {tuple(now.shape)} of a state of shape {tuple(old.shape)}")
        if old is not now:
            olds, news = groups.setdefault(old.dtype, ([], []))
            olds.append(old)
            news.append(now)
    for olds, news in groups.values():
        torch._foreach_copy_(olds, news)


def growing_tree(tree: Any, size: int, masked: bool) -> Any:
    """Every buffered memory as a growing one of so many places."""
    if isinstance(tree, BufferedMemory):
        return tree.growing(size, masked)
    return tuple(growing_tree(part, size, masked) for part in tree) if isinstance(tree, tuple) else tree


def moved_tree(tree: Any) -> Any:
    """Every buffered memory as before a step, since the search has moved its place on."""
    if isinstance(tree, BufferedMemory):
        return dataclasses.replace(tree, written=False)
    return tuple(moved_tree(part) for part in tree) if isinstance(tree, tuple) else tree


def reorder_tree(tree: Any, after: Any, order: Tensor, beams: int) -> None:
    """Overwrite the rows of a tree: row i becomes row order[i] of the tree `after` it, whose buffered memories are
    the same."""
    pairs: list[tuple[Tensor, Tensor]] = []
    for static, new in _pairs(tree, after):
        if isinstance(static, BufferedMemory):
            static.reorder(order, beams)
        else:
            pairs.append((new.clone() if new is static else new, static))
    if pairs and rows_cuda is not None and all(rows_cuda.fits(*pair) for pair in pairs):
        rows_cuda.select(order, pairs)
    else:
        for new, static in pairs:
            torch.index_select(new, 0, order, out=static)


def _pairs(tree: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    """The tensors with rows and the buffered memories of two trees of the same kind."""
    if isinstance(tree, BufferedMemory) or (isinstance(tree, Tensor) and tree.dim()):
        yield tree, after
    elif not isinstance(tree, Tensor):
        for part, other in zip(_parts(tree), _parts(after), strict=True):
            yield from _pairs(part, other)


def _parts(tree: Any) -> list[Any]:
    if isinstance(tree, tuple):
        return list(tree)
    fields = dataclasses.fields(tree) if dataclasses.is_dataclass(tree) else ()
    return [getattr(tree, field.name) for field in fields]


def leaves(tree: Any) -> Iterator[Any]:
    """The tensors with rows and the memories of a tree."""
    if isinstance(tree, Memory | GrowingMemory | BufferedMemory):
        yield tree
    elif isinstance(tree, Tensor):
        if tree.dim():
            yield tree
    else:
        for part in _parts(tree):
            yield from leaves(part)


def _form(leaf: Any, source: int) -> Hashable:
    if isinstance(leaf, Tensor):
        return leaf.shape[1:], leaf.dtype
    place = leaf.keys.shape[1:-2], leaf.keys.shape[-1], leaf.values.shape[-1], leaf.keys.dtype
    if isinstance(leaf, GrowingMemory):
        return place
    return place, leaf.mask is None, leaf.fixed_size(SOURCES, source)


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
        rows = each_tensor(lambda x: x.index_select(0, beams), self.rows, lambda past: past.select(beams))
        return State(self.memory, rows, self.width)

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

    @cached_property
    def leaves(self) -> tuple[list[Any], list[Any]]:
        """The tensors and memories of the memory, and of the rows. A graph's state is searched for them once."""
        return [*leaves(self.memory)], [*leaves(self.rows)]

    def form(self, source: int) -> Hashable:
        """What the shapes of `fixed` depend on, beside rows and capacity."""
        return self.width, *(_form(leaf, source) for side in self.leaves for leaf in side)

    def fixed(self, sentences: int, room: Room, width: int) -> State:
        """A state of so many sentences and beams of each, in tensors whose shapes stay the same later; see
        `fixed_tree`."""
        rows = fixed_tree(self.rows, sentences * width, room)
        return State(fixed_tree(self.memory, sentences, room), rows, width)

    def loading(self, new: State) -> Pairs:
        """What is copied where to make this state, of `fixed`, the new one; its pasts are emptied before. Each row
        is copied for all its beams, and those beyond the new ones repeat the first."""
        pasts = [leaf for leaf in self.leaves[1] if isinstance(leaf, BufferedMemory)]
        if pasts:
            empty(pasts)
        for mine, others, width in zip(self.leaves, new.leaves, (1, self.width // new.width), strict=True):
            for static, leaf in zip(mine, others, strict=True):
                yield from over_places(static, leaf, width)

    @property
    def has_buffers(self) -> bool:
        """Does it hold pasts in buffers?"""
        return any(isinstance(leaf, BufferedMemory) for leaf in self.leaves[1])

    def growing(self, size: int, masked: bool) -> State:
        """A state of `fixed` whose pasts have so many places, as one that grows. masked: some may be hidden."""
        return State(self.memory, growing_tree(self.rows, size, masked), self.width)

    def moved(self) -> State:
        """A state of `fixed` after a step, once the place of its pasts was moved on."""
        return State(self.memory, moved_tree(self.rows), self.width)

    def past_sizes(self) -> set[int]:
        """How many places its pasts have, -1 where one has no shape yet; empty if it has no pasts."""
        return {-1 if past.keys is None else past.size for past in self._pasts}

    @property
    def is_masked(self) -> bool:
        """May places of its pasts be hidden?"""
        return any(past.mask is not None for past in self._pasts)

    @property
    def _pasts(self) -> list[GrowingMemory]:
        return [leaf for leaf in self.leaves[1] if isinstance(leaf, GrowingMemory)]

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
