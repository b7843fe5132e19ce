"""Layers that several papers share, besides attention."""
