"""Where SNAIL looks in an MDP: how much of its attention goes to what actions earned in the state it is in.

    regard train mdp-snail --out RUN
    python results/agent_looks.py RUN

What an action earned is seen one step later, so the steps that follow one in the same state count. Second halves of
trials in the first 30 test environments; beside it the share that these steps are of all."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import regard
from regard.attention import trace
from regard.models.snail.agent import SNAILAgent


@torch.no_grad()
def shares(agent: SNAILAgent, seeds: torch.Tensor) -> tuple[float, float]:
    """Of the weights, and of the steps."""
    played = agent.play(seeds)
    with trace(agent, agent.alignment) as seen:
        agent(played.inputs)
    weights, steps = seen[agent.alignment], played.states.shape[1]  # (B, T, T)
    before = played.states.roll(1, 1)[:, None]
    told = (played.states[..., None] == before).tril()
    told[..., 0] = False  # nothing was done before the first step
    past = torch.arange(1, steps + 1)
    half = slice(steps // 2, None)
    return (weights * told).sum(-1)[:, half].mean().item(), (told.sum(-1) / past)[:, half].mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    for path in parser.parse_args().runs:
        agent = regard.load(path).model
        if not isinstance(agent, SNAILAgent) or agent.config.environment != "mdps":
            raise SystemExit(f"{path} is not an agent of MDPs; train one with regard train mdp-snail")
        looked, present = shares(agent, torch.arange(30))
        print(f"{path}: {looked:.1%} of the weight, {present:.1%} of the steps")


if __name__ == "__main__":
    main()
