"""Every head over a text, as a picture; of a long text only the part that is wanted, so that the weights of all its
heads are never in memory at once.

A server says which part that is (`wanted_part`): one head, some rows, or an overview of all heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.attention import Trace, trace
from regard.errors import BadInput
from regard.models.protocols import Module
from regard.show import Heads
from regard.show.heads import overview_data
from regard.show.map import Map
from regard.tasks.shared.received import TooLarge
from regard.tasks.shared.words import Tokens, heads_of

KEPT = 1024  # tokens of a text whose attention is kept for the next look
LONG = 8_000_000  # weights of a site from which on a text is long: its pieces are not put together to words
MOST = 1 << 28  # weights that are computed at once where nobody says how many: 1 GiB


@dataclass(frozen=True)
class Part:
    """What is wanted of the heads over a long text."""

    head: int | None = None
    rows: range | None = None
    side: int | None = None  # every head pooled to at most side x side
    most: int = MOST  # weights


WHOLE = Part()
wanted: ContextVar[Part] = ContextVar("wanted", default=WHOLE)


@contextmanager
def wanted_part(part: Part) -> Iterator[None]:
    """Within it, of a long text only this part is looked at."""
    token = wanted.set(part)
    try:
        yield
    finally:
        wanted.reset(token)


@dataclass(frozen=True, eq=False)
class Tile(Heads):
    """The part of the heads over a long text that was wanted."""

    head: int | None = None  # the one that is here; None: all are

    def part(self, *, head: int | None = None, rows: range | None = None) -> Tile:
        """As it is: nothing else was computed."""
        return self

    def map(self, site: str, head: int | None = None) -> Map:
        """The head that is here, or the mean of all."""
        drawn = super().map(site, None if self.head is None else 0)
        return drawn if self.head is None else replace(drawn, title=f"{site}, head {self.head}")


@dataclass(frozen=True, eq=False)
class Pooled:
    """Every head over a long text, pooled to a few cells: the largest weight in each."""

    panels: Mapping[str, Any]  # (H, side, side) by site
    rows: Mapping[str, Sequence[str]]
    columns: Mapping[str, Sequence[str]]
    mask: Mapping[str, Any]
    side: int

    @property
    def pieces(self) -> Pooled:
        """Words are not put together."""
        return self

    def map(self, site: str, head: int | None = None) -> Map:
        raise BadInput("an overview is of the heads of a site; name one")

    def part(self, *, head: int | None = None, rows: range | None = None) -> Pooled:
        """As it is: an overview is of all."""
        return self

    def overview(self, side: int) -> dict[str, Any]:
        return overview_data(self.panels, self.rows, self.columns, self.mask, self.side)


def look_over(
    model: Module,
    sites: Sequence[str],
    places: Sequence[int],
    tokens: Callable[[str], tuple[Tokens, Tokens]],
    run: Callable[[], object],
) -> Any:
    """The heads of these sites. `places` are the queries that look, which `tokens(site)[0]` names, at what
    `tokens(site)[1]` names; `run` passes the model once."""
    modules = dict(model.named_modules())
    heads = {site: int(getattr(modules[site], "heads", 1)) for site in sites}
    sizes = {site: heads[site] * len(places) * len(tokens(site)[1][1]) for site in sites}
    part, total = wanted.get(), sum(sizes.values())
    seen_ids, kept = [ids for site in sites for _, ids in tokens(site)[1:]], getattr(model, "kept_calls", None)
    if kept is not None and any(len(ids) >= KEPT for ids in seen_ids):
        text, layers = tuple(map(tuple, seen_ids[:1])), [modules[site] for site in sites]
        read, run = run, lambda: kept.look(text, layers, read)
    if max(sizes.values(), default=0) <= LONG and total <= MOST:
        with torch.inference_mode(), trace(model, *sites, rows=places) as seen:
            run()
        return heads_of(seen, tokens)
    if part.side is not None:
        with torch.inference_mode(), trace(model, *sites, rows=places, pool=part.side) as seen:
            run()
        return _pooled(seen, tokens, part.side)
    every = range(len(places))
    rows = every if part.rows is None else every[part.rows.start : part.rows.stop]
    if not rows:
        raise BadInput(f"rows must lie in 0 to {len(places) - 1}, got {part.rows}")
    count = sum(size // len(places) // (1 if part.head is None else heads[site]) for site, size in sizes.items())
    if count * len(rows) > part.most:
        raise TooLarge(
            f"this would be {count * len(rows):,} weights, and {part.most:,} are looked at at once; name one site "
            "and head, fewer rows, or ask for an overview (side=24)"
        )
    chosen = None if part.head is None else [part.head]
    if part.head is not None and part.head >= min(heads.values()):
        raise BadInput(f"there are heads 0 to {min(heads.values()) - 1}, got {part.head}")
    looking = [places[row] for row in rows]
    with torch.inference_mode(), trace(model, *sites, rows=looking, heads=chosen) as seen:
        run()
    return _tile(seen, tokens, rows, part.head)


def _names(side: Tokens, rows: range | None = None) -> tuple[str, ...]:
    tokenizer, ids = side
    return tuple(tokenizer.tokens(ids if rows is None else [ids[row] for row in rows]))


def _tables(seen: Trace) -> tuple[dict[str, Any], dict[str, Any]]:
    panels, masks = {}, {}
    for site in seen.having("weights"):
        weights = seen[site][0].float().cpu().numpy()
        panels[site] = weights if weights.ndim == 3 else weights[None]
        masks[site] = seen[site, "mask"][0].cpu().numpy()
    return panels, masks


def _tile(seen: Trace, tokens: Callable[[str], tuple[Tokens, Tokens]], rows: range, head: int | None) -> Tile:
    panels, masks = _tables(seen)
    names = {site: _names(tokens(site)[0], rows) for site in panels}
    columns = {site: _names(tokens(site)[1]) for site in panels}
    return Tile(panels, names, columns, mask=masks, head=head)


def _pooled(seen: Trace, tokens: Callable[[str], tuple[Tokens, Tokens]], side: int) -> Pooled:
    panels, masks = _tables(seen)
    rows, columns = ({site: _names(tokens(site)[at]) for site in panels} for at in (0, 1))
    return Pooled(panels, rows, columns, masks, side)
