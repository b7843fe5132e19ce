"""Tensors by name: those of a model, copied into it, written to a file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save
from torch import Tensor

from regard.base.files import write_file

LENGTH, BEGINNING = 8, '{"__metadata__":'  # of a safetensors file: bytes that say how long its header is, its text
CHECKSUM = "checksum"  # in the metadata of a safetensors file


class HasState(Protocol):
    """A torch module, or anything used like a module: it gives its tensors by name."""

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]: ...


def named_tensors(model: HasState) -> dict[str, Tensor]:
    """Parameters and persistent buffers; a tied tensor comes once, under its first name."""
    seen: set[int] = set()
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor) and id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file atomically; OSError when the disk is full. The same tensors give the same bytes: the
    library writes the metadata, which stands first, in any order."""
    data, ordered = memoryview(tensors_to_bytes(tensors, metadata)), b""
    if metadata:
        text = json.dumps(metadata, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        ordered = (BEGINNING + text).encode()
    write_file(path, [data[:LENGTH], ordered, data[LENGTH + len(ordered) :]])


def tensors_to_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The contents of a safetensors file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(plain, metadata)


def checksum(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Of names, types, shapes and bytes. It finds changes that happen; one who means to can forge it."""
    return f"crc32:{zlib.crc32(checksums(tensors).encode()):08x}"


def checksums(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """A line for each tensor: its name, type, shape and the checksum of its bytes."""
    lines = []
    for name, tensor in sorted(tensors, key=lambda item: item[0]):
        data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        lines.append(f"{name} {form_of(tensor)} {zlib.crc32(data.data):08x}\n")
    return "".join(lines)


def fill(model: HasState, tensors: Mapping[str, Tensor], *, source: str | Path) -> None:
    """Copy tensors into the model by name; nothing is changed unless all of them fit."""
    own = named_tensors(model)
    if own.keys() != tensors.keys():
        missing, extra = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
        raise ValueError(
            f"{source} does not fit this model: missing {_some(missing)}, unknown {_some(extra)}. "
            "Use the model settings it was written with"
        )
    for name, place in own.items():
        if (tensors[name].shape, tensors[name].dtype) != (place.shape, place.dtype):
            raise ValueError(
                f"{source} does not fit this model: {name} is {form_of(tensors[name])}, the model has "
                f"{form_of(place)}. Use the model settings it was written with"
            )
    with torch.no_grad():
        for name, place in own.items():
            place.copy_(tensors[name])


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "nothing"


def form_of(tensor: Tensor) -> str:
    """Shape and dtype, for messages: (2, 3) float32."""
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
