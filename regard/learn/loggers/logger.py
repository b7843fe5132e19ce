"""What a logger is: three methods, and the table of those there are. No torch here: recipes name loggers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, Protocol

import numpy as np

from regard.errors import BadInput

FOLDER = "loggers"  # of a run's folder: what loggers keep there


@dataclass(frozen=True)
class Begun:
    """A training that begins or goes on."""

    folder: Path  # for files of this logger alone; it need not exist
    name: str  # of the run, the same whenever it goes on, and of no other run
    step: int  # taken already; 0: the training is new
    settings: Mapping[str, Any]  # what the recipe says, by section.key
    kept: dict[str, str]  # what the logger wants to know again when the training goes on


class Logger(Protocol):
    """Any method may raise: the training goes on without this logger."""

    def start(self, begun: Begun) -> Callable[[], object]:
        """Begin a run, or go on with that of a training that goes on; returns what ends it."""
        ...

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        """Those of a row of log.jsonl, by its names."""
        ...

    def pictures(self, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        """Images (H, W, 3) of bytes by their names."""
        ...


class Kind(NamedTuple):
    """Where a logger is, and what it needs: an extra of regard has the name of the logger."""

    place: str
    package: str


LOGGERS = {
    "tensorboard": Kind("regard.learn.loggers.to_tensorboard:TensorBoard", "tensorboard"),
    "trackio": Kind("regard.learn.loggers.to_trackio:Trackio", "trackio"),
    "wandb": Kind("regard.learn.loggers.to_wandb:Wandb", "wandb"),
    "mlflow": Kind("regard.learn.loggers.to_mlflow:MLflow", "mlflow"),
}


def check_there(names: tuple[str, ...]) -> None:
    """BadInput for a logger whose package is not installed: asked before anything is done."""
    for name in names:
        if find_spec(LOGGERS[name].package) is None:
            raise BadInput(
                f"to log to {name}, the package {LOGGERS[name].package} is needed: pip install 'regard[{name}]'; "
                f"or leave {name} out of train.log"
            )


def logger_named(name: str) -> Logger:
    logger: Logger = resolve_name(LOGGERS[name].place)()
    return logger
