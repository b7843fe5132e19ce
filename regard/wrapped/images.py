"""Classifiers of images of transformers: DeiT, BEiT, and others that look at patches."""

from __future__ import annotations

from torch import Tensor

from regard.models.protocols import Images
from regard.wrapped.base import Wrapped


class WrappedImages(Wrapped):
    """Tells classes of images apart, and where it looked in them: `AutoModelForImageClassification`.
    Without a head, or where it was made for images and texts (CLIP), it only looks."""

    def grid(self, images: Tensor) -> tuple[int, int]:
        """Rows and columns of patches in images (B, C, H, W)."""
        height, width = images.shape[2:]
        return height // self.config.patch_size, width // self.config.patch_size

    def tokens(self, images: Tensor) -> Tensor:
        """images (B, C, H, W) -> states, those of special tokens first"""
        states: Tensor = self.inner.base_model(pixel_values=images)[0]
        return states

    def class_logits(self, batch: Images) -> Tensor:
        """(B, classes)"""
        return self(batch.images)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(pixel_values=images).logits
        return logits
