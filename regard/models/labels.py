"""The class names of a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.layers.init import take_over

MOST_LABELS = 1 << 20


def check_labels(labels: object) -> None:
    if not isinstance(labels, tuple) or not all(isinstance(name, str) for name in labels):
        raise ValueError(f"labels must be a tuple of class names, got {labels!r:.80}")
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        raise ValueError(f"labels must differ, got {twice[0]!r:.80} twice")


def check_classes(labels: object) -> None:
    """The same for texts: none until the data has been read, else at least two."""
    check_labels(labels)
    if isinstance(labels, tuple) and len(labels) == 1:
        raise ValueError(f"labels must name two classes or more, got {labels[0]!r:.80} alone")


def adopt_weights(model: Any, other: Any, *, head: str, changed: Mapping[str, Tensor] | None = None) -> list[str]:
    """Copy the weights of a model of the same class, some of them `changed` to fit; a head for other classes is not
    copied. Returns the names of the weights that stay new."""
    if not isinstance(other, type(model)):
        name = type(model).__name__.lower()
        raise ValueError(f"{name} can only start from another {name}, got {type(other).__name__}")
    theirs = {**other.state_dict(), **(changed or {})}
    if other.config.labels != model.config.labels:
        theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith(f"{head}.")}
    return take_over(model, theirs)
