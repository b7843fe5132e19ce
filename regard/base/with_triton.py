"""Triton, where its kernels can run: on a GPU, or by its interpreter on a CPU (TRITON_INTERPRET=1). Elsewhere its
import, which takes a quarter of a second, is left out: ModuleNotFoundError, as where Triton is not installed."""

import os

import torch

if not (torch.version.cuda or torch.version.hip or os.environ.get("TRITON_INTERPRET") == "1"):
    raise ModuleNotFoundError("torch was built without a GPU, so Triton is not needed")

import triton
import triton.language as tl

__all__ = ["tl", "triton"]
