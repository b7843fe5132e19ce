"""Many heads as users hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import BadInput
from regard.show.heads.data import HeadsData, heads_title, quoted
from regard.show.heads.pooling import once, pool
from regard.show.heads.svg import draw_svg
from regard.show.heads.terminal import draw_terminal
from regard.show.map.picture import LONG, Map
from regard.show.picture import BUDGET, Picture, counted, titled
from regard.show.plain import check_rows, pack_numbers, plain
from regard.show.shaded import svg, terminal
from regard.show.shaded.picture import ShadedText
from regard.show.words import Words, merge_mask, merge_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Heads(HeadsData, Picture):
    __doc__ = HeadsData.__doc__
    kind = "heads"

    def __repr__(self) -> str:
        heads, many = counted(sum(map(len, self.panels.values())), "head"), counted(len(self.panels), "site")
        sites = ", ".join(list(self.panels)[:3]) + (", ..." if len(self.panels) > 3 else "")
        return f"<Heads: {heads} of {many} ({sites}){titled(self.title)}>"

    def part(self, *, head: int | None = None, rows: range | None = None) -> Heads:
        """The sheet with this head and these rows alone."""
        panels, names, masks = {}, {}, {}
        for site, weights in self.panels.items():
            if head is not None and not 0 <= head < len(weights):
                raise BadInput(f"{site} has heads 0 to {len(weights) - 1}, got {head}")
            all_rows, _ = self.tokens(site)
            at = slice(None) if rows is None else check_rows(rows, len(all_rows))
            panels[site] = weights[slice(None) if head is None else slice(head, head + 1), at]
            names[site], mask = all_rows[at], self.mask[site]
            masks[site] = None if mask is None else mask[at]
        return replace(self, panels=panels, rows=names, mask=masks)

    def in_words(self, rows: Mapping[str, Words], columns: Mapping[str, Words]) -> Heads:
        """The weights of a word's pieces added up in columns and averaged in rows; words by site."""
        both = {site: (rows[site], columns[site]) for site in self.panels}
        merged = replace(
            self,
            panels={site: merge_weights(weights, *both[site]) for site, weights in self.panels.items()},
            rows={site: row.labels for site, (row, _) in both.items()},
            columns={site: column.labels for site, (_, column) in both.items()},
            mask={site: merge_mask(mask, *both[site]) for site, mask in self.mask.items()},
        )
        return merged.over(self)

    def map(self, site: str, head: int | None = None) -> Map:
        """One head with its labels; without `head`, the mean over the heads of the site."""
        if site not in self.panels:
            raise ValueError(f"no site {site!r}; there are {quoted(self.panels)}")
        weights = self.panels[site]
        if head is not None and not 0 <= head < len(weights):
            raise ValueError(f"{site} has heads 0 to {len(weights) - 1}, got {head}")
        chosen = weights.mean(0, dtype=np.float64) if head is None else weights[head]
        title = heads_title(site, len(weights), head)
        found = Map(chosen, *self.tokens(site), title, mask=self.mask[site], scale=self.scale)
        return found.over(self._pieces.map(site, head) if self._pieces else None)

    def _texts(self) -> list[ShadedText]:
        """A shaded text for each site if any has too many columns for maps, else none."""
        if max(len(self.tokens(site)[1]) for site in self.panels) <= LONG:
            return []
        texts = [self.map(site).shaded() for site in self.panels]
        if self.scale == "each":
            return texts
        top = max(text.top for text in texts)
        return [text.scaled(top) for text in texts]

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.heads.png import draw_figure
        from regard.show.shaded import png

        texts, figure = self._texts(), pyplot.figure()
        return png.draw_figure(texts, figure, self.title) if texts else draw_figure(self, figure)

    def svg(self) -> str:
        """The heads as SVG: text as text, each panel as a small image inside the file. More than 60 columns are
        drawn as a shaded text for each site, here and in PNG and the terminal."""
        texts = self._texts()
        return svg.draw_svg(texts, self.title) if texts else draw_svg(self)

    def _fields(self) -> dict[str, Any]:
        """`rows`, `columns` and `mask` are told once if they are the same at all sites. `most` is the largest
        weight, so that a head that comes later has the same scale."""
        return self._told(self.panels, once(self.mask))

    def _told(self, panels: Mapping[str, Any], mask: Any) -> dict[str, Any]:
        told = {"title": self.title, "of": self.of, "most": float(self.most), "scale": self.scale, "mask": mask}
        rows, columns = ({site: self.tokens(site)[at] for site in self.panels} for at in (0, 1))
        told |= {"rows": once(rows), "columns": once(columns), "panels": panels}
        return {name: plain(value) for name, value in told.items() if value is not None}

    def overview(self, side: int) -> dict[str, Any]:
        """As `data`, but every head is pooled to at most side x side cells, each the largest weight in it, and
        packed with 64 levels; `side` says so."""
        if max(max(weights.shape[1:]) for weights in self.panels.values()) <= side:
            return self.data()
        pooled = {site: pack_numbers(pool(weights, side), 1) for site, weights in self.panels.items()}
        masks = {site: None if mask is None else pool(mask, side) for site, mask in self.mask.items()}
        found = {"kind": self.kind, **self._told(pooled, once(masks)), "side": side}
        return found | ({"pieces": True} if self._pieces else {})

    def _kept(self) -> tuple[Heads, str]:
        """The first rows and columns of every head, if there are too many for a file."""
        shown = max(4, int((BUDGET / sum(map(len, self.panels.values()))) ** 0.5))
        longest = max(max(weights.shape[1:]) for weights in self.panels.values())
        if longest <= shown:
            return self, ""
        both = {site: self.tokens(site) for site in self.panels}
        kept = replace(
            self,
            panels={site: weights[:, :shown, :shown] for site, weights in self.panels.items()},
            rows={site: rows[:shown] for site, (rows, _) in both.items()},
            columns={site: columns[:shown] for site, (_, columns) in both.items()},
            mask={site: None if mask is None else mask[:shown, :shown] for site, mask in self.mask.items()},
            scale=self.scale or self.most,
        )
        return kept, f"only the first {shown} of up to {longest} tokens are here: choose fewer heads to see all"

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The heads as text, `width` cells wide (default: the terminal's width); heads that do not fit go below."""
        if texts := self._texts():
            return terminal.draw_terminal(texts, self.title, colour=colour, width=width)
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.heads.png import write_png
        from regard.show.shaded import png

        if texts := self._texts():
            return png.write_png(texts, path, self.title)
        write_png(self, path)
