"""Vectors of texts and of their tokens, and learning them from plain text."""
