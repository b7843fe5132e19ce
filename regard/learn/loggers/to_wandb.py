"""Weights & Biases: the project is $WANDB_PROJECT or regard; without a network, WANDB_MODE=offline."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regard.learn.loggers.logger import Begun


class Wandb:
    run: Any

    def start(self, begun: Begun) -> Callable[[], object]:
        """A training that goes on says its steps again from its checkpoint on: the step is an x axis of our own, as
        the one of wandb only grows."""
        import wandb

        begun.folder.mkdir(parents=True, exist_ok=True)
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "regard"),
            id=begun.kept.setdefault("id", begun.name),
            name=begun.name,
            resume="allow",
            dir=str(begun.folder),
            config=dict(begun.settings),
            reinit="create_new",
            settings=wandb.Settings(console="off"),
        )
        self.run.define_metric("*", step_metric="step")
        return self.run.finish

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        self.run.log({"step": step, **numbers})

    def pictures(self, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        import wandb

        self.run.log({"step": step, **{name: wandb.Image(pixels) for name, pixels in pictures.items()}})
