"""A function of a test in several processes at once, as torchrun would start them, but without importing torch in
each of them again: they are forked from a server that has imported it."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch

CONTEXT = multiprocessing.get_context("forkserver")
DESKS = [f"regard.tasks.{task}.desk" for task in ("translate", "fill", "fewshot", "play", "recognise")]
CONTEXT.set_forkserver_preload(
    [
        "regard.tasks.core.training",
        "regard.learn.shard",
        "torch._dynamo",  # which torch's wrappers import at the first step
        "torch.distributed.run",
        *DESKS,
        "pytest",  # what files of tests import
        "regard.show.figure",
        "sacrebleu",
        "PIL.ImageFont",
    ]
)
LONGEST = 120  # seconds


class Group:
    """Running processes: their results, by rank, are asked for with `results`."""

    def __init__(self, count: int, work: Callable[..., Any], *args: Any, **environment: str) -> None:
        port = free_port()
        self.queue: Any = CONTEXT.Queue()
        self.processes = []
        for rank in range(count):
            own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
            own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **environment}
            process = CONTEXT.Process(target=_run, args=(self.queue, own, work, args))
            process.start()
            self.processes.append(process)

    def results(self) -> list[Any]:
        """What each process returned, or the exception it ended with; of one that was killed, nothing comes."""
        found = dict(self.queue.get(timeout=LONGEST) for process in self.processes)
        for process in self.processes:
            process.join(LONGEST)
        return [found[rank] for rank in range(len(self.processes))]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def in_processes(count: int, work: Callable[..., Any], *args: Any, **environment: str) -> list[Any]:
    """The results of all processes; the first error of one of them is raised."""
    results = Group(count, work, *args, **environment).results()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _run(queue: Any, environment: dict[str, Any], work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ.update({name: str(value) for name, value in environment.items()})
    torch.set_num_threads(1)
    try:
        result = work(*args)
    except BaseException as error:
        error.add_note(traceback.format_exc())
        result = error
    queue.put((int(environment["RANK"]), result))
    queue.close()
    queue.join_thread()
