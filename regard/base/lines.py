"""Open a text file, decompress it by its suffix, decode UTF-8, and give numbered lines or chunks.

Only the line or chunk at hand is in memory. Every error is a DataError that names file and line."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, NoReturn, TypeVar

from regard.base.files import explain_os_errors
from regard.errors import DataError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

LONGEST_LINE = 1 << 20  # bytes; a longer line means that the file has no line breaks
READ_LIMIT = len(codecs.BOM_UTF8) + LONGEST_LINE + len(b"\r\n")  # enough of a line to see that it is too long
CHUNK = 1 << 18  # bytes
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
Instead = TypeVar("Instead")
ZSTD_PIECE = 128  # compressed bytes; small, because four bytes of zstd may decompress to 128 KiB


def open_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The file's lines, decompressed; see `number_lines`."""
    with explain_os_errors(path), open_decompressed(Path(path)) as file:
        yield from number_lines(file, str(path))


def number_lines(file: io.BufferedIOBase, name: str) -> Iterator[tuple[int, str]]:
    r"""Lines numbered from 1, decoded as UTF-8 (a byte order mark and CRLF are accepted); `name` is for errors.

    Lines end at \n alone: other line separators of Unicode (U+2028, U+0085) are part of the text."""
    return _number_lines(file, name, _refuse)


def try_lines(file: io.BufferedIOBase, name: str) -> Iterator[tuple[int, str | DataError]]:
    """The same, but a line that cannot be read does not end the file: its error is given in its place."""
    return _number_lines(file, name, lambda error: error)


def open_tried_lines(path: str | Path) -> Iterator[tuple[int, str | DataError]]:
    with explain_os_errors(path), open_decompressed(Path(path)) as file:
        yield from try_lines(file, str(path))


def _number_lines(
    file: io.BufferedIOBase, name: str, bad: Callable[[DataError], Instead]
) -> Iterator[tuple[int, str | Instead]]:
    """`bad` returns a replacement for a line that cannot be read, or raises."""
    number = 1
    try:
        line = file.readline(READ_LIMIT).removeprefix(codecs.BOM_UTF8)
        while line:
            try:
                text: str | Instead = _decode_line(line, name, number)
            except DataError as error:
                text = bad(error)
                while line and not line.endswith(b"\n"):  # the rest of a line that is too long
                    line = file.readline(READ_LIMIT)
            yield number, text
            number += 1
            line = file.readline(READ_LIMIT)
    except DAMAGED as error:
        raise _damaged(f"{name}, line {number}", Path(name).suffix, error) from None


def _refuse(error: DataError) -> NoReturn:
    raise error


def open_chunks(path: Path) -> Iterator[str]:
    r"""The file's text in non-empty chunks, with line breaks as \n; lines may be of any length."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    line, more = 1, True
    with explain_os_errors(path), open_decompressed(path) as file:
        while more:
            try:
                data = file.read(CHUNK)
                more = bool(data)
                text = decoder.decode(data, final=not more)
            except DAMAGED as error:
                raise _damaged(f"{path}, line {line} or after", path.suffix, error) from None
            except UnicodeDecodeError as error:
                line += error.object.count(b"\n", 0, error.start)
                byte = error.object[error.start]
                raise _not_utf8(f"{path}, line {line}: the byte 0x{byte:02x}") from None
            if "\0" in text:
                raise _has_nul(path, line + text.count("\n", 0, text.index("\0")))
            line += text.count("\n")
            if text:
                yield text


def open_decompressed(path: Path) -> io.BufferedIOBase:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path)
        case ".xz":
            return lzma.open(path)
        case ".zst":
            return _open_zstd(path)
    return open(path, "rb")


def _decode_line(line: bytes, name: str, number: int) -> str:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) > LONGEST_LINE:
        raise DataError(
            f"{name}, line {number}: is longer than {LONGEST_LINE:,} bytes; "
            "is it text with line breaks? Split or remove the line"
        )
    if b"\0" in line:
        raise _has_nul(name, number)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} (0x{line[error.start]:02x})"
        raise _not_utf8(f"{name}, line {number}: {byte}") from None


def _damaged(where: str, suffix: str, error: Exception) -> DataError:
    return DataError(
        f"{where}: here the {suffix} file is damaged or truncated, or it is not a {suffix} file ({error}); "
        "download or compress it again"
    )


def _not_utf8(what: str) -> DataError:
    return DataError(f"{what} is not UTF-8; convert the file to UTF-8")


def _has_nul(name: str | Path, number: int) -> DataError:
    return DataError(f"{name}, line {number}: holds a NUL byte; the file must be plain text in UTF-8")


def _open_zstd(path: Path) -> io.BufferedIOBase:
    try:
        import zstandard
    except ImportError:
        raise DataError(f"{path} needs a package to decompress it: pip install 'regard[zstd]'") from None
    return io.BufferedReader(_Zstd(open(path, "rb"), zstandard))


class _Zstd(io.RawIOBase):
    """Decompresses a .zst file, frame after frame. The package's own reader does not notice a truncated file."""

    def __init__(self, file: IO[bytes], package: ModuleType) -> None:
        self.file, self.package = file, package
        self.frame: ZstdDecompressionObj | None = None  # the frame that is not yet complete
        self.compressed, self.text = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self.text:
            compressed = self.compressed or self.file.read(ZSTD_PIECE)
            if not compressed and self.frame:
                raise EOFError("it ends within a frame")
            if not compressed:
                return 0
            self.frame = self.frame or self.package.ZstdDecompressor().decompressobj()
            try:
                self.text = memoryview(self.frame.decompress(compressed))
            except self.package.ZstdError as error:
                raise EOFError(error) from None  # one class for all kinds of damage
            self.compressed = self.frame.unused_data
            if self.frame.eof:
                self.frame = None
        count = min(len(buffer), len(self.text))
        buffer[:count], self.text = self.text[:count], self.text[count:]
        return count

    def close(self) -> None:
        self.file.close()
        super().close()
