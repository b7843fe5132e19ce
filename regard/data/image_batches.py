"""Labelled pictures become batches of one size, varied while a model learns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.data.augment import Augment
from regard.data.batch import Batch, sent
from regard.data.images import Pictures, normalise, resize

BUDGET = 2 << 30  # bytes of decoded pictures that are kept
TOGETHER, TOGETHER_BYTES = 8, 64 << 20  # most batches that are varied together, and bytes of their pictures
CHUNK = 16  # pictures that a thread takes at a time
WORTH = 5e-4  # seconds of work on a picture above which threads pay: 128 x 128 pixels of JPEG take 4e-4

T = TypeVar("T")


class Item(NamedTuple):
    """A batch: some of the pictures that are varied together."""

    epoch: int
    rows: np.ndarray  # numbers of pictures
    part: slice = slice(None)  # which of them

    @property
    def taken(self) -> np.ndarray:
        return self.rows[self.part]


@dataclass(frozen=True)
class ImageBatch(Batch):
    images: Tensor  # (B, C, H, W) float32, normalised
    targets: Tensor  # (B, classes) float32: the share of each class, one-hot unless pictures are mixed


class ImageData:
    """Batches of pictures of one size (height, width), made on `device`; random where there is an `augment`.

    What a batch holds follows from its item alone, and is drawn anew each epoch. Small pictures are varied many
    batches at once: what a card does to few takes as long to ask for as what it does to many.
    What was decoded and resized is kept for the next epoch, up to `budget` bytes."""

    def __init__(
        self,
        pictures: Pictures,
        rows: Sequence[int] | np.ndarray | None = None,
        *,
        image: tuple[int, int],
        mean: Sequence[float],
        std: Sequence[float],
        resample: str = "bilinear",
        batch: int,
        seed: int,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
        budget: int = BUDGET,
    ) -> None:
        self.rows = np.arange(len(pictures)) if rows is None else np.asarray(rows)
        if not len(self.rows):
            raise ValueError("there must be at least one picture, got none")
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        if min(image) < 1:
            raise ValueError(f"height and width must be at least 1, got {image[0]} and {image[1]}")
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
            raise ValueError(f"mean and std must be 3 numbers, std above 0, got {tuple(mean)} and {tuple(std)}")
        if seed < 0:
            raise ValueError(f"seed must not be negative, got {seed}")
        self.pictures, self.image, self.mean, self.std = pictures, (image[0], image[1]), tuple(mean), tuple(std)
        self.resample = resample
        self.size, self.seed, self.augment, self.device = batch, seed, augment, device
        self.pool = ThreadPoolExecutor()  # Pillow works beside Python; threads begin when there is something to do
        self.cuts = bool(augment and augment.scale)  # then whole pictures are kept, and each time another part cut
        self.kept: dict[int, np.ndarray] = {}
        self.room = budget
        one = batch * image[0] * image[1] * 3 * 4  # bytes of a batch
        self.together = batch * max(1, min(TOGETHER, TOGETHER_BYTES // one)) if augment else batch  # pictures
        self.varied: tuple[tuple[int, bytes], ImageBatch] | None = None  # what the next batches are parts of

    def __len__(self) -> int:
        return len(self.rows)

    def order(self, epoch: int) -> list[Item]:
        rows = np.random.default_rng([self.seed, epoch]).permutation(self.rows)
        some = [rows[first : first + self.together] for first in range(0, len(rows), self.together)]
        return [
            Item(epoch, each, slice(first, first + self.size))
            for each in some
            for first in range(0, len(each), self.size)
        ]

    def batch(self, item: Item) -> ImageBatch:
        key = item.epoch, item.rows.tobytes()
        if self.varied is None or self.varied[0] != key:
            self.varied = None  # gone before the next are made: no more is held than what is asked for
            self.varied = key, self._vary(item.epoch, item.rows)
        whole = self.varied[1]
        if item.part.indices(len(item.rows))[1] == len(item.rows):  # its last part
            self.varied = None
        return ImageBatch(whole.images[item.part], whole.targets[item.part])

    def _vary(self, epoch: int, rows: np.ndarray) -> ImageBatch:
        generator = np.random.default_rng([self.seed, epoch, 1 + int(rows[0])])  # never that of the order
        images = sent(torch.from_numpy(self._take(rows, generator)), self.device)
        labels = torch.from_numpy(self.pictures.labels[rows])
        targets = sent(torch.nn.functional.one_hot(labels, len(self.pictures.classes)).float(), self.device)
        if self.augment:
            images, targets = self.augment(images, targets, generator)
        return ImageBatch(normalise(images, self.mean, self.std), targets)

    def _take(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """(B, H, W, 3) uint8."""
        pixels = self.pictures.pixels
        if pixels is not None and pixels.shape[1:3] == self.image and not self.cuts:
            return pixels[rows]
        missing = [row for row in rows.tolist() if row not in self.kept]
        found = dict(zip(missing, self._spread(self._read, missing), strict=True))
        taken = [found[row] if row in found else self.kept[row] for row in rows.tolist()]
        for row, picture in found.items():
            if picture.nbytes <= self.room:
                self.kept[row] = picture
                self.room -= picture.nbytes
        if self.cuts:
            taken = self._spread(self._cut, list(zip(taken, generator.random((len(rows), 4)), strict=True)))
        return np.stack(taken)

    def _read(self, row: int) -> np.ndarray:
        picture = self.pictures.read(row)
        return picture if self.cuts else resize(picture, *self.image, resample=self.resample)

    def _cut(self, one: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        picture, draws = one
        assert self.augment is not None
        box = self.augment.box(picture.shape[0], picture.shape[1], draws)
        return resize(picture, *self.image, box, resample=self.resample)

    def _spread(self, work: Callable[[T], np.ndarray], items: list[T]) -> list[np.ndarray]:
        """Over threads, where the first takes long enough: handing over a small picture takes longer than that."""
        began = time.perf_counter()
        done = [work(item) for item in items[:1]]
        if time.perf_counter() - began < WORTH:
            return [*done, *map(work, items[1:])]
        chunks = [items[first : first + CHUNK] for first in range(1, len(items), CHUNK)]
        return [*done, *chain.from_iterable(self.pool.map(lambda chunk: [*map(work, chunk)], chunks))]
