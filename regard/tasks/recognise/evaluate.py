"""How often a classifier of images is right."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch

from regard.data.image_batches import ImageData
from regard.tasks.measuring import class_logits, evaluate_classes
from regard.tasks.recognise.run import Recogniser
from regard.tasks.results import Evaluation
from regard.tasks.task import Tick, no_tick


def evaluate(run: Recogniser, data: ImageData, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    items = data.order(0)
    logits = class_logits(run.model, map(data.batch, items), tick=tick)
    truths = torch.from_numpy(data.images.labels[np.concatenate([item.taken for item in items])])
    return evaluate_classes(logits, truths, run.model.config.labels, only)
