"""Play: act in an environment, and get better at it on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import BadInput
from regard.tasks.core.card import Card
from regard.tasks.core.input_files import InputColumns
from regard.tasks.core.inputs import ANY_COLUMNS, InputKind, Inputs, listed
from regard.tasks.core.options import MOST_TESTED, Option
from regard.tasks.core.results import Metric
from regard.tasks.shared.received import Received


class EnvironmentNumbers(InputKind):
    """Environments are generated, each from its number."""

    what = "environments"
    metavar = "NUMBER"
    help = "Numbers of environments, from 0 on; each is a function of its number. Without any, 0."
    from_file = "A file with one number a line, or a column of them in TSV or CSV (environment or number)."
    usual = (("environment",), ("number",))
    fields = ("column",)
    example = "0"
    tried = (0,)

    received = Received({"type": "integer", "minimum": 0}, lambda sent, pixels: sent)

    def unasked(self) -> list[Any]:
        return [0]

    def check(self, arguments: Sequence[str], source: Path | None) -> None:
        if arguments and source:
            raise BadInput("give numbers or --input, not both")

    def find(self, arguments: Sequence[str], source: Path | None, columns: InputColumns = ANY_COLUMNS) -> Inputs:
        items = (
            [("", name) for name in arguments or ["0"]]
            if source is None
            else list(listed(source, "number of one environment", columns))
        )
        return Inputs(lambda: items, len(items), again=True)


play_card = Card[Any](
    verb="play",
    summary="Act in environments that are new to the agent, and show which earlier steps it looked at.",
    help="""
        regard play runs/bandit-snail --show -

        regard play runs/bandit-snail 0 1 2 --json

        regard play runs/bandit-snail 7 --show looks.png

    A line for each: number TAB total reward TAB what one who knows the environment can expect TAB the steps. Those
    of a bandit are the arms that were pulled, with + where they paid; those of an MDP are the rewards of its
    episodes. The test environments of `regard evaluate` are 0, 1, 2 and so on.""",
    desk_name="regard.tasks.play.desk:PlayDesk",
    settings_name="regard.tasks.play.settings:PlaySettings",
    inputs=EnvironmentNumbers(),
    options=(Option("greedy", bool, "Take the likeliest action instead of drawing one.", False),),
    in_words=False,
    metrics={"reward": Metric("max"), "regret": Metric("min"), "share": Metric("max", 3)},
    validated=("reward", "regret"),
    best_by=("reward",),
    unit="steps",
    evaluate_options=(
        Option("test_count", int, "Play: in how many environments.", min=2, max=MOST_TESTED, metavar="N"),
    ),
    trains_with=frozenset({"capture", "ppo_passes", "ppo_parts", "ppo_clip"}),
)
