"""Images become batches of one size, augmented during training."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.base.shared_batch import Share
from regard.data.batches.batch import Batch, send
from regard.data.images.augment import Augment
from regard.data.images.augment_ops import augment_images
from regard.data.images.images import Images, Size, check_channels, fit_image, resize, with_channels
from regard.data.images.labelled_images import ImageSet

if TYPE_CHECKING:
    from regard.data.artifacts import Pixels

BUDGET = 2 << 30  # bytes of decoded images that are cached
TOGETHER, TOGETHER_BYTES = 8, 64 << 20  # most batches that are augmented together, and bytes of their images
CHUNK = 16  # images that a thread takes at a time
WORTH = 5e-4  # seconds of work on an image above which threads pay off: a JPEG of 128 x 128 pixels takes 4e-4

T = TypeVar("T")


class ImageItem(NamedTuple):
    """A batch: some of the images that are augmented together."""

    epoch: int
    rows: np.ndarray  # indices of the images that are augmented together
    part: slice = slice(None)  # which of them are in this batch

    @property
    def taken(self) -> np.ndarray:
        return self.rows[self.part]


@dataclass(frozen=True, repr=False)
class ImageBatch(Batch):
    images: Tensor  # (B, C, H, W) float32, normalised
    targets: Tensor  # (B, classes) float32: the share of each class, one-hot unless images are mixed


class ImageBatches(ABC):
    """Base of data with images: batches of one size (height, width), made on `device`; random if there is an
    `augment`. They have as many channels as `pixels`, 1 or 3. A subclass says which rows are in a batch, and which
    image and targets a row has.

    A batch is a function of its item alone, and is drawn anew each epoch. Several batches of small images are
    augmented together, because kernel launches take as long for few images as for many. Decoded and resized images
    are cached for the next epoch, up to `budget` bytes."""

    def __init__(
        self,
        images: Images,
        *,
        image_size: Size,
        pixels: Pixels,
        batch_size: int,
        seed: int,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
        budget: int = BUDGET,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        height, width = image_size
        if min(height, width) < 1:
            raise ValueError(f"height and width must be at least 1, got {height} and {width}")
        self.channels = len(pixels.mean)
        check_channels(self.channels)
        pixels.check(self.channels, image_size)
        if seed < 0:
            raise ValueError(f"seed must not be negative, got {seed}")
        self.images, self.image_size, self.pixels = images, (height, width), pixels
        self.batch_size, self.seed, self.augment, self.device = batch_size, seed, augment, device
        self.pool = ThreadPoolExecutor()  # Pillow releases the GIL; threads start when there is work
        self.crops = bool(augment and augment.scale)  # then whole images are cached, and cropped anew each epoch
        self.cached: dict[int, np.ndarray] = {}
        self.room = budget  # bytes left for the cache
        size = batch_size * height * width * self.channels * 4
        self.together = max(1, min(TOGETHER, TOGETHER_BYTES // size)) if augment else 1  # batches
        # Images and targets of which the next batches are parts.
        self.augmented: tuple[tuple[int, bytes], Tensor, Tensor] | None = None

    @abstractmethod
    def draw(self, generator: np.random.Generator) -> list[np.ndarray]:
        """The rows of each batch of an epoch."""

    def image_rows(self, rows: np.ndarray) -> np.ndarray:
        """The image of each row."""
        return rows

    def targets(self, rows: np.ndarray) -> Tensor:
        """(B, classes); without classes (B, 0)."""
        return torch.zeros(len(rows), 0)

    def order(self, epoch: int) -> list[ImageItem]:
        batches = self.draw(np.random.default_rng([self.seed, epoch]))
        if self.augment and self.batch_size > 1:
            # Of one image alone batch normalisation may have no statistics; another epoch has it.
            batches = [rows for rows in batches if len(rows) > 1] or batches
        items = []
        for first in range(0, len(batches), self.together):
            together = batches[first : first + self.together]
            rows, ends = np.concatenate(together), np.cumsum([0, *map(len, together)]).tolist()
            items += [ImageItem(epoch, rows, slice(*part)) for part in pairwise(ends)]
        return items

    def _augmented_part(self, item: ImageItem, share: Share | None = None) -> tuple[Tensor, Tensor]:
        """Images (B, C, H, W), normalised, and targets; those of a share are right in its own rows alone."""
        key = item.epoch, item.rows.tobytes()
        if self.augmented is None or self.augmented[0] != key:
            self.augmented = None  # freed before the next batches are made
            self.augmented = key, *self._prepare(item.epoch, item.rows, share)
        _, images, targets = self.augmented
        if item.part.indices(len(item.rows))[1] == len(item.rows):  # the last part
            self.augmented = None
        return images[item.part], targets[item.part]

    def _prepare(self, epoch: int, rows: np.ndarray, share: Share | None = None) -> tuple[Tensor, Tensor]:
        generator = np.random.default_rng([self.seed, epoch, 1 + int(rows[0])])  # never the seed of the order
        own = np.arange(len(rows))
        mixed = self.augment and (self.augment.mixup or self.augment.cutmix)  # with images of any other row
        if share and not mixed:
            batches = (own[first : first + self.batch_size] for first in range(0, len(rows), self.batch_size))
            own = np.concatenate([share.of(batch) for batch in batches])
        images = send(torch.from_numpy(self._take(self.image_rows(rows), own, generator)), self.device)
        targets = send(self.targets(rows), self.device)
        if self.augment:
            images, targets = augment_images(self.augment, images, targets, generator)
        return normalise(images, self.pixels.mean, self.pixels.std), targets

    def _take(self, rows: np.ndarray, own: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """(B, H, W, C) uint8. Only the images of the places `own` are read; the others are black. What is random is
        drawn for all of them."""
        pixels = self.images.pixels
        whole = not (self.crops or self.pixels.shortest_edge)
        if pixels is not None and pixels.shape[1:3] == self.image_size and whole:
            return np.ascontiguousarray(with_channels(pixels[rows], self.channels))
        missing = [row for row in dict.fromkeys(rows[own].tolist()) if row not in self.cached]
        new = dict(zip(missing, self._spread(self._read, missing), strict=True))
        taken = [new[row] if row in new else self.cached[row] for row in rows[own].tolist()]
        for row, image in new.items():
            if image.nbytes <= self.room:
                self.cached[row] = image
                self.room -= image.nbytes
        if self.crops:
            drawn = generator.random((len(rows), 4))[own]
            taken = self._spread(self._crop, list(zip(taken, drawn, strict=True)))
        images = np.stack(taken)
        if len(own) == len(rows):
            return images
        every = np.zeros((len(rows), *images.shape[1:]), images.dtype)
        every[own] = images
        return every

    def _read(self, row: int) -> np.ndarray:
        image = self.images.read(row, self.image_size)
        if self.crops:
            return with_channels(image, self.channels)
        return fit_image(image, self.image_size, self.pixels)

    def _crop(self, image_and_draws: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        image, draws = image_and_draws
        assert self.augment is not None
        box = self.augment.box(image.shape[0], image.shape[1], draws)
        return resize(image, *self.image_size, box, resample=self.pixels.resample)

    def _spread(self, work: Callable[[T], np.ndarray], items: list[T]) -> list[np.ndarray]:
        """In threads if the first image takes long enough; for small images the threads would cost more."""
        began = time.perf_counter()
        done = [work(item) for item in items[:1]]
        if time.perf_counter() - began < WORTH:
            return [*done, *map(work, items[1:])]
        chunks = [items[first : first + CHUNK] for first in range(1, len(items), CHUNK)]
        return [*done, *chain.from_iterable(self.pool.map(lambda chunk: [*map(work, chunk)], chunks))]


class ImageData(ImageBatches):
    """Batches of labelled images: all of them, or those of `rows`. See `ImageBatches` for the rest."""

    images: ImageSet

    def __init__(
        self,
        images: ImageSet,
        rows: Sequence[int] | np.ndarray | None = None,
        *,
        image_size: Size,
        pixels: Pixels,
        batch_size: int,
        seed: int,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
        budget: int = BUDGET,
    ) -> None:
        self.rows = np.arange(len(images)) if rows is None else np.asarray(rows)
        if not len(self.rows):
            raise ValueError("there must be at least one image, got none")
        super().__init__(
            images,
            image_size=image_size,
            pixels=pixels,
            batch_size=batch_size,
            seed=seed,
            augment=augment,
            device=device,
            budget=budget,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def draw(self, generator: np.random.Generator) -> list[np.ndarray]:
        rows = generator.permutation(self.rows)
        return [rows[first : first + self.batch_size] for first in range(0, len(rows), self.batch_size)]

    def targets(self, rows: np.ndarray) -> Tensor:
        labels = torch.from_numpy(self.images.labels[rows])
        return torch.nn.functional.one_hot(labels, len(self.images.classes)).float()

    def batch(self, item: ImageItem) -> ImageBatch:
        return ImageBatch(*self._augmented_part(item))

    def share(self, item: ImageItem, share: Share) -> tuple[ImageBatch, int]:
        total = len(item.taken)
        return ImageBatch(*self._augmented_part(item, share)).take(share.numbers(total)), total


def normalise(images: Tensor | np.ndarray, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(x / 255 - mean) / std for each channel: (B, H, W, C) with values 0 to 255 -> (B, C, H, W) float32."""
    images = images if isinstance(images, Tensor) else torch.from_numpy(np.array(images))  # Pillow's are read-only
    planes = images.permute(0, 3, 1, 2).contiguous().float() / 255
    average, spread = (send(torch.tensor(each), planes.device).view(-1, 1, 1) for each in (mean, std))
    return planes.sub_(average).div_(spread)
