"""Trainings where saving fails: full disks, read-only and vanished folders, no more file handles."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from campaigns.children import Child, Ended
from campaigns.frame import Case, Fault, campaign
from campaigns.kills import opened
from campaigns.trainings import PATIENCE, Whole, begin, compare, end, train, whole, write_data
from regard.errors import DataError, RunError

NAMES = ("translate bahdanau", "generate gpt2", "classify han", "recognise senet, batch norm", "fill bert")
KINDS = ("full", "limit", "read-only", "vanished", "handles")
EXPECTED = (OSError, RunError, DataError)  # what a user gets in Python; the command says it in a line


@campaign(
    "disks",
    "Trainings on a disk of random size that becomes full (a tmpfs where it may be mounted; a limit on the size of "
    "files), in a folder that becomes immutable or is deleted, and without file handles; then there is room again, "
    "and it is resumed.",
    holds="an error that says what happened; the last good checkpoint is kept, and the resumed training equals the "
    "one that nobody disturbed.",
    reach=100,
)
@contextmanager
def disks(place: Path) -> Iterator[Case]:
    write_data(place)
    known: dict[str, Whole] = {}

    def case(draw: Random) -> str:
        name, kind = draw.choice(NAMES), draw.choice(KINDS)
        if name not in known:
            known[name] = whole(place, name, place / f"whole-{len(known)}")
        wanted, disk = known[name], place / "disk"
        size = sum(path.stat().st_size for path in (place / f"whole-{list(known).index(name)}").rglob("*"))
        with ExitStack() as after:
            disk.mkdir()
            after.callback(shutil.rmtree, disk, ignore_errors=True)
            if kind == "full":
                if not mount(disk, int(draw.uniform(0.05, 1.2) * size)):
                    kind = "limit"
                else:
                    after.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
            out, what = disk / "run", f"{name}, {kind}"
            child = Child(lambda: troubled(place, name, out, kind, draw, size, wanted.seconds))
            if kind in ("read-only", "vanished"):
                child.running(draw.uniform(0, wanted.seconds))
                spoil(kind, out)
            ended = child.wait(PATIENCE)
            how = judge(ended, what)
            if kind == "read-only":
                immutable(out, False)
            if kind == "full":
                subprocess.run(["mount", "-o", f"remount,rw,size={8 * size + (8 << 20)}", str(disk)], check=True)
            if how != "went well" and out.exists() and (found := Child(lambda: opened(out)).wait()).result is None:
                raise Fault(f"{what}: the folder neither opens nor is refused: {found.said[-500:]}")
            if not (out / "recipe.toml").exists():
                shutil.rmtree(out, ignore_errors=True)
            (last,) = end(begin(place, name, out, resume=out.exists()))
            if last.code:
                raise Fault(f"{what}: it could not be resumed: {last.said[-500:]}")
            compare(out, wanted, what)
        return f"{kind}: {how}"

    yield case


def troubled(data: Path, name: str, out: Path, kind: str, draw: Random, size: int, seconds: float) -> str:
    """In the child: the error, if it is one that is expected."""
    if kind == "limit":
        most = int(draw.uniform(0.01, 0.5) * size)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    elif kind == "handles":
        threading.Thread(target=lower, args=(draw.uniform(0, seconds),), daemon=True).start()
    try:
        train(data, name, out)
    except EXPECTED as error:
        return f"{error!s:.300}"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    return ""


def lower(seconds: float) -> None:
    """From some moment on no file can be opened: the lowest number that is free is the limit."""
    time.sleep(seconds)
    free = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, 256))
    os.close(free)


def judge(ended: Ended, what: str) -> str:
    if ended.late or ended.code < 0:
        raise Fault(f"{what}: {'hang' if ended.late else f'signal {-ended.code}'}: {ended.said[-300:]}")
    if ended.result is None:
        raise Fault(f"{what}: {ended.said[-800:]}")
    return "a clear error" if ended.result else "went well"


def mount(folder: Path, size: int) -> bool:
    """Whether there is a disk of this size now; it takes the rights of root."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={max(size, 1 << 16)}", "tmpfs", str(folder)]
    return not os.geteuid() and not subprocess.run(words, stderr=subprocess.DEVNULL).returncode


def spoil(kind: str, out: Path) -> None:
    if kind == "vanished":
        shutil.rmtree(out, ignore_errors=True)
    else:
        immutable(out, True)


def immutable(out: Path, wanted: bool) -> None:
    """Whether nothing in it may be changed, not by root either; it takes the rights of root."""
    words = ["chattr", "-R", "+i" if wanted else "-i", str(out)]
    subprocess.run(words, stderr=subprocess.DEVNULL, check=False)  # it may vanish meanwhile
