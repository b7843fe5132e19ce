"""Recall: read a sequence of bits, remember it, and give back what is wanted of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import BadInput
from regard.tasks.core.inputs import Asked, Texts
from regard.tasks.core.options import Option
from regard.tasks.core.results import Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Task
from regard.tasks.core.ticks import Tick, no_tick

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.data.made.sequences import BitBatch
    from regard.metrics.bootstrap import Comparison
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.show import Curves
    from regard.tasks.core.settings import Job
    from regard.tasks.recall.evaluate import HeldSequences
    from regard.tasks.recall.run import Recalled, Recaller
    from regard.tasks.recall.settings import RecallSettings

DRAWING = ("length", "repeats", "seed")


class BitTexts(Texts):
    """Sequences of one's own, or one that is drawn."""

    what = "sequences"
    metavar = "SEQUENCE"
    help = (
        "Sequences, as in '01010101 11001100' (copy-bits), '01010101 11001100 x3' (repeat-copy), '000000 000001 "
        "000011 / 111000 110000 100000 ? 000000 000001 000011' (associative-recall), '0110100110010110' (n-gram), "
        "'01010101:0.5 11001100:-0.3' (priority-sort). Without any, one is drawn."
    )
    from_file = "A file with one sequence a line; also .gz, .xz, .zst."
    example = "--length 10"
    tried = ()
    may_be_drawn = True

    def unasked(self) -> list[Any]:
        from regard.tasks.recall.run import DRAWN

        return [DRAWN]

    def check(self, given: Sequence[str], source: Path | None) -> None:
        if given and source:
            raise BadInput("give sequences or --input, not both")

    def find(self, given: Sequence[str], source: Path | None) -> Asked:
        from regard.tasks.recall.run import DRAWN

        return super().find(given if given or source else [DRAWN], source)


class Recall(Task["RecallSettings", "Recaller", "HeldSequences"]):
    verb = "recall"
    summary = "Remember sequences of bits, and show how the memory is written and read."
    help = """
        regard recall runs/copy-ntm --length 20 --show -

        regard recall runs/copy-ntm "01010101 11001100 11110000" --json

        regard recall runs/copy-ntm --length 40 --seed 3 --show tape.png

    A line for each: sequence TAB output TAB target TAB wrong bits. The picture has input, output and target, the
    weights of the read and write heads and the memory, over the steps. --sites memory.attend draws the heads
    alone."""
    inputs = BitTexts()
    options = (
        Option("length", int, "Draw a sequence of this length.", min=1, metavar="N", limit="tokens"),
        Option(
            "repeats",
            int,
            "Draw one that asks for so many copies (repeat-copy).",
            min=1,
            metavar="N",
            limit="tokens",
        ),
        Option("seed", int, "The same seed draws the same sequence; 0 unless given.", min=0, metavar="N"),
    )
    in_words = False
    picture = "tape.png"
    metrics: ClassVar = {
        "bit_errors": Metric("min"),  # of a sequence
        "wrong_bits": Metric("min"),  # in percent
        "cost_in_bits": Metric("min"),  # -log2 p of a sequence
        "loss": Metric("min", 4),
    }
    validated = ("bit_errors", "loss")
    unit = "bits"
    evaluate_options = (
        Option(
            "test_count",
            int,
            "Play, recall: in how many environments, or sequences of each length.",
            min=2,
            metavar="N",
        ),
        Option(
            "test_lengths",
            str,
            "Recall: the lengths of sequences, as in 20,40,80.",
            metavar="N,N",
            flags="--lengths",
        ),
        Option(
            "test_repeats",
            int,
            "Recall: how many copies repeat-copy asks for.",
            min=1,
            metavar="N",
            flags="--repeats",
        ),
    )
    plotted = "wrong bits by length"
    trains_with = frozenset({"capture"})

    @property
    def Settings(self) -> type[RecallSettings]:
        from regard.tasks.recall.settings import RecallSettings

        return RecallSettings

    def survey(self, job: Job[RecallSettings], start: Artifacts | None) -> Artifacts:
        from regard.data.artifacts import Artifacts

        return Artifacts(sequences=job.data.kind)

    def prepare(
        self, job: Job[RecallSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Recaller, HeldSequences]:
        from regard.data.made.sequences import BitData
        from regard.tasks.recall.evaluate import VALID, HeldSequences
        from regard.tasks.recall.run import Recaller

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
        held = HeldSequences(kind, sizes, settings.valid_count // len(sizes), VALID)
        amount = f"lengths {lengths[0]} to {lengths[1]}, {settings.batch_size:,} new sequences in each step"
        return Prepared(data, run, held, amount)

    def artifacts(self, folder: Folder) -> Artifacts:
        """The recipe says what kind of sequences the run was trained with."""
        from regard.data.artifacts import Artifacts

        if folder.recipe is None:
            return Artifacts()
        return Artifacts(sequences=self.test_settings(folder, None).kind)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Recaller:
        from regard.tasks.recall.run import Recaller

        return Recaller(model, artifacts.sequences)

    @contextmanager
    def test_data(self, run: Recaller, settings: RecallSettings) -> Iterator[HeldSequences]:
        from regard.tasks.recall.evaluate import TEST, HeldSequences

        yield HeldSequences(settings.kind, tuple(settings.test_sizes()), settings.test_count, TEST)

    def evaluate(
        self,
        run: Recaller,
        data: HeldSequences,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.recall.evaluate import evaluate

        return evaluate(run, data, only, tick)

    def ticks(self, data: HeldSequences) -> int:
        return len(data)

    def compare(self, first: Evaluation, second: Evaluation) -> list[Comparison]:
        from regard.tasks.recall.evaluate import compare

        return compare(first, second)

    def plot(self, evaluations: Mapping[str, Evaluation]) -> Curves:
        from regard.tasks.recall.evaluate import curves

        return curves(evaluations)

    def check_options(
        self, output: Path | None, options: Options, given: Sequence[str], as_json: bool, source: Path | None = None
    ) -> None:
        if (given or source) and (named := [name for name in DRAWING if options.get(name) is not None]):
            raise BadInput(f"--{named[0]} is for a sequence that is drawn; give it or sequences, not both")

    def reader(self, run: Recaller, options: Options) -> Callable[[str], BitBatch]:
        from regard.tasks.recall.run import DRAWN

        drawn = run.drawn(**{name: options[name] for name in DRAWING if options.get(name) is not None})
        return lambda text: drawn if text == DRAWN else run.read(text)

    def unanswered(self, run: Recaller, options: Options, asked: str | None) -> str:
        return f"{asked or ''}\t\t\t"

    def ask(
        self,
        run: Recaller,
        inputs: Iterable[BitBatch],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Recalled]:
        for one in run.answers(inputs):
            yield one
            tick()
