"""A trained few-shot classifier: shown a few labelled images, it tells the class of others and where it looked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.base.short_repr import short_repr
from regard.data.artifacts import Pixels
from regard.data.images.given_images import Image, Images, pixels_of
from regard.data.images.images import check_channels
from regard.data.images.labelled_images import open_image_set
from regard.errors import BadInput
from regard.layers.onednn import without_onednn
from regard.models import protocols
from regard.models.protocols import Model, need
from regard.show import Example, Examples
from regard.tasks.core.inputs import check_top, in_parts, read_all
from regard.tasks.core.options import checks_keywords, either
from regard.tasks.core.results import Cut, Evaluation, Shown
from regard.tasks.core.run import Data
from regard.tasks.shared.image_run import BATCH, ImageRun, OpenedImage
from regard.tasks.shared.reader_answers import one_line, shares_in_words
from regard.tasks.shared.sites import sites_like

# A folder with a folder for each class, an .npz or .parquet file; images by their class; or "class=file" texts.
SupportData = str | Path | Mapping[str, Image | Images] | Sequence[str]


@dataclass(frozen=True)
class Support:
    """What a model has been shown: images with their classes, embedded once for all queries."""

    images: Sequence[OpenedImage] = field(repr=False)
    labels: Sequence[int]  # of each image, as places in `classes`
    classes: Sequence[str]
    states: Tensor  # (S, D)

    __repr__ = short_repr


@dataclass(frozen=True)
class Told(Shown):
    """The likeliest classes of an image, and which examples the model looked at."""

    name: str
    label: str
    probabilities: dict[str, float]  # of the likeliest classes, the likeliest first
    cut: Cut | None = field(default=None, kw_only=True, compare=False)
    _image: Image = field(repr=False, compare=False)
    _support: Support = field(repr=False, compare=False)
    _run: FewShot = field(repr=False, compare=False)

    __repr__ = short_repr

    def looks(self, *sites: str) -> dict[str, np.ndarray]:
        """For each site, the first unless named, how much the query looked at each image of the support, and last
        at itself: (S + 1,), with sum 1."""
        return self._run.looks(self._image, self._support, sites)

    def examples(self, *sites: str) -> Examples:
        """The query beside the images of the support, with how much it looked at each."""
        support, run = self._support, self._run
        shown = [
            Example(run.seen(pixels_of(image.image, run.model.config.size)), support.classes[label], image.name)
            for image, label in zip(support.images, support.labels, strict=True)
        ]
        told = shares_in_words(self.probabilities)
        query = run.seen(pixels_of(self._image, run.model.config.size))
        return Examples(query, shown, self.looks(*sites), Path(self.name).name, told, chosen=self.label)

    @property
    def input(self) -> str:
        return self.name

    def to_dict(self) -> dict[str, object]:
        return {**self.of_input(), "file": self.name, "label": self.label, "probabilities": self.probabilities}

    def line(self) -> str:
        shares = self.probabilities.items()
        return "\n".join(f"{self.name}\t{one_line(label)}\t{share:.4f}" for label, share in shares)

    def picture(self, sites: Sequence[str] = ()) -> Examples:
        return self.examples(*sites)


class FewShot(ImageRun):
    """A trained few-shot classifier, as `regard.load(run)` gives it."""

    model: protocols.FewShotClassifier

    def __init__(self, model: Model, pixels: Pixels):
        self.model, self.pixels = need(model, protocols.FewShotClassifier), pixels
        check_channels(self.model.config.channels)
        pixels.check(self.model.config.channels, self.model.config.size)

    @overload
    def fewshot(self, query: Images, support: SupportData | Support, top: int = 5) -> list[Told]: ...
    @overload
    def fewshot(self, query: Image, support: SupportData | Support, top: int = 5) -> Told: ...
    @checks_keywords
    def fewshot(self, query: Image | Images, support: SupportData | Support, top: int = 5) -> Told | list[Told]:
        """The class of an image, or of each of a list, among those of the support: a folder with a folder of images
        for each class, or {class: images}. To ask often, `learn` the support once. An image is a file's name, a
        PIL image, a numpy array or a torch tensor, as for `recognise`."""
        shown = self.learn(support)
        if isinstance(query, list):
            return list(self.answers(read_all(query, self.open, "images"), shown, top))
        return next(self.answers([self.open(query)], shown, top))

    @checks_keywords
    def evaluate(
        self,
        data: Data | None = None,
        *,
        columns: str = "",
        episodes: int | None = None,
        test_episodes: int | None = None,
    ) -> Evaluation:
        """How often the class of a query is told, with a 95 % interval, in episodes drawn from the classes of a
        file or folder, without one from the test classes of the run's recipe. A file with the arrays support, test
        and label gives its own episodes. `columns`: as in "image,label"; `episodes`, once `test_episodes`: how many
        are drawn."""
        count = either("episodes", episodes, "test_episodes", test_episodes)
        return self._evaluate(data, columns, test_episodes=count)

    def learn(self, support: SupportData | Support) -> Support:
        """Look at the support once."""
        if isinstance(support, Support):
            return support
        labels, images = self._opened_support(support)
        classes = list(dict.fromkeys(labels))
        most = self.model.config.ways
        if not 2 <= len(classes) <= most:
            raise BadInput(
                f"this model tells 2 to {most} classes apart, and the support has {len(classes)} "
                f"({', '.join(classes[:5])}{', ...' if len(classes) > 5 else ''}); "
                + ("leave some out" if len(classes) > most else "give a folder for each class")
            )
        opened = list(images)
        with torch.inference_mode(), without_onednn(self.model):
            parts = [torch.cat([image.tensor for image in part]) for part in in_parts(opened, BATCH)]
            states = torch.cat([self.model.embed(part) for part in parts])
        return Support(opened, [classes.index(label) for label in labels], classes, states)

    def _opened_support(self, support: SupportData) -> tuple[list[str], Iterator[OpenedImage]]:
        """The class of each image of the support, and the images, opened on demand."""
        if isinstance(support, Mapping):
            pairs = [(str(label), image) for label, images in support.items() for image in as_list(images)]
        elif (file := only_file(support)) is not None:
            data = open_image_set(file)
            named = (replace(self.open(data.read(row)), name=data.name(row)) for row in range(len(data)))
            return [data.classes[label] for label in data.labels], named
        elif isinstance(support, Sequence) and all(isinstance(text, str) for text in support):
            pairs = [split_name(text) for text in support]
        else:
            raise BadInput(
                "the support must be a folder, {class: images}, a list of CLASS=FILE or what `learn` returned; got "
                f"{support!r:.80}"
            )
        return [label for label, _ in pairs], map(self.open, (image for _, image in pairs))

    def answers(self, queries: Iterable[OpenedImage], support: Support, top: int = 5) -> Iterator[Told]:
        """In the order of the queries. Where opening one raises BadInput, those before it are answered first."""
        check_top(top)
        classes = support.classes
        for part in in_parts(queries, BATCH):
            with torch.inference_mode(), without_onednn(self.model):
                logits = self._logits(torch.cat([query.tensor for query in part]), support)
            best = logits.float().softmax(-1).topk(min(top, len(classes)))
            for query, shares, places in zip(part, best.values.tolist(), best.indices.tolist(), strict=True):
                probabilities = {classes[place]: share for place, share in zip(places, shares, strict=True)}
                yield Told(query.name, classes[places[0]], probabilities, query.image, support, self, cut=query.cut)

    def _logits(self, queries: Tensor, support: Support) -> Tensor:
        """(N, C, H, W) -> (N, classes of the support)"""
        states = torch.cat([support.states, self.model.embed(queries)])[None]
        labels = torch.tensor([support.labels], device=states.device)
        return self.model.answer(states, labels)[0, :, : len(support.classes)]

    def looks(self, query: Image, support: Support, sites: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """See `Told.looks`."""
        names = sites_like(self.model, sites) if sites else [self.model.alignment]
        with torch.inference_mode(), without_onednn(self.model), trace(self.model, *names) as seen:
            self._logits(self.open(query).tensor, support)
        return {site: seen[site][0, -1].float().cpu().numpy() for site in names}

    def look_at(self, images: Tensor) -> Tensor:
        """Embed images (B, C, H, W)."""
        return self.model.embed(images)


def as_list(images: Image | Images) -> list[Image]:
    """One image, or several."""
    return [*images] if isinstance(images, list) else [images]


def only_file(support: object) -> str | Path | None:
    """The folder or file if a single path is the whole support; its name may have a =."""
    if isinstance(support, list | tuple) and len(support) == 1:
        support = support[0]
        if isinstance(support, str) and "=" in support and not Path(support).is_dir():
            return None
    return support if isinstance(support, str | Path) else None


def split_name(text: str) -> tuple[str, Image]:
    """cat=a.png"""
    label, _, file = text.partition("=")
    if not (label and file):
        raise BadInput(
            "the support is one folder with a folder for each class, or CLASS=FILE for each image; "
            f"got {text!r:.80}"
        )
    return label, file
