"""Files opened, decompressed and decoded, line by line."""

import gzip
import lzma
import re
import sys
import tracemalloc

import pytest
import zstandard

from regard.base.lines import LONGEST_LINE, open_lines
from regard.errors import DataError

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def write(folder, content, name="lines.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("suffix", PACK)
def test_lines_of_any_compression(tmp_path, suffix):
    path = write(tmp_path, PACK[suffix]("\ufeffeins\r\n\nzwei \u2028\ndrei".encode()), f"lines.txt{suffix}")
    assert list(open_lines(path)) == [(1, "eins"), (2, ""), (3, "zwei \u2028"), (4, "drei")]
    assert list(open_lines(write(tmp_path, PACK[suffix](b""), f"none.txt{suffix}"))) == []


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_file_packed_in_parts_is_read_to_its_end(tmp_path, suffix):
    pack = PACK[suffix]
    path = write(tmp_path, pack(b"one\ntw") + pack(b"") + pack(b"o\n") + pack(b"three\n" * 5), f"lines{suffix}")
    assert [text for _, text in open_lines(path)] == ["one", "two", *["three"] * 5]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_damaged_files_say_so(tmp_path, suffix):
    lines = b"".join(b"%d lines\n" % (i * i * 7919) for i in range(20_000))
    packed = PACK[suffix](lines)
    middle = len(packed) // 2
    for cut in (len(packed) - 1, middle, 5):
        path = write(tmp_path, packed[:cut], f"cut{suffix}")
        with pytest.raises(
            DataError, match=rf"cut\{suffix}, line \d+: here the \{suffix} file is damaged or truncated"
        ):
            list(open_lines(path))
    broken = packed[:middle] + bytes(64) + packed[middle + 64 :]
    with pytest.raises(DataError, match=r"line \d+: "):
        list(open_lines(write(tmp_path, broken, f"broken{suffix}")))
    plain = write(tmp_path, "just text, and no packed one\n" * 40, f"plain.txt{suffix}")
    with pytest.raises(DataError, match=rf"plain\.txt\{suffix}, line 1: .* not a"):
        list(open_lines(plain))


def test_zst_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path, PACK[".zst"](b"a\n"), "lines.zst")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match=re.escape("pip install 'regard[zstd]'")):
        list(open_lines(path))


def test_the_longest_line_and_one_byte_more(tmp_path):
    longest = b"x" * LONGEST_LINE
    for ending in (b"\n", b"\r\n", b""):
        assert [len(text) for _, text in open_lines(write(tmp_path, longest + ending))] == [LONGEST_LINE]
        with pytest.raises(DataError, match="line 1: is longer"):
            list(open_lines(write(tmp_path, longest + b"x" + ending)))


@pytest.mark.parametrize("suffix", PACK)
def test_an_endless_line_is_never_held(tmp_path, suffix):
    path = write(tmp_path, PACK[suffix](b"x" * 30_000_000), f"endless{suffix}")
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="line 1: is longer"):
            list(open_lines(path))
        assert tracemalloc.get_traced_memory()[1] < 12_000_000  # of which xz takes 8 MiB to unpack anything
    finally:
        tracemalloc.stop()


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(DataError, match=r"missing\.txt does not exist"):
        list(open_lines(tmp_path / "missing.txt"))
    with pytest.raises(DataError, match="is a directory"):
        list(open_lines(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        list(open_lines(write(tmp_path, "a") / "within"))
