"""Images with captions become batches: images of one size, augmented during training, and their captions as ids."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.base.shared_batch import Share
from regard.data.batches.batch import Batch, Rows, pad, send
from regard.data.images.augment import Augment
from regard.data.images.captions import CaptionSet
from regard.data.images.image_batches import BUDGET, ImageBatches, ImageItem
from regard.data.images.images import Size

if TYPE_CHECKING:
    from regard.data.artifacts import AnyTokenizer, Pixels


@dataclass(frozen=True, repr=False)
class CaptionBatch(Batch):
    """`target` is <s> ... </s>: target[:, :-1] is the input, target[:, 1:] is predicted."""

    images: Tensor  # (B, C, H, W) float32, normalised
    target: Tensor  # (B, T)
    target_mask: Tensor  # (B, T)


class CaptionData(ImageBatches):
    """Batches of pairs of an image and one of its captions, drawn at random: long captions show other images than
    short ones do, and batch normalisation must see all kinds. Captions are cut at `max_length` tokens, without <s>
    and </s> (0: at none); `cut` is the number of those that were longer.

    A flip makes "left of" wrong: switch it off in `augment` where captions speak of sides."""

    def __init__(
        self,
        captions: CaptionSet,
        tokenizer: AnyTokenizer,
        *,
        image_size: Size,
        pixels: Pixels,
        batch_size: int,
        seed: int,
        max_length: int = 0,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
        budget: int = BUDGET,
    ) -> None:
        if not len(captions):
            raise ValueError("there must be at least one image with a caption, got none")
        if max_length < 0:
            raise ValueError(f"max_length must be at least 1, or 0 for no limit, got {max_length}")
        if augment and (augment.mixup or augment.cutmix):
            raise ValueError(
                f"images with captions cannot be mixed, got mixup {augment.mixup} and cutmix {augment.cutmix}"
            )
        super().__init__(
            captions.images,
            image_size=image_size,
            pixels=pixels,
            batch_size=batch_size,
            seed=seed,
            augment=augment,
            device=device,
            budget=budget,
        )
        self.captions, self.special = captions, tokenizer.special
        ids = tokenizer.encode_batch(list(chain.from_iterable(captions.captions)))
        self.cut = sum(len(row) > max_length for row in ids) if max_length else 0
        self.ids = Rows(row[: max_length or None] for row in ids)
        self.image_of = np.repeat(np.arange(len(captions)), [len(texts) for texts in captions.captions])

    def __len__(self) -> int:
        return len(self.ids)

    def draw(self, generator: np.random.Generator) -> list[np.ndarray]:
        rows = generator.permutation(len(self.ids))
        return [rows[first : first + self.batch_size] for first in range(0, len(rows), self.batch_size)]

    def image_rows(self, rows: np.ndarray) -> np.ndarray:
        return self.image_of[rows]

    def batch(self, item: ImageItem) -> CaptionBatch:
        return self._batch(item)

    def share(self, item: ImageItem, share: Share) -> tuple[CaptionBatch, int]:
        total = len(item.taken)
        return self._batch(item, share).take(share.numbers(total)), total

    def _batch(self, item: ImageItem, share: Share | None = None) -> CaptionBatch:
        images, _ = self._augmented_part(item, share)
        start, end = self.special.start, self.special.end
        target, mask = pad([[start, *self.ids[row], end] for row in item.taken], self.special.pad)
        return CaptionBatch(images, send(target, self.device), send(mask, self.device))
