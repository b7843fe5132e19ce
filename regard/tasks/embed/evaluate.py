"""How well a bidirectional language model predicts words, from those before and from those after."""

from __future__ import annotations

from collections.abc import Collection

import torch

from regard.data.text.sentence_data import SentenceData
from regard.layers.onednn import without_onednn
from regard.models.protocols import BidirectionalLanguageModel
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.embed.run import Embedder
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.search import need


@torch.no_grad()
def evaluate(run: Embedder, data: SentenceData, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    """Perplexities are per word; forward, the end of a sentence counts as a word, backward its beginning. That of
    both is the geometric mean of the two."""
    model = need(run.model, BidirectionalLanguageModel)
    device = device_of(model)
    nats, predictions = torch.zeros(2, dtype=torch.float64), 0
    with without_onednn(model):
        for item in data.order(0):
            batch = data.batch(item)
            predictions += int(batch.mask[:, 1:].sum())
            nats -= model.likelihoods(batch.to(device)).double().sum(0).cpu()
            tick()
    losses = nats / predictions
    forward, backward = losses.exp().tolist()
    metrics = {
        "loss": float(losses.mean()),
        "perplexity": float(losses.mean().exp()),
        "forward_perplexity": forward,
        "backward_perplexity": backward,
    }
    if only:
        return Evaluation({name: metrics[name] for name in only})
    return Evaluation(metrics, {"sentences": len(data), "words": data.words})
