"""What a model with a memory does: trained, opened, evaluated, asked for sequences of bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from regard.data.artifacts import Artifacts
from regard.data.made.sequences import BitBatch, BitData
from regard.models.protocols import Model
from regard.runs.folder import Folder
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Desk, Prepared, Stream, ticked
from regard.tasks.core.results import Tick, no_tick
from regard.tasks.core.settings import Job
from regard.tasks.recall.card import DRAWING, DRAWN
from regard.tasks.recall.evaluate import TEST, VALID, HeldSequences, compare, evaluate, plot
from regard.tasks.recall.run import Recalled, Recaller
from regard.tasks.recall.settings import RecallSettings


class RecallDesk(Desk[RecallSettings, Recaller, HeldSequences]):
    kind = Recaller
    evaluate = staticmethod(evaluate)
    compare = staticmethod(compare)
    plot = staticmethod(plot)

    # -- training

    def survey(self, job: Job[RecallSettings], start: Artifacts | None) -> Artifacts:
        return Artifacts(sequences=job.data.kind)

    def prepare(
        self, job: Job[RecallSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Recaller, HeldSequences]:
        settings, run = job.data, Recaller(model, artifacts.sequences)
        kind, (lengths, repeats) = settings.kind, settings.ranges()
        data = BitData(
            kind,
            settings.batch_size,
            job.train.seed,
            lengths=lengths,
            repeats=repeats,
            curriculum_steps=settings.curriculum_steps,
        )
        sizes = tuple(settings.valid_sizes())
        valid = HeldSequences(kind, sizes, settings.valid_count // len(sizes), VALID)
        amount = f"lengths {lengths[0]} to {lengths[1]}, {settings.batch_size:,} new sequences in each step"
        return Prepared(data, run, valid, amount)

    # -- a run

    def artifacts(self, folder: Folder) -> Artifacts:
        """The recipe says what kind of sequences the run was trained with."""
        if folder.recipe is None:
            return Artifacts()
        return Artifacts(sequences=self.test_settings(folder, None).kind)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Recaller:
        return Recaller(model, artifacts.sequences)

    # -- evaluation

    @contextmanager
    def test_data(self, run: Recaller, settings: RecallSettings) -> Iterator[HeldSequences]:
        yield HeldSequences(settings.kind, tuple(settings.test_sizes()), settings.test_count, TEST)

    def held_out(self, run: Recaller, data: HeldSequences, count: int) -> Iterator[Recalled]:
        return run.answers(
            data.kind.draw(np.random.default_rng((data.part, *size)), 1, size) for size in data.sizes[:count]
        )

    def ticks(self, data: HeldSequences) -> int:
        return len(data)

    # -- asking

    def reader(self, run: Recaller, options: Options) -> Callable[[str], BitBatch]:
        drawn = run.drawn(**{name: options[name] for name in DRAWING if options.get(name) is not None})
        return lambda text: drawn if text == DRAWN else run.read(text)

    def unanswered(self, run: Recaller, options: Options, text: str | None) -> str:
        return f"{text or ''}\t\t\t"

    def ask(
        self,
        run: Recaller,
        inputs: Iterable[BitBatch],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Recalled]:
        return ticked(run.answers(inputs), tick)
