"""The weights of many heads with their labels, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.base.arguments import check_argument, checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.map_data import HIDDEN_WORDS, MapData
from regard.show.scales import Scale, check_scale, top_of, top_words


@checked
@dataclass(frozen=True, eq=False)
class HeadsData:
    """Weights (H, R, C) by site: {"encoder.0.attend": ..., "decoder.0.cross": ...}.

    `rows` and `columns` are the words of all sites, or {site: words} where sites differ. `mask` is True where a row
    may look, (R, C) for all sites or {site: (R, C)}; other places are drawn hatched. Colours run from 0 to `scale`,
    a number; or to the largest weight of all heads, rounded up (None, "shared"); or to that of each head ("each").

    Where a sheet has no room for all heads with legible words, it shows the mean of each site's heads. More than 60
    columns are drawn as a text for each site, shaded by that mean. HTML always shows every head. Shows itself in a
    notebook. `of` is what the numbers are, "weight" or "gate"."""

    panels: Mapping[str, Any]
    rows: Mapping[str, Sequence[str]] | Sequence[str]
    columns: Mapping[str, Sequence[str]] | Sequence[str]
    title: str = ""
    _: KW_ONLY
    scale: Scale = None
    mask: Any = None
    of: str = "weight"

    def __post_init__(self) -> None:
        if not self.panels:
            raise BadInput("no heads to draw: give at least one site, as {site: weights (heads, rows, columns)}")
        check_scale(self.scale)
        rows, columns = self._labels("rows"), self._labels("columns")
        by_site = self.mask if isinstance(self.mask, Mapping) else dict.fromkeys(self.panels, self.mask)
        panels, masks = {}, {}
        for site, weights in self.panels.items():
            labels = (rows[site], columns[site])
            panels[site], masks[site] = _check(site, weights, *labels, by_site.get(site), self.scale)
        for name, value in (("panels", panels), ("rows", rows), ("columns", columns), ("mask", masks)):
            object.__setattr__(self, name, value)

    def _labels(self, name: str) -> dict[str, tuple[str, ...]]:
        tokens = getattr(self, name)
        if not isinstance(tokens, Mapping):
            return dict.fromkeys(self.panels, tuple(tokens))
        missing = [site for site in self.panels if site not in tokens]
        if missing:
            raise BadInput(f"{name} has no tokens for {missing[0]!r}; it has them for {quoted(tokens)}")
        for site in self.panels:
            check_argument(f"{name} of {site}", tokens[site], Sequence[str])
        return {site: tuple(tokens[site]) for site in self.panels}

    def tokens(self, site: str) -> tuple[Sequence[str], Sequence[str]]:
        """The rows and the columns of a site."""
        assert isinstance(self.rows, Mapping)
        assert isinstance(self.columns, Mapping)
        return self.rows[site], self.columns[site]

    @cached_property
    def most(self) -> float:
        """The largest weight of all heads."""
        return float(max(weights.max() for weights in self.panels.values()))

    def top(self, site: str, head: int) -> float:
        """The weight of the darkest colour in a panel."""
        own = self.scale == "each"
        return top_of(float(self.panels[site][head].max()) if own else self.most, self.scale)

    def levels(self, site: str, head: int) -> np.ndarray:
        """The weights of a panel as shares of its scale, in [0, 1]."""
        return (self.panels[site][head] / self.top(site, head)).clip(0, 1)

    def hidden(self, site: str) -> np.ndarray | None:
        """Where the rows of a site may not look."""
        mask = self.mask[site]
        return None if mask is None or mask.all() else ~mask

    @property
    def scale_words(self) -> str:
        """What stands at the top of the colour scale."""
        if self.scale == "each":
            return f"largest {self.of} of each head"
        return f"{top_words(self.top(next(iter(self.panels)), 0), self.most)}  {self.of}"

    @property
    def legend(self) -> str:
        """What grey places mean; "": there are none."""
        return HIDDEN_WORDS if any(self.hidden(site) is not None for site in self.panels) else ""

    def name(self, site: str, head: int) -> str:
        """A panel's title: its head, if there are several, and the top of its scale, if the panel has its own."""
        parts = [f"head {head}"] if len(self.panels[site]) > 1 else []
        parts += [f"to {self.top(site, head):g}"] if self.scale == "each" else []
        return ", ".join(parts)


def _check(
    site: str, values: Any, rows: Sequence[str], columns: Sequence[str], mask: Any, scale: Scale
) -> tuple[np.ndarray, np.ndarray | None]:
    weights = to_array(values, f"{site}: weights", np.float32)
    if weights.ndim != 3 or len(weights) == 0:
        raise BadInput(
            f"{site}: weights must have shape (heads, rows, columns), got {weights.shape}: give one text at a time"
        )
    try:
        maps = [MapData(head, rows, columns, mask=mask, scale=scale) for head in weights]
    except ValueError as error:
        raise BadInput(f"{site}: {error}") from error
    return np.stack([head.weights for head in maps]).astype(np.float32), maps[0].mask


def heads_title(site: str, count: int, head: int | None = None) -> str:
    """Which of a site's heads a picture shows: one of them, or the mean of all."""
    if head is not None:
        return f"{site}, head {head}"
    return f"{site}, mean of {count} heads" if count > 1 else site


def quoted(names: Mapping[str, object]) -> str:
    return ", ".join(map(repr, names))
