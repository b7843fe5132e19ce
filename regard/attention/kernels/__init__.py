"""Kernels for what torch does not fuse."""
