"""The class names of a classifier."""

from __future__ import annotations

from collections import Counter

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
