"""Metrics, one small file each. Numpy and plain Python only."""
