"""How often a classifier of images is right."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import torch

from regard.attention.trace import sites_of
from regard.data.images.image_batches import ImageData
from regard.show import Gates
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.recognise.gates import ClassGates, gates_of, side_by_side
from regard.tasks.recognise.run import Recogniser
from regard.tasks.shared.measuring import class_logits, evaluate_classes


def evaluate(run: Recogniser, data: ImageData, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    items, labels = data.order(0), run.model.config.labels
    batches = map(data.batch, items)
    gates = ClassGates(run.model, labels) if not only and sites_of(run.model, "gate") else None
    if gates is None:
        logits = class_logits(run.model, batches, tick=tick)
    else:
        logits = class_logits(run.model, batches, tick=tick, around=lambda batch: gates.adding(batch.targets))
    truths = torch.from_numpy(data.images.labels[np.concatenate([item.taken for item in items])])
    found = evaluate_classes(logits, truths, labels, only)
    return replace(found, compared=gates) if gates else found


def plot(evaluations: Mapping[str, Evaluation]) -> Gates:
    return side_by_side({run: gates_of(one) for run, one in evaluations.items()})
