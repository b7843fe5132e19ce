"""What a classifier of texts does: trained, opened, evaluated, asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from regard.base.files import find_files
from regard.data.artifacts import Artifacts
from regard.data.text.labelled_texts import TEXTS, LabelledData
from regard.models.protocols import Classifier, LayerMixer, Model, ModelConfig, need
from regard.runs.folder import Folder
from regard.show import bars
from regard.tasks.classify.bag_of_words import bag_accuracy
from regard.tasks.classify.prepare import build_data, prepare, survey, take_vectors
from regard.tasks.classify.settings import LabelledSettings
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Prepared, Stream
from regard.tasks.core.input_files import InputColumns
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.core.settings import Job
from regard.tasks.core.simple_ways import majority
from regard.tasks.shared.measuring import can_replay, class_logits, evaluate_classes
from regard.tasks.shared.reader_answers import ClassifiedText, Texts
from regard.tasks.shared.reader_desk import ReaderDesk
from regard.tasks.shared.text_reader import Encoded, TextReader


class ClassifyDesk(ReaderDesk[LabelledSettings, TextReader, LabelledData]):
    kind = TextReader
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    def initialise(self, job: Job[LabelledSettings], model: Model, artifacts: Artifacts) -> None:
        if job.data.vectors:
            take_vectors(job.data.vectors, model, artifacts.own_tokenizer)

    def trained_with(self, config: ModelConfig) -> frozenset[str]:
        """A step that packs rows cannot be captured."""
        capture = frozenset() if getattr(config, "can_capture", False) else {"capture"}
        return self.card.trains_with - capture

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> TextReader:
        """The recipe says whether pairs were learned, unless it leaves the columns to be found."""
        reader = super().open(folder, model, artifacts)
        data = (folder.recipe or {}).get("data", {})
        if isinstance(data, dict) and any(data.get(name) for name in ("text", "second", "label")):
            reader.pairs = bool(data.get("second"))
        return reader

    # -- evaluation

    @contextmanager
    def test_data(self, run: TextReader, settings: LabelledSettings) -> Iterator[LabelledData]:
        run.check_classify()
        yield build_data(settings, settings.rows("test", run.model.config.labels), run, seed=0)

    def has_columns(self, settings: LabelledSettings) -> bool:
        """A folder has none."""
        files = [path for name in settings.test_files for path in find_files(name)]
        return bool(files) and not any(path.is_dir() for path in files)

    def evaluate(
        self,
        run: TextReader,
        data: LabelledData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How often the class is right."""
        model = need(run.model, Classifier)
        order = data.order(0)
        shaped = data.rounded if can_replay(model) else lambda batch: batch
        logits = class_logits(model, order, lambda item: shaped(data.batch(item)), tick=tick)
        truths = torch.tensor([data.labels[row] for item in order for row in item])
        labels, unit = model.config.labels, self.card.unit
        evaluation = evaluate_classes(logits, truths, labels, only, unit=unit, truncated=data.truncated)
        if only or not isinstance(model, LayerMixer):
            return evaluation
        return with_layers(evaluation, model.layer_weights)

    def held_out(self, run: TextReader, data: LabelledData, count: int) -> list[ClassifiedText]:
        texts = (run.tokenizer.decode(data.row(number)[0]) for number in range(min(count, len(data))))
        return [run.classify(text) for text in texts if text.strip()]

    def ticks(self, data: LabelledData) -> int:
        return len(data.order(0))

    def simple_ways(
        self, job: Job[LabelledSettings], prepared: Prepared[TextReader, LabelledData]
    ) -> dict[str, float]:
        if job.data.keeps_tokens:  # the texts are too many to be held
            return {}
        train, valid = job.data.rows("train"), job.data.rows("valid")
        texts = ([f"{text} {second}" for text, second, _ in rows] for rows in (train, valid))
        labels = [label for *_, label in train], [label for *_, label in valid]
        learned, tested = texts
        bag = bag_accuracy(learned, labels[0], tested, labels[1])
        return {**majority(*labels), "a bag of words (TF-IDF and logistic regression)": bag}

    # -- asking

    def check(self, run: TextReader, *, drawing: bool = False) -> None:
        run.check_classify()
        if drawing:
            run.check_looks()

    def input_columns(self, run: TextReader, named: str = "") -> InputColumns:
        """The columns that have usual names in labelled data. Where it is unknown whether pairs were learned, the
        second column of a TSV without a header could be a text or a label: it has to be said."""
        usual = tuple((text, second) if second else (text,) for text, second in TEXTS.items())
        pairs = run.pairs if run.encoding.pairs else False
        leading = 0 if pairs is None else 1 + pairs
        return replace(super().input_columns(run, named), usual=usual, leading=leading)

    def reader(self, run: TextReader, options: Options) -> Callable[[str | tuple[str, ...]], Encoded[Any]]:
        second = options.get("second")
        return lambda item: run.read_labelled(_parts(item, second))

    def ask(
        self,
        run: TextReader,
        inputs: Iterable[Encoded[Any]],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[ClassifiedText]:
        return run.classes(inputs, tick=tick)


def with_layers(evaluation: Evaluation, weights: Mapping[int, float]) -> Evaluation:
    """How much each layer of the model below counts is a result too."""
    if not weights:
        return evaluation
    shown = "weights of the layers\n" + bars([(f"layer {layer}", share) for layer, share in weights.items()])
    return replace(
        evaluation,
        details={**evaluation.details, "layer_weights": {str(layer): share for layer, share in weights.items()}},
        notes=(*evaluation.notes, shown.rstrip()),
    )


def _parts(item: str | tuple[str, ...], second: str | None) -> Texts:
    """A text or a pair. In a line a tab separates the two; what was read from columns is whole."""
    if isinstance(item, tuple):
        return (item[0], item[1]) if len(item) > 1 else item[0]
    if second is not None:
        return item, second
    first, tab, rest = item.partition("\t")
    return (first, rest) if tab else item
