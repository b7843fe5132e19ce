"""The class names of a classifier, and what classifiers of texts share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from regard.layers.bigrams import ClassParts
from regard.layers.init import take_over
from regard.layers.loss import Loss
from regard.layers.pooling import WordEmbedding

MOST_LABELS = 1 << 20


def check_labels(labels: object) -> None:
    if not isinstance(labels, tuple) or not all(isinstance(name, str) for name in labels):
        raise ValueError(f"labels must be a tuple of class names, got {labels!r:.80}")
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        raise ValueError(f"labels must differ, got {twice[0]!r:.80} twice")


def check_classes(labels: object) -> None:
    """As `check_labels`, for texts: there are no classes until the data has been read, then at least two."""
    check_labels(labels)
    if isinstance(labels, tuple) and len(labels) == 1:
        raise ValueError(f"labels must name two classes or more, got {labels[0]!r:.80} alone")


def adopt_weights(
    model: Any, other: Any, *, head: str | tuple[str, ...], changed: Mapping[str, Tensor] | None = None
) -> list[str]:
    """Copy the weights of a model of the same class, some of them `changed` to fit; a head for other classes (one
    module or several) is not copied. Returns the names of the weights that stay new."""
    if not isinstance(other, type(model)):
        name = type(model).__name__.lower()
        raise ValueError(f"{name} can only start from another {name}, got {type(other).__name__}")
    theirs = {**other.state_dict(), **(changed or {})}
    if other.config.labels != model.config.labels:
        heads = (head,) if isinstance(head, str) else head
        theirs = {name: tensor for name, tensor in theirs.items() if name.partition(".")[0] not in heads}
    return take_over(model, theirs)


class WordClassifier(nn.Module, ABC):
    """Base class of classifiers that pool the states of words; a subclass adds layers `embed` and `classify`, and
    `bigrams` if its settings ask for that part."""

    OF_RECIPE = (
        "bigrams",
        "bigram_scale",
        "bigram_shares",
    )  # set by the recipe, even when training starts from another run
    embed: WordEmbedding

    @property
    @abstractmethod
    def levels(self) -> tuple[str, ...]:
        """Where a trace sees the weights, those of words first; (): the model has none."""

    @abstractmethod
    def class_parts(self, batch: Any) -> ClassParts:
        """The logits of the classes (B, C)."""

    def class_logits(self, batch: Any) -> Tensor:
        """(B, classes)"""
        return self.class_parts(batch).logits()

    @property
    def alignment(self) -> str:
        """The attention that is shown by default."""
        return next(iter(self.levels), "")

    @property
    def word_table(self) -> nn.Embedding:
        """The embeddings."""
        return self.embed.table

    def loss(self, batch: Any, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy of the classes."""
        return self.class_parts(batch).loss(batch, label_smoothing=label_smoothing)

    def adopt(self, other: Any) -> list[str]:
        """Copy the weights of another; returns the names of those that stay new. A head for other classes is not
        copied."""
        return adopt_weights(self, other, head=("classify", "bigrams"))
