"""Classify: the class of a text, or of a pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import BadInput
from regard.tasks.core.inputs import Texts
from regard.tasks.core.options import Option
from regard.tasks.core.results import CLASS_METRICS, Evaluation
from regard.tasks.core.task import Options, Prepared, Run
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.shared.reader_task import ReaderTask

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.data.text.labelled_texts import LabelledData
    from regard.models.protocols import Model, ModelConfig
    from regard.runs.folder import Folder
    from regard.tasks.classify.settings import LabelledSettings
    from regard.tasks.core.settings import Job
    from regard.tasks.shared.reader_answers import ClassifiedText
    from regard.tasks.shared.text_reader import Encoded, TextReader


class Classify(ReaderTask["LabelledSettings", "TextReader", "LabelledData"]):
    verb = "classify"
    summary = "Tell which class texts, or pairs of texts, belong to, and what the model looked at."
    help = """
        regard classify runs/reviews "A film to forget."

        regard classify runs/reviews --input texts.txt --output labels.tsv

    A line for each: label TAB probability; JSON has those of all classes. In lines, a tab separates the two texts
    of a pair. --show draws what the model looked at: [CLS] of a BERT, the words and sentences of a document,
    shaded by their weights, or which words before it each word of an LSTMN looked at."""
    inputs = Texts()
    options = (Option("second", str, "The second text of a pair.", metavar="TEXT"),)
    metrics: ClassVar = CLASS_METRICS
    validated = ("loss", "accuracy")
    unit = "texts"
    columns = (("text", "label"), ("text", "second", "label"))
    sections = ("tokens",)
    trains_with = frozenset({"label_smoothing", "capture"})

    @property
    def Settings(self) -> type[LabelledSettings]:
        from regard.tasks.classify.settings import LabelledSettings

        return LabelledSettings

    def trained_with(self, config: ModelConfig) -> frozenset[str]:
        """A step that packs rows cannot be captured."""
        return self.trains_with if getattr(config, "can_capture", False) else self.trains_with - {"capture"}

    def survey(self, job: Job[LabelledSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.classify.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[LabelledSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[TextReader, LabelledData]:
        from regard.tasks.classify.prepare import prepare

        return prepare(job, model, artifacts, out)

    @contextmanager
    def test_data(self, run: TextReader, settings: LabelledSettings) -> Iterator[LabelledData]:
        from regard.tasks.classify.prepare import build_data

        run.check_classify()
        yield build_data(settings, settings.rows("test", run.model.config.labels), run, seed=0)

    def evaluate(
        self,
        run: TextReader,
        data: LabelledData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.classify.evaluate import evaluate

        return evaluate(run, data, only, tick)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> TextReader:
        """The recipe says whether pairs were learned, unless it leaves the columns to be found."""
        reader = super().open(folder, model, artifacts)
        data = (folder.recipe or {}).get("data", {})
        if isinstance(data, dict) and any(data.get(name) for name in ("text", "second", "label")):
            reader.pairs = bool(data.get("second"))
        return reader

    def takes(self, run: Run) -> bool:
        from regard.tasks.shared.text_reader import TextReader

        return isinstance(run, TextReader)

    def check_options(
        self, output: Path | None, options: Options, given: Sequence[str], as_json: bool, source: Path | None = None
    ) -> None:
        if options.get("second") is not None and len(given) != 1:
            raise BadInput("--second is the second text of one pair; give one text beside it")

    def check(self, run: TextReader, *, drawing: bool = False) -> None:
        run.check_classify()
        if drawing:
            run.check_looks()

    def reader(self, run: TextReader, options: Options) -> Callable[[str], Encoded[Any]]:
        second = options.get("second")
        return lambda line: run.read_labelled(_parts(line, second))

    def ask(
        self,
        run: TextReader,
        inputs: Iterable[Encoded[Any]],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[ClassifiedText]:
        with run.telling_truncated() as truncated:
            for one in run.classes(inputs, cut=truncated):
                yield one
                tick()


def _parts(line: str, second: str | None) -> str | tuple[str, str]:
    if second is not None:
        return line, second
    first, tab, rest = line.partition("\t")
    return (first, rest) if tab else line
