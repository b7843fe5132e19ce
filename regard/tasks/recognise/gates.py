"""How far a network opens its channels (squeeze-and-excitation): for one image, and on average for each class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.models.protocols import Module
from regard.show import Gates
from regard.tasks.core.results import Evaluation
from regard.tasks.shared.sites import need_gates

TITLE = "Mean gates of each class"


class ClassGates:
    """Sums up the gates of each class batch by batch, so that those of only one batch are in memory."""

    def __init__(self, model: Module, labels: Sequence[str]) -> None:
        self.model, self.labels, self.sites = model, labels, need_gates(model)
        self.counts = torch.zeros(len(labels))
        self.sums: dict[str, Tensor] = {}  # (classes, C)

    @contextmanager
    def adding(self, targets: Tensor) -> Iterator[None]:
        """What the model records inside is added; targets (B, classes) are one-hot."""
        with trace(self.model, *self.sites) as seen:
            yield
        self.counts += targets.sum(0).cpu()
        for site in self.sites:
            gates = seen[site, "gate"].float()  # (B, C)
            added = targets.to(gates).T @ gates
            self.sums[site] = self.sums[site] + added if site in self.sums else added

    def picture(self) -> Gates:
        """The mean gates of every class with images."""
        seen = self.counts > 0
        rows = [label for label, is_seen in zip(self.labels, seen.tolist(), strict=True) if is_seen]
        panels = {site: (sums.cpu()[seen] / self.counts[seen, None]).numpy() for site, sums in self.sums.items()}
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
