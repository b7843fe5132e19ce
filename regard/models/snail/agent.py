"""SNAIL as an agent (Mishra, Rohaninejad, Chen & Abbeel 2018, section 5.2): it learns to learn bandits and MDPs.

    x_t = [last action; last reward; state and whether an episode has ended, of an MDP]
    e = W x + b -> TC -> TC -> look (32, 32) -> linear -> logits of the actions, and a value

A trial is one sequence of T steps in an environment that the agent has never met: N pulls of a bandit, or N
episodes of one MDP. What it learns there is in its activations; the weights stay as they are. The blocks are those
of `models.snail.blocks`: they run over a whole trial at once, or one step after another while it is played.

`experience` plays one trial in each environment of the batch without gradients and judges the actions by
generalised advantage estimation; `loss` passes over all trials at once. The paper uses TRPO. Here it is PPO
(Schulman et al. 2017), which bounds how far the same trials change the policy by clipping and not by a constraint:
train.ppo_passes over the trials of a step, each in train.ppo_parts. With 1 and 1 it is the advantage actor-critic
(A2C, Mnih et al. 2016). Advantages are normalised over the batch. The policy's part of the loss is REINFORCE with
these as rewards (`learn.reinforce`), less the mean of the other trials at the same step, with train.entropy_weight;
`total` is the error of the values alone.

Batches are far smaller than the paper's, so actions are judged with what the environment knows and the agent does
not (as in Pinto et al. 2018, an actor-critic whose critic sees more than its actor):

    r_t   the mean reward of an action in its state, without the luck
    V_t   = random_t + share_t (best_t - random_t)      share = w . state + b, from what the agent saw

where random_t and best_t are the rewards that a player at random and a player who knows the environment would still
expect (`Environments.prospects`). Neither changes what the policy gradient is on average with lambda = 1; both take
noise away. The shares learn from the mean rewards that were earned from step t on, each squared error divided by
the steps left and by T, so that one weight fits short and long trials. Advantages take the mean share of the last
T / 10 steps: a share changes a little with every step, and times hundreds of rewards that are still to come this
drowns what one action earns (T = 1,000: its standard deviation was 41, that of the rest 1). The policy sees only
what the paper's sees, and in use nothing else is needed. There is no discount (there 0.99): a trial ends, and its
total counts.

Policy and value share all but their last layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.base.dtype import at_least_float32
from regard.base.fields import check, setting
from regard.data.made.environments import (
    CHOICES,
    Bandits,
    Environments,
    Experience,
    MDPs,
    Seeds,
    Trajectory,
    World,
    mean_rewards,
    uniform,
)
from regard.layers.loss import Loss, Sampled
from regard.models.snail.blocks import AttentionBlock, CausalBlock, CausalConv, CausalStack, TCBlock
from regard.models.snail.policy_gradient import advantages, normalised, running_mean

try:
    from regard.models.snail import kernels
except ImportError:  # no Triton: a trial is played step by step
    kernels = None  # type: ignore[assignment]

# A hostile configuration must not fill the memory: of each; the steps of a trial; the transitions of an MDP.
MOST, MOST_STEPS, MOST_TRANSITIONS = 1000, 10_000, 1_000_000


@dataclass(frozen=True)
class SNAILAgentConfig:
    """The environments, the network, and how actions are judged in training."""

    environment: str = setting("bandits", choices=("bandits", "mdps"))  # what is played: bandits, or tabular MDPs
    actions: int = setting(5, at_least=2, at_most=MOST)  # actions to choose from: the arms of a bandit
    pulls: int = setting(10, at_least=1, at_most=MOST)  # bandits: pulls of a trial
    states: int = setting(10, at_least=1, at_most=MOST)  # MDPs: how many states
    horizon: int = setting(10, at_least=1, at_most=MOST)  # MDPs: steps of an episode
    episodes: int = setting(10, at_least=1, at_most=MOST)  # MDPs: episodes of a trial, all in the same MDP
    dim: int = setting(32, at_least=1)  # width of the first layer
    tc_filters: int = setting(32, at_least=1)  # filters of each convolution
    tc_layers: int = setting(2, at_least=1, layers=True)  # TC blocks
    keys: int = setting(32, at_least=1)  # size of the keys of the look
    values: int = setting(32, at_least=1)  # size of the values of the look
    temporal: bool = True  # false: no TC blocks
    # generalised advantage estimation: 1 sums all rewards to come, 0 trusts the value of the next step
    gae_lambda: float = setting(0.95, at_least=0, at_most=1)
    value_weight: float = setting(2.5, at_least=0)  # weight of the values' squared error in the loss

    def __post_init__(self) -> None:
        check(self)
        if self.environment != "mdps":
            return
        if self.horizon * self.episodes > MOST_STEPS:
            raise ValueError(
                f"horizon x episodes must be at most {MOST_STEPS:,} steps, got {self.horizon} x {self.episodes}"
            )
        if self.states**2 * self.actions > MOST_TRANSITIONS:
            raise ValueError(
                f"states x actions x states must be at most {MOST_TRANSITIONS:,}, got {self.states} states and "
                f"{self.actions} actions"
            )

    @property
    def environments(self) -> Environments:
        if self.environment == "bandits":
            return Bandits(self.actions, self.pulls)
        return MDPs(self.actions, self.states, self.horizon, self.episodes)


class SNAILAgent(nn.Module):
    """Acts in environments of one kind, and improves while it acts."""

    paper = "Mishra, Rohaninejad, Chen & Abbeel 2018, A simple neural attentive meta-learner"
    Config = SNAILAgentConfig
    task = "play"
    least_precision = "float32"  # PPO divides probabilities of the same actions
    numbering = ""

    def __init__(self, config: SNAILAgentConfig):
        super().__init__()
        self.config, kind = config, config.environments
        self.embed = nn.Linear(kind.inputs, config.dim)
        width, blocks = config.dim, list[CausalBlock]()
        for _ in range(config.tc_layers if config.temporal else 0):
            blocks.append(TCBlock(width, kind.steps, config.tc_filters))
            width = blocks[-1].width
        blocks.append(AttentionBlock(width, config.keys, config.values))
        self.blocks = CausalStack(blocks)
        self.policy = nn.Linear(self.blocks.width, kind.actions)
        self.value = nn.Linear(self.blocks.width, 1)
        self._begin()

    @torch.no_grad()
    def _begin(self) -> None:
        """The weights before training. It acts about at random, and its values are those of a random player. The
        other weights are larger than torch draws them, so that steps differ and a look is not the same mean of all
        steps for every question."""
        self.policy.weight.mul_(0.01)
        for weight in (self.policy.bias, self.value.weight, self.value.bias):
            weight.zero_()
        self.embed.weight.mul_(3)
        for layer in self.blocks.modules():
            if isinstance(layer, CausalConv):
                layer.weight.mul_(2)
            elif isinstance(layer, AttentionBlock):
                layer.project.weight[: 2 * layer.keys].mul_(3)  # of queries and keys

    @property
    def alignment(self) -> str:
        """The attention that is shown: where each step looked among those before it."""
        return f"blocks.{len(self.blocks) - 1}.attend"

    @property
    def environments(self) -> Environments:
        """What it was made to act in."""
        return self.config.environments

    def states(self, inputs: Tensor) -> Tensor:
        """What was seen before each step (B, T, I) -> (B, T, D)"""
        return self.blocks(self.embed(inputs.to(self.embed.weight.dtype)))

    def forward(self, inputs: Tensor) -> Tensor:
        """What was seen before each step (B, T, I) -> logits of the actions (B, T, A)"""
        return self.policy(self.states(inputs))

    def step(self, seen: Tensor, before: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """As `forward`, one step after another: (B, I) -> logits (B, A), and the state for the next step"""
        x, after = self.blocks.step(self.embed(seen.to(self.embed.weight.dtype)), before)
        return self.policy(x), after

    @torch.no_grad()
    def play(self, seeds: Tensor, *, greedy: bool = False) -> Trajectory:
        """One trial in each of the environments with these seeds (B,). The actions are drawn from the policy, by
        random numbers that follow from the seeds too; greedy: the likeliest ones."""
        kind = self.environments
        world, chances = kind.draw(seeds), uniform(seeds, CHOICES, kind.steps)
        fused = kernels is not None and kernels.fits(self)
        done = (kernels.play if fused else play_by_steps)(self, world, chances, greedy=greedy)
        return Trajectory(kind.saw(*done), *done)

    def judge(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """log p of all actions (B, T, A), and the shares (B, T)"""
        states = self.states(inputs)
        return at_least_float32(self.policy(states)).log_softmax(-1), at_least_float32(self.value(states))[..., 0]

    @torch.no_grad()
    def experience(self, batch: Seeds) -> Experience:
        """One trial in each environment: what several updates can learn from."""
        kind, played = self.environments, self.play(batch.seeds)
        world = kind.draw(batch.seeds)
        prospects = kind.prospects(world, played.states)
        logs, shares = self.judge(played.inputs)
        means = mean_rewards(world, played.states, played.actions)
        values = of_shares(running_mean(shares, max(1, kind.steps // 10)), prospects)
        gains = normalised(advantages(means, values, self.config.gae_lambda))
        returns = means.flip(1).cumsum(1).flip(1)
        chosen = of_actions(logs, played.actions)
        return Experience(played.inputs, played.actions, played.rewards, gains, returns, prospects, chosen)

    def loss(self, batch: Seeds | Experience) -> Loss:
        """The loss of one trial in each environment; `likelihood` holds their total rewards."""
        done = batch if isinstance(batch, Experience) else self.experience(batch)
        logs, shares = self.judge(done.inputs)
        values = of_shares(shares, done.prospects)
        steps = values.shape[1]
        left = torch.arange(steps, 0, -1, device=values.device)  # what is earned in them varies
        error = self.config.value_weight / steps * ((values - done.returns).square() / left).sum()
        mask = torch.ones_like(done.actions, dtype=torch.bool)
        entropy = -(logs.exp() * logs).sum(-1)
        sampled = Sampled(done.advantages, of_actions(logs, done.actions), entropy, mask, done.log_probability)
        return Loss(error, done.rewards.sum(1), mask.sum(), sampled)


def play_by_steps(
    model: SNAILAgent, world: World, chances: Tensor, *, greedy: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One trial in each environment, with uniform numbers (B, T): states, actions and rewards (B, T)."""
    kind, memory, taken = model.environments, model.blocks.begin(), []
    state, action, reward = world.first, None, None
    for now in range(kind.steps):
        logits, memory = model.step(kind.see(now, state, action, reward), memory)
        action = logits.argmax(-1) if greedy else choose(logits, chances[:, now])
        reward, after = kind.step(world, now, state, action)
        taken.append((state, action, reward))
        state = after
    states, actions, rewards = (torch.stack(steps, 1) for steps in zip(*taken, strict=True))
    return states, actions, rewards


def of_shares(shares: Tensor, prospects: Tensor) -> Tensor:
    """Values between those of a random player and the best: (B, T), (B, T, 2) -> (B, T)"""
    random, best = prospects.unbind(-1)
    return random + shares * (best - random)


def of_actions(logs: Tensor, actions: Tensor) -> Tensor:
    """The entries of the actions that were taken: (B, T, A), (B, T) -> (B, T)"""
    return logs.gather(-1, actions[..., None])[..., 0]


def choose(logits: Tensor, chance: Tensor) -> Tensor:
    """Draw from softmax(logits) (B, A) by uniform numbers (B,), without a GPU sync."""
    below = at_least_float32(logits).softmax(-1).cumsum(-1) < chance[:, None]
    return below.sum(-1).clamp_max(logits.shape[-1] - 1)
