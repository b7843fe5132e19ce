"""How often a classifier of texts is right."""

from __future__ import annotations

from collections.abc import Collection

import torch

from regard.data.labelled_texts import LabelledData
from regard.models.protocols import Classifier
from regard.tasks.measuring import class_logits, evaluate_classes
from regard.tasks.results import Evaluation
from regard.tasks.search import need
from regard.tasks.task import Tick, no_tick
from regard.tasks.text_reader import TextReader


def evaluate(run: TextReader, data: LabelledData, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    model = need(run.model, Classifier)
    order = data.order(0)
    logits = class_logits(model, (data.batch(item) for item in order), tick=tick)
    truths = torch.tensor([data.labels[row] for item in order for row in item])
    return evaluate_classes(logits, truths, model.config.labels, only, truncated=data.truncated)
