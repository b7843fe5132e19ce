"""Models of the Hugging Face Hub by name: found in its cache, downloaded, or uploaded. Only weights in safetensors
and the small files beside them are fetched: never a pickle, never code."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from regard.base.files import drafted_folder
from regard.errors import DownloadError, RunError
from regard.foreign.contents import run_errors
from regard.runs.weights import weight_files

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # org/name
FILES = ("model.safetensors", "model-*-of-*.safetensors", "*.json", "*.txt", "*.spm")
SUBFOLDERS = "*/*"  # the same model in other formats
FOR_PEOPLE = ("README.md", "*.toml", "*.jsonl", "*.svg", "*.png")  # fetched where a folder of one's own is wanted
PUSHED = (*FILES, *FOR_PEOPLE)
LARGEST_MODEL = 64 << 30  # bytes that are downloaded unless more is allowed
INSTALL = "pip install 'regard[hub]'"
PIECE = 1 << 20  # bytes read at once


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


def _line(error: BaseException) -> str:
    """The first line of an error, and of what it came from."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = f"{lines[0]:.300}".rstrip(".")
    return f"{line} ({_line(error.__cause__)})" if error.__cause__ is not None else line


# ---- get and push, by the commands of these names


def fetch(name: str, to: Path | None, *, most: int = LARGEST_MODEL) -> tuple[Path, int]:
    """Download a model: every file with the checksum that the Hub says, and how many bytes that is. Without `to` it
    lies in the Hub's cache, where `load` finds it; else a folder appears when all of it is there."""
    hub = _needed()
    if not is_hub_name(name):
        raise RunError(f"a model of the Hugging Face Hub is named org/name, got {name!r:.80}")
    patterns = [*FILES, *FOR_PEOPLE]
    with _explained(hub, name, "downloaded from"):
        info = _api(hub).model_info(name, files_metadata=True)
        files = {each.rfilename: each for each in info.siblings or [] if _is_wanted(each.rfilename, patterns)}
    size = sum(each.size or 0 for each in files.values())
    if not any(file.endswith(".safetensors") for file in files):
        raise RunError(f"{name} has no weights in safetensors on the Hugging Face Hub; others are not downloaded")
    if size > most:
        raise RunError(
            f"{name} has {size / 2**30:,.1f} GiB, and at most {most / 2**30:,.1f} GiB are downloaded; see --most"
        )
    with _explained(hub, name, "downloaded from"):
        place = Path(
            hub.snapshot_download(
                repo_id=name,
                revision=info.sha,
                cache_dir=cache_folder(),
                allow_patterns=patterns,
                ignore_patterns=[SUBFOLDERS],
                endpoint=_endpoint(),
            )
        )
    for file, told in files.items():
        if not _is_whole(place / file, told):
            raise DownloadError(
                f"{place / file} is not the file that the Hugging Face Hub has: its checksum differs. "
                f"Delete it, and get {name} again"
            )
    _note_branch(name, info.sha)
    if to is None:
        return place, size
    with drafted_folder(to) as draft:
        for file in files:
            shutil.copyfile(place / file, draft / file)
    return to, size


def push(folder: Path, name: str, written: Mapping[str, bytes], *, private: bool = False) -> tuple[str, list[str]]:
    """Upload a run's folder as one commit, with these files in place of its own or beside them; the address of the
    model, and what was left out. Large files go first, and nothing of the model changes before all of them are
    there: a push that breaks off leaves the model as it was, and pushing again sends what is missing."""
    hub = _needed()
    if NAME.fullmatch(name) is None:
        raise RunError(f"a model of the Hugging Face Hub is named org/name, got {name!r:.80}")
    files, left = pushed_files(folder)
    sources = {path.name: path for path in files}
    with tempfile.TemporaryDirectory() as beside, _explained(hub, name, "uploaded to"):
        for file, data in written.items():
            sources[file] = Path(beside, file)
            sources[file].write_bytes(data)
        api = _api(hub)
        api.create_repo(name, private=private, exist_ok=True)
        adds = [hub.CommitOperationAdd(file, str(source)) for file, source in sorted(sources.items())]
        api.create_commit(name, adds, commit_message=f"{name.split('/')[1]}, by regard push")
    return f"{_endpoint()}/{name}", left


def pushed_files(folder: Path) -> tuple[list[Path], list[str]]:
    """The files of a folder that are uploaded, and the names of those that are left out: other files, and links to
    files outside of it."""
    inside = folder.resolve()
    files: list[Path] = []
    left: list[Path] = []
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.name.startswith("."):
            continue
        own = path.resolve().is_relative_to(inside)
        (files if own and _is_wanted(path.name, PUSHED) else left).append(path)
    return files, [path.name for path in left]


def _is_wanted(name: str, patterns: list[str] | tuple[str, ...]) -> bool:
    return "/" not in name and any(fnmatch(name, pattern) for pattern in patterns)


def _is_whole(path: Path, told: Any) -> bool:
    """Whether a file has the checksum that the Hub says: sha256 of large files, git's own of others."""
    if told.lfs is not None:
        digest, wanted = hashlib.sha256(), told.lfs.sha256
    else:
        digest, wanted = hashlib.sha1(usedforsecurity=False), told.blob_id
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return wanted is None or digest.hexdigest() == wanted


def _note_branch(name: str, commit: str) -> None:
    """So that `cached` finds this commit as the branch main."""
    branch = cache_folder() / f"models--{name.replace('/', '--')}" / "refs" / "main"
    branch.parent.mkdir(parents=True, exist_ok=True)
    branch.write_text(commit, encoding="utf-8")


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _api(hub: Any) -> Any:
    """The token is that of $HF_TOKEN, else of `hf auth login`."""
    return hub.HfApi(endpoint=_endpoint(), library_name="regard")


def _needed() -> Any:
    if (hub := _library()) is None:
        raise RunError(f"the Hugging Face Hub is reached by its own library: {INSTALL}")
    return hub


@contextmanager
def _explained(hub: Any, name: str, what: str) -> Iterator[None]:
    """The library's errors, of many kinds, in our words."""
    try:
        yield
    except (RunError, DownloadError, MemoryError):
        raise
    except hub.errors.RepositoryNotFoundError as error:
        raise RunError(
            f"the Hugging Face Hub has no model {name}, or does not show it to you; set HF_TOKEN, or `hf auth "
            f"login`: {_line(error)}"
        ) from error
    except hub.errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", 0)
        if status in (401, 403):
            raise RunError(
                f"{name} could not be {what} the Hugging Face Hub: it does not allow that with your token "
                f"({status}); set HF_TOKEN to one that may, or `hf auth login`: {_line(error)}"
            ) from error
        raise DownloadError(
            f"{name} could not be {what} the Hugging Face Hub: {_line(error)}. Try again later"
        ) from error
    except Exception as error:  # of many kinds, by what failed: network, server, disk
        raise DownloadError(
            f"{name} could not be {what} the Hugging Face Hub at {_endpoint()}: {_line(error)}. Try again with a "
            "network"
        ) from error
