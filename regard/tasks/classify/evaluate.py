"""How often a classifier of texts is right."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import torch

from regard.data.text.labelled_texts import LabelledData
from regard.models.protocols import Classifier, LayerMixer
from regard.show import bars
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.shared.measuring import can_replay, class_logits, evaluate_classes
from regard.tasks.shared.search import need
from regard.tasks.shared.text_reader import TextReader


def evaluate(run: TextReader, data: LabelledData, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    model = need(run.model, Classifier)
    order = data.order(0)
    shaped = data.rounded if can_replay(model) else lambda batch: batch
    logits = class_logits(model, (shaped(data.batch(item)) for item in order), tick=tick)
    truths = torch.tensor([data.labels[row] for item in order for row in item])
    found = evaluate_classes(logits, truths, model.config.labels, only, truncated=data.truncated)
    return found if only or not isinstance(model, LayerMixer) else with_layers(found, model.layer_weights)


def with_layers(found: Evaluation, weights: Mapping[int, float]) -> Evaluation:
    """How much each layer of the model below counts is a result too."""
    if not weights:
        return found
    shown = "weights of the layers\n" + bars([(f"layer {layer}", share) for layer, share in weights.items()])
    return replace(
        found,
        details={**found.details, "layer_weights": {str(layer): share for layer, share in weights.items()}},
        notes=(*found.notes, shown.rstrip()),
    )
