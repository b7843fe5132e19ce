"""Size and sha256 of the files that a training reads, or of rows in memory, so that a change is noticed."""

from __future__ import annotations

import hashlib
import os
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regard.base.cache_place import cache_folder
from regard.base.files import explain_os_errors
from regard.base.memory_rows import MemoryRows
from regard.base.zip_files import explain_zip_errors

MOST_READ = 2 << 30  # bytes of files that are read on demand, as images are; of more, only the ends are read here
END = 1 << 16  # bytes at the beginning and at the end of a file
SETTLED = 2 * 10**9  # nanoseconds after which another change of a file has another time
_known: dict[tuple[str, int, int, int], str] = {}  # digests of files that are read several times at a start

Source = Path | Sequence[Path] | MemoryRows  # a file, the files of a class or folder, or rows in memory
Digest = dict[str, int | str]


def digests(sources: Mapping[str, Source]) -> dict[str, Digest]:
    """The digest of each source, by its name; of a file that is not there, an empty one. A pipe can be read only
    once and has none."""
    single = [source for source in sources.values() if isinstance(source, Path) and source.is_file()]
    contents = dict(zip(single, sha256_of_files(single), strict=True))
    many = [path for paths in sources.values() if not isinstance(paths, Path | MemoryRows) for path in paths]
    whole = sum(map(_size, many)) <= MOST_READ
    found: dict[str, Digest] = {}
    for name, source in sources.items():
        if isinstance(source, MemoryRows):
            found[name] = {"rows": len(source.rows), "sha256": source.digest()}
        elif not isinstance(source, Path):
            found[name] = _of_many(source, whole)
        elif source in contents:
            found[name] = {"size": _size(source), "sha256": contents[source]}
        elif not source.exists():
            found[name] = {}
    return found


def sha256_of_files(paths: Iterable[Path]) -> list[str]:
    """Of many files at once: hashing runs outside Python's lock, so that threads use all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(sha256_of, paths))


def sha256_of(path: Path) -> str:
    """Read once for as long as size and times do not change: a start needs the digest of a file twice."""
    with explain_os_errors(path):
        status = path.stat()
    key = (os.path.abspath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _known:
        digest = _of_file(path, whole=True)
        if time.time_ns() - status.st_ctime_ns < SETTLED:
            return digest
        _known[key] = digest
    return _known[key]


def _size(path: Path) -> int:
    with explain_os_errors(path):
        return path.stat().st_size


def _of_many(paths: Sequence[Path], whole: bool) -> Digest:
    """One digest over the names, sizes and contents of files; without `whole`, over the ends of their contents: an
    image that is changed has another size or another end almost always, and terabytes need not be read twice."""
    total, digest = 0, hashlib.sha256()
    for path in paths:
        size = _size(path)
        digest.update(os.fsencode(f"{path.parent.name}/{path.name} {size} {_of_file(path, whole=whole)}\n"))
        total += size
    read = {} if whole else {"read": f"{END:,} bytes at both ends of each file"}
    return {"files": len(paths), "size": total, "sha256": digest.hexdigest(), **read}


def _of_file(path: Path, *, whole: bool) -> str:
    if path.suffix.lower() == ".zip":  # its directory has the size and a checksum of every file in it
        with explain_zip_errors(path), zipfile.ZipFile(path) as archive:
            members = [f"{each.filename} {each.file_size} {each.CRC}\n" for each in archive.infolist()]
        return hashlib.sha256("".join(members).encode("utf-8", "surrogateescape")).hexdigest()
    with explain_os_errors(path), open(path, "rb") as file:
        if whole:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(file.read(END))
        file.seek(max(END, path.stat().st_size - END))
        digest.update(file.read(END))
        return digest.hexdigest()


def known_as(path: Path) -> str:
    """The name of a file in a record: below $REGARD_DATA or in the cache, without that folder, which may be
    elsewhere next time."""
    roots = (os.environ.get("REGARD_DATA"), cache_folder())
    return str(next((path.relative_to(root) for root in roots if root and path.is_relative_to(root)), path))


def differences(then: Mapping[str, Digest], now: Mapping[str, Digest]) -> list[str]:
    """What differs, a text for each source: "train.tsv: 1,200 bytes then, 1,205 now". A file that was not there at
    one of the times was not read then."""
    absent = {name for part in (then, now) for name, digest in part.items() if not digest}
    names = [
        name for name in dict.fromkeys([*then, *now]) if then.get(name) != now.get(name) and name not in absent
    ]
    return [f"{name}: {_difference(then.get(name), now.get(name))}" for name in names]


def _difference(then: Digest | None, now: Digest | None) -> str:
    if then is None or now is None:
        return "new" if then is None else "no longer there"
    counts = ((key, unit) for key, unit in (("rows", "rows"), ("files", "files"), ("size", "bytes")))
    parts = [
        f"{then.get(key, 0):,} {unit} then, {now.get(key, 0):,} now"
        for key, unit in counts
        if then.get(key) != now.get(key)
    ]
    return "; ".join(parts) or "other contents"
