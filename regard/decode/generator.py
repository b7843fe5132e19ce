"""Driving a generator: eval mode, float32 scores, and a search that is run at once or step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.base.device import current
from regard.layers.onednn import without_onednn
from regard.layers.replay import modules_of, weights_stay
from regard.models import protocols

T = TypeVar("T")  # what a step gives
R = TypeVar("R")  # what the search returns


class Stopped(Exception):
    """A search was told to stop: nobody waits for its answer."""


unwanted: ContextVar[Callable[[], bool]] = ContextVar("unwanted")  # of this thread: is nobody waiting any more?


def check_wanted() -> None:
    """Called at each step of a search; raises Stopped if nobody waits for its answer."""
    is_unwanted = unwanted.get(None)
    if is_unwanted is not None and is_unwanted():
        raise Stopped


def at_least_float32(logits: Tensor) -> Tensor:
    """Half-precision logits as float32, so that scores are summed in float32; others as they are."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


@contextmanager
def eval_mode(model: protocols.Generator) -> Iterator[None]:
    """Eval mode, no gradients, on the model's GPU: Triton and graphs take the current one. The training flag of
    every module is restored afterwards."""
    training = [part for part in modules_of(model) if part.training] if isinstance(model, nn.Module) else []
    for part in training:
        part.training = False
    try:
        device = next(model.parameters()).device
        with torch.inference_mode(), without_onednn(model), current(device), weights_stay():
            yield
    finally:
        for part in training:
            part.training = True


def finish(model: protocols.Generator, steps: Generator[T, None, R]) -> R:
    """Run a search to its end."""
    with eval_mode(model):
        while True:
            check_wanted()
            try:
                next(steps)
            except StopIteration as end:
                return end.value


def step_by_step(model: protocols.Generator, steps: Generator[T, None, R]) -> Generator[T, None, R]:
    """Run a search as far as it is asked; closing it ends the search. Between two steps neither eval mode nor
    inference mode is left on, so that the caller may train in the meantime."""
    while True:
        with eval_mode(model):
            try:
                step = next(steps)
            except StopIteration as end:
                return end.value
        yield step
