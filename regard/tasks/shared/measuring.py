"""Losses and class logits over many batches, and how good classes are told apart: what evaluations share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.divided import each, in_step
from regard.layers.engine import engine_of
from regard.layers.onednn import without_onednn
from regard.layers.replay import replayed
from regard.metrics.accuracy import accuracy, report
from regard.models.protocols import Batch, Classifier, DocumentClassifier, Learner, Model, Module
from regard.tasks.core.results import Evaluation, Tick, no_tick

SHOWN = 20  # classes up to which each has a row of its own in the printed report
CONFUSED = 10  # pairs of classes: those most often confused


P = TypeVar("P")
R = TypeVar("R")


def as_it_is(batch: Any) -> Any:
    return batch


def device_of(model: Module) -> torch.device:
    return next(model.parameters()).device


def can_replay(model: Model) -> bool:
    """Whether its answers can come from CUDA graphs, for batches that are rounded up to few shapes. An encoder's do
    not: it packs rows, which takes less time."""
    if not isinstance(model, DocumentClassifier):
        return False
    captured = device_of(model).type == "cuda" and getattr(model.config, "can_capture", False)
    return captured and not in_step()


def answer(model: Classifier, batch: Any) -> Tensor:
    """The logits of a batch (B, classes), from a CUDA graph where that is possible."""
    if not can_replay(model):
        return model.class_logits(batch)
    assert isinstance(model, nn.Module)
    return replayed(model, model.class_logits, batch.unlabelled())


def by_batch(model: Module, pieces: Iterable[P], measure: Callable[[P], R], *, tick: Tick = no_tick) -> Iterator[R]:
    """`measure(piece)` for each batch, or what it is made from, in their order and without gradients: numbers on
    the CPU, as they may come from another process."""

    @torch.no_grad()
    def work(piece: P, tick: Tick) -> list[R]:
        with without_onednn(model):
            measured = measure(piece)
        tick()
        return [measured]

    return each(pieces, work, tick=tick)


def total_loss(
    model: Learner, pieces: Iterable[Any], batch: Callable[[Any], Batch] = as_it_is, *, tick: Tick = no_tick
) -> tuple[float, int]:
    """-log p of all the batches together in nats, and how many tokens that is. `batch(piece)` makes a batch: of
    several processes each makes only its own."""
    device = device_of(model)

    def measure(piece: Any) -> tuple[float, int]:
        loss = (engine_of(model) or model).loss(batch(piece).to(device))
        return float(loss.total), int(loss.tokens)

    total, tokens = 0.0, 0
    for nats, count in by_batch(model, pieces, measure, tick=tick):
        total, tokens = total + nats, tokens + count
    return total, tokens


def class_logits(
    model: Classifier, pieces: Iterable[Any], batch: Callable[[Any], Any] = as_it_is, *, tick: Tick = no_tick
) -> Tensor:
    """The logits (N, classes) of all the batches together, on the CPU; `batch` as in `total_loss`."""
    return torch.cat(list(by_batch(model, pieces, lambda piece: logits_of(model, batch(piece)), tick=tick)))


def logits_of(model: Classifier, batch: Any) -> Tensor:
    """Of one batch, without the rows that only round it up."""
    counted = getattr(batch, "counted", None)
    rows = None if counted is None else int(counted.sum())
    return answer(model, batch.to(device_of(model))).float().cpu()[:rows]


def evaluate_classes(
    logits: Tensor,
    truths: Tensor,
    labels: tuple[str, ...],
    only: Collection[str] = (),
    *,
    unit: str = "examples",
    **counts: int,
) -> Evaluation:
    """logits (N, classes), true classes (N,) of `unit`: texts, images. The report by class is left out
    where `only` names some metrics."""
    loss = float(F.cross_entropy(logits, truths))
    chosen = logits.argmax(-1)
    if only and set(only) <= {"loss", "accuracy"}:
        both = {"loss": loss, "accuracy": accuracy(chosen.tolist(), truths.tolist())}
        return Evaluation({name: both[name] for name in only})
    answers, wanted = ([labels[place] for place in row.tolist()] for row in (chosen, truths))
    full = report(answers, wanted, labels)
    low, high = full.interval
    confusion = full.confusion.tolist()
    details = {"accuracy_low": low, "accuracy_high": high, "classes": [asdict(row) for row in full.classes]}
    metrics = {"accuracy": full.accuracy, "loss": loss, "macro_f1": full.macro_f1}
    if len(labels) == 2:
        metrics["matthews"] = full.matthews
    return Evaluation(
        metrics,
        {unit: full.count, **counts},
        {"count": full.count, **details, "confusion": confusion},
        {"accuracy_low": low, "accuracy_high": high},
        (*_by_class(details["classes"]), *_confused(labels, confusion)),  # type: ignore[arg-type]
    )


def _by_class(classes: list[dict[str, object]]) -> list[str]:
    if len(classes) > SHOWN:
        return []
    heads = ["label", "count", "precision", "recall", "f1"]
    return [aligned([heads, *([number(row[head]) for head in heads] for row in classes)])]


def _confused(labels: tuple[str, ...], confusion: list[list[int]]) -> list[str]:
    pairs = [
        (times, true, answered)
        for true, row in enumerate(confusion)
        for answered, times in enumerate(row)
        if times and true != answered
    ]
    pairs.sort(key=lambda pair: -pair[0])
    rows = [[labels[true], labels[answered], number(times)] for times, true, answered in pairs[:CONFUSED]]
    return [aligned([["label", "taken for", "times"], *rows])] if rows else []


def aligned(lines: list[list[str]]) -> str:
    """A table in text, its columns as wide as they need to be."""
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def number(value: object, digits: int = 4) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
