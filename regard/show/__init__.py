"""Weights to pictures. Numpy in; no torch, nothing else of regard."""

from regard.show.curves import Curves, loss_curve
from regard.show.heatmap import Map

__all__ = ["Curves", "Map", "loss_curve"]
