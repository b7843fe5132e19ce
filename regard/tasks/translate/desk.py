"""What a translator does: trained, opened, evaluated, asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

from regard.attention.trace import sites_of
from regard.base.files import find_aligned
from regard.base.line_writer import line_writer
from regard.data.artifacts import Artifacts
from regard.data.text.pairs import read_pairs
from regard.metrics.alignment import Links, pharaoh
from regard.models.protocols import Model
from regard.runs.folder import Folder
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Amount, Stream, as_text
from regard.tasks.core.input_files import InputColumns
from regard.tasks.core.options import TRANSLATE
from regard.tasks.core.results import Answer, Tick, no_tick
from regard.tasks.core.settings import Job
from regard.tasks.shared.stepping import Beginning
from regard.tasks.shared.writing import Writing
from regard.tasks.shared.writing_desk import WritingDesk
from regard.tasks.translate.evaluate import compare, evaluate, plot
from regard.tasks.translate.prepare import TestPairs, prepare, survey, test_pairs
from regard.tasks.translate.run import Translator
from regard.tasks.translate.settings import PairSettings
from regard.tasks.translate.source import Source
from regard.tasks.translate.translation import Translation

MOST_COUNTED = 1_000_000  # pairs


class TranslateDesk(WritingDesk[PairSettings, Translator, TestPairs]):
    kind = Translator
    decodes_with = TRANSLATE
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)
    evaluate = staticmethod(evaluate)
    compare = staticmethod(compare)
    plot = staticmethod(plot)

    def amount(self, job: Job[PairSettings]) -> Amount:
        """Counted as far as it matters: a file may be larger than memory."""
        return Amount(sum(1 for _ in islice(job.data.pairs("train"), MOST_COUNTED)), "training pairs")

    # -- a run

    def artifacts(self, folder: Folder) -> Artifacts:
        return Artifacts(folder.tokenizer(), folder.source_tokenizer())

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Translator:
        decoding, source = folder.decoding(), artifacts.source_tokenizer
        return Translator(model, artifacts.text, decoding, source_tokenizer=source)

    # -- evaluation

    @contextmanager
    def test_data(self, run: Translator, settings: PairSettings) -> Iterator[TestPairs]:
        yield test_pairs(settings, run)

    def has_columns(self, settings: PairSettings) -> bool:
        """Aligned files have none."""
        groups = (group for name in settings.test_files for group in find_aligned(name))
        return not settings.made and all(len(group) == 1 for group in groups)

    def held_out(self, run: Translator, data: TestPairs, count: int) -> Iterator[Translation]:
        towards = run.towards(next(iter(run.tags), None))
        return towards.answers(run.read(source) for source, _ in data.examples[:count])

    def ticks(self, data: TestPairs) -> int:
        return len(data.examples)

    # -- asking

    def check(self, run: Translator, *, drawing: bool = False) -> None:
        if drawing and not sites_of(run.model):  # neither attention nor gates
            run.check_looks()

    def input_columns(self, run: Translator, named: str = "") -> InputColumns:
        """The source is the first column of a TSV."""
        return replace(super().input_columns(run, named), leading=1)

    def reader(self, run: Translator, options: Options) -> Callable[[str], Source]:
        return run.read

    def settled(self, run: Translator, options: Options) -> Options:
        """With the dictionary that --dictionary names."""
        if options.get("alignments"):
            run.check_looks()
        named = options.get("dictionary")
        words = dict(read_pairs(named)) if isinstance(named, str | Path) else named
        return {**super().settled(run, options), "dictionary": words, "towards": run.towards(options.get("to"))}

    def writing(self, run: Translator, item: Source, options: Options) -> Writing | None:
        towards: Translator = options["towards"]
        return towards.writing(item, options["decoding"])

    def beginning(self, run: Translator, item: Source, prefix: list[int], options: Options) -> Beginning:
        towards: Translator = options["towards"]
        return towards.beginning(item, prefix, options["decoding"])

    def written(
        self, run: Translator, answer: Answer, output: Path | None, options: Options, as_json: bool
    ) -> tuple[str, str]:
        """The answer, and where it is wanted its alignment."""
        links: Links = getattr(answer, "alignment", frozenset()) if options.get("alignments") else frozenset()
        return as_text(answer, as_json), pharaoh(links)

    @contextmanager
    def writer(
        self, run: Translator, output: Path | None, options: Options
    ) -> Iterator[Callable[[tuple[str, str]], None]]:
        """Answers, and their alignments to a file of their own."""
        alignments = options.get("alignments")
        aside = line_writer(alignments, "--alignments") if alignments else nullcontext(lambda line: None)
        with aside as align, line_writer(output) as write:

            def both(texts: tuple[str, str]) -> None:
                write(texts[0])
                align(texts[1])

            yield both

    def ask(
        self,
        run: Translator,
        inputs: Iterable[Source],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Translation]:
        towards: Translator = options["towards"]
        return towards.answers(inputs, options["decoding"], dictionary=options.get("dictionary"), tick=tick)
