"""A picture of every kind, with words that try to leave their text, for tests of what all kinds share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.show import (
    Difference,
    Document,
    Entry,
    Example,
    Examples,
    Gates,
    Heads,
    Line,
    Looks,
    Map,
    Overlay,
    ShadedText,
    Sheet,
    Tape,
    Vectors,
)

HOSTILE = [
    "<script>window.broken = 1</script>",
    '"><img src=x onerror="window.broken = 1">',
    "</script><b>",
    "\u202eabc\u2066",
    "\x00\x1b[31m\x07",
    "\ud800",
    "𝒳😀",
    "a  b",
    "",
    "\u0301",
    "\n",
    "'&amp;`${1}",
]
TITLE = "".join(HOSTILE[:6])


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Rows that sum to 1."""
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.3), shape[:-1])


def image(high: int = 24, wide: int = 24) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def examples(words: list[str], title: str) -> Examples:
    shown = [Example(image(), word, word) for word in words[:4]]
    looks = {word: weights(5, seed=at) for at, word in enumerate(words[:2])}
    return Examples(image(), shown, looks, title, title, chosen=words[0])


def document(words: list[str], title: str) -> Document:
    count = len(words)
    return Document([words, words[:3]], [weights(count), weights(3)], [0.25, 0.75], title)


def gates(words: list[str], title: str) -> Gates:
    panels = {word: weights(2, 8, seed=at) for at, word in enumerate(words[:3])}
    return Gates(panels, rows=words[:2], image=image(), title=title, caption=title)


def looks(words: list[str], title: str) -> Looks:
    soft = weights(len(words), 16).reshape(-1, 4, 4)
    hard = np.eye(16)[soft.reshape(-1, 16).argmax(1)].reshape(soft.shape)
    return Looks(
        image(), [Line(words, soft, np.full(len(words), 0.5), "soft"), Line(words, hard, name=title)], title
    )


def tape(words: list[str], title: str) -> Tape:
    panels = {word: weights(6, 5, seed=at).T for at, word in enumerate(words[:3])}
    memory = np.random.default_rng(2).normal(size=(6, 5, 3))
    return Tape(panels, shown={words[1]: np.arange(6) > 2}, memory=memory, title=title, caption=title)


def difference(words: list[str], title: str) -> Difference:
    first, second = (
        Map(weights(len(own), len(own), seed=at), own, own) for at, own in enumerate((words, words[1:]))
    )
    return Difference.between(first, second, title=title)


# By kind: the picture of some words, at least four, with a title.
PICTURES: dict[str, Callable[[list[str], str], Any]] = {
    "map": lambda words, title: Map(weights(len(words), len(words)), words, words, title, title, title),
    "heads": lambda words, title: Heads(
        {words[0]: weights(3, len(words), len(words)), words[1]: weights(2, 2, len(words))},
        {words[0]: words, words[1]: words[:2]},
        words,
        title,
    ),
    "shaded": lambda words, title: ShadedText(weights(len(words), len(words)), words, words, title),
    "document": document,
    "difference": difference,
    "looks": looks,
    "overlay": lambda words, title: Overlay(
        image(),
        {f"{word}, head 0": weights(16, seed=at).reshape(4, 4) for at, word in enumerate(words)},
        title,
        title,
    ),
    "gates": gates,
    "tape": tape,
    "examples": examples,
    "vectors": lambda words, title: Vectors(words, np.random.default_rng(3).normal(size=(len(words), 6)), title),
    "sheet": lambda words, title: Sheet(
        [Entry(image(), word, words, 1.0, "right") for word in words], title, title
    ),
}
