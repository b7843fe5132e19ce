"""The tensors of a checkpoint that several processes have written: safetensors files of torch's distributed
checkpoint, each with a part of every tensor."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint import HuggingFaceStorageReader

MODEL, OPTIMISER = "model/", "optimiser/"
SCALAR = "@scalar"  # the name of a number ends so: torch's reader has no tensors without dimensions


def read_whole(path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """In one process: weights, and the optimiser's tensors, of a checkpoint that several have written."""
    tensors = {name: torch.empty(size, dtype=dtype) for name, (size, dtype) in forms(path).items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)  # which is what we ask for
        dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(path)), no_dist=True)
    return named(tensors, MODEL), named(tensors, OPTIMISER)


def forms(path: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Shape and dtype of each tensor as a whole."""
    stored: dict[str, Any] = dict(HuggingFaceStorageReader(str(path)).read_metadata().state_dict_metadata)
    return {name: (each.size, each.properties.dtype) for name, each in stored.items()}


def named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """By the names of model or optimiser."""
    return {
        name.removeprefix(prefix).removesuffix(SCALAR): x.view(()) if name.endswith(SCALAR) else x
        for name, x in tensors.items()
        if name.startswith(prefix)
    }
