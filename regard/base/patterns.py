"""Names of many files at once ("shards/*.jsonl.zst"), and the form of a file by its name."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from regard.errors import DataError

COMPRESSED = (".gz", ".xz", ".zst")
FORMS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}
COLUMNED = ("csv", "jsonl", "parquet")  # forms whose columns have names


def form_by_name(path: Path) -> str:
    """The form of a file, whether compressed or not; "" for none of FORMS. Datasets are written as parquet."""
    if path.parts[:1] == ("hf:",):
        return "parquet"
    name = path.stem if path.suffix.lower() in COMPRESSED else path.name
    return FORMS.get(Path(name).suffix.lower(), "")


def is_pattern(name: str) -> bool:
    return glob.has_magic(name)


def match_files(pattern: str) -> list[Path]:
    """The files that fit a pattern of * ? [] and ** (folders in folders), in the order of their names: from here,
    else under $REGARD_DATA. Hidden files do not count, and folders only where no file fits."""
    root = os.environ.get("REGARD_DATA")
    for place in [pattern, *([os.path.join(glob.escape(root), pattern)] if root else [])]:
        paths = [Path(name) for name in sorted(glob.glob(place, recursive=True))]
        if found := [path for path in paths if not path.is_dir()] or paths:
            _refuse_mixed(pattern, found)
            return found
    under = f", neither here nor under REGARD_DATA ({root})" if root else "; patterns are relative to this folder"
    raise DataError(f"no file fits the pattern {pattern}{under}")


def _refuse_mixed(pattern: str, paths: Iterable[Path]) -> None:
    """A README among tables would become a row of text."""
    forms = {form_by_name(path): path for path in paths}
    if len(forms) > 1:
        (form, first), (other, second), *_ = sorted(forms.items())
        raise DataError(
            f"{pattern} fits files of several forms: {first} ({form or 'plain text'}) and {second} "
            f"({other or 'plain text'}); they must be of one form: narrow the pattern, as in '*.jsonl'"
        )
