"""How much an agent earns, beside players that were not trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.made.environments import Bandits, Environments, MDPs, World
from regard.metrics import bandits, mdps
from regard.metrics.bandits import mean_interval
from regard.metrics.bootstrap import Comparison, bootstrap_means
from regard.tasks.core.card import Options
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.play.run import Agent
from regard.tasks.shared.measuring import aligned, by_batch, device_of

COMPARED = 32  # times as many environments as an agent plays at once are played at once by the other players


@dataclass(frozen=True)
class Earned:
    """The total rewards of an agent in environments that all runs of the same kind are tested in."""

    kind: Environments
    rewards: np.ndarray  # (E,)


class Played(NamedTuple):
    """Total rewards (E,) in E environments."""

    rewards: np.ndarray  # of the agent
    best: np.ndarray  # what a player who knows each environment can expect
    others: dict[str, np.ndarray]


def evaluate(
    run: Agent, data: range, *, only: Sequence[str] = (), options: Options | None = None, tick: Tick = no_tick
) -> Evaluation:
    """`data`: the numbers of environments. Of each only the total rewards are kept, to bound the memory."""
    kind, size = run.player.environments, COMPARED * run.at_once
    parts = [play_all(run, data[first : first + size], bool(only), tick) for first in range(0, len(data), size)]
    rewards, best = (np.concatenate([getattr(part, name) for part in parts]) for name in ("rewards", "best"))
    metrics = measures(rewards, best)
    if only:
        return Evaluation({name: metrics[name] for name in only})
    players = {name: np.concatenate([part.others[name] for part in parts]) for name in parts[0].others}
    others = {name: {**measures(earned, best), **interval(earned)} for name, earned in players.items()}
    return Evaluation(
        metrics,
        {"environments": len(rewards), "actions": kind.actions, "steps": kind.steps},
        {**interval(rewards), "players": others},
        interval(rewards),
        (table(others),),
        Earned(kind, rewards),
    )


def play_all(run: Agent, numbers: range, alone: bool, tick: Tick) -> Played:
    """All players in the environments of these numbers; `alone`: the agent only."""
    kind = run.player.environments

    def measure(seeds: Tensor) -> tuple[Tensor, Tensor, World | None]:
        world = kind.draw(seeds)
        rewards = run.trajectory(seeds).rewards.sum(1).cpu()
        return rewards, kind.best(world).cpu(), None if alone else World(*(x.cpu() for x in world))

    pieces = torch.tensor(numbers, device=device_of(run.model)).split(run.at_once)
    rewards, bests, worlds = list[Tensor](), list[Tensor](), list[World]()
    for earned, best, world in by_batch(run.model, pieces, measure):
        rewards.append(earned)
        bests.append(best)
        worlds += [] if world is None else [world]
        for _ in earned:
            tick()
    others = {} if alone else other_players(kind, World(*(torch.cat(x) for x in zip(*worlds, strict=True))))
    return Played(torch.cat(rewards).double().numpy(), torch.cat(bests).double().numpy(), others)


def measures(rewards: np.ndarray, best: np.ndarray) -> dict[str, float]:
    """Their mean, and how much less that is than `best`, what a player who knows each environment can expect."""
    reward, most = float(rewards.mean()), float(best.mean())
    return {"reward": reward, "regret": most - reward, "share": reward / most}


def interval(rewards: np.ndarray) -> dict[str, float]:
    low, high = mean_interval(rewards)
    return {"reward_low": low, "reward_high": high}


def other_players(kind: Environments, world: World) -> dict[str, np.ndarray]:
    """The total rewards (E,) of each, in the same environments and with the same luck."""
    means, moves, luck, turns = (x.numpy() for x in world[1:])
    if isinstance(kind, Bandits):
        return {name: bandits.play(means[:, 0], luck, index) for name, index in bandits.players(kind.steps).items()}
    assert isinstance(kind, MDPs)
    return {name: mdps.play(means, moves, luck, turns, kind.horizon, plan) for name, plan in mdps.PLANNERS.items()}


def table(players: dict[str, dict[str, float]]) -> str:
    rows = [
        [
            name,
            *(f"{numbers[key]:.2f}" for key in ("reward", "reward_low", "reward_high", "regret")),
            f"{numbers['share']:.3f}",
        ]
        for name, numbers in players.items()
    ]
    return aligned([["others", "reward", "low", "high", "regret", "share"], *rows])


def compare(first: Evaluation, second: Evaluation) -> list[Comparison]:
    """Compare two runs that were tested in the same environments."""
    before, after = first.compared, second.compared
    assert isinstance(before, Earned)
    assert isinstance(after, Earned)
    if before.kind != after.kind:
        return []
    return [bootstrap_means(before.rewards.tolist(), after.rewards.tolist(), metric="reward")]
