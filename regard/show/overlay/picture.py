"""The overlay as users hold it."""

from __future__ import annotations

from regard.show.overlay.data import OverlayData
from regard.show.picture import Drawn, counted, titled


class Overlay(OverlayData, Drawn):
    __doc__ = OverlayData.__doc__
    package = __package__

    def __repr__(self) -> str:
        height, width, _ = self.image.shape
        return f"<Overlay: {counted(len(self.panels), 'map')} over {height} x {width} pixels{titled(self.title)}>"
