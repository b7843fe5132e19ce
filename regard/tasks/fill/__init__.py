"""Filling masked words, and learning to."""
