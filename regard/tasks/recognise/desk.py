"""What a classifier of images does: trained, opened, evaluated, asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regard.attention.trace import sites_of
from regard.data.artifacts import Artifacts
from regard.data.images.image_batches import ImageData, ImageItem
from regard.models.protocols import Classifier, Model
from regard.runs.folder import Folder
from regard.show import Gates
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Amount, Prepared, Stream, ticked
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.core.settings import Job
from regard.tasks.core.simple_ways import majority
from regard.tasks.recognise.gates import BatchGates, ClassGates, gates_of, side_by_side
from regard.tasks.recognise.nearest import COMPARED, nearest_accuracy, small_images
from regard.tasks.recognise.prepare import build_data, prepare, survey
from regard.tasks.recognise.run import Recognised, Recogniser
from regard.tasks.recognise.settings import ImageSettings
from regard.tasks.shared.image_desk import ImageDesk
from regard.tasks.shared.image_run import OpenedImage
from regard.tasks.shared.measuring import by_batch, class_logits, evaluate_classes, logits_of
from regard.tasks.shared.sites import need_gates

SIDES_OF = 20  # images whose sides are looked at


def gated_logits(
    model: Classifier, gates: ClassGates, items: Sequence[ImageItem], data: ImageData, tick: Tick
) -> Tensor:
    """As `class_logits`; the gates of each batch are added to `gates`."""

    def measure(item: ImageItem) -> tuple[Tensor, BatchGates]:
        batch = data.batch(item)
        return gates.record(batch.targets, lambda: logits_of(model, batch))

    parts = []
    for logits, recorded in by_batch(model, items, measure, tick=tick):
        parts.append(logits)
        gates.add(recorded)
    return torch.cat(parts)


class RecogniseDesk(ImageDesk[ImageSettings, Recogniser, ImageData]):
    kind = Recogniser
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    def amount(self, job: Job[ImageSettings]) -> Amount:
        """The side is the median of some images' longer sides."""
        images, rows = job.data.images("train")
        some = rows[:: max(1, len(rows) // SIDES_OF)][:SIDES_OF]
        side = int(np.median([max(images.read(int(row)).shape[:2]) for row in some]))
        return Amount(len(rows), "images", side)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Recogniser:
        assert artifacts.pixels is not None
        return Recogniser(model, artifacts.pixels)

    # -- evaluation

    @contextmanager
    def test_data(self, run: Recogniser, settings: ImageSettings) -> Iterator[ImageData]:
        yield build_data(settings, "test", run, device=run.device)

    def evaluate(
        self,
        run: Recogniser,
        data: ImageData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How often the class is right."""
        items, labels = data.order(0), run.model.config.labels
        gates = ClassGates(run.model, labels) if not only and sites_of(run.model, "gate") else None
        if gates is None:
            logits = class_logits(run.model, items, data.batch, tick=tick)
        else:
            logits = gated_logits(run.model, gates, items, data, tick)
        truths = torch.from_numpy(data.images.labels[np.concatenate([item.taken for item in items])])
        evaluation = evaluate_classes(logits, truths, labels, only, unit=self.card.unit)
        return replace(evaluation, compared=gates) if gates else evaluation

    def simple_ways(self, job: Job[ImageSettings], prepared: Prepared[Recogniser, ImageData]) -> dict[str, float]:
        (train, valid) = (small_images(*job.data.images(split), most) for split, most in COMPARED.items())
        return {**majority(train[1], valid[1]), "the nearest image by its pixels": nearest_accuracy(train, valid)}

    def check_plot(self, run: Recogniser) -> None:
        need_gates(run.model)

    def plot(self, evaluations: Mapping[str, Evaluation]) -> Gates:
        """Mean gates of each class."""
        return side_by_side({run: gates_of(evaluation) for run, evaluation in evaluations.items()})

    def held_out(self, run: Recogniser, data: ImageData, count: int) -> list[Recognised]:
        run.check_looks()
        return run.recognise([data.images.read(int(row)) for row in data.rows[:count]])

    def ticks(self, data: ImageData) -> int:
        return len(data.order(0))

    # -- asking

    def check(self, run: Recogniser, *, drawing: bool = False) -> None:
        run.check_model()
        if drawing:
            run.check_looks()

    def ask(
        self,
        run: Recogniser,
        inputs: Iterable[OpenedImage],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Recognised]:
        return ticked(run.answers(inputs, options.get("top") or 1), tick)
