"""How likely a model finds what it has not learned from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from regard.layers.products import plain_products


@torch.no_grad()
def total_loss(model: nn.Module, batches: Iterable[Any]) -> tuple[float, int]:
    """-log p of all the batches together in nats, and of how many tokens that is."""
    device = next(model.parameters()).device
    speak: Any = model.loss
    total, tokens = 0.0, 0
    with plain_products(model):
        for batch in batches:
            loss = speak(batch.to(device))
            total, tokens = total + float(loss.total), tokens + int(loss.tokens)
    return total, tokens
