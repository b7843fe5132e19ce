"""Trackio, which keeps its runs on this machine: `trackio show --project regard`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regard.learn.loggers.logger import Begun


class Trackio:
    run: Any

    def start(self, begun: Begun) -> Callable[[], object]:
        import trackio

        self.run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", "regard"),
            name=begun.kept.setdefault("name", begun.name),
            resume="allow",
            config=dict(begun.settings),
            embed=False,
        )
        return self.run.finish

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        self.run.log(dict(numbers), step=step)

    def pictures(self, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        import trackio

        self.run.log({name: trackio.Image(pixels) for name, pixels in pictures.items()}, step=step)
