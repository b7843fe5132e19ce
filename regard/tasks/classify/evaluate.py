"""How often a classifier of texts is right."""

from __future__ import annotations

from collections.abc import Collection

import torch

from regard.data.labelled_texts import LabelledData
from regard.models.protocols import Classifier
from regard.tasks.measuring import class_logits, evaluate_classes
from regard.tasks.reader import Reader
from regard.tasks.results import Evaluation
from regard.tasks.search import need
from regard.tasks.task import Tick, no_tick


def evaluate(run: Reader, data: LabelledData, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    model = need(run.model, Classifier)
    batches = [data.batch(item) for item in data.order(0)]
    logits, truths = class_logits(model, batches, tick=tick), torch.cat([batch.labels for batch in batches])
    return evaluate_classes(logits, truths, model.config.labels, only, truncated=data.truncated)
