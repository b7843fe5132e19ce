"""Tokens that are kept: each shard is tokenised once, in parallel with others, and found again at the next start.

A folder of tokens is named by the sha256 of the shard's content, of the tokenizers and of the settings that matter,
so that a changed file, vocabulary or setting gives another folder, and a file that is added is tokenised alone. It
is written under another name and renamed, so that processes may share the cache; those that want the same tokens
wait for the first (`filelock`), and where a file system has no locks, both make them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers
from filelock import FileLock, Timeout

from regard.base.cache_place import PLACE, cache_folder
from regard.base.digests import sha256_of_files
from regard.base.files import DRAFT, draft_of, write_file
from regard.base.patterns import COMPRESSED, form_by_name
from regard.base.programs import program_of
from regard.data.shards.pruning import Use, limit, prune
from regard.data.shards.token_files import FORMAT, Shard, open_shard
from regard.data.shards.tokenise import tokenise
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

MOST = 32  # processes that tokenise
SMALL = 1 << 20  # bytes of files that are not worth a second process
QUIET = 25.0  # seconds without a line about how far it is
OLD = 24 * 3600.0  # seconds after which what a killed process left is deleted
Say = Callable[[str], None]


@dataclass(frozen=True)
class Kept:
    """What is kept of each shard: a kind of `tokenise.KINDS`, its options and its tokenizers."""

    kind: str
    options: Mapping[str, Any]
    tokenizers: Sequence[Tokenizer]


def kept_shards(groups: Sequence[Sequence[Path]], kept: Kept, say: Say) -> list[Shard]:
    """The tokens of these groups of files, in this order; those that are missing or damaged are made."""
    folder = cache_folder() / "tokens"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        places = [folder / name for name in _names(groups, kept)]
        use = Use(folder, [place.name for place in places])
        found = _open(places)
        missing = {place: groups[number] for number, place in enumerate(places) if place not in found}
        if missing:
            with _one_at_a_time(folder, sorted(missing), say):
                found |= _open(sorted(missing))  # another process may have made them
                missing = {place: paths for place, paths in missing.items() if place not in found}
                _make(missing, kept, say)
            found |= _open(sorted(missing))
        shards = [replace(found[place], use=use) for place in places]
        if missing and (most := limit()) is not None:
            prune(folder, most, say)
    except OSError as error:
        raise OSError(
            *([error.errno] if error.errno else []),
            f"{error.strerror or error}; tokens are kept in {folder}: make room, or set {PLACE} to another folder",
        ) from error
    except KeyError as error:
        raise OSError(f"{error} was written and cannot be read again; set {PLACE} to another folder") from None
    size = sum(shard.size for shard in {shard.folder: shard for shard in shards}.values())
    done = f"{len(missing)} of them tokenised now" if missing else "all of them tokenised before"
    say(f"Tokens of {len(groups):,} file{'s' * (len(groups) > 1)}, {done}: {in_units(size)} in {folder}")
    return shards


def in_units(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"


def _names(groups: Sequence[Sequence[Path]], kept: Kept) -> list[str]:
    """sha256 of all that the tokens depend on."""
    contents = iter(sha256_of_files(path for paths in groups for path in paths))
    by = [FORMAT, tokenizers.__version__, kept.kind, kept.options, [_described(each) for each in kept.tokenizers]]
    common = json.dumps(by, sort_keys=True)
    return [
        hashlib.sha256(
            json.dumps([common, *((_form(path), next(contents)) for path in paths)]).encode()
        ).hexdigest()
        for paths in groups
    ]


def _form(path: Path) -> str:
    """What says how a file is read."""
    return f"{form_by_name(path)}{path.suffix.lower() if path.suffix.lower() in COMPRESSED else ''}"


def _described(tokenizer: Tokenizer) -> list[Any]:
    inner = hashlib.sha256(tokenizer.inner.to_str().encode()).hexdigest()
    return [inner, dataclasses.asdict(tokenizer.special), tokenizer.size]


def _open(places: Sequence[Path]) -> dict[Path, Shard]:
    """Those that are there and whole."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {place: shard for place, shard in zip(places, pool.map(open_shard, places), strict=True) if shard}


@contextmanager
def _one_at_a_time(folder: Path, places: Sequence[Path], say: Say) -> Iterator[None]:
    """Processes that want the same tokens wait for the first of them."""
    name = hashlib.sha256("".join(place.name for place in places).encode()).hexdigest()[:16]
    path = folder / f".{name}.lock"
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        try:
            lock.acquire(timeout=1)
        except Timeout:
            say("Waiting for another process, which tokenises the same files")
            lock.acquire()
    except (OSError, NotImplementedError):  # no locks here: each process makes its own, and one of them is kept
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


def _make(missing: Mapping[Path, Sequence[Path]], kept: Kept, say: Say) -> None:
    if not missing:
        return
    folder = next(iter(missing)).parent
    _clean(folder, missing)
    with _tokenizer_files(folder, kept.tokenizers) as files:
        jobs = [
            {"to": str(to), "paths": list(map(str, paths)), "kind": kept.kind, "options": dict(kept.options)}
            | {"tokenizers": files}
            for to, paths in missing.items()
        ]
        size = sum(path.stat().st_size for paths in missing.values() for path in paths)
        count = min(len(jobs), cores(), MOST) if size > SMALL and sys.executable else 1
        told = _Told(len(jobs), count, say)
        if count > 1:
            _in_processes(jobs, count, told)
            return
        for job in jobs:
            tokenise(job)
            told.done()


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _clean(folder: Path, missing: Mapping[Path, Sequence[Path]]) -> None:
    """Remove damaged tokens, and what killed processes left."""
    old = [path for path in folder.glob(f"{DRAFT}*") if time.time() - path.lstat().st_mtime > OLD]
    for place in [*old, *missing]:
        if place.is_dir() and not place.is_symlink():
            aside = draft_of(place)
            with suppress(OSError):
                place.rename(aside)  # at once, so that no other process finds half of it
                shutil.rmtree(aside, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


@contextmanager
def _tokenizer_files(folder: Path, used: Sequence[Tokenizer]) -> Iterator[list[dict[str, Any]]]:
    """The tokenizers as other processes read them."""
    place = draft_of(folder / "tokenizers")
    place.mkdir()
    try:
        described = []
        for number, tokenizer in enumerate(used):
            write_file(place / f"{number}.json", tokenizer.inner.to_str().encode())
            about = {"special": dataclasses.asdict(tokenizer.special), "size": tokenizer.size}
            described.append({"file": str(place / f"{number}.json"), **about})
        yield described
    finally:
        shutil.rmtree(place, ignore_errors=True)


class _Told:
    """Says now and then how far it is."""

    def __init__(self, count: int, processes: int, say: Say) -> None:
        self.count, self.processes, self.say = count, processes, say
        self.ready, self.said, self.lock = 0, time.monotonic(), threading.Lock()

    def done(self) -> None:
        with self.lock:
            self.ready += 1
            if time.monotonic() - self.said >= QUIET:
                self.said = time.monotonic()
                self.say(f"{self.ready:,} of {self.count:,} files tokenised, by {self.processes} processes")


def _in_processes(jobs: Sequence[Mapping[str, Any]], count: int, told: _Told) -> None:
    """Each process takes the next file when it is done with one. They are programs of their own, since a fork of a
    process with threads may hang, and what multiprocessing starts would run the user's script once more."""
    waiting: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    workers = [_start() for _ in range(count)]

    def work(worker: subprocess.Popen[str]) -> None:
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            _ask(worker, job)
            told.done()

    try:
        with ThreadPoolExecutor(count) as pool:
            try:
                every = [pool.submit(work, worker) for worker in workers]
                wait(every, return_when=FIRST_EXCEPTION)
                failed = [error for each in every if each.done() and (error := each.exception())]
                if failed:
                    raise failed[0]
            finally:
                while not waiting.empty():  # so that none begins another file
                    with suppress(queue.Empty):
                        waiting.get_nowait()
                for worker in workers:  # what one that is working wrote so far is a draft
                    worker.terminate()
    finally:
        for worker in workers:
            with worker:  # closes its pipes and waits for it
                pass


def _start() -> subprocess.Popen[str]:
    """One core for each."""
    command, environment = program_of("regard.data.shards.tokenise")
    one_core = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment | one_core,
    )


def _ask(worker: subprocess.Popen[str], job: Mapping[str, Any]) -> None:
    assert worker.stdin
    assert worker.stdout
    try:
        worker.stdin.write(json.dumps(job) + "\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except (OSError, ValueError):
        line = ""
    if not line:
        raise OSError(f"a process that tokenised {', '.join(job['paths'])} ended (status {worker.poll()})")
    answer = json.loads(line)
    if answer["error"]:
        raise (DataError if answer["bad_input"] else OSError)(answer["error"])
