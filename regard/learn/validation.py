"""Validation during training: the metrics, the best weights, and patience."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch

from regard.base.processes import is_first
from regard.learn.checkpoint import Standing
from regard.learn.progress import Progress
from regard.learn.seeds import noise
from regard.learn.settings import LAST, Training
from regard.models.protocols import Module

Metrics = dict[str, float]
Better = tuple[str, str]  # a metric and its direction, min or max
# Perfect validations in a row before `patience` stops: the first may be luck where few rows are held out.
PERFECT = 2
Trained = TypeVar("Trained", bound=Module)


class Validation(Generic[Trained]):
    """Validates in eval mode without gradients, and keeps the best weights so far."""

    def __init__(
        self,
        model: Trained,
        validate: Callable[[Trained], Metrics],
        keep_best: Callable[[Trained, Metrics], None],
        better: Better,
        settings: Training,
        *,
        ties: Sequence[Better] = (("valid_loss", "min"),),
        perfect: Mapping[str, float] | None = None,
        may_lack: bool = False,
        divided: bool = False,
    ) -> None:
        """`divided`: under torchrun every process calls `validate`, which goes through its batches by
        `base.divided.each`; else the first does. `ties`: what decides, one after the other, where `better` is
        equal; with `may_lack`, also where the data has no such metric. `perfect`: values of metrics that cannot be
        improved."""
        self.ranks, self.perfect, self.may_lack = (better, *ties), dict(perfect or {}), may_lack
        self.divided = divided
        for _, direction in self.ranks:
            if direction not in ("min", "max"):
                raise ValueError(f"better must be (metric, 'min' or 'max'), got {better!r}")
        self.model, self.validate, self.keep_best, self.settings = model, validate, keep_best, settings

    def measure(self, step: int) -> Metrics:
        torch.manual_seed(noise(self.settings.seed, step, -1))
        self.model.eval()
        try:
            with torch.no_grad():
                metrics = self.validate(self.model)
        finally:
            self.model.train()
        self._chosen_by(metrics)
        return {name: float(value) for name, value in metrics.items()}

    def _chosen_by(self, metrics: Metrics) -> str:
        """The metric that chooses the best weights."""
        names = [name for name, _ in self.ranks]
        for name in names if self.may_lack else names[:1]:
            if name in metrics:
                return name
        raise ValueError(f"no metric is called {names[0]!r}; validation gives {', '.join(metrics)}")

    def _rank(self, metrics: Metrics) -> tuple[float, ...]:
        """Lower is better. Ties are common in accuracy, and a BLEU of short answers is always 0."""
        values = [metrics.get(name, 0.0) * (1 if direction == "min" else -1) for name, direction in self.ranks]
        return tuple(math.inf if math.isnan(value) else value for value in values)

    def _is_perfect(self, metrics: Metrics) -> bool:
        return any(metrics.get(name) == value for name, value in self.perfect.items())

    def keep_if_best(self, metrics: Metrics, standing: Standing, whole_model: Callable[[], Trained]) -> bool:
        if not math.isfinite(metrics[self._chosen_by(metrics)]):
            return False
        by_metric = self.settings.best_by != LAST
        if by_metric and standing.best and self._rank(metrics) >= self._rank(standing.best):
            return False
        model = whole_model()
        if is_first():
            model.eval()
            self.keep_best(model, metrics)
            model.train()
        standing.best, standing.best_step = metrics, standing.step
        return True

    def judge(
        self, metrics: Metrics, standing: Standing, progress: Progress, whole_model: Callable[[], Trained]
    ) -> dict[str, Any]:
        """Returns the row for the log. No improvement counts towards both `patience` and `plateau_patience`."""
        standing.validated = True
        standing.perfect = standing.perfect + 1 if self._is_perfect(metrics) else 0
        if best := self.keep_if_best(metrics, standing, whole_model):
            standing.stale = standing.plateau_stale = 0
        else:
            standing.stale += 1
            standing.plateau_stale += 1
        if self.settings.schedule == "plateau" and standing.plateau_stale >= self.settings.plateau_patience:
            standing.plateau_scale *= self.settings.plateau_factor
            standing.plateau_stale = 0
        noted = "  best so far" if best and self.settings.best_by != LAST else ""
        progress.say(f"{progress.line()}  {words(metrics)}{noted}")
        return {"step": standing.step, **metrics}


def words(metrics: Metrics) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
