"""Texts and pairs of texts in classes."""
