"""The files in a .tar by their places in it, so that each is read by itself, in any order. Nothing is unpacked, and
no name in a .tar is ever a path."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from regard.base.files import check_regular, explain_os_errors
from regard.errors import DataError

COMPRESSED = (".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
MOST_MEMBERS = 1 << 22
LARGEST_HEADERS = 1 << 16  # bytes of what stands before one member: a header may declare any length of name
PADDING = 1 << 16  # bytes after the last member that are looked at; tar writes at most 10 KiB of zeros


class Member(NamedTuple):
    """A plain file in a .tar."""

    name: str
    offset: int  # of its first byte
    size: int


def is_tar(path: Path) -> bool:
    """By its name. DataError for a compressed one, in which nothing can be read by its place."""
    name = path.name.lower()
    if name.endswith(COMPRESSED):
        raise DataError(
            f"{path} is compressed, and a .tar must not be: each image is read by its place in the file. "
            "Decompress it, as by gunzip; images are compressed themselves"
        )
    return name.endswith(".tar")


def tar_members(path: Path) -> Iterator[Member]:
    """Every file in a .tar, in order. DataError for links, devices and sparse files, and for what is damaged."""
    total = check_regular(path)
    with explain_os_errors(path), open(path, "rb") as file:
        headers = _Headers(file)
        try:
            with tarfile.TarFile(fileobj=cast(Any, headers), encoding="utf-8", errors="backslashreplace") as tar:
                count = 0
                while (info := tar.next()) is not None:
                    cast(Any, tar).members.clear()  # else all of them are kept
                    headers.left = LARGEST_HEADERS
                    if (count := count + 1) > MOST_MEMBERS:
                        raise DataError(f"{path} has more than {MOST_MEMBERS:,} members; divide it into several")
                    if not info.isdir():
                        yield _plain(info, path, total)
                file.seek(tar.offset)
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
            raise DataError(f"{path} is damaged, truncated, compressed or not a .tar: {error}") from None
        rest = file.read(PADDING)
        if not rest or rest.strip(b"\0"):
            raise DataError(
                f"{path} is damaged or truncated: after {count:,} members, at byte {tar.offset:,}, there is "
                "neither another nor the end of a .tar; tars put one after the other are to be named each by itself"
            )


def read_member(path: Path, member: Member, largest: int) -> bytes:
    where = f"{path}, {member.name}"
    if member.size > largest:
        raise DataError(f"{where} has {member.size:,} bytes; at most {largest:,} are read")
    with explain_os_errors(path), open(path, "rb") as file:
        file.seek(member.offset)
        data = file.read(member.size)
    if len(data) < member.size:
        raise DataError(f"{where}: the file has become shorter since it was opened")
    return data


class _Headers:
    """The file as tarfile reads it, which takes as many bytes as a header declares, and goes where it says: here
    only forwards, and at most `left` bytes for a member."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.left = file, LARGEST_HEADERS

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise tarfile.ReadError(
                f"a header declares {size:,} bytes of names, at most {LARGEST_HEADERS:,} are read"
            )
        self.left -= size
        return self.file.read(size)

    def seek(self, place: int) -> int:
        if place < self.file.tell() - 1:  # one back: tarfile looks whether the last byte is there
            raise tarfile.ReadError("a header leads backwards")
        return self.file.seek(place)

    def tell(self) -> int:
        return self.file.tell()


def _plain(info: tarfile.TarInfo, path: Path, total: int) -> Member:
    where = f"{path}, {info.name}"
    if not info.isreg() or info.issparse():
        links = info.issym() or info.islnk()
        kind = "a link" if links else "a sparse file" if info.issparse() else "a device, a pipe or of unknown type"
        raise DataError(f"{where} is {kind}; a .tar of images must hold plain files and folders alone")
    if not 0 <= info.size <= total - info.offset_data:
        raise DataError(
            f"{where} declares {info.size:,} bytes, and {max(0, total - info.offset_data):,} are left in the file: "
            "it is damaged or truncated"
        )
    return Member(info.name, info.offset_data, info.size)
