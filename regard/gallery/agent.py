r"""An agent that looks back at what it did

Five slot machines, ten pulls. Each pays with a probability that the player is not told. A good player tries
several, and comes back to what has paid. SNAIL plays with weights that stay as they are: all it knows of these
machines is in the steps it can look back at.

$$a_t = softmax_{i < t}(q_t \cdot k_i / \sqrt{d}), \quad read_t = \sum_{i<t} a_{ti} v_i$$

The agent is trained now, by rewards alone, on machines that are drawn anew each time.

Try: Move `environment`. Find a game in which the first pull pays: does it stay?

In the package: The system `snail_agent`; `regard train bandit-snail`, `regard play`; `results/snail.md` has
longer games, and MDPs."""

from __future__ import annotations

from functools import cache
from tempfile import TemporaryDirectory

import regard
from regard.show import Map, Table

SLIDERS = {"environment": (0, 50)}
STEPS = 50
GAMES = 200


@cache
def player() -> regard.Agent:
    """Trained for a minute, a fraction of what the recipe asks for."""
    changes = {"train.steps": STEPS, "train.eval_every": STEPS, "train.warmup_steps": 5, "train.capture": False}
    changes |= {"data.batch_size": 256, "data.valid_count": 200}
    with TemporaryDirectory() as folder:
        return regard.train("bandit-snail", out=f"{folder}/run", set=changes)


def one_game(environment: int = 7) -> Table:
    """Ten pulls of one game: which machine, and whether it paid. Look at what it does after a pull that paid,
    and after one that did not."""
    trial = player().play(environment)
    pulls = zip(trial.actions, trial.rewards, strict=True)
    return Table(
        [{"pull": at, "machine": arm, "paid": "yes" if paid else ""} for at, (arm, paid) in enumerate(pulls, 1)]
    )


def which_steps_it_looked_at(environment: int = 7) -> Map:
    """A row for each pull, and the earlier steps it looked at when it chose. A step is written as its machine
    and, with +, that it paid. At the beginning there is little but the start to look at. Look at the row
    where it takes another machine for the first time: it looks at the pulls before, marked -, that did not
    pay."""
    return player().play(environment).attention()


def over_many_games() -> Table:
    """What it earns in many new games of ten pulls, beside pulling by chance and beside knowing the best
    machine all along."""
    trials = [player().play(number) for number in range(1000, 1000 + GAMES)]
    earned, best = (sum(getattr(trial, name) for trial in trials) / len(trials) for name in ("reward", "best"))
    chance = sum(10 * float(trial.means.mean()) for trial in trials) / len(trials)
    players = {"by chance": chance, "this agent": earned, "one who knows": best}
    return Table([{"player": player, "earned": each} for player, each in players.items()], digits=2)
