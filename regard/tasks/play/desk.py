"""What an agent does: trained, opened, evaluated, asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.data.artifacts import Artifacts
from regard.data.made.environments import TrainingSeeds
from regard.errors import RecipeError
from regard.models.protocols import Model
from regard.runs.folder import Folder
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Desk, Prepared, Stream, ticked
from regard.tasks.core.results import Tick, no_tick
from regard.tasks.core.settings import Job
from regard.tasks.play.evaluate import compare, evaluate
from regard.tasks.play.run import Agent, Trial
from regard.tasks.play.settings import PlaySettings


class PlayDesk(Desk[PlaySettings, Agent, range]):
    kind = Agent
    evaluate = staticmethod(evaluate)
    compare = staticmethod(compare)

    # -- training

    def survey(self, job: Job[PlaySettings], start: Artifacts | None) -> Artifacts:
        return Artifacts()

    def prepare(
        self, job: Job[PlaySettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Agent, range]:
        if job.train.ppo_parts > job.data.batch_size:
            raise RecipeError(
                f"train.ppo_parts must be at most data.batch_size, as each part has a trial or more; got "
                f"{job.train.ppo_parts} and {job.data.batch_size}"
            )
        data, run = TrainingSeeds(job.data.batch_size, job.train.seed), Agent(model)
        valid = range(-1, -1 - job.data.valid_count, -1)
        return Prepared(data, run, valid, f"{run.kind}, {job.data.batch_size:,} new ones in each step")

    # -- a run

    def artifacts(self, folder: Folder) -> Artifacts:
        return Artifacts()

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Agent:
        return Agent(model)

    # -- evaluation

    @contextmanager
    def test_data(self, run: Agent, settings: PlaySettings) -> Iterator[range]:
        yield range(settings.test_count)

    def held_out(self, run: Agent, data: range, count: int) -> Iterator[Trial]:
        return run.answers(data[:count])

    def ticks(self, data: range) -> int:
        return len(data)

    # -- asking

    def reader(self, run: Agent, options: Options) -> Callable[[str | int], int]:
        return run.number

    def unanswered(self, run: Agent, options: Options, text: str | None) -> str:
        return f"{text or ''}\t\t\t"

    def ask(
        self,
        run: Agent,
        inputs: Iterable[int],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Trial]:
        return ticked(run.answers(inputs, greedy=bool(options.get("greedy"))), tick)
