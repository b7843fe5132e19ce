"""The measures of each task, and a run's scores on the test data of its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.metrics.accuracy import report
from regard.tasks import classes, judge, labelled, masked, pictures, texts
from regard.tasks.known import Known

Tick = Callable[[], None]
MEASURES: dict[str, tuple[str, ...]] = {
    "translate": judge.MEASURES,
    "generate": texts.MEASURES,
    "fill": masked.MEASURES,
    "classify": classes.MEASURES,
    "recognise": classes.MEASURES,
}


def score(task: str, run: Any, settings: Any, *, folder: Path, tick: Tick = lambda: None) -> dict[str, Any]:
    """By the names in MEASURES, with what was counted. `folder`: where a long text may be kept meanwhile."""
    if task == "translate":
        return judge.judge(run, settings.examples("test"), tick=tick).table()
    if task == "generate":
        return texts.judge_text(run, settings, [settings.test or settings.valid], folder=folder, tick=tick)
    if task == "fill":
        return _masked(run, settings, tick)
    if task == "classify":
        return _labelled(run, settings, tick)
    known = Known(labels=run.model.config.labels, pixels=run.pixels)
    data = pictures.build_data(settings, "test", run.model, known, device=next(run.model.parameters()).device)
    return _classes(*pictures.judge_pictures(run.model, data, tick=tick), run.model.config.labels)


def _masked(run: Any, settings: masked.Settings, tick: Tick) -> dict[str, Any]:
    named = settings.test or settings.valid
    documents = masked.encoded(settings, [named], run.tokenizer)
    data = masked.build_data(settings, documents, run.model, run.tokenizer, seed=0)
    return {"documents": len(documents), "tokens": data.tokens, **masked.judge_masked(run.model, data, tick=tick)}


def _labelled(run: Any, settings: labelled.Settings, tick: Tick) -> dict[str, Any]:
    known = Known(run.tokenizer, labels=run.model.config.labels)
    # Judged by as much of each text as it reads when it is asked.
    data = labelled.build_data(settings, settings.rows("test"), run.model, known, seed=0, longest=run.longest)
    found = _classes(*labelled.judge_labelled(run.model, data, tick=tick), known.labels)
    return {**found, "cut": data.cut}


def _classes(logits: Tensor, truths: Tensor, labels: tuple[str, ...]) -> dict[str, Any]:
    answers, wanted = ([labels[place] for place in row.tolist()] for row in (logits.argmax(-1), truths))
    found = report(answers, wanted, labels)
    low, high = found.interval
    return {
        "count": found.count,
        "accuracy": found.accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "loss": float(F.cross_entropy(logits, truths)),
        "macro_f1": found.macro_f1,
        "classes": [asdict(one) for one in found.classes],
        "confusion": found.confusion.tolist(),
    }
