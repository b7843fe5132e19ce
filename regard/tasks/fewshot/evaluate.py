"""How often the query's class is told."""

from __future__ import annotations

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches.batch import send
from regard.data.images.episodes import EpisodeData
from regard.layers.onednn import without_onednn
from regard.metrics.accuracy import interval
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.fewshot.run import FewShot

IMAGES = 512  # that are embedded at once


@torch.inference_mode()
def evaluate(run: FewShot, data: EpisodeData, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    """An image is embedded once, however many episodes have it."""
    assert data.queries == 1
    drawn = [data.episodes(item) for item in data.order(0)]
    used, places = torch.cat([places.flatten() for places, _ in drawn]).unique(return_inverse=True)
    model, found, truths = run.model, list[Tensor](), list[Tensor]()
    with without_onednn(model):
        states = torch.cat([model.embed(data.take(part)) for part in used.split(IMAGES)])  # (N, D)
        first = 0
        for one, labels in drawn:
            here = send(places[first : first + one.numel()].view_as(one), states.device)
            logits = model.answer(states[here], send(labels[:, :-1].contiguous(), states.device))
            found.append(logits[:, 0, : data.ways].float().cpu())
            truths.append(labels[:, -1])
            first += one.numel()
            tick()
    logits, wanted = torch.cat(found), torch.cat(truths)
    right, count = int((logits.argmax(-1) == wanted).sum()), len(wanted)
    metrics = {"accuracy": 100 * right / count, "loss": float(F.cross_entropy(logits, wanted))}
    if only:
        return Evaluation({name: metrics[name] for name in only})
    low, high = interval(right, count)
    spread = {"accuracy_low": low, "accuracy_high": high}
    counts = {"episodes": count, "ways": data.ways, "shots": (drawn[0][0].shape[1] - 1) // data.ways}
    return Evaluation(metrics, counts, dict(spread), spread)
