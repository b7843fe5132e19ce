"""A trained classifier of images, and where it looked in them or which channels it opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.attention.trace import sites_of
from regard.base.short_repr import short_repr
from regard.data.artifacts import Pixels
from regard.data.images.given_images import Image, Images, pixels_of
from regard.data.images.images import check_channels
from regard.errors import BadInput, NoAttention, RunError
from regard.layers.onednn import without_onednn
from regard.models import name_of, protocols
from regard.models.protocols import Model, need
from regard.show import Gates, Overlay, patch_map, rollout
from regard.tasks.core.inputs import check_top, in_parts, read_all
from regard.tasks.core.options import checks_keywords
from regard.tasks.core.results import Cut, Shown
from regard.tasks.recognise.gates import ClassGates, gates_of
from regard.tasks.shared.image_run import ImageRun, OpenedImage
from regard.tasks.shared.reader_answers import one_line, shares_in_words
from regard.tasks.shared.sites import need_gates, sites_like

BATCH = 32


@dataclass(frozen=True)
class AskedImages:
    """Images as a classifier takes them."""

    images: Tensor  # (B, C, H, W), normalised


@dataclass(frozen=True)
class Recognised(Shown):
    """What is in an image: the likeliest classes, and where the model looked or which channels it opened."""

    name: str
    label: str
    probabilities: dict[str, float]  # of the likeliest classes, the likeliest first
    cut: Cut | None = field(default=None, kw_only=True, compare=False)
    _image: Image = field(repr=False, compare=False)
    _run: Recogniser = field(repr=False, compare=False)

    __repr__ = short_repr

    def overlay(self, *sites: str) -> Overlay:
        """Attention over the image: rolled out through all layers (Abnar & Zuidema 2020) and of the last layer, or
        every head of the named sites ("blocks.0.*")."""
        pixels = pixels_of(self._image, self._run.model.config.size)
        maps = self._run.maps(pixels, sites)
        return Overlay(self._run.seen(pixels), maps, title=Path(self.name).name, caption=self._caption)

    def gates(self, *sites: str) -> Gates:
        """How far each channel was opened in every block that weighs its channels (squeeze-and-excitation), or in
        the named blocks ("stages.2.*")."""
        pixels = pixels_of(self._image, self._run.model.config.size)
        gates = self._run.gates(pixels, sites)
        return Gates(gates, image=self._run.seen(pixels), title=Path(self.name).name, caption=self._caption)

    @property
    def _caption(self) -> str:
        return shares_in_words(self.probabilities)

    @property
    def input(self) -> str:
        return self.name

    def to_dict(self) -> dict[str, object]:
        return {**self.of_input(), "file": self.name, "label": self.label, "probabilities": self.probabilities}

    def line(self) -> str:
        if not self.probabilities:
            return f"{self.name}\t\t"  # the model knows no classes, and only looks
        shares = self.probabilities.items()
        return "\n".join(f"{self.name}\t{one_line(label)}\t{share:.4f}" for label, share in shares)

    def picture(self, sites: Sequence[str] = ()) -> Overlay | Gates:
        """Attention over places where the model has some, else its gates."""
        self._run.check_looks()
        return self.overlay(*sites) if self._run.looks_at_places else self.gates(*sites)


class Recogniser(ImageRun):
    """A trained classifier of images, as `regard.load(run)` gives it."""

    model: protocols.Classifier

    def __init__(self, model: Model, pixels: Pixels):
        self.model, self.pixels = need(model, protocols.Classifier), pixels
        pixels.check(self.model.config.channels, self.model.config.size)

    @overload
    def recognise(self, image: Images, top: int = 5) -> list[Recognised]: ...
    @overload
    def recognise(self, image: Image, top: int = 5) -> Recognised: ...
    @checks_keywords
    def recognise(self, image: Image | Images, top: int = 5) -> Recognised | list[Recognised]:
        """What is in an image, or in each of a list: files by their names, PIL images, numpy arrays (H, W) or
        (H, W, channels), torch tensors (channels, H, W), of bytes or of floats from 0 to 1."""
        self.check_model()
        if isinstance(image, list):
            return list(self.answers(read_all(image, self.open, "images"), top))
        return next(self.answers([self.open(image)], top))

    def answers(self, images: Iterable[OpenedImage], top: int = 5) -> Iterator[Recognised]:
        """In the order of the images. Where opening one raises BadInput, those before it are answered first."""
        self.check_model()
        check_top(top)
        labels = self.model.config.labels
        for part in in_parts(images, BATCH):
            if not labels:
                yield from (Recognised(image.name, "", {}, image.image, self, cut=image.cut) for image in part)
                continue
            with torch.inference_mode(), without_onednn(self.model):
                logits = self.look_at(torch.cat([image.tensor for image in part]))
            best = logits.float().softmax(-1).topk(min(top, len(labels)))
            for image, shares, places in zip(part, best.values.tolist(), best.indices.tolist(), strict=True):
                probabilities = {labels[place]: share for place, share in zip(places, shares, strict=True)}
                yield Recognised(image.name, labels[places[0]], probabilities, image.image, self, cut=image.cut)

    def check_model(self) -> None:
        """RunError where the model has no classes, or other channels than images have."""
        check_channels(self.model.config.channels)
        if not self.model.config.labels and not getattr(self.model.config, "only_looks", False):
            raise RunError(
                "this model has no head and knows no classes; teach it some: "
                f"`regard train {name_of(self.model)}-images --from RUN --set data.train=FOLDER`"
            )

    @property
    def looks_at_places(self) -> bool:
        """Whether the model has attention over the patches of an image."""
        return isinstance(self.model, protocols.PatchEncoder)

    def check_looks(self) -> None:
        """NoAttention where the model has neither attention over places nor gates."""
        if not self.looks_at_places and not sites_of(self.model, "gate"):
            raise NoAttention(
                f"this {type(self.model).__name__} weighs neither places nor channels: there is nothing to show; "
                "leave --show out"
            )

    def maps(self, image: np.ndarray, sites: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """How much the answer looked at each patch (rows, columns): by rollout and in the last layer, or by every
        head of the named sites."""
        self.check_looks()
        if not self.looks_at_places:
            raise NoAttention(f"{type(self.model).__name__} does not weigh places; its gates may be shown: gates()")
        names = sites_like(self.model, sites)
        model, images = need(self.model, protocols.PatchEncoder), self.read([image])
        pooled = [model.alignment] if model.config.pool == "attention" else []
        look = self.look_at if pooled else model.tokens
        with torch.inference_mode(), without_onednn(model), trace(model, *names, *pooled) as seen:
            look(images)
        weights = {site: seen[site][0].float().cpu().numpy() for site in seen.sites}  # (H, T, T)
        reads = None
        for site in pooled:  # the answer reads the tokens as they are, by these weights
            reads = weights[site][0]
            weights[site] = np.eye(len(reads))[None]
        patches = partial(patch_map, grid=model.grid(images), pool=model.config.pool, reads=reads)
        if sites:
            return {
                f"{site}, head {number}": patches(head)
                for site in names
                for number, head in enumerate(weights[site])
            }
        last = names[-1]
        return {"rollout": patches(rollout(list(weights.values()))), last: patches(weights[last].mean(0))}

    def look_over(self, text: str, sites: Sequence[str] = ()) -> Overlay:
        """Of an image, by the name of its file: where the model looks, as `recognise(image).overlay(*sites)`."""
        return self.recognise(text).overlay(*sites)

    def look_at(self, images: Tensor) -> Tensor:
        """Logits (B, classes) of images (B, C, H, W)."""
        return self.model.class_logits(AskedImages(images))

    @checks_keywords
    def class_gates(
        self,
        data: str | Path | Images | None = None,
        labels: Sequence[str] | None = None,
        *,
        columns: str = "",
        sites: Sequence[str] = (),
    ) -> Gates:
        """The mean gates of each class in every block, or in those that match `sites` (Hu et al. 2018, figure 6).

        Data is what `evaluate` takes, or a list of images with a label for each."""
        names = need_gates(self.model, sites)
        if isinstance(data, list):
            gates = self._labelled_gates(data, () if labels is None else list(labels))
        elif labels is not None:
            raise BadInput(f"labels are for a list of images; those of {data!r:.80} are read from it")
        else:
            gates = gates_of(self.evaluate(data, columns=columns))
        return replace(gates, panels={name: gates.panels[name] for name in names})

    def _labelled_gates(self, images: Images, labels: Sequence[str]) -> Gates:
        self.check_model()
        classes = self.model.config.labels
        if not images or len(images) != len(labels):
            raise BadInput(f"there must be a label for each image, got {len(images)} images, {len(labels)} labels")
        if unknown := [label for label in labels if label not in classes]:
            raise BadInput(f"this model has no class {unknown[0]!r:.80}; there are {', '.join(classes)}")
        gates = ClassGates(self.model, classes)
        places = torch.tensor([classes.index(label) for label in labels])
        opened = read_all(images, self.open, "images")
        for part, targets in zip(in_parts(opened, BATCH), places.split(BATCH), strict=True):
            shares = torch.nn.functional.one_hot(targets, len(classes)).float()
            look = partial(self.look_at, torch.cat([image.tensor for image in part]))
            with torch.inference_mode(), without_onednn(self.model):
                _, recorded = gates.record(shares, look)
            gates.add(recorded)
        return gates.picture()
