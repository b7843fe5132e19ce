"""Weights to pictures. Numpy in; no torch, nothing else of regard."""

from regard.show.bars import bars
from regard.show.curves import Curves, length_curves, loss_curve
from regard.show.heads import Heads
from regard.show.heatmap import Map
from regard.show.overlay import Overlay
from regard.show.positions import Barcode, barcode, position_curves, similarity
from regard.show.rollout import patch_map, rollout

__all__ = [
    "Barcode",
    "Curves",
    "Heads",
    "Map",
    "Overlay",
    "barcode",
    "bars",
    "length_curves",
    "loss_curve",
    "patch_map",
    "position_curves",
    "rollout",
    "similarity",
]
