"""MLflow, where $MLFLOW_TRACKING_URI leads; the experiment is $MLFLOW_EXPERIMENT_NAME or regard."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regard.learn.loggers.logger import Begun


class MLflow:
    client: Any
    run: str

    def start(self, begun: Begun) -> Callable[[], object]:
        """By its client: what the program around us has active in MLflow stays as it is."""
        from mlflow import MlflowClient

        self.client = MlflowClient()
        if "run" not in begun.kept:
            begun.kept["run"] = self.client.create_run(self._experiment(), run_name=begun.name).info.run_id
            for key, value in begun.settings.items():
                self.client.log_param(begun.kept["run"], key, str(value)[:500])
        self.run = begun.kept["run"]
        self.client.update_run(self.run, status="RUNNING")
        return lambda: self.client.set_terminated(self.run)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "regard")
        there = self.client.get_experiment_by_name(name)
        made: str = there.experiment_id if there else self.client.create_experiment(name)
        return made

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self.client.log_batch(self.run, [Metric(name, value, now, step) for name, value in numbers.items()])

    def pictures(self, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        for name, pixels in pictures.items():
            self.client.log_image(self.run, pixels, key=name.replace("/", "_"), step=step)
