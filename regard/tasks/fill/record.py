"""Fill: predict masked words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from regard.tasks.core.inputs import Texts
from regard.tasks.core.options import TOP
from regard.tasks.core.results import Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Run
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.shared.reader_task import ReaderTask

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.models.protocols import Model, ModelConfig
    from regard.tasks.core.settings import Job
    from regard.tasks.fill.prepare import TestText
    from regard.tasks.fill.settings import MaskedSettings
    from regard.tasks.shared.reader import Encoded, Reader
    from regard.tasks.shared.reader_answers import Filled


class TextsWithBlanks(Texts):
    example = '"... [MASK] ..."'
    tried = ("The capital of France is [MASK].",)


class Fill(ReaderTask["MaskedSettings", "Reader", "TestText"]):
    verb = "fill"
    summary = "Fill the blanks of texts: the likeliest tokens for each [MASK], and where it looked."
    help = """
        regard fill runs/bert "The capital of France is [MASK]."

    A line for each candidate: probability TAB token TAB the text with it. Each blank is filled by itself."""
    inputs = TextsWithBlanks()
    options = (TOP,)
    metrics: ClassVar = {
        "masked_accuracy": Metric("max"),
        "loss": Metric("min", 4),
        "perplexity": Metric("min", 4),
        "next_accuracy": Metric("max"),
    }
    validated = ("loss", "masked_accuracy", "next_accuracy")
    unit = "masked tokens"
    columns = (("column",),)
    sections = ("tokens",)
    trains_with = frozenset({"label_smoothing"})

    @property
    def Settings(self) -> type[MaskedSettings]:
        from regard.tasks.fill.settings import MaskedSettings

        return MaskedSettings

    def survey(self, job: Job[MaskedSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.fill.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[MaskedSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Reader, TestText]:
        from regard.tasks.fill.prepare import prepare

        return prepare(job, model, artifacts, out)

    @contextmanager
    def test_data(self, run: Reader, settings: MaskedSettings) -> Iterator[TestText]:
        from regard.tasks.fill.prepare import test_text

        yield test_text(settings, run)

    def has_columns(self, settings: MaskedSettings) -> bool:
        return settings.in_columns(self.test_files(settings))

    def given_by(self, config: ModelConfig) -> Mapping[str, Metric]:
        """next_accuracy is for the head that also learns which sentence follows."""
        return {
            name: metric
            for name, metric in self.metrics.items()
            if name != "next_accuracy" or getattr(config, "head", "") == "pretrain"
        }

    def evaluate(
        self,
        run: Reader,
        data: TestText,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.fill.evaluate import evaluate

        return evaluate(run, data, only, tick)

    def takes(self, run: Run) -> bool:
        from regard.tasks.shared.reader import Reader

        return isinstance(run, Reader)

    def check(self, run: Reader, *, drawing: bool = False) -> None:
        run.check_fill()

    def reader(self, run: Reader, options: Options) -> Callable[[str], Encoded[str]]:
        return run.read_blanks

    def ask(
        self,
        run: Reader,
        inputs: Iterable[Encoded[str]],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Filled]:
        for one in run.fillings(inputs, options.get("top") or TOP.default):
            yield one
            tick()
