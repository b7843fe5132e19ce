"""Play: act in an environment, and get better at it on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import BadInput, RecipeError
from regard.tasks.core.inputs import Asked, Inputs, listed
from regard.tasks.core.options import Option
from regard.tasks.core.results import Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Task
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.shared.received import Received

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.metrics.bootstrap import Comparison
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.tasks.core.settings import Job
    from regard.tasks.play.run import Agent, Trial
    from regard.tasks.play.settings import PlaySettings


class EnvironmentNumbers(Inputs):
    """Environments are generated, each from its number."""

    what = "environments"
    metavar = "NUMBER"
    help = "Numbers of environments, from 0 on; each is a function of its number. Without any, 0."
    from_file = "A file with one number a line."
    example = "0"
    tried = (0,)

    received = Received({"type": "integer", "minimum": 0}, lambda sent, pixels: sent)

    def unasked(self) -> list[Any]:
        return [0]

    def check(self, given: Sequence[str], source: Path | None) -> None:
        if given and source:
            raise BadInput("give numbers or --input, not both")

    def find(self, given: Sequence[str], source: Path | None) -> Asked:
        items = (
            [("", name) for name in given or ["0"]]
            if source is None
            else list(listed(source, "number of one environment"))
        )
        return Asked(lambda: items, len(items), again=True)


class Play(Task["PlaySettings", "Agent", "range"]):
    verb = "play"
    summary = "Act in environments that are new to the agent, and show which earlier steps it looked at."
    help = """
        regard play runs/bandit-snail --show -

        regard play runs/bandit-snail 0 1 2 --json

        regard play runs/bandit-snail 7 --show looks.png

    A line for each: number TAB total reward TAB what one who knows the environment can expect TAB the steps. Those
    of a bandit are the arms that were pulled, with + where they paid; those of an MDP are the rewards of its
    episodes. The test environments of `regard evaluate` are 0, 1, 2 and so on."""
    inputs = EnvironmentNumbers()
    options = (Option("greedy", bool, "Take the likeliest action instead of drawing one.", False),)
    in_words = False
    metrics: ClassVar = {"reward": Metric("max"), "regret": Metric("min"), "share": Metric("max", 3)}
    validated = ("reward", "regret")
    unit = "steps"
    evaluate_options = (Option("test_count", int, "Play: in how many environments.", min=2, metavar="N"),)
    trains_with = frozenset({"capture", "ppo_passes", "ppo_parts", "ppo_clip"})

    @property
    def Settings(self) -> type[PlaySettings]:
        from regard.tasks.play.settings import PlaySettings

        return PlaySettings

    def survey(self, job: Job[PlaySettings], start: Artifacts | None) -> Artifacts:
        from regard.data.artifacts import Artifacts

        return Artifacts()

    def prepare(
        self, job: Job[PlaySettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Agent, range]:
        from regard.data.made.environments import TrainingSeeds
        from regard.tasks.play.run import Agent

        if job.train.ppo_parts > job.data.batch_size:
            raise RecipeError(
                f"train.ppo_parts must be at most data.batch_size, as each part has a trial or more; got "
                f"{job.train.ppo_parts} and {job.data.batch_size}"
            )
        data, run = TrainingSeeds(job.data.batch_size, job.train.seed), Agent(model)
        held = range(-1, -1 - job.data.valid_count, -1)
        return Prepared(data, run, held, f"{run.kind}, {job.data.batch_size:,} new ones in each step")

    def artifacts(self, folder: Folder) -> Artifacts:
        from regard.data.artifacts import Artifacts

        return Artifacts()

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Agent:
        from regard.tasks.play.run import Agent

        return Agent(model)

    def reads(self, data: str, settings: PlaySettings | None) -> dict[str, object]:
        raise BadInput(f"environments are generated and not read from {data}; leave --data out")

    def test_name(self, settings: PlaySettings) -> str:
        return f"{settings.test_count:,} generated environments"

    @contextmanager
    def test_data(self, run: Agent, settings: PlaySettings) -> Iterator[range]:
        yield range(settings.test_count)

    def evaluate(
        self,
        run: Agent,
        data: range,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.play.evaluate import evaluate

        return evaluate(run, data, only, tick)

    def ticks(self, data: range) -> int:
        return len(data)

    def compare(self, first: Evaluation, second: Evaluation) -> list[Comparison]:
        from regard.tasks.play.evaluate import compare

        return compare(first, second)

    def reader(self, run: Agent, options: Options) -> Callable[[str | int], int]:
        return run.number

    def unanswered(self, run: Agent, options: Options, asked: str | None) -> str:
        return f"{asked or ''}\t\t\t"

    def ask(
        self,
        run: Agent,
        inputs: Iterable[int],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Trial]:
        for one in run.answers(inputs, greedy=bool(options.get("greedy"))):
            yield one
            tick()
