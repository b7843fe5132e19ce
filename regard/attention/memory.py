"""What is looked at: prepared keys, their values, and which places may be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """Keys as a score prepared them, values, and a mask (True = may look).

    Fixed: encoder states, an image's grid. Growing: `append` returns a longer memory (autograd sees it), or,
    after `reserve`, writes into buffers whose shape never changes. Rewritten: `rewrite` below.
    Reading cannot tell these apart: slots not yet filled are simply masked."""

    keys: Tensor  # (B, .., K, D)
    values: Tensor  # (B, .., K, V)
    mask: Tensor | None = None  # (B, K)
    filled: Tensor | None = None  # scalar: how many slots of reserved buffers are taken

    @property
    def size(self) -> int:
        return self.keys.shape[-2]

    def lengths(self) -> Tensor:
        """(B,) how many places each row really has. Real places come first: padding is on the right."""
        if self.mask is None:
            return torch.full((len(self.keys),), self.size, device=self.keys.device)
        return self.mask.sum(-1)

    def select(self, places: Tensor) -> Tensor:
        """mask[b, places[b, .., q, s]]; a place outside the memory may not be looked at."""
        inside = (places >= 0) & (places < self.size)
        if self.mask is None:
            return inside
        flat = places.clamp(0, self.size - 1).flatten(1)  # (B, everything else)
        return inside & self.mask.gather(1, flat).view_as(places)

    def reserve(self, capacity: int) -> Memory:
        """The same memory at the front of buffers with room for `capacity` places."""
        if capacity < self.size:
            raise ValueError(f"capacity must be at least the {self.size} places already there, got {capacity}")
        keys, values = (
            torch.cat([x, x.new_zeros(*x.shape[:-2], capacity - self.size, x.shape[-1])], -2)
            for x in (self.keys, self.values)
        )
        mask = torch.zeros(len(keys), capacity, dtype=torch.bool, device=keys.device)
        mask[:, : self.size] = True if self.mask is None else self.mask
        return Memory(keys, values, mask, torch.tensor(self.size, device=keys.device))

    def append(self, new: Memory) -> Memory:
        """This memory with the new places behind it: a new one, or written in place where room was reserved."""
        if self.filled is None:
            keys = torch.cat([self.keys, new.keys], -2)
            values = torch.cat([self.values, new.values], -2)
            if self.mask is None and new.mask is None:
                return Memory(keys, values)
            masks = [
                m.mask if m.mask is not None else torch.ones(len(keys), m.size, dtype=torch.bool).to(keys.device)
                for m in (self, new)
            ]
            return Memory(keys, values, torch.cat(masks, -1))
        assert self.mask is not None
        # On a card the question would wait for it, and a step being captured may not ask.
        free = self.filled.device.type == "cpu" and not torch.compiler.is_compiling()
        if free and self.filled + new.size > self.size:
            raise ValueError(
                f"the memory has room for {self.size} places, {int(self.filled)} are taken and {new.size} "
                "more came; reserve more"
            )
        slots = self.filled + torch.arange(new.size, device=self.keys.device)
        self.keys.index_copy_(-2, slots, new.keys)
        self.values.index_copy_(-2, slots, new.values)
        may = torch.ones_like(self.mask[:, : new.size]) if new.mask is None else new.mask
        self.mask.index_copy_(1, slots, may)
        return replace(self, filled=self.filled + new.size)


@dataclass(frozen=True)
class Past:
    """What a decoder has written so far, as the memory of its own attention: buffers with some room, which `append`
    fills in place. So go on from one Past once; `State.fork` first to go on twice.

    Rows are chosen and copied (`each`) without the room, so that a beam moves only what it holds."""

    keys: Tensor | None = None  # (N, .., capacity, D); None: nothing yet
    values: Tensor | None = None
    mask: Tensor | None = None  # (N, capacity); None: all may be seen
    size: int = 0

    def append(self, new: Memory) -> Past:
        size = self.size + new.size
        if self.keys is None or self.values is None:
            return Past(new.keys, new.values, new.mask, size)
        keys, values, mask = self.keys, self.values, self.mask
        if size > keys.shape[-2]:
            capacity = size + max(15, size // 4)
            keys, values = (_enlarged(x[..., : self.size, :], capacity) for x in (keys, values))
            mask = None if mask is None else _enlarged(mask[:, : self.size, None], capacity)[..., 0]
        if mask is None and new.mask is not None:
            mask = torch.ones(len(keys), keys.shape[-2], dtype=torch.bool, device=keys.device)
        keys[..., self.size : size, :] = new.keys
        values[..., self.size : size, :] = new.values
        if mask is not None:
            mask[:, self.size : size] = True if new.mask is None else new.mask
        return Past(keys, values, mask, size)

    @property
    def memory(self) -> Memory:
        """What is there, as attention reads it; nothing is copied."""
        assert self.keys is not None
        assert self.values is not None
        mask = None if self.mask is None else self.mask[:, : self.size]
        return Memory(self.keys[..., : self.size, :], self.values[..., : self.size, :], mask)

    def each(self, change: Callable[[Tensor], Tensor]) -> Past:
        """The same with its rows changed."""
        if self.keys is None:
            return self
        held = self.memory
        mask = None if held.mask is None else change(held.mask)
        return Past(change(held.keys), change(held.values), mask, self.size)


def _enlarged(x: Tensor, capacity: int) -> Tensor:
    larger = x.new_empty(*x.shape[:-2], capacity, x.shape[-1])
    larger[..., : x.shape[-2], :] = x
    return larger


def rewrite(matrix: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """M_i prod_q (1 - w_qi e_q) + sum_q w_qi a_q   (Graves 2014, eq. 3-4, for Q write heads at once).

    matrix (B, K, D), weights (B, Q, K), erase and add (B, Q, D)."""
    kept = (1 - weights.mT[..., None] * erase[:, None]).prod(-2)  # (B, K, Q, D) -> (B, K, D)
    return matrix * kept + weights.mT @ add
