"""The answers of a model whose attention can still be asked for, bounded in number and in bytes."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from regard.tasks.core.results import Answer
from regard.tasks.core.run import Run

SMALL = 64  # bytes of what is neither a table nor a text


class PastAnswers:
    """By name, the oldest first. The latest one stays, however large."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size
        self.answers: OrderedDict[str, tuple[Answer, int]] = OrderedDict()
        self.bytes = 0
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.answers)

    def get(self, name: str) -> Answer | None:
        with self.lock:
            found = self.answers.get(name)
        return None if found is None else found[0]

    @property
    def latest(self) -> Answer | None:
        with self.lock:
            return next(reversed(self.answers.values()))[0] if self.answers else None

    def add(self, name: str, answer: Answer) -> None:
        size = size_of(answer)
        with self.lock:
            self.answers[name] = answer, size
            self.bytes += size
            while len(self.answers) > self.count or (self.bytes > self.size and len(self.answers) > 1):
                _, (_, oldest) = self.answers.popitem(last=False)
                self.bytes -= oldest


def anew(answer: Answer) -> Answer:
    """A copy without the pictures that an answer keeps once it was asked for them: these are the largest part."""
    copied: Answer = dataclasses.replace(answer)  # type: ignore[type-var] # answers are dataclasses
    return copied


def size_of(value: Any) -> int:
    """About how many bytes an answer holds, also by the functions that draw its pictures; without the model."""
    return sum(sizes(value, set()))


def sizes(value: Any, seen: set[int]) -> Iterator[int]:
    if id(value) in seen or isinstance(value, Run | torch.nn.Module | type):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value.nbytes
    elif isinstance(value, torch.Tensor):
        yield value.untyped_storage().nbytes()
    elif isinstance(value, str | bytes):
        yield len(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from sizes(item, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        yield 8 * len(value)
        if not all(isinstance(item, int | float) for item in value):
            for item in value:
                yield from sizes(item, seen)
    elif isinstance(value, partial):
        yield from sizes([value.func, value.args, value.keywords], seen)
    elif hasattr(value, "__closure__"):
        for cell in value.__closure__ or ():
            yield from sizes(cell.cell_contents, seen)
    elif hasattr(value, "__self__"):
        yield from sizes(value.__self__, seen)
    elif type(value).__module__.startswith("regard.") and hasattr(value, "__dict__"):
        yield from sizes(vars(value), seen)
    else:
        yield SMALL
