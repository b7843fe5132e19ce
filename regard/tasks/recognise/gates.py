"""How far a network opens its channels (squeeze-and-excitation): for one image, and on average for each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.models.protocols import Module
from regard.show import Gates
from regard.tasks.core.results import Evaluation
from regard.tasks.shared.sites import need_gates

TITLE = "Mean gates of each class"
T = TypeVar("T")
BatchGates = tuple[Tensor, dict[str, Tensor]]  # counts (classes,) and sums (classes, C) of one batch


class ClassGates:
    """Sums up the gates of each class batch by batch, so that those of only one batch are in memory."""

    def __init__(self, model: Module, labels: Sequence[str]) -> None:
        self.model, self.labels, self.sites = model, labels, need_gates(model)
        self.counts = torch.zeros(len(labels))
        self.sums: dict[str, Tensor] = {}  # (classes, C)

    def record(self, targets: Tensor, answer: Callable[[], T]) -> tuple[T, BatchGates]:
        """What `answer` gives, and the gates that the model records meanwhile; targets (B, classes) are one-hot."""
        with trace(self.model, *self.sites) as seen:
            given = answer()
        sums = {}
        for site in self.sites:
            gates = seen[site, "gate"].float()  # (B, C)
            sums[site] = (targets.to(gates).T @ gates).cpu()
        return given, (targets.sum(0).cpu(), sums)

    def add(self, batch: BatchGates) -> None:
        counts, sums = batch
        self.counts += counts
        for site, added in sums.items():
            self.sums[site] = self.sums[site] + added if site in self.sums else added

    def picture(self) -> Gates:
        """The mean gates of every class with images."""
        seen = self.counts > 0
        rows = [label for label, is_seen in zip(self.labels, seen.tolist(), strict=True) if is_seen]
        panels = {site: (sums[seen] / self.counts[seen, None]).numpy() for site, sums in self.sums.items()}
        return Gates(panels, rows=rows, title=TITLE)


def gates_of(evaluation: Evaluation) -> Gates:
    """The mean gates of each class, which a full evaluation of a model with gates keeps."""
    assert isinstance(evaluation.compared, ClassGates)
    return evaluation.compared.picture()


def side_by_side(pictures: Mapping[str, Gates]) -> Gates:
    """The blocks of several runs, by the names of the runs, in one picture; the classes are those that all have."""
    first, *others = pictures.values()
    if not others:
        return first
    rows = [row for row in first.rows if all(row in other.rows for other in others)]
    panels: dict[str, np.ndarray] = {}
    for name, picture in pictures.items():
        order = [list(picture.rows).index(row) for row in rows]
        panels |= {f"{name}: {site}": gates[order] for site, gates in picture.panels.items()}
    return Gates(panels, rows=rows, title=TITLE)
