"""Runs that are asked with images: how these are given, opened and read, and the gates of their channels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.artifacts import Pixels
from regard.data.images.given_images import Image, image_name, pixels_of
from regard.data.images.image_batches import normalise
from regard.data.images.images import fit_image, seen_part, unseen
from regard.layers.onednn import without_onednn
from regard.tasks.core.results import Cut
from regard.tasks.core.run import Run
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.sites import need_gates

BATCH = 64  # images that are answered together


@dataclass(frozen=True)
class OpenedImage:
    """An image as the model reads it."""

    image: Image
    name: str
    tensor: Tensor  # (1, C, H, W), normalised
    cut: Cut | None = None  # where only its centre is read


class ImageRun(Run):
    """A run whose model reads images of one size."""

    pixels: Pixels

    @property
    def at_once(self) -> int:
        return BATCH

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def open(self, image: Image) -> OpenedImage:
        """Resized as it is opened, so that not all images of a batch are in memory as they are."""
        size = self.model.config.size
        pixels = pixels_of(image, size)
        parts = unseen((pixels.shape[0], pixels.shape[1]), size, self.pixels)
        cut = Cut(parts, "centre that") if parts else None
        return OpenedImage(image, image_name(image), self.read([pixels]), cut)

    def read(self, images: Sequence[np.ndarray]) -> Tensor:
        """(H, W, 1 or 3) bytes each, of any size -> (B, C, H, W) as the model takes them."""
        fitted = np.stack([fit_image(image, self.model.config.size, self.pixels) for image in images])
        weight = next(self.model.parameters())
        return normalise(fitted, self.pixels.mean, self.pixels.std).to(weight.device, weight.dtype)

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
