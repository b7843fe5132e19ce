"""What a trace keeps, and who asks for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.errors import BadInput, NoAttention, WrongArgument

if TYPE_CHECKING:
    from regard.show import Heads

active: ContextVar[tuple[Trace, ...]] = ContextVar("active", default=())  # the traces of this thread


BESIDE = ("scores", "queries", "keys", "values")  # what is recorded beside the weights, where asked


class Trace:
    """What was recorded: `seen[site]` the weights (B, .., Q, K), `seen[site, "mask"]` where each query may look
    (B, Q, K), `seen[site, kind]` tensors of another kind: gates, and what was asked for of `BESIDE`.

    The calls of a site add up, so that a decoder's steps become the queries of one text. But a module that reads
    the same sequence several times within one pass of the model (a layer shared by all depths) has an entry for
    each call: `seen["layer.attention#1"]`, `seen["layer.attention#2"]`, ..."""

    def __init__(
        self,
        names: dict[int, str],
        heads: Sequence[int] | None,
        rows: Sequence[int] | None,
        beside: Collection[str] = (),
        pool: int = 0,
    ):
        self.heads, self.rows, self.beside, self.pool = heads, rows, beside, pool
        self._names = names  # id of a traced module -> its name in the model
        self._recorded: dict[tuple[str, int, str], list[Tensor]] = {}  # site, number of the call, kind
        self._axes: dict[tuple[str, int, str], int] = {}  # along which calls add up
        self._queries: dict[tuple[int, int], int] = {}  # how many each call of a site has answered so far
        self._numbers: dict[int, int] = {}  # of each site: the call to which belongs what it records now
        self._asked: dict[int, tuple[int, int]] = {}  # queries and places of its last call in this pass
        self._depth = 0  # of the open calls of sites and of modules with sites inside: 0 outside a pass

    def __repr__(self) -> str:
        seen = [self._shape_of(site) for site in self.sites[:4]]
        more = [f"{len(self.sites) - 4} more"] if len(self.sites) > 4 else []
        return f"<Trace: {', '.join(seen + more) or 'nothing recorded yet'}>"

    def _shape_of(self, site: str) -> str:
        kinds = self.kinds(site)
        if "weights" in kinds:
            return f"{site} {tuple(self[site].shape)}"
        return f"{site} {kinds[0]} {tuple(self[site, kinds[0]].shape)}"

    def watches(self, module: nn.Module) -> bool:
        """Is this module one of the sites?"""
        return id(module) in self._names

    def enter(self) -> None:
        """A site, or a module with sites inside, is called; the outermost call is a pass of the model."""
        self._depth += 1
        if self._depth == 1:
            self._asked.clear()
            self._numbers.clear()

    def leave(self) -> None:
        """That call is over."""
        self._depth = max(0, self._depth - 1)  # a trace may begin within a call

    def take(self, module: nn.Module, count: int, places: int | None = None, *, again: bool = False) -> list[int]:
        """Which of the next `count` queries of a site to keep; `rows` counts from the start of the trace.

        places: how many they look at, None for the steps of a decoder. In one pass several queries that look at as
        many places as those before them, or a whole sequence that looks at itself, are another call, and so is what
        the caller knows to be one (`again`)."""
        site, number = id(module), self._numbers.get(id(module), 0)
        if self._depth and places is not None:
            before = self._asked.get(site)
            shared = before is not None and count > 1 and ((count, places) == before or count == places)
            number += shared or again
            self._asked[site] = count, places
        self._numbers[site] = number if self._depth else 0
        first = self._queries.get((site, number), 0)
        self._queries[site, number] = first + count
        return [i for i in range(count) if self.rows is None or first + i in self.rows]

    def keep(self, module: nn.Module, kind: str, tensor: Tensor, axis: int = -2, *, own: bool = False) -> None:
        """Add a copy of a tensor to what was recorded at a site, or the tensor, if nobody else has it (`own`);
        `axis`: see `record`."""
        key = self._names[id(module)], self._numbers.get(id(module), 0), kind
        if self.pool and kind in ("weights", "mask"):
            tensor = pooled(pooled(tensor.detach(), self.pool, -1), self.pool, -2)
        self._recorded.setdefault(key, []).append(tensor.detach() if own else tensor.detach().clone())
        self._axes[key] = axis

    def keep_last(self, module: nn.Module, kind: str, tensor: Tensor) -> None:
        """As `keep`, in place of what the calls before recorded: a memory is that of the last call."""
        key = self._names[id(module)], self._numbers.get(id(module), 0), kind
        self._recorded.pop(key, None)
        self.keep(module, kind, tensor)

    def keep_beside(self, module: nn.Module, sides: Mapping[str, Callable[[], Tensor]], axis: int = -2) -> None:
        """What was asked for of these, made only then; queries and scores of several calls add up along `axis`."""
        for kind, make in sides.items():
            if kind in self.beside:
                if axis == -2 and kind in ("keys", "values"):
                    self.keep_last(module, kind, make())
                else:
                    self.keep(module, kind, make(), axis)

    def of_heads(self, x: Tensor) -> Tensor:
        """Of a tensor (B, H, ..) the traced heads."""
        return x if self.heads is None or x.dim() != 4 or x.shape[1] == 1 else x[:, list(self.heads)]

    def keep_weights(self, module: nn.Module, weights: Tensor, allowed: Tensor | None) -> None:
        """The weights (B, H, Q, K) of another library's attention, and where each query may look (broadcastable to
        them; None: everywhere)."""
        if allowed is None:
            allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=weights.device)
        allowed = allowed.expand(len(weights), -1, *weights.shape[-2:])
        chosen = slice(None) if self.heads is None else list(self.heads)
        self.keep(module, "weights", weights[:, chosen])
        self.keep(module, "mask", (allowed if allowed.shape[1] == 1 else allowed[:, chosen]).any(1))

    def _entries(self) -> dict[tuple[str, str], tuple[str, int, str]]:
        """Name and kind of each entry: the name is the site's, with a number where it has several calls."""
        several = {site for site, number, _ in self._recorded if number}
        return {
            (f"{site}#{number + 1}" if site in several else site, kind): (site, number, kind)
            for site, number, kind in self._recorded
        }

    @property
    def sites(self) -> list[str]:
        """The sites at which anything was recorded."""
        return list(dict.fromkeys(site for site, _ in self._entries()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.sites)

    def having(self, kind: str) -> list[str]:
        """The sites at which this kind was recorded."""
        return [site for site, other in self._entries() if other == kind]

    def kinds(self, site: str) -> list[str]:
        """What was recorded at a site: "weights", "mask", "centre", "gate", ..."""
        return [kind for name, kind in self._entries() if name == site]

    def _key(self, name: str, kind: str) -> tuple[str, int, str]:
        entries = self._entries()
        if (name, kind) in entries:
            return entries[name, kind]
        if calls := [entry for (entry, of), (site, *_) in entries.items() if site == name and of == kind]:
            raise KeyError(
                f"{name} was called {len(calls)} times in one pass; ask for one of {calls[0]!r} to {calls[-1]!r}"
            )
        near = [other for other in entries if other[0] == name] or list(entries)
        raise KeyError(f"nothing recorded at {(name, kind)}; recorded: {', '.join(map(str, near)) or 'nothing'}")

    def __getitem__(self, site: str | tuple[str, str]) -> Tensor:
        """One tensor for all calls of the site, concatenated over queries, or along the axis given to `record`;
        shorter memories are padded with 0."""
        entry = (site, "weights") if isinstance(site, str) else site
        if not (isinstance(entry, tuple) and len(entry) == 2 and all(isinstance(part, str) for part in entry)):
            raise WrongArgument(
                f"a trace is asked by a site, or a site and a kind; it has {self.sites}, got {site!r}"
            )
        name, kind = entry
        key = self._key(name, kind)
        parts, axis = self._recorded[key], self._axes[key]
        batches = {len(part) for part in parts if part.dim() and axis % part.dim()}
        if len(batches) > 1:
            raise BadInput(
                f"{(name, kind)} was called with batches of {sorted(batches)} rows; trace these calls one by one"
            )
        if kind in ("weights", "mask", "scores"):
            longest, fill = max(part.shape[-1] for part in parts), -torch.inf if kind == "scores" else 0
            # A padded mask is False: a place that came later could not be looked at.
            parts = [nn.functional.pad(part, (0, longest - part.shape[-1]), value=fill) for part in parts]
        return torch.cat(parts, axis) if parts[0].dim() else torch.stack(parts)

    def picture(
        self, rows: Sequence[str], columns: Sequence[str] | None = None, *, sites: Sequence[str] = (), item: int = 0
    ) -> Heads:
        """The heads of one item of the batch as a picture, which shows itself in a notebook and has `save`:
        `rows` are the tokens that look, `columns` those looked at (None: the same), `sites` all unless given."""
        sites = sites or self.having("weights") or ["any site"]
        if lacking := [site for site in sites if site not in self.having("weights")]:
            recorded = ", ".join(f"{site} ({', '.join(self.kinds(site))})" for site in self.sites) or "nothing"
            raise NoAttention(
                f"this picture shows attention weights, and none were recorded at {', '.join(lacking)}; "
                f"recorded: {recorded:.500}"
            )
        from regard.show import Heads  # only who draws loads the pictures

        weights = {site: self[site][item].float().cpu() for site in sites}
        panels = {site: x.numpy() if x.dim() == 3 else x[None].numpy() for site, x in weights.items()}
        masks = {site: self[site, "mask"][item].cpu().numpy() for site in panels}
        return Heads(panels, rows, rows if columns is None else columns, mask=masks)


def pooled(x: Tensor, side: int, axis: int) -> Tensor:
    """At most `side` places along an axis, each the largest of its neighbours; of a mask, whether any is True."""
    count = x.shape[axis]
    if count <= side:
        return x
    starts = [place * count // side for place in range(side + 1)]
    parts = (x.narrow(axis, first, end - first).amax(axis) for first, end in pairwise(starts))
    return torch.stack(list(parts), axis)


def tracing() -> bool:
    """Has this thread an active trace? Inside a compiled graph: no."""
    return not torch.compiler.is_compiling() and bool(active.get())


def watching(module: nn.Module) -> list[Trace]:
    """The active traces of this thread that include the module. Inside a compiled graph: none."""
    return [seen for seen in active.get() if seen.watches(module)] if tracing() else []


def record(module: nn.Module, kind: str, tensor: Tensor, *, axis: int = -1) -> None:
    """Add a tensor (a gate, a window's centre) to the traces of this module; the tensors of several calls are
    concatenated along `axis`. By default that is the last dimension, the queries. Gates of an image (B, C) have
    none: axis=0, the batch. A cell that is called once a step, with gates (N, D), records `gate[:, None]` with
    axis=1, which gives (N, T, D).

    A class says what it records, as in `traced = ("gate",)`, so that a pattern may name it."""
    for seen in watching(module):
        seen.keep(module, kind, tensor, axis)
