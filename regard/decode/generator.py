"""Driving a generator: eval mode and float32 scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.layers.onednn import without_onednn
from regard.models.protocols import Generator


def at_least_float32(logits: Tensor) -> Tensor:
    """Half-precision logits as float32, so that scores are summed in float32; others as they are."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


@contextmanager
def eval_mode(model: Generator) -> Iterator[None]:
    """Eval mode, no gradients; the training flag of every module is restored afterwards."""
    training = [part for part in model.modules() if part.training] if isinstance(model, nn.Module) else []
    for part in training:
        part.training = False
    try:
        with torch.inference_mode(), without_onednn(model):
            yield
    finally:
        for part in training:
            part.training = True
