"""Weights to pictures. Numpy in; no torch, nothing else of regard."""

from regard.show.curves import Curves, length_curves, loss_curve
from regard.show.heads import Heads
from regard.show.heatmap import Map
from regard.show.positions import Barcode, barcode, position_curves, similarity

__all__ = [
    "Barcode",
    "Curves",
    "Heads",
    "Map",
    "barcode",
    "length_curves",
    "loss_curve",
    "position_curves",
    "similarity",
]
