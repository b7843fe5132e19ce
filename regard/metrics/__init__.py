"""How good: one small file per measure. Numpy and plain Python only."""
