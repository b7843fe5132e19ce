"""Models of the Hugging Face Hub by name: found in its cache, or downloaded. Only weights in safetensors and the
small files beside them are fetched: never a pickle, never code."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from regard.errors import DownloadError, RunError
from regard.foreign.contents import run_errors
from regard.runs.weights import weight_files

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # org/name
FILES = ("model.safetensors", "model-*-of-*.safetensors", "*.json", "*.txt", "*.spm")
SUBFOLDERS = "*/*"  # the same model in other formats


def is_hub_name(name: str) -> bool:
    """org/name, unless it is rather a path: with a folder of the first part's name here."""
    return NAME.fullmatch(name) is not None and not Path(name).parent.is_dir()


def hub_folder(name: str) -> Path:
    """The folder of a model of the Hub. RunError where it is neither in the cache nor to be had."""
    if snapshot := cached_model(name):
        return snapshot
    folder = Path(_download(name, cached(name)))
    if not _whole(folder):
        raise RunError(
            f"{name} has no weights in safetensors on the Hugging Face Hub, and others can carry code and are not "
            f"opened; open it with transformers, and `save_pretrained` writes a folder that opens here"
        )
    return folder


def cached_model(name: str) -> Path | None:
    """The folder of a model of the Hub, if all of it is in the cache: nothing is downloaded."""
    snapshot = cached(name)
    return snapshot if snapshot is not None and _whole(snapshot) else None


def cache_folder() -> Path:
    """Where huggingface_hub keeps what it has downloaded."""
    if own := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(own).expanduser()
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.environ.get("HF_HOME") or usual, "hub").expanduser()


def cached(name: str) -> Path | None:
    """The snapshot of the branch main, else the only one there is."""
    place = cache_folder() / f"models--{name.replace('/', '--')}"
    try:
        commit = (place / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = ""
    if re.fullmatch(r"[0-9a-f]+", commit):
        snapshot = place / "snapshots" / commit
        return snapshot if snapshot.is_dir() else None
    snapshots = list((place / "snapshots").glob("*"))
    return snapshots[0] if len(snapshots) == 1 else None


def _whole(folder: Path) -> bool:
    """A program that wanted only the tokenizer leaves no weights."""
    try:
        with run_errors():
            return (folder / "config.json").is_file() and bool(weight_files(folder))
    except RunError:
        return False


def _download(name: str, snapshot: Path | None) -> str:
    hub = _library()
    if hub is None:
        extent = "it is only in part" if snapshot else "it is not"
        raise RunError(
            f"there is no run {name!r}: it is neither a folder nor a shipped run, and {extent} in the cache of "
            f"the Hugging Face Hub. To download it: pip install 'regard[hub]'; or download the files of "
            f"https://huggingface.co/{name} and name their folder"
        )
    try:
        return str(
            hub.snapshot_download(
                repo_id=name,
                cache_dir=cache_folder(),
                allow_patterns=list(FILES),
                ignore_patterns=[SUBFOLDERS],
            )
        )
    except hub.errors.RepositoryNotFoundError as error:
        raise RunError(
            f"there is no run {name!r}: it is neither a folder nor a shipped run, and the Hugging Face Hub has no "
            f"such model, or does not show it without `hf auth login`: {_line(error)}"
        ) from error
    except Exception as error:  # of many kinds, by what failed: network, server, disk
        raise DownloadError(
            f"{name!r} is neither a folder nor a shipped run, and could not be downloaded from the Hugging Face "
            f"Hub into {cache_folder()}: {_line(error)}. Try again with a network, or name a folder that holds it"
        ) from error


def _library() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        return None
    return huggingface_hub


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0]:.300}".rstrip(".")
