"""Files in a .zip or .npz: read up to a limit, and errors in plain words."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import DataError


@contextmanager
def explain_zip_errors(path: str | Path, form: str = "a .zip file") -> Iterator[None]:
    """Turn what is wrong with a .zip into a DataError that names the file."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError) as error:
        raise DataError(f"{path} is damaged, truncated, encrypted or not {form}: {error}") from None


def read_member(archive: zipfile.ZipFile, member: str, name: str, largest: int) -> bytes:
    """A file in the .zip, decompressed; at most `largest` bytes, whatever the .zip declares."""
    with explain_zip_errors(name), archive.open(member) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise DataError(f"{name} has more than {largest:,} bytes; at most so many are read")
    return data
