"""`hf://dataset:split`: a split of a dataset of the Hugging Face Hub, or of a folder of one, by `datasets`.

It is written once as a parquet file in the cache, under the dataset's fingerprint, and is a file like any other
from there on: read by rows, larger than memory, tokenised once, resumed exactly, and compared by its bytes when a
training goes on. Labels that are numbers with names are written by their names. No code of a dataset is run:
`datasets` has not done that since its version 4."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.base.cache_place import cache_folder
from regard.errors import DataError

PREFIX = "hf://"
FOLDER = "datasets"  # of the cache
FORM = 1  # of the files there: a new number writes them again
NAME = re.compile(r"(?P<name>[^:\[\]]+)(?::(?P<config>[\w.+-]+))?:(?P<split>[\w.+-]+(?:\[[\w:%.+-]*\])?)")
SAVED = ("dataset_info.json", "state.json", "dataset_dict.json")  # of a folder of `save_to_disk`


def is_dataset(name: object) -> bool:
    return str(name).startswith(PREFIX)


@lru_cache(maxsize=64)
def dataset_file(name: str) -> Path:
    """The parquet file of "hf://dataset:split" or "hf://dataset:configuration:split"."""
    parts = NAME.fullmatch(name.removeprefix(PREFIX))
    if parts is None:
        raise DataError(
            f"{name:.200} must be hf://dataset:split, as in hf://stanfordnlp/imdb:train, or "
            "hf://dataset:configuration:split; a part of a split is train[:1000]"
        )
    data = _opened(name, parts["name"], parts["config"], parts["split"])
    told = "\n".join([name, data._fingerprint, str(FORM)])
    words = re.sub(r"[^\w.+-]+", "-", name.removeprefix(PREFIX)).strip("-.")[-80:]
    path = cache_folder() / FOLDER / f"{words}-{hashlib.sha256(told.encode()).hexdigest()[:16]}.parquet"
    if not path.is_file():
        from filelock import FileLock

        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.is_file():  # another process may have written it meanwhile
                _write(data, path)
    return path


def _opened(whole: str, name: str, config: str | None, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise DataError(f"{whole} needs one more package: pip install 'regard[datasets]'") from None
    try:
        if any((Path(name) / file).is_file() for file in SAVED):
            data = datasets.load_from_disk(name)
            if isinstance(data, datasets.DatasetDict):
                if split not in data:
                    raise DataError(f"{whole}: there is no split {split!r}; there are {', '.join(data)}")
                data = data[split]
            elif data.split is not None and str(data.split) != split:
                raise DataError(f"{whole}: that folder holds the split {data.split}")
        else:
            data = datasets.load_dataset(name, config, split=split)
    except DataError:
        raise
    except Exception as error:  # of datasets, the Hub's library, the network: there is no common class
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{whole} cannot be opened by datasets: {first:.300}") from None
    if not len(data):
        raise DataError(f"{whole} has no rows; it needs at least one")
    return data


def _write(data: Any, path: Path) -> None:
    """The file appears only when it is complete."""
    for key, feature in dict(data.features).items():
        names = getattr(feature, "names", None)
        if isinstance(names, list):
            column = [names[label] if label in range(len(names)) else str(label) for label in data[key]]
            data = data.remove_columns(key).add_column(key, column)
    draft = path.with_suffix(".partial")
    try:
        with without_bars():
            data.to_parquet(str(draft))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def without_bars() -> Iterator[None]:
    """Rows are written in seconds; what is downloaded has a bar of `datasets`."""
    import datasets

    there = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if there:
            datasets.enable_progress_bars()
