"""The weights of many heads with their labels, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.show.map.data import MapData

LONGEST = 128  # tokens drawn on a side of a panel
BUDGET = 1_000_000  # weights drawn in all: an HTML file with more is slow to open


@dataclass(frozen=True, eq=False)
class HeadsData:
    """Weights (H, R, C) in [0, 1] by site: {"encoder.0.attend": ..., "decoder.0.cross": ...}.

    `rows` and `columns` are the tokens of all sites, or {site: tokens} where sites differ. Of long texts only the
    first `shown` tokens are drawn, and the picture says so; `map` has all of them. Shows itself in a notebook."""

    panels: Mapping[str, np.ndarray]
    rows: Mapping[str, Sequence[str]] | Sequence[str]
    columns: Mapping[str, Sequence[str]] | Sequence[str]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError("no heads to draw: give at least one site, as {site: weights (heads, rows, columns)}")
        rows, columns = self._labels("rows"), self._labels("columns")
        checked = {site: _check(site, weights, rows[site], columns[site]) for site, weights in self.panels.items()}
        for name, value in (("panels", checked), ("rows", rows), ("columns", columns)):
            object.__setattr__(self, name, value)

    def _labels(self, name: str) -> dict[str, tuple[str, ...]]:
        given = getattr(self, name)
        if not isinstance(given, Mapping):
            return dict.fromkeys(self.panels, tuple(given))
        missing = [site for site in self.panels if site not in given]
        if missing:
            raise ValueError(f"{name} has no tokens for {missing[0]!r}; it has them for {quoted(given)}")
        return {site: tuple(given[site]) for site in self.panels}

    @property
    def shown(self) -> int:
        """How many rows and columns of a panel are drawn at most: fewer, the more panels there are."""
        return min(LONGEST, max(4, int((BUDGET / sum(map(len, self.panels.values()))) ** 0.5)))

    def tokens(self, site: str) -> tuple[Sequence[str], Sequence[str]]:
        """The rows and the columns of a site."""
        assert isinstance(self.rows, Mapping)
        assert isinstance(self.columns, Mapping)
        return self.rows[site], self.columns[site]


def _check(site: str, weights: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    weights = np.array(weights, dtype=np.float32)
    if weights.ndim != 3 or len(weights) == 0:
        raise ValueError(
            f"{site}: weights must have shape (heads, rows, columns), got {weights.shape}: give one text at a time"
        )
    try:
        maps = [MapData(head, rows, columns).weights for head in weights]
    except ValueError as error:
        raise ValueError(f"{site}: {error}") from error
    return np.stack(maps).astype(np.float32)


def quoted(names: Mapping[str, object]) -> str:
    return ", ".join(map(repr, names))
