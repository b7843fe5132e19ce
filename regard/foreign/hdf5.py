"""Weights in an HDF5 file: what it holds, and one tensor of it. Nothing outside the file is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.base.files import check_regular, explain_os_errors
from regard.errors import RunError

SUFFIX = ".hdf5"
MOST_DEEP, MOST_NAMES = 16, 10_000  # more than any real file has: a group may hold itself
# Compressed numbers: the bytes of one that is stored, and of a small set, however well it is compressed.
MOST_GROWTH, SMALL = 20, 1 << 14
# numpy's names of data types as safetensors has them.
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16"} | {
    f"{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "I"), ("u", "U")) for bits in (8, 16, 32, 64)
}


def hdf5_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each data set, by its path in the file."""
    with _opened(path) as file:
        tensors: dict[str, tuple[tuple[int, ...], str]] = {}
        stored = 0
        for name, data in _data_sets(path, file):
            stored += data.id.get_storage_size()
            if stored > path.stat().st_size:
                raise RunError(f"{path} has data sets that share their bytes; store each by itself, under one name")
            tensors[name] = tuple(data.shape or ()), DTYPES.get(data.dtype.name, data.dtype.name)
        return tensors


def read_hdf5(path: Path, name: str) -> Tensor:
    """A data set of which the file has all values: those never written would be read as zeros."""
    with _opened(path) as file:
        data = file[name]
        stored, unpacked = data.id.get_storage_size(), math.prod(data.chunks or ()) * data.dtype.itemsize
        packed = data.chunks is not None and data.id.get_create_plist().get_nfilters() > 0
        if packed and max(data.nbytes, unpacked) > max(MOST_GROWTH * stored, SMALL):
            raise RunError(
                f"{path}: {name} has {max(data.nbytes, unpacked):,} bytes to be unpacked, and the file has only "
                f"{stored:,}; store it without compression"
            )
        if stored < data.nbytes and not (packed and _chunks(data) == data.id.get_num_chunks()):
            raise RunError(f"{path}: {name} has only {stored:,} of its {data.nbytes:,} bytes; store all its values")
        return torch.from_numpy(data.astype(data.dtype.newbyteorder("="))[...])


def _chunks(data: Any) -> int:
    """How many chunks hold all values of a data set."""
    return math.prod(-(-size // part) for size, part in zip(data.shape, data.chunks, strict=True))


def _data_sets(path: Path, file: Any) -> Iterator[tuple[str, Any]]:
    """Every data set with its path in the file."""
    import h5py

    groups, seen = [("", file, MOST_DEEP)], 0
    while groups:
        before, group, deep = groups.pop()
        for key in group:
            seen += 1
            if seen > MOST_NAMES:
                raise RunError(f"{path} holds more than {MOST_NAMES:,} data sets and groups, and no model does")
            where = f"{path}: {before}{key:.200}"
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise RunError(f"{where} is a link, and links are not followed; store the data itself")
            member = group[key]
            if isinstance(member, h5py.Dataset):
                if member.is_virtual or member.external:
                    raise RunError(
                        f"{where} has its data in other files, which are not read; store the data itself"
                    )
                yield before + key, member
            elif isinstance(member, h5py.Group) and deep:
                groups.append((f"{before}{key}/", member, deep - 1))
            else:
                raise RunError(f"{where} is neither a data set nor a group of them, or more than {MOST_DEEP} deep")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise RunError(f"{path} can only be read with h5py: pip install 'regard[elmo]'") from None
    check_regular(path)
    with explain_os_errors(path), open(path, "rb"):  # says in plain words why it cannot be opened at all
        pass
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(
            f"{path} cannot be read; it is truncated, changed or not an HDF5 file: {error!s:.300}"
        ) from None
