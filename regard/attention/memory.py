"""What a query looks at: prepared keys, values and a mask; fixed, or growing, also in buffers of a fixed shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from regard.attention.kernels.few import has_kernel_for_rows, reorder_rows
from regard.attention.question import Question
from regard.attention.shapes import check_growth
from regard.base.short_repr import short_repr


@dataclass(frozen=True)
class Memory:
    """Keys as a score prepared them, values, and a mask (True = may look).

    Fixed: encoder states, an image's grid. Growing: `GrowingMemory`. Attention reads both alike."""

    keys: Tensor  # (B, .., K, D)
    values: Tensor  # (B, .., K, V)
    mask: Tensor | None = None  # (B, K)

    __repr__ = short_repr

    @property
    def size(self) -> int:
        """How many places it has, padding included."""
        return self.keys.shape[-2]

    def lengths(self) -> Tensor:
        """(B,) how many real places each row has, assuming that padding is on the right."""
        if self.mask is None:
            return torch.full((self.keys.shape[0],), self.size, device=self.keys.device)
        return self.mask.sum(-1)

    @cached_property
    def look(self) -> tuple[Tensor, Tensor | None] | None:
        """The mask as a kernel on the CPU adds it to the scores of any head: 0 or -inf (B, 1, 1, K); and the rows
        that may look nowhere (B, 1, 1, 1), None where there are none: they look everywhere, and what they read does
        not count. None: there is no mask. Computed once for all steps."""
        if self.mask is None:
            return None
        mask = self.mask[:, None, None]
        blind = ~mask.any(-1, keepdim=True)
        bias = torch.zeros_like(mask, dtype=self.keys.dtype).masked_fill_(~(mask | blind), -torch.inf)
        return bias, blind if bool(blind.any()) else None

    def select(self, places: Tensor) -> Tensor:
        """mask[b, places[b, .., q, s]]; False for places outside the memory."""
        inside = (places >= 0) & (places < self.size)
        if self.mask is None:
            return inside
        flat = places.clamp(0, self.size - 1).flatten(1)  # (B, everything else)
        return inside & self.mask.gather(1, flat).view_as(places)

    def fixed_size(self, multiple: int, most: int) -> int:
        """Its size rounded up to a multiple, or the most places there may be, so that few sizes occur. A memory
        without a mask has always the same size."""
        return self.size if self.mask is None else min(self.size + -self.size % multiple, max(most, self.size))

    def fixed(self, rows: int, size: int) -> Memory:
        """Zeros of its shape, for so many rows and places."""
        mask = None if self.mask is None else self.mask.new_zeros(rows, size)
        return Memory(_zeros(self.keys, rows, size), _zeros(self.values, rows, size), mask)

    def padded(self, size: int) -> Memory:
        """With hidden places at its end, up to this size."""
        return self if size == self.size else Memory(*_padded(self, 0, size - self.size))

    def join(self, other: Memory) -> Memory:
        """The rows of both; the memory with fewer places is padded on the right."""
        size = max(self.size, other.size)
        both = (self, other)
        keys, values, masks = zip(*(_padded(memory, 0, size - memory.size) for memory in both), strict=True)
        full = all(memory.mask is None and memory.size == size for memory in both)
        return Memory(torch.cat(keys), torch.cat(values), None if full else torch.cat(masks))


@dataclass(frozen=True)
class GrowingMemory:
    """A memory that grows at its end: a decoder's own past. Attention reads `memory`.

    With gradients enabled `append` concatenates, so autograd sees every place, but keeps the past of every step:
    learning from a long past takes a function of its own for all steps, as `lstmn.tape` has. Without gradients it
    writes into buffers with spare capacity, so a step costs only what it adds. Two branches would then write into
    the same buffer: one of them continues from a copy, `change_rows(torch.clone)`.

    `change_rows` selects or copies rows without the spare capacity, so a beam moves only what it holds."""

    keys: Tensor | None = None  # (N, .., capacity, D); None: empty
    values: Tensor | None = None  # (N, .., capacity, V)
    mask: Tensor | None = None  # (N, capacity); None: all places may be seen
    size: int = 0

    __repr__ = short_repr

    def append(self, new: Memory) -> GrowingMemory:
        """This memory with the new places behind it."""
        size = self.size + new.size
        if self.keys is None or self.values is None:
            return GrowingMemory(new.keys, new.values, new.mask, size)
        check_growth(self.keys, new.keys)
        if torch.is_grad_enabled():
            return GrowingMemory(*_joined(self.memory, new), size)
        keys, values, mask = self.keys, self.values, self.mask
        if size > keys.shape[-2]:
            capacity = _room(size)
            keys, values = (_enlarged(x[..., : self.size, :], capacity) for x in (keys, values))
            mask = None if mask is None else _enlarged(mask[:, : self.size, None], capacity)[..., 0]
        if mask is None and new.mask is not None:
            mask = torch.ones(len(keys), keys.shape[-2], dtype=torch.bool, device=keys.device)
        keys[..., self.size : size, :] = new.keys
        values[..., self.size : size, :] = new.values
        if mask is not None:
            mask[:, self.size : size] = True if new.mask is None else new.mask
        return GrowingMemory(keys, values, mask, size)

    def cut_back(self, count: int) -> GrowingMemory:
        """Without its last places; the next ones are written over them."""
        return replace(self, size=self.size - count)

    @property
    def newest(self) -> int:
        """The place that is written next."""
        return self.size

    def ask(self, query: Tensor) -> Question:
        """The question of the newest places (N, T, ..) of the memory."""
        return Question(query, newest=True)

    def buffered(self, rows: int, capacity: int, place: Tensor) -> BufferedMemory:
        """Empty buffers of its shape, for so many rows and places; `place` says where the next is written."""
        memory = self.memory
        keys, values = _zeros(memory.keys, rows, capacity), _zeros(memory.values, rows, capacity)
        return BufferedMemory(keys, values, keys.new_ones(rows, capacity, dtype=torch.bool), place)

    @property
    def memory(self) -> Memory:
        """The places filled so far, as views: nothing is copied."""
        assert self.keys is not None
        assert self.values is not None
        mask = None if self.mask is None else self.mask[:, : self.size]
        return Memory(self.keys[..., : self.size, :], self.values[..., : self.size, :], mask)

    def change_rows(self, change: Callable[[Tensor], Tensor]) -> GrowingMemory:
        """Apply `change` (select, repeat or copy rows) to keys, values and mask."""
        if self.keys is None:
            return self
        memory = self.memory
        mask = None if memory.mask is None else change(memory.mask)
        return GrowingMemory(change(memory.keys), change(memory.values), mask, self.size)

    def select(self, order: Tensor) -> GrowingMemory:
        """Row i becomes row order[i]. Without gradients there is room for more places, so that the next one is
        written without a second copy."""
        if self.keys is None or torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self.change_rows(lambda x: x.index_select(0, order))
        memory, room = self.memory, _room(self.size)
        keys, values = (_selected(x, order, room) for x in (memory.keys, memory.values))
        mask = None if memory.mask is None else _selected(memory.mask[..., None], order, room)[..., 0]
        return GrowingMemory(keys, values, mask, self.size)

    def join(self, other: GrowingMemory, rows: tuple[int, int]) -> GrowingMemory:
        """The rows of both, so many of each; the shorter past is padded on the left, as both end now."""
        filled = [past.memory for past in (self, other) if past.keys is not None]
        if not filled:
            return self
        size, parts = max(self.size, other.size), []
        for past, count in zip((self, other), rows, strict=True):
            memory = _empty(filled[0], count) if past.keys is None else past.memory
            parts.append(_padded(memory, size - past.size, 0))
        keys, values, masks = (torch.cat(sides) for sides in zip(*parts, strict=True))
        return GrowingMemory(keys, values, None if bool(masks.all()) else masks, size)

    def trim(self) -> GrowingMemory:
        """Without the leading places that no row has; they are left where a longer row was dropped."""
        if self.keys is None or self.mask is None:
            return self
        later = self.since(int(self.mask[:, : self.size].any(0).int().argmax()))
        return replace(later, mask=None if later.mask is None or bool(later.mask.all()) else later.mask)

    def since(self, first: int) -> GrowingMemory:
        """Without the places before this one."""
        if self.keys is None:
            return self
        memory = self.memory
        keys, values = memory.keys[..., first:, :], memory.values[..., first:, :]
        return GrowingMemory(
            keys, values, None if memory.mask is None else memory.mask[:, first:], self.size - first
        )


@dataclass(frozen=True)
class BufferedMemory:
    """A growing memory whose buffers have the shape of its end from the start, as a CUDA graph needs it. `append`
    writes where `place` says, and later places are hidden. All layers of a model share `place`, which the search
    moves on after each step."""

    keys: Tensor  # (N, .., capacity, D)
    values: Tensor  # (N, .., capacity, V)
    mask: Tensor  # (N, capacity) True = may be looked at, once it is written
    place: Tensor  # () where this step writes
    written: bool = False  # has it written there?

    __repr__ = short_repr

    @property
    def newest(self) -> int:
        """An upper bound of the place that is written next."""
        return self.keys.shape[-2] - 1

    def append(self, new: Memory) -> BufferedMemory:
        """Write one place."""
        at = self.place.expand(1)
        self.keys.index_copy_(-2, at, new.keys.to(self.keys.dtype))
        self.values.index_copy_(-2, at, new.values.to(self.values.dtype))
        return replace(self, written=True)

    def ask(self, query: Tensor) -> Question:
        """The question of the place (N, 1, ..) that is written now."""
        return Question(query, newest=True)

    def fan(self, count: int) -> FannedMemory:
        """For the next places of one row, so many, at once."""
        places = self.place + torch.arange(count, device=self.place.device)
        seen = torch.arange(self.keys.shape[-2], device=self.place.device) <= places[:, None]
        return FannedMemory(self, places, self.mask & seen)

    def cut_back(self, count: int | Tensor) -> BufferedMemory:
        """As it is: its place is moved by the search."""
        return self

    @property
    def memory(self) -> Memory:
        """All places; those that are not written yet may not be looked at."""
        places = torch.arange(self.keys.shape[-2], device=self.place.device)
        there = places <= self.place if self.written else places < self.place
        return Memory(self.keys, self.values, self.mask & there)

    def reorder(self, order: Tensor, beams: int) -> None:
        """Row i continues row order[i] (N,) of the same sentence, of which so many beams stand side by side; in
        place. They have the same mask."""
        if has_kernel_for_rows(self.keys, self.values):
            reorder_rows(self.keys, self.values, order, self.place, beams)
        else:
            self.keys.copy_(self.keys.index_select(0, order))
            self.values.copy_(self.values.index_select(0, order))

    def growing(self, size: int, masked: bool) -> GrowingMemory:
        """The first places, so many, as a memory that grows. masked: some of them may be hidden."""
        mask = self.mask[:, :size] if masked else None
        return GrowingMemory(self.keys[..., :size, :], self.values[..., :size, :], mask, size)


@dataclass(frozen=True)
class FannedMemory:
    """A buffered memory of one row as that of T rows, one for each of its next T places, which sees those up to its
    own: a row of T queries is read as T rows of one, as a decoding step reads them."""

    past: BufferedMemory
    places: Tensor  # (T,) that are written
    mask: Tensor  # (T, capacity)

    __repr__ = short_repr

    def append(self, new: Memory) -> FannedMemory:
        """Write a place of each row: keys and values (T, .., 1, D)."""
        for buffer, rows in ((self.past.keys, new.keys), (self.past.values, new.values)):
            buffer.index_copy_(-2, self.places, rows.transpose(0, -2).to(buffer.dtype))
        return self

    def ask(self, query: Tensor) -> Question:
        """The question of the places (T, 1, ..) that are written now."""
        return Question(query, newest=True)

    @property
    def memory(self) -> Memory:
        """The same keys and values for all rows, as views."""
        keys, values = (x.expand(len(self.places), *x.shape[1:]) for x in (self.past.keys, self.past.values))
        return Memory(keys, values, self.mask)


def _padded(memory: Memory, left: int, right: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values and mask with so many more places, which nobody may look at."""
    mask = memory.mask
    if mask is None:
        mask = torch.ones(len(memory.keys), memory.size, dtype=torch.bool, device=memory.keys.device)
    keys, values = (nn.functional.pad(x, (0, 0, left, right)) for x in (memory.keys, memory.values))
    return keys, values, nn.functional.pad(mask, (left, right), value=False)


def _zeros(like: Tensor, rows: int, size: int) -> Tensor:
    return like.new_zeros(rows, *like.shape[1:-2], size, like.shape[-1])


def _empty(like: Memory, rows: int) -> Memory:
    """A memory of so many rows without places."""
    keys, values = (x.new_empty(rows, *x.shape[1:-2], 0, x.shape[-1]) for x in (like.keys, like.values))
    return Memory(keys, values)


def _joined(first: Memory, second: Memory) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys, values and mask of two memories, one behind the other."""
    keys, values = torch.cat([first.keys, second.keys], -2), torch.cat([first.values, second.values], -2)
    if first.mask is None and second.mask is None:
        return keys, values, None
    masks = [
        torch.ones(len(keys), part.size, dtype=torch.bool, device=keys.device) if part.mask is None else part.mask
        for part in (first, second)
    ]
    return keys, values, torch.cat(masks, 1)


def _room(size: int) -> int:
    """For so many places, and some more."""
    return size + max(15, size // 4)


def _selected(x: Tensor, order: Tensor, capacity: int) -> Tensor:
    """The rows of x (N, .., K, D) in this order, in a buffer of more places."""
    rows = x.new_empty(len(order), *x.shape[1:-2], capacity, x.shape[-1])
    torch.index_select(x, 0, order, out=rows[..., : x.shape[-2], :])
    return rows


def _enlarged(x: Tensor, capacity: int) -> Tensor:
    larger = x.new_empty(*x.shape[:-2], capacity, x.shape[-1])
    larger[..., : x.shape[-2], :] = x
    return larger
