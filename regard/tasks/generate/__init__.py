"""Continuing a text."""
