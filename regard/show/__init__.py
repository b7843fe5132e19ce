"""Weights to pictures. Numpy in; no torch, nothing else of regard."""

from regard.show.curves import Curves, length_curves, loss_curve
from regard.show.heatmap import Map

__all__ = ["Curves", "Map", "length_curves", "loss_curve"]
