"""The overlay as users hold it."""

from __future__ import annotations

from dataclasses import replace

from regard.errors import BadInput
from regard.show.overlay.data import OverlayData
from regard.show.picture import Drawn, counted, titled


class Overlay(OverlayData, Drawn):
    __doc__ = OverlayData.__doc__
    package = __package__
    kind = "overlay"

    def __repr__(self) -> str:
        height, width, _ = self.image.shape
        return f"<Overlay: {counted(len(self.panels), 'map')} over {height} x {width} pixels{titled(self.title)}>"

    def part(self, *, head: int | None = None, rows: range | None = None) -> Overlay:
        """The overlay with the maps of this head alone."""
        if head is None:
            return self
        panels = {name: one for name, one in self.panels.items() if name.endswith(f", head {head}")}
        if not panels:
            raise BadInput(f"there is no head {head} among {', '.join(self.panels)}")
        return replace(self, panels=panels)
