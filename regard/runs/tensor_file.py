"""A safetensors file, mapped into memory: a tensor is read from the disk when it is used.

    8 bytes: how long the header is | the header: {name: {dtype, shape, data_offsets}} | the bytes of the tensors

safetensors checks the file when it is opened: the header, and that the tensors fill the rest without gaps. Its own
`get_tensor` never frees two integers of every tensor it has read (0.8.0), which a server that loads runs for
weeks would notice."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from regard.base.files import parse_json

LENGTH = 8  # bytes that say how long the header is


class TensorFile:
    """SafetensorError or OSError if it is not one."""

    def __init__(self, path: Path) -> None:
        with safe_open(path, framework="pt") as file:
            self.metadata: dict[str, str] = file.metadata() or {}
        self._bytes = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)
        self._begin = LENGTH + int(self._bytes[:LENGTH].view(torch.int64))
        entries = parse_json(self._bytes[LENGTH : self._begin].numpy().tobytes())
        entries.pop("__metadata__", None)
        # shape and dtype, by safetensors' names, of each tensor
        self.header = {name: (tuple(entry["shape"]), entry["dtype"]) for name, entry in entries.items()}
        self._offsets = {name: entry["data_offsets"] for name, entry in entries.items()}

    def tensor(self, name: str, dtype: torch.dtype) -> Tensor:
        """A view into the file, of its dtype."""
        first, last = (self._begin + offset for offset in self._offsets[name])
        data = self._bytes[first:last]
        aligned = data if first % dtype.itemsize == 0 else data.clone()
        return aligned.view(dtype).view(self.header[name][0])
