"""Which team trains: one process, or all that torchrun has started."""

from __future__ import annotations

import torch

from regard.base import processes
from regard.learn.settings import Training
from regard.learn.team import Alone


def team_for(device: torch.device, settings: Training) -> Alone:
    """All processes of this training."""
    if not processes.launched():
        return Alone()
    if settings.shard:
        from regard.learn.shard import ShardedTeam  # takes a second to import

        return ShardedTeam(device, settings.precision)
    from regard.learn.distribute import Team

    return Team(device)
