"""How often a classifier is right, of texts and of pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.layers.products import plain_products
from regard.metrics.accuracy import accuracy

MEASURES = ("accuracy", "loss", "macro_f1")


@torch.no_grad()
def class_logits(
    model: Any, batches: Iterable[Any], ask: Callable[[Any], Tensor], *, tick: Callable[[], None] = lambda: None
) -> Tensor:
    """ask(batch) (B, classes) of all the batches together (N, classes), on the CPU."""
    device = next(model.parameters()).device
    found = []
    with plain_products(model):
        for batch in batches:
            found.append(ask(batch.to(device)).float().cpu())
            tick()
    return torch.cat(found)


def validation(logits: Tensor, truths: Tensor) -> dict[str, float]:
    return {
        "valid_loss": float(F.cross_entropy(logits, truths)),
        "accuracy": accuracy(logits.argmax(-1).tolist(), truths.tolist()),
    }
