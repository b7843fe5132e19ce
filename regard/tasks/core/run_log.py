"""log.jsonl of one run or several as curves: the loss, each metric of the validations, the learning rate. No torch
here, so that they are there at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.base.files import check_regular
from regard.errors import RunError
from regard.show.curves import Curves

LOG = "log.jsonl"
RATE, LOSSES = "learning_rate", {"loss": "training", "valid_loss": "validation"}
NO_CURVES = ("step", "epoch", "seconds", "tokens", "gradient_norm", "averaged")
POINTS = 400  # of a curve: each is the mean of its share of the steps
Series = dict[str, list[tuple[int, float]]]  # (step, value) by what is logged


class RunLog:
    """The log of a run that may still be written."""

    def __init__(self, run: str | Path) -> None:
        self.name, self.path = str(run), find_log(run)
        self.read = 0  # bytes
        self.step = 0
        self.series: Series = {}

    def more(self) -> bool:
        """Read what was written since; was there anything? A log that was cut, as a training that goes on cuts it,
        is read anew."""
        check_regular(self.path)
        if self.path.stat().st_size < self.read:
            self.read, self.series = 0, {}
        before = self.read
        with open(self.path, "rb") as file:
            file.seek(self.read)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    break
                self.read += len(line)
                self._add(line)
        return self.read > before

    def _add(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            step = row["step"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if not isinstance(step, int) or "averaged" in row:
            return
        self.step = step
        for key, value in row.items():
            if key not in NO_CURVES and isinstance(value, int | float) and not isinstance(value, bool):
                points = self.series.setdefault(key, [])
                while points and points[-1][0] >= step:  # taken again
                    points.pop()
                points.append((step, float(value)))

    def only(self, keys: Sequence[str]) -> Series:
        """These alone; (): all."""
        return {key: points for key, points in self.series.items() if not keys or key in keys}

    def last(self, keys: Sequence[str] = ()) -> dict[str, float]:
        """The newest values."""
        return {key: points[-1][1] for key, points in self.only(keys).items()}


def find_log(run: str | Path) -> Path:
    """By a folder, also one of `learn.fit`, or the name of a shipped run."""
    if (Path(run) / LOG).is_file():
        return Path(run) / LOG
    from regard.runs.folder import find

    path = find(run) / LOG
    if not path.is_file():
        raise RunError(f"{run} has no {LOG}; a training writes one")
    return path


def curves_of(logs: Sequence[RunLog], only: Sequence[str] = ()) -> list[Curves]:
    """One run: both losses in one picture; several: a line for each. Then each metric, and the learning rate."""
    runs = dict(zip(short_names([log.name for log in logs]), (log.only(only) for log in logs), strict=True))
    keys = list(dict.fromkeys(key for series in runs.values() for key in series))
    order = [key for key in LOSSES if key in keys] + [key for key in keys if key not in (*LOSSES, RATE)]
    together = [key for key in order if key in LOSSES] if len(runs) == 1 else []
    pictures = []
    if together:
        (series,) = runs.values()
        pictures.append(curves({LOSSES[key]: series[key] for key in together}, "loss"))
    for key in [*(key for key in order if key not in together), *([RATE] if RATE in keys else [])]:
        pictures.append(curves({name: series[key] for name, series in runs.items() if key in series}, key))
    return pictures


def curves(lines: Mapping[str, Sequence[tuple[int, float]]], title: str) -> Curves:
    return Curves({name: thinned(points) for name, points in lines.items()}, title=title, x_label="step")


def thinned(points: Sequence[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    """At most POINTS of them, each the mean of its part."""
    table = np.array(points, dtype=np.float64)
    parts = np.array_split(table, min(len(table), POINTS))
    means = np.array([part.mean(0) for part in parts])
    return means[:, 0], means[:, 1]


def short_names(names: Sequence[str]) -> list[str]:
    """The last part of each, where that tells them apart."""
    last = [Path(name).name for name in names]
    return last if len(set(last)) == len(last) else list(names)


def as_data(logs: Sequence[RunLog], only: Sequence[str] = ()) -> dict[str, Any]:
    """{run: {"loss": [[1, 2.5], ...]}}, every step."""
    return {log.name: log.only(only) for log in logs}
