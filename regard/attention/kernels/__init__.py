"""Kernels for operations that torch does not fuse."""
