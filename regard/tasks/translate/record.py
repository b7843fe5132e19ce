"""Translate: any text to text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.base.line_writer import line_writer
from regard.errors import BadInput
from regard.tasks.core.inputs import Texts
from regard.tasks.core.options import BEAM, TRANSLATE, Option, change_decoding
from regard.tasks.core.results import Answer, Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Task, write_answers
from regard.tasks.core.ticks import Tick, no_tick

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.decode.settings import Decoding
    from regard.metrics.bootstrap import Comparison
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.show import Curves
    from regard.tasks.core.settings import Job
    from regard.tasks.shared.stepping import Beginning
    from regard.tasks.shared.writing import Writing
    from regard.tasks.translate.prepare import TestPairs
    from regard.tasks.translate.run import Translator
    from regard.tasks.translate.settings import PairSettings
    from regard.tasks.translate.source import Source
    from regard.tasks.translate.translation import Translation


class Translate(Task["PairSettings", "Translator", "TestPairs"]):
    verb = "translate"
    summary = "Translate texts (any text to text) and show where each word looked."
    help = """
        regard translate dates "3 May 1979" --show alignment.png

        regard translate runs/mine --input source.txt --output target.txt --beam 5

    A file is read a little at a time and its answers keep its order; a line that is too long is answered by an
    empty one and named at the end (see --strict). With --n-best, answers come as
    lines `score TAB text`: the score is log p, and they are in the order of log p / length^penalty."""
    writes = True
    shows_gates = True
    inputs = Texts()
    options = (
        *TRANSLATE,
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
    trains_with = frozenset({"label_smoothing", "r_drop", "reinforce_reward", "reinforce_baseline"})

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

    def has_columns(self, settings: PairSettings) -> bool:
        """Aligned files have none."""
        from regard.base.files import find_files

        return not settings.made and all(len(find_files(name)) == 1 for name in self.test_files(settings))

    def ticks(self, data: TestPairs) -> int:
        return len(data.examples)

    def check(self, run: Translator, *, drawing: bool = False) -> None:
        from regard.attention.trace import sites_of

        if drawing and not sites_of(run.model):  # neither attention nor gates
            run.check_looks()

    def check_options(
        self, output: Path | None, options: Options, given: Sequence[str], as_json: bool, source: Path | None = None
    ) -> None:
        alignments = options.get("alignments")
        if output and alignments and output.resolve() == alignments.resolve():
            raise BadInput(f"--output and --alignments both name {output}; let them name two files")
        if options.get("dictionary") and options.get("replace_unknown") is False:
            raise BadInput("--dictionary replaces unknown words and --keep-unknown keeps them; give one of them")

    def decoding(self, run: Translator, options: Options) -> Decoding:
        return run.decoding({option.name: options.get(option.name) for option in TRANSLATE})

    def reader(self, run: Translator, options: Options) -> Callable[[str], Source]:
        return run.read

    def unanswered(self, run: Translator, options: Options, asked: str | None) -> str:
        return "\n" * (self.decoding(run, options).n_best - 1)

    @contextmanager
    def writer(
        self, run: Translator, output: Path | None, options: Options, as_json: bool
    ) -> Iterator[Callable[[Answer], None]]:
        """Answers, and their alignments to a file of their own."""
        from regard.metrics.alignment import pharaoh

        alignments = options.get("alignments")
        if not alignments:
            with write_answers(output, as_json) as write:
                yield write
            return
        run.check_looks()
        with line_writer(alignments, "--alignments") as align, write_answers(output, as_json) as write:

            def both(answer: Answer) -> None:
                write(answer)
                align(pharaoh(getattr(answer, "alignment", frozenset())))

            yield both

    def writing(self, run: Translator, one: Any, options: Options) -> Writing | None:
        return run.writing(one, self.decoding(run, options))

    def beginning(self, run: Translator, one: Any, prefix: list[int], options: Options) -> Beginning:
        return run.beginning(one, prefix, self.decoding(run, options))

    def ask(
        self,
        run: Translator,
        inputs: Iterable[Source],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Translation]:
        from regard.data.text.pairs import read_pairs

        dictionary = options.get("dictionary")
        words = None if dictionary is None else dict(read_pairs(dictionary))
        return run.answers(inputs, self.decoding(run, options), dictionary=words, tick=tick)
