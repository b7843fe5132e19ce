"""How well masked words are predicted, and whether one part of a text follows another."""

from __future__ import annotations

from collections.abc import Collection

import torch
import torch.nn.functional as F

from regard.layers.onednn import without_onednn
from regard.models.protocols import MaskedLanguageModel
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.fill.prepare import TestText
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.reader import Reader
from regard.tasks.shared.search import need


@torch.no_grad()
def evaluate(run: Reader, test: TestText, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    """The text is split and masked as in epoch 0, so that two models are asked the same."""
    model, data = need(run.model, MaskedLanguageModel), test.data
    device = device_of(model)
    nats, places, right, rows, following = 0.0, 0, 0, 0, 0
    with without_onednn(model):
        for item in data.order(0):
            batch = data.batch(item).to(device)
            states = model.states(batch.tokens, batch.segments, batch.mask)
            logits = model.masked_logits(states[batch.predicted]).float()
            wanted = batch.targets[batch.predicted]
            nats += float(F.cross_entropy(logits, wanted, reduction="sum"))
            right, places = right + int((logits.argmax(-1) == wanted).sum()), places + len(wanted)
            if batch.follows is not None:
                following += int((model.next_logits(states).argmax(-1) == batch.follows).sum())
                rows += len(batch.follows)
            tick()
    loss = nats / places
    metrics = {"loss": loss, "perplexity": float(torch.tensor(loss).exp()), "masked_accuracy": 100 * right / places}
    if rows:
        metrics["next_accuracy"] = 100 * following / rows
    if only:
        return Evaluation({name: metrics[name] for name in only if name in metrics})
    return Evaluation(metrics, {"documents": test.documents, "tokens": data.tokens})
