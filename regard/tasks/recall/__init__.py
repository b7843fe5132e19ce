"""Remembering sequences of bits."""
