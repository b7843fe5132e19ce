"""Captions of images."""
