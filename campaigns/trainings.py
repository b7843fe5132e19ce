"""Small trainings of every kind in children, and whether two of them are equal."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from typing import Any

import PIL.ImageFont  # noqa: F401 - imported here, once, and not in each child
import sacrebleu  # noqa: F401
import torch._dynamo
import torch.distributed.run  # noqa: F401

import regard
import regard.learn.shard
import regard.show.figure
from campaigns.children import Child, Ended
from campaigns.frame import Fault
from regard.base.files import DRAFT
from regard.tasks.core.table import TASKS

DESKS = [task.desk for task in TASKS.values()]  # imports them
SMALL = run_path(str(Path(__file__).parents[1] / "results" / "processes.py"))
TRAIN = {"steps": 10, "eval_every": 3, "learning_rate": 5e-4, "device": "cpu", "average_checkpoints": 2}
WATCHED = ("mkdir", "rename", "replace", "fsync")  # of `os`: the calls by which files are saved
PATIENCE = 120  # seconds for a training that takes one or two
VALID = 12  # lines, pairs or images of the validation: trainings are killed, and not judged by their metrics
CHANGING = ("seconds",)  # of a row of the log: what is no part of the training


@dataclass(frozen=True)
class Whole:
    """A training that nobody disturbed."""

    log: list[dict[str, Any]]
    weights: bytes
    files: set[str]
    calls: int  # of WATCHED
    seconds: float


def write_data(folder: Path) -> list[str]:
    """The data of all trainings; their names."""
    SMALL["write_data"](folder)
    for path in list(folder.glob("*.t*")):
        lines = path.read_text().splitlines(keepends=True)
        path.with_name(f"valid-{path.name}").write_text("".join(lines[:VALID]))
    return list(SMALL["recipes"](folder))


def train(data: Path, name: str, out: Path, **options: Any) -> None:
    """In this process."""
    recipe = SMALL["recipes"](data)[name]
    found, settings = dict(recipe["data"]), {**TRAIN, **recipe.get("train", {})}
    if "valid" in found:
        found["valid"] = str(data / f"valid-{Path(found['valid']).name}")
    elif found.get("valid_count", 0) > VALID:
        found["valid_count"] = VALID
    regard.train({**recipe, "data": found, "train": settings}, out=out, **options)


def begin(
    data: Path, name: str, out: Path, *, resume: bool = False, at: int = 0, cut: bool = False, ranks: int = 1
) -> list[Child]:
    """A training, in so many processes as torchrun would start. `at`: in the first of them, kill -9 within that
    call of WATCHED; `cut`: with the new file that is written cut in half."""
    port = free_port() if ranks > 1 else 0
    return [
        Child(lambda rank=rank: _train(data, name, out, resume, at, cut, rank, ranks, port))
        for rank in range(ranks)
    ]  # type: ignore[misc]


def _train(
    data: Path, name: str, out: Path, resume: bool, at: int, cut: bool, rank: int, ranks: int, port: int
) -> int:
    """-> how many calls of WATCHED there were."""
    if ranks > 1:
        own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
        os.environ |= {key: str(value) for key, value in own.items()}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    calls = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at and rank == 0:
                if cut and call.__name__ == "fsync" and DRAFT in os.readlink(f"/proc/self/fd/{args[0]}"):
                    os.ftruncate(args[0], os.fstat(args[0]).st_size // 2)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **keywords)

        return counting

    for word in WATCHED:
        setattr(os, word, counted(getattr(os, word)))
    train(data, name, out, resume=resume)
    return calls


def end(children: list[Child], seconds: float = PATIENCE) -> list[Ended]:
    return [child.wait(seconds) for child in children]


def whole(data: Path, name: str, out: Path, ranks: int = 1) -> Whole:
    begun = time.monotonic()
    ended = end(begin(data, name, out, ranks=ranks))
    seconds = time.monotonic() - begun
    if any(each.code for each in ended):
        raise AssertionError(f"{name} cannot be trained: {ended[0].said}")
    return Whole(log_of(out), weights_of(out), files_of(out), ended[0].result, seconds)


def compare(out: Path, wanted: Whole, what: str) -> None:
    """Fault unless it is the training that nobody disturbed."""
    log = log_of(out)
    if [row.get("step") for row in log] != [row.get("step") for row in wanted.log]:
        raise Fault(f"{what}: the log has the steps {[row.get('step') for row in log]}")
    if log != wanted.log:
        row = next(row for row, other in zip(log, wanted.log, strict=True) if row != other)
        raise Fault(f"{what}: another row of the log: {row}")
    if weights_of(out) != wanted.weights:
        raise Fault(f"{what}: other weights")
    if files := files_of(out) ^ wanted.files:
        raise Fault(f"{what}: files left over or missing: {sorted(files)}")


def log_of(out: Path) -> list[dict[str, Any]]:
    rows = map(json.loads, (out / "log.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if key not in CHANGING} for row in rows]


def weights_of(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def files_of(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*")}


def left_over(out: Path) -> list[str]:
    return [str(path.relative_to(out)) for path in out.rglob(f"{DRAFT}*")]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
