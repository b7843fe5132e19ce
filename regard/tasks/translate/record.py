"""Translate: any text to text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from regard.data.line_writer import line_writer
from regard.errors import BadInput
from regard.tasks.inputs import Texts
from regard.tasks.options import BEAM, SEARCH, Option, change_decoding
from regard.tasks.task import Evaluation, Metric, Options, Prepared, Task, Tick, no_tick

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.metrics.bootstrap import Comparison
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.show import Curves
    from regard.tasks.settings import Job
    from regard.tasks.translate.prepare import TestPairs
    from regard.tasks.translate.run import Answer, Translator
    from regard.tasks.translate.settings import PairSettings

OWN = (
    Option("coverage", float, "Beam: prefer answers that looked at every source token.", min=0, metavar="X"),
    Option(
        "max_length",
        int,
        "At most this many tokens, the end token included; 0: twice the source + 20.",
        min=0,
        metavar="N",
    ),
    Option(
        "replace_unknown",
        bool,
        "Copy the source word most looked at for an unknown word.",
        flags="--replace-unknown/--keep-unknown",
    ),
)
DECODING = (*SEARCH, *OWN)


class Translate(Task["PairSettings", "Translator", "TestPairs"]):
    verb = "translate"
    summary = "Translate texts (any text to text) and show where each word looked."
    help = """
        regard translate dates "3 May 1979" --show alignment.png

        regard translate runs/mine --input source.txt --output target.txt --beam 5

    A file is read a little at a time and its answers keep its order. With --n-best, answers come as
    lines `score TAB text`: the score is log p, and they are in the order of log p / length^penalty."""
    inputs = Texts()
    options = (
        *DECODING,
        Option("alignments", Path, "Write word alignments to this file, one line an answer: 0-0 1-2."),
        Option("dictionary", Path, "Source TAB target words, to look an unknown word's source word up in."),
    )
    picture = "alignment.png"
    metrics: ClassVar = {
        "exact_match": Metric("max"),
        "bleu": Metric("max"),
        "tokenised_bleu": Metric("max"),
        "chrf": Metric("max"),
        "perplexity": Metric("min", 4),
        "loss": Metric("min", 4),
    }
    validated = ("loss", "exact_match", "bleu")
    unit = "tokens"
    evaluate_options = (BEAM,)
    plotted = "BLEU by source length"
    columns = (("source", "target"),)
    sections = ("tokens", "decode")
    trains_with = frozenset({"label_smoothing", "r_drop"})

    @property
    def Settings(self) -> type[PairSettings]:
        from regard.tasks.translate.settings import PairSettings

        return PairSettings

    def survey(self, job: Job[PairSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.translate.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[PairSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Translator, TestPairs]:
        from regard.tasks.translate.prepare import prepare

        return prepare(job, model, artifacts, out)

    def artifacts(self, folder: Folder) -> Artifacts:
        from regard.data.artifacts import Artifacts

        return Artifacts(folder.tokenizer(), folder.source_tokenizer())

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Translator:
        from regard.tasks.translate.run import Translator

        decoding, source = folder.decoding(), artifacts.source_tokenizer
        return Translator(model, artifacts.text, decoding, source_tokenizer=source)

    @contextmanager
    def test_data(self, run: Translator, settings: PairSettings) -> Iterator[TestPairs]:
        from regard.tasks.translate.prepare import test_pairs

        yield test_pairs(settings, run)

    def evaluate(
        self,
        run: Translator,
        data: TestPairs,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.translate.evaluate import evaluate

        return evaluate(run, data, only, change_decoding(run.decode, options or {}), tick)

    def compare(self, first: Evaluation, second: Evaluation) -> list[Comparison]:
        from regard.tasks.translate.evaluate import compare

        return compare(first, second)

    def plot(self, evaluations: Mapping[str, Evaluation]) -> Curves:
        from regard.tasks.translate.evaluate import plot

        return plot(evaluations)

    def ticks(self, data: TestPairs) -> int:
        return len(data.examples)

    def check(self, run: Translator, *, drawing: bool = False) -> None:
        if drawing:
            run.check_looks()

    def check_options(self, output: Path | None, options: Options, given: Sequence[str]) -> None:
        alignments = options.get("alignments")
        if output and alignments and output.resolve() == alignments.resolve():
            raise BadInput(f"--output and --alignments both name {output}; let them name two files")
        if options.get("dictionary") and options.get("replace_unknown") is False:
            raise BadInput("--dictionary replaces unknown words and --keep-unknown keeps them; give one of them")

    def check_input(self, run: Translator, one: str) -> None:
        run.read(one)

    def ask(
        self,
        run: Translator,
        inputs: Iterable[str],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Answer]:
        from regard.data.pairs import read_pairs
        from regard.metrics.alignment import pharaoh

        alignments, dictionary = options.get("alignments"), options.get("dictionary")
        if alignments:
            run.check_looks()
        asked = {option.name: options.get(option.name) for option in DECODING}
        words = None if dictionary is None else dict(read_pairs(dictionary))
        with line_writer(alignments, "--alignments") if alignments else nullcontext() as write:
            for answer in run.answers(inputs, change_decoding(run.decode, asked), dictionary=words, tick=tick):
                if write:
                    write(pharaoh(answer.alignment))
                yield answer
