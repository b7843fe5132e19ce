"""A trained classifier of images, and where it looked in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.artifacts import Pixels
from regard.data.image_batches import normalise
from regard.data.images import read_image, resize
from regard.data.short_repr import short_repr
from regard.errors import BadInput, RunError
from regard.layers.onednn import without_onednn
from regard.models import protocols
from regard.models.protocols import Model
from regard.show import Overlay, patch_map, rollout
from regard.tasks.inputs import check_top, in_parts, read_all
from regard.tasks.measuring import device_of
from regard.tasks.options import checks_keywords
from regard.tasks.reader_answers import one_line
from regard.tasks.results import Shown
from regard.tasks.search import need, sites_like
from regard.tasks.task import Run

BATCH = 32
Image = str | Path | np.ndarray  # a file, or (H, W, 3) bytes
Images = list[str] | list[Path] | list[np.ndarray] | list[Image]


@dataclass(frozen=True)
class AskedImages:
    """Images as a classifier takes them."""

    images: Tensor  # (B, C, H, W), normalised


@dataclass(frozen=True)
class OpenedImage:
    """An image as the model reads it."""

    image: Image
    name: str
    tensor: Tensor  # (1, C, H, W), normalised


@dataclass(frozen=True)
class Recognised(Shown):
    """What is in an image: the likeliest classes, and where the model looked."""

    name: str
    label: str
    probabilities: dict[str, float]  # of the likeliest classes, the likeliest first
    _look: Callable[[Sequence[str]], Overlay] = field(repr=False, compare=False)

    __repr__ = short_repr

    def overlay(self, *sites: str) -> Overlay:
        """Attention over the image: rolled out through all layers (Abnar & Zuidema 2020) and of the last layer, or
        every head of the named sites ("blocks.0.*")."""
        return self._look(sites)

    def to_dict(self) -> dict[str, object]:
        return {"file": self.name, "label": self.label, "probabilities": self.probabilities}

    def line(self) -> str:
        shares = self.probabilities.items()
        return "\n".join(f"{self.name}\t{one_line(label)}\t{share:.4f}" for label, share in shares)

    def picture(self, sites: Sequence[str] = ()) -> Overlay:
        return self.overlay(*sites)


class Recogniser(Run):
    """A trained classifier of images, as `regard.load(run)` gives it."""

    model: protocols.Classifier

    def __init__(self, model: Model, pixels: Pixels):
        self.model, self.pixels = need(model, protocols.Classifier), pixels

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    @overload
    def recognise(self, image: Image, top: int = 5) -> Recognised: ...
    @overload
    def recognise(self, image: Images, top: int = 5) -> list[Recognised]: ...
    @checks_keywords
    def recognise(self, image: Image | Images, top: int = 5) -> Recognised | list[Recognised]:
        """What is in an image, or in each of a list."""
        self.check_classes()
        if isinstance(image, list):
            return list(self.answers(image, top))
        return next(self.answers([self.open(image)], top))

    def answers(self, images: Iterable[Image | OpenedImage], top: int = 5) -> Iterator[Recognised]:
        """In the order of the images. One that cannot be read raises BadInput with its index, once those before it
        are answered."""
        self.check_classes()
        check_top(top)
        labels = self.model.config.labels
        for part in in_parts(read_all(images, self.open, "images"), BATCH):
            with torch.inference_mode(), without_onednn(self.model):
                logits = self.model.class_logits(AskedImages(torch.cat([one.tensor for one in part])))
            best = logits.float().softmax(-1).topk(min(top, len(labels)))
            for one, likely, places in zip(part, best.values.tolist(), best.indices.tolist(), strict=True):
                found = {labels[place]: share for place, share in zip(places, likely, strict=True)}
                look = partial(self._overlay, one.image, one.name, found)
                yield Recognised(one.name, labels[places[0]], found, look)

    def open(self, image: Image | OpenedImage) -> OpenedImage:
        """Resized as it is opened, so that not all images of a batch are held whole."""
        if isinstance(image, OpenedImage):
            return image
        name = "image" if isinstance(image, np.ndarray) else str(image)
        return OpenedImage(image, name, self.read([pixels_of(image)]))

    def check_classes(self) -> None:
        """RunError where the model has no classes."""
        if not self.model.config.labels:
            raise RunError(
                "this model has no head and knows no classes; teach it some: "
                "`regard train vit-images --from RUN --set data.train=FOLDER`"
            )

    def read(self, images: Sequence[np.ndarray]) -> Tensor:
        """(H, W, 3) bytes each, of any size -> (B, C, H, W) as the model takes them."""
        config = self.model.config
        if config.channels not in (1, 3):
            raise RunError(
                f"images are grey or have red, green and blue; this model takes {config.channels} channels"
            )
        sized = np.stack([resize(one, *config.size, resample=self.pixels.resample) for one in images])
        if config.channels == 1:
            sized = (sized @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)[..., None]
        return normalise(sized, self.pixels.mean, self.pixels.std).to(self.device)

    def maps(self, image: np.ndarray, sites: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """How much the answer looked at each patch (rows, columns): by rollout and in the last layer, or by every
        head of the named sites."""
        names = sites_like(self.model, sites)
        model, images = need(self.model, protocols.PatchEncoder), self.read([image])
        pool, grid = model.config.pool, model.grid(images)
        with torch.inference_mode(), without_onednn(model), trace(model, *names) as seen:
            model.tokens(images)
        weights = {site: seen[site][0].float().cpu().numpy() for site in names}  # (H, T, T)
        if sites:
            return {
                f"{site}, head {number}": patch_map(head, grid, pool=pool)
                for site, heads in weights.items()
                for number, head in enumerate(heads)
            }
        last = names[-1]
        rolled = rollout([weights[site] for site in names])
        return {
            "rollout": patch_map(rolled, grid, pool=pool),
            last: patch_map(weights[last].mean(0), grid, pool=pool),
        }

    def _overlay(self, image: Image, name: str, found: dict[str, float], sites: Sequence[str]) -> Overlay:
        caption = ", ".join(f"{label} {share:.1%}" for label, share in list(found.items())[:3])
        pixels = pixels_of(image)
        return Overlay(pixels, self.maps(pixels, sites), title=Path(name).name, caption=caption)


def pixels_of(image: Image) -> np.ndarray:
    """(H, W, 3) bytes."""
    if isinstance(image, str | Path):
        return read_image(image)
    if not isinstance(image, np.ndarray):
        came = type(image).__name__
    elif image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size:
        return image
    else:
        came = f"{image.dtype} {image.shape}"
    raise BadInput(f"an image must be a file's name, or bytes (height, width, 3); got {came}")
