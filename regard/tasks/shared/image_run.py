"""Runs that are asked with images: how these are given, opened and read, and the gates of their channels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.artifacts import Pixels
from regard.data.images.image_batches import normalise
from regard.data.images.images import ANY, Size, fit_image, read_image, seen_part, with_channels
from regard.errors import BadInput
from regard.layers.onednn import without_onednn
from regard.tasks.core.run import Run
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.search import need_gates

Image = str | Path | np.ndarray  # a file, or bytes (H, W, 3), (H, W, 1) or (H, W)
Images = list[str] | list[Path] | list[np.ndarray] | list[Image]


@dataclass(frozen=True)
class OpenedImage:
    """An image as the model reads it."""

    image: Image
    name: str
    tensor: Tensor  # (1, C, H, W), normalised


class ImageRun(Run):
    """A run whose model reads images of one size."""

    pixels: Pixels

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def open(self, image: Image) -> OpenedImage:
        """Resized as it is opened, so that not all images of a batch are in memory as they are."""
        name = "image" if isinstance(image, np.ndarray) else str(image)
        return OpenedImage(image, name, self.read([pixels_of(image, self.model.config.size)]))

    def read(self, images: Sequence[np.ndarray]) -> Tensor:
        """(H, W, 1 or 3) bytes each, of any size -> (B, C, H, W) as the model takes them."""
        fitted = np.stack([fit_image(image, self.model.config.size, self.pixels) for image in images])
        return normalise(fitted, self.pixels.mean, self.pixels.std).to(self.device)

    def seen(self, image: np.ndarray) -> np.ndarray:
        """The part of an image (H, W, C) that the model reads, in the image's own pixels: all, or its centre."""
        return seen_part(image, self.model.config.size, self.pixels)

    def gates(self, image: np.ndarray, sites: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """How far each channel is opened (C,), from 0 to 1, in every block with gates or in the named blocks."""
        names = need_gates(self.model, sites)
        with torch.inference_mode(), without_onednn(self.model), trace(self.model, *names) as seen:
            self.look_at(self.read([image]))
        return {site: seen[site, "gate"][0].float().cpu().numpy() for site in names}

    @abstractmethod
    def look_at(self, images: Tensor) -> Any:
        """Let the network see images (B, C, H, W), so that its gates can be recorded."""


def pixels_of(image: Image, size: Size = ANY) -> np.ndarray:
    """(H, W, 3) bytes; grey is repeated. A large file is reduced for a model of this size."""
    if isinstance(image, str | Path):
        return read_image(image, size)
    if not isinstance(image, np.ndarray):
        came = type(image).__name__
    elif image.dtype == np.uint8 and image.size and (image.ndim == 2 or image.shape[2:] in ((1,), (3,))):
        return with_channels(image[..., None] if image.ndim == 2 else image, 3)
    else:
        came = f"{image.dtype} {image.shape}"
    raise BadInput(
        "an image must be a file's name, or a uint8 array (height, width, 3), (height, width, 1) or "
        f"(height, width); got {came}"
    )
