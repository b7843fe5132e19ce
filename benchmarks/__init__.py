"""Benchmarks: regard and its peers in one go. `python -m benchmarks --list` tells the rows; see `frame.py`."""
