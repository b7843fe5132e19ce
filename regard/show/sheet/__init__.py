"""Captions of many images, from right to unrelated."""
