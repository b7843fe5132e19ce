"""How much an agent earns, beside players that were not trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.made.environments import Bandits, Environments, MDPs, World
from regard.metrics import bandits, mdps
from regard.metrics.bandits import mean_interval
from regard.metrics.bootstrap import Comparison, bootstrap_means
from regard.tasks.core.card import Options
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.play.run import Agent
from regard.tasks.shared.measuring import aligned, device_of


@dataclass(frozen=True)
class Earned:
    """The total rewards of an agent in environments that all runs of the same kind are tested in."""

    kind: Environments
    rewards: np.ndarray  # (E,)


def evaluate(
    run: Agent, data: range, *, only: Sequence[str] = (), options: Options | None = None, tick: Tick = no_tick
) -> Evaluation:
    """`data`: the numbers of environments."""
    kind, seeds = run.player.environments, torch.tensor(list(data), device=device_of(run.model))
    totals, bests, worlds = [], [], []
    for part in seeds.split(run.at_once):
        world = kind.draw(part)
        totals.append(run.trajectory(part).rewards.sum(1).cpu())
        bests.append(kind.best(world).cpu())
        if not only:
            worlds.append(World(*(x.cpu() for x in world)))
        for _ in part:
            tick()
    rewards, best = (torch.cat(x).double().numpy() for x in (totals, bests))
    metrics = measures(rewards, best)
    if only:
        return Evaluation({name: metrics[name] for name in only})
    world = World(*(torch.cat(x) for x in zip(*worlds, strict=True)))
    players = other_players(kind, world)
    others = {name: {**measures(earned, best), **interval(earned)} for name, earned in players.items()}
    return Evaluation(
        metrics,
        {"environments": len(rewards), "actions": kind.actions, "steps": kind.steps},
        {**interval(rewards), "players": others},
        interval(rewards),
        (table(others),),
        Earned(kind, rewards),
    )


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
