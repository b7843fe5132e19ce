"""A trained agent, and what it did in an environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import overload

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.base.short_repr import short_repr
from regard.data.made.environments import TRAINED, MDPs, Trajectory
from regard.errors import BadInput
from regard.layers.onednn import without_onednn
from regard.models.protocols import Model, Player, need
from regard.show import Map, ShadedText
from regard.show.map import LONG
from regard.tasks.core.inputs import in_parts, read_all
from regard.tasks.core.options import checks_keywords
from regard.tasks.core.results import Evaluation, Shown
from regard.tasks.core.run import Data, Run
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.sites import sites_like

# Of all environments that are played at once: their steps, and the numbers that describe them.
STEPS, NUMBERS = 1 << 17, 1 << 24


@dataclass(frozen=True)
class Trial(Shown):
    """What an agent did in one environment, and which earlier steps it looked at."""

    environment: int  # its number
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    states: tuple[int, ...]  # of an MDP; a bandit is always in state 0
    best: float  # the expected total reward of a player who knows the environment
    means: np.ndarray = field(repr=False, compare=False)  # (S, A): the mean reward of each action, unknown to it
    _inputs: Tensor = field(repr=False, compare=False)  # (1, T, I)
    _run: Agent = field(repr=False, compare=False)

    __repr__ = short_repr

    @property
    def input(self) -> int:
        return self.environment

    @property
    def reward(self) -> float:
        """The total reward of all steps."""
        return sum(self.rewards)

    def attention(self, *sites: str) -> Map:
        """How much each step looked at the steps before it; `start`: at its own beginning, before the first
        step."""
        weights = self._run.looks(self._inputs, sites)
        may = np.tril(np.ones_like(weights, dtype=bool))
        title = f"environment {self.environment}: reward {self.reward:.4g}, best {self.best:.4g}"
        if not self._run.episode:
            pulled, before = [str(arm) for arm in self.actions], ["start", *self._pulls()[:-1]]
            return Map(weights, pulled, before, title, "arm", "pulls before it: +, it paid", mask=may)
        acted = [f"{state}:{action}" for state, action in zip(self.states, self.actions, strict=True)]
        earned = [f"{step}{reward:+.1f}" for step, reward in zip(acted, self.rewards, strict=True)]
        before = ["start", *earned[:-1]]
        return Map(weights, acted, before, title, "state:action", "steps before it and their rewards", mask=may)

    def picture(self, sites: Sequence[str] = ()) -> Map | ShadedText:
        """Where it looked; of a trial that is too long for a map, where its last step looked."""
        attention = self.attention(*sites)
        return attention if len(attention.columns) <= LONG else attention.shaded(len(attention.rows) - 1)

    def _pulls(self) -> list[str]:
        """Arms, with + where they paid."""
        return [f"{arm}{'+' if paid else '-'}" for arm, paid in zip(self.actions, self.rewards, strict=True)]

    def to_dict(self) -> dict[str, object]:
        """As plain data. `looked_at`: the earlier step that was looked at most, and its weight; None: the start."""
        weights = self._run.looks(self._inputs)
        places = weights.argmax(1).tolist()  # 0 is the start, 1 what happened in step 0
        done = zip(self.states, self.actions, self.rewards, places, weights.max(1).tolist(), strict=True)
        steps = [
            {
                "state": state,
                "action": action,
                "reward": reward,
                "looked_at": place - 1 if place else None,
                "weight": weight,
            }
            for state, action, reward, place, weight in done
        ]
        trial = {**self.of_input(), "environment": self.environment, "reward": self.reward, "best": self.best}
        return {**trial, "means": self.means.tolist(), "steps": steps}

    def line(self) -> str:
        """Its number, the total reward, the best total reward, and the steps."""
        steps = self._pulls()
        if length := self._run.episode:
            steps = [f"{episode.sum():.1f}" for episode in np.array(self.rewards).reshape(-1, length)]
        return f"{self.environment}\t{self.reward:.6g}\t{self.best:.2f}\t{' '.join(steps)}"


class Agent(Run):
    """A run that acts in environments, as `regard.load` gives it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.player = need(model, Player)

    @property
    def kind(self) -> str:
        """What it acts in, in words."""
        kind = self.player.environments
        if isinstance(kind, MDPs):
            return (
                f"MDPs of {kind.states} states and {kind.actions} actions, {kind.episodes} episodes of "
                f"{kind.horizon} steps"
            )
        return f"bandits of {kind.actions} arms, {kind.steps} pulls"

    @property
    def episode(self) -> int:
        """Steps of an episode in an MDP; 0 for a bandit."""
        kind = self.player.environments
        return kind.horizon if isinstance(kind, MDPs) else 0

    @overload
    def play(self, environment: int = 0, *, greedy: bool = False) -> Trial: ...
    @overload
    def play(self, environment: list[int], *, greedy: bool = False) -> list[Trial]: ...
    @checks_keywords
    def play(self, environment: int | list[int] = 0, *, greedy: bool = False) -> Trial | list[Trial]:
        """Act in the environment with this number, or in each of a list. The actions are drawn from the policy, the
        same each time; greedy: the likeliest actions."""
        if isinstance(environment, list):
            return list(self.answers(read_all(environment, self.number, "environments"), greedy=greedy))
        return next(self.answers([self.number(environment)], greedy=greedy))

    @checks_keywords
    def evaluate(self, data: Data | None = None, *, columns: str = "", test_count: int | None = None) -> Evaluation:
        """The mean total reward in `test_count` environments, beside those of other players. They are generated, so
        no data can be named."""
        return self._evaluate(data, columns, test_count=test_count)

    def number(self, environment: str | int) -> int:
        """BadInput unless it is the number of an environment that is not trained in."""
        try:
            number = int(environment) if isinstance(environment, str) else index(environment)
        except (TypeError, ValueError):
            number = -1
        if isinstance(environment, bool) or not 0 <= number < TRAINED:
            raise BadInput(
                f"an environment must be a whole number of at least 0 and below {TRAINED:,}, got "
                f"{environment!r:.40}"
            )
        return number

    def answers(self, environments: Iterable[int], *, greedy: bool = False) -> Iterator[Trial]:
        """In the order of the numbers."""
        kind = self.player.environments
        for part in in_parts(environments, self.at_once):
            seeds = torch.tensor(part, device=device_of(self.model))
            world, played = kind.draw(seeds), self.trajectory(seeds, greedy=greedy)
            best, means = kind.best(world).tolist(), world.rewards.cpu().numpy()
            done = [x.tolist() for x in (played.actions, played.rewards, played.states)]
            for row, number in enumerate(part):
                actions, rewards, states = (tuple(x[row]) for x in done)
                inputs = played.inputs[row : row + 1]
                yield Trial(number, actions, rewards, states, best[row], means[row], inputs, self)

    @property
    def at_once(self) -> int:
        """How many environments are played at once, to bound the memory."""
        kind = self.player.environments
        numbers = kind.actions * (kind.states**2 if isinstance(kind, MDPs) else 1)
        return max(1, min(512, STEPS // kind.steps, NUMBERS // numbers))

    def trajectory(self, seeds: Tensor, *, greedy: bool = False) -> Trajectory:
        """One trial in each of the environments with these seeds (B,)."""
        with torch.inference_mode(), without_onednn(self.model):
            return self.player.play(seeds, greedy=greedy)

    def looks(self, inputs: Tensor, sites: Sequence[str] = ()) -> np.ndarray:
        """Weights (T, T) of a trial's inputs (1, T, I): the mean of the named sites, of which there is one."""
        names = sites_like(self.model, sites or [self.model.alignment])
        with torch.inference_mode(), without_onednn(self.model), trace(self.model, *names) as seen:
            self.player(inputs)
        return torch.stack([seen[site][0] for site in names]).mean(0).float().cpu().numpy()
