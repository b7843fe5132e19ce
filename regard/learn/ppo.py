"""Proximal policy optimisation (Schulman et al. 2017): several updates learn from the same trials of an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from regard.data.batches.batch import Batch
from regard.learn.settings import Training
from regard.models.protocols import Module, Player


def clipped(gain: Tensor, log_probability: Tensor, before: Tensor, clip: float) -> Tensor:
    """min(gain r, gain clip(r, 1 - clip, 1 + clip)),  r = p(action) / p_then(action)   (eq. 7)"""
    ratio = (log_probability - before).exp()
    return torch.minimum(gain * ratio, gain * ratio.clamp(1 - clip, 1 + clip))


def passes(model: Module, settings: Training) -> Callable[[Iterable[Batch]], Sequence[Sequence[Batch]]] | None:
    """`ppo_passes` over the trials of a step, each in `ppo_parts`; None: one update, by the batches as they are."""
    if settings.updates == 1:
        return None
    assert isinstance(model, Player)
    player = model

    def play(batches: Iterable[Batch]) -> Sequence[Sequence[Batch]]:
        (batch,) = batches
        return [player.experience(batch).parts(settings.ppo_parts)] * settings.ppo_passes

    return play
