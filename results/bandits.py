"""SNAIL as an agent in bandits and MDPs beside other players and the paper's tables, of finished comparisons.

    regard compare bandit-snail,model.actions=5 bandit-snail,model.actions=10 bandit-snail,model.actions=50 \\
        --vary model.pulls=10,100,500 --seeds 3 --out runs/bandits
    regard compare mdp-snail --vary model.episodes=10,25,50,75,100 --seeds 3 --out runs/mdps
    python results/bandits.py runs/bandits runs/mdps

Of every training below the folders given it reads recipe.toml and result.json; trainings that have not finished are
left out. Prints a Markdown table for bandits and one for MDPs. In both, SNAIL is the mean total reward of the
seeds, with the worst and the best of them in brackets; the other players met the same environments. The paper gives
MDPs as shares of what value iteration earns, and random has 0.482 there, which is more than in ours. So both are
compared as multiples of what random earns."""

from __future__ import annotations

import argparse
import json
import statistics
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# As remembered of Mishra et al. 2018, tables 3 and 4: (pulls, arms) -> SNAIL, Gittins, random
BANDITS = {
    (10, 5): (6.6, 6.6, 5.0),
    (10, 10): (6.7, 6.6, 5.0),
    (10, 50): (6.7, 6.5, 5.1),
    (100, 5): (79.1, 78.3, 49.9),
    (100, 10): (83.5, 82.8, 49.9),
    (100, 50): (85.1, 85.2, 49.8),
    (500, 5): (408.1, 405.8, 249.8),
    (500, 10): (432.4, 437.8, 249.0),
    (500, 50): (442.6, 463.7, 249.6),
}
MDPS = {
    10: (0.766, 0.482),
    25: (0.862, 0.482),
    50: (0.908, 0.481),
    75: (0.930, 0.482),
    100: (0.942, 0.481),
}  # SNAIL, random
Trainings = dict[tuple[str, int, int], list[dict[str, Any]]]  # results by environment, pulls or episodes, actions


def collect(folders: Iterable[Path]) -> Trainings:
    trainings: Trainings = {}
    for result in sorted(path for folder in folders for path in folder.rglob("result.json")):
        model = tomllib.loads((result.parent / "recipe.toml").read_text(encoding="utf-8"))["model"]
        length = model["pulls"] if model["environment"] == "bandits" else model["episodes"]
        key = model["environment"], length, model["actions"]
        trainings.setdefault(key, []).append(json.loads(result.read_text(encoding="utf-8")))
    if not trainings:
        raise SystemExit("no result.json in these folders; give the --out of regard compare")
    return dict(sorted(trainings.items()))


def mean(results: list[dict[str, Any]], player: str = "", key: str = "reward") -> float:
    """Of all seeds; `player`: one of those beside the agent."""
    return statistics.mean((result["players"][player] if player else result)[key] for result in results)


def spread(results: list[dict[str, Any]]) -> str:
    """The mean reward of the seeds, the worst and the best."""
    rewards = [result["reward"] for result in results]
    return f"{mean(results):.1f} ({min(rewards):.1f} to {max(rewards):.1f})"


def print_bandits(trainings: Trainings) -> None:
    players = ("gittins", "thompson", "ucb1", "random")
    print(f"| pulls | arms | seeds | SNAIL | {' | '.join(players)} | paper: SNAIL | Gittins | random |")
    print(f"|{'---|' * (len(players) + 7)}")
    for (kind, pulls, arms), results in trainings.items():
        if kind == "bandits":
            others = [f"{mean(results, player):.1f}" for player in players]
            paper = [str(number) for number in BANDITS.get((pulls, arms), ("", "", ""))]
            print(f"| {' | '.join([str(pulls), str(arms), str(len(results)), spread(results), *others, *paper])} |")


def print_mdps(trainings: Trainings) -> None:
    print("| episodes | seeds | SNAIL | psrl | random | SNAIL, share of the best | SNAIL / random | paper's |")
    print(f"|{'---|' * 8}")
    for (kind, episodes, _), results in trainings.items():
        if kind == "mdps":
            others = [f"{mean(results, player):.1f}" for player in ("psrl", "random")]
            snail, random = MDPS.get(episodes, (0.0, 1.0))
            shares = [f"{mean(results, key='share'):.3f}", f"{mean(results) / mean(results, 'random'):.2f}"]
            paper = f"{snail / random:.2f}" if snail else ""
            cells = [str(episodes), str(len(results)), spread(results), *others, *shares, paper]
            print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    trainings = collect(parser.parse_args().folders)
    kinds = {kind for kind, *_ in trainings}
    if "bandits" in kinds:
        print_bandits(trainings)
    if "mdps" in kinds:
        print()
        print_mdps(trainings)


if __name__ == "__main__":
    main()
