"""Damage done to a folder's weights, each as a function of the folder."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Damage = Callable[[Path], object]
WEIGHTS = "model.safetensors"


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    def write(folder: Path) -> None:
        weights = {name: x.clone() for name, x in load_file(folder / WEIGHTS).items()}
        change(weights)
        save_file(weights, folder / WEIGHTS)

    return write


def header(change: Callable[[dict[str, Any]], object]) -> Damage:
    """The header of the weights altered, and what follows it left as it is."""

    def write(folder: Path) -> None:
        raw = (folder / WEIGHTS).read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        entries = json.loads(raw[8 : 8 + length])
        change(entries)
        new = json.dumps(entries).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(new)) + new + raw[8 + length :])

    return write
