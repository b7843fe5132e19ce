"""What a few-shot learner does: trained, opened, evaluated, asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.artifacts import Artifacts
from regard.data.batches.batch import send
from regard.data.images.episodes import EpisodeData
from regard.metrics.accuracy import interval
from regard.models.protocols import Model
from regard.runs.folder import Folder
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Amount, Prepared, Stream, ticked
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.core.settings import Job
from regard.tasks.fewshot.prepare import prepare, survey, test_data
from regard.tasks.fewshot.run import FewShot, Told
from regard.tasks.fewshot.settings import EpisodeSettings
from regard.tasks.shared.image_desk import ImageDesk
from regard.tasks.shared.image_run import OpenedImage
from regard.tasks.shared.measuring import by_batch, device_of

IMAGES = 512  # that are embedded at once


class FewShotDesk(ImageDesk[EpisodeSettings, FewShot, EpisodeData]):
    kind = FewShot
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    def amount(self, job: Job[EpisodeSettings]) -> Amount:
        return Amount(len(job.data.classes("train", job.config.ways)[1]), "classes")

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> FewShot:
        assert artifacts.pixels is not None
        return FewShot(model, artifacts.pixels)

    # -- evaluation

    @contextmanager
    def test_data(self, run: FewShot, settings: EpisodeSettings) -> Iterator[EpisodeData]:
        yield test_data(settings, run)

    def evaluate(
        self,
        run: FewShot,
        data: EpisodeData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How often the query's class is right. An image is embedded once, however many episodes have it."""
        assert data.queries == 1
        drawn = [data.episodes(item) for item in data.order(0)]
        used, places = torch.cat([places.flatten() for places, _ in drawn]).unique(return_inverse=True)
        model, device = run.model, device_of(run.model)
        embedded = by_batch(model, used.split(IMAGES), lambda part: model.embed(data.take(part)).cpu())
        states = torch.cat(list(embedded)).to(device)  # (N, D)
        own = places.split([images.numel() for images, _ in drawn])
        episodes = [(part.view_as(images), labels) for part, (images, labels) in zip(own, drawn, strict=True)]

        def answer(episode: tuple[Tensor, Tensor]) -> Tensor:
            rows, labels = (send(x.contiguous(), device) for x in (episode[0], episode[1][:, :-1]))
            return model.answer(states[rows], labels)[:, 0, : data.ways].float().cpu()

        logits = torch.cat(list(by_batch(model, episodes, answer, tick=tick)))
        wanted = torch.cat([labels[:, -1] for _, labels in drawn])
        right, count = int((logits.argmax(-1) == wanted).sum()), len(wanted)
        metrics = {"accuracy": 100 * right / count, "loss": float(F.cross_entropy(logits, wanted))}
        if only:
            return Evaluation({name: metrics[name] for name in only})
        low, high = interval(right, count)
        spread = {"accuracy_low": low, "accuracy_high": high}
        counts = {"episodes": count, "ways": data.ways, "shots": (drawn[0][0].shape[1] - 1) // data.ways}
        return Evaluation(metrics, counts, dict(spread), spread)

    def simple_ways(self, job: Job[EpisodeSettings], prepared: Prepared[FewShot, EpisodeData]) -> dict[str, float]:
        return {"the nearest image by its pixels": nearest_accuracy(prepared.valid)}

    def ticks(self, data: EpisodeData) -> int | None:
        return len(data.order(0))

    # -- asking

    def files(self, options: Options) -> Sequence[Path]:
        return [Path(example.partition("=")[2] or example) for example in options["support"]]

    def settled(self, run: FewShot, options: Options) -> Options:
        """With the support, looked at once for all queries."""
        return {**options, "support": run.learn(options["support"])}

    def ask(
        self,
        run: FewShot,
        inputs: Iterable[OpenedImage],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Told]:
        return ticked(run.answers(inputs, options["support"], options.get("top") or 1), tick)


def nearest_accuracy(data: EpisodeData) -> float:
    """How often the example whose pixels are nearest to the query's has its class, in percent."""
    right = count = 0
    for item in data.order(0):
        places, labels = data.episodes(item)
        images = data.take(places.flatten()).flatten(1).unflatten(0, places.shape)  # (E, S + 1, C * H * W)
        distances = (images[:, :-1] - images[:, -1:]).square().sum(-1)  # (E, S)
        nearest = labels[:, :-1].gather(1, distances.argmin(1, keepdim=True).cpu())[:, 0]
        right, count = right + int((nearest == labels[:, -1]).sum()), count + len(labels)
    return 100 * right / count
