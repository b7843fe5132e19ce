"""Episodes for few-shot learning: a few labelled images of some classes, and a query of one of them.

Classes may be chosen by a list, a name a line; a name may end in /rot090, /rot180 or /rot270 (counter-clockwise),
as in the lists of Omniglot: a rotated character is a class of its own. Images of all classes are held in one array
(a `Pool`), on the GPU if there is one; an episode is the places of its images there."""

from __future__ import annotations

import re
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.base.files import explain_os_errors
from regard.base.lines import open_lines
from regard.base.zip_files import explain_zip_errors
from regard.data.artifacts import Pixels
from regard.data.batches.batch import Batch, TakenRows, send
from regard.data.images.augment_ops import coarsen, distort, thicken
from regard.data.images.image_batches import normalise
from regard.data.images.images import Size, fit_image, with_channels
from regard.data.images.labelled_images import ImageSet, read_array
from regard.errors import DataError

EPOCH = 1000  # batches; there is no end of new episodes
BUDGET = 4 << 30  # bytes of images that are held on a GPU; more stay in main memory
TURNED = re.compile(r"(.+)/rot(000|090|180|270)")
FIXED = (("support", "support28"), ("test", "test28"), ("label", "labels"))


class Chosen(NamedTuple):
    """A class: its label in an ImageSet, and how often its images are turned by 90 degrees."""

    label: int
    turns: int = 0


def listed_classes(path: str | Path, classes: Sequence[str]) -> list[Chosen]:
    """The classes that a file lists. A name may leave out the folders that others begin with, if it stays unique:
    Greek/character01 for images_background/Greek/character01."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(classes):
        parts = name.split("/")
        for first in range(len(parts)):
            places.setdefault("/".join(parts[first:]), []).append(place)
    chosen = []
    for number, line in open_lines(path):
        if not (name := line.strip()):
            continue
        turned = TURNED.fullmatch(name) if name not in places else None
        name, turns = (turned[1], int(turned[2]) // 90) if turned else (name, 0)
        fitting = places.get(name, [])
        if len(fitting) != 1:
            why = f"{len(fitting)} classes have it" if fitting else f"the data has {', '.join(classes[:3])}, ..."
            raise DataError(f"{path}, line {number}: no single class is called {name!r:.80}; {why}")
        chosen.append(Chosen(fitting[0], turns))
    if len(set(chosen)) < len(chosen):
        twice = next(each for each in chosen if chosen.count(each) > 1)
        raise DataError(f"{path}: the class {classes[twice.label]!r:.80} is listed twice with the same rotation")
    return chosen


def with_rotations(chosen: Iterable[Chosen]) -> list[Chosen]:
    """Each class, and as further classes the same turned by 90, 180 and 270 degrees; none of them twice."""
    return list(dict.fromkeys(Chosen(label, (turns + more) % 4) for label, turns in chosen for more in range(4)))


@dataclass(frozen=True)
class Pool:
    """Images of one size; those of a class follow each other."""

    images: np.ndarray  # (N, H, W, C) uint8
    counts: np.ndarray  # (classes,) how many images each has

    def __len__(self) -> int:
        return len(self.counts)


def build_pool(images: ImageSet, chosen: Sequence[Chosen], size: Size, pixels: Pixels) -> Pool:
    """The images of some classes, as a model with images of `size` reads them."""
    if any(turns % 2 for _, turns in chosen) and size[0] != size[1]:
        raise DataError(f"only square images can be rotated; model.image_size is {size[0]} x {size[1]}")
    order = np.argsort(images.labels, kind="stable")
    ends = np.searchsorted(images.labels[order], np.arange(len(images.classes) + 1))
    rows = [order[ends[label] : ends[label + 1]] for label, _ in chosen]
    fitted = _fitted(images, np.unique(np.concatenate(rows)), size, pixels)
    parts = [np.rot90(fitted(own), turns, axes=(1, 2)) for own, (_, turns) in zip(rows, chosen, strict=True)]
    return Pool(np.concatenate(parts), np.array([len(own) for own in rows]))


def _fitted(images: ImageSet, rows: np.ndarray, size: Size, pixels: Pixels) -> Callable[[np.ndarray], np.ndarray]:
    """A function of rows that gives them as (N, H, W, C); each file is read once."""
    channels, array = len(pixels.mean), images.pixels
    if array is not None and array.shape[1:3] == size and not pixels.shortest_edge:
        return lambda own: with_channels(array[own], channels)
    read = np.stack([fit_image(images.read(row, size), size, pixels) for row in rows.tolist()])
    return lambda own: read[np.searchsorted(rows, own)]


# ---- episodes


@dataclass(frozen=True, repr=False)
class EpisodeBatch(Batch):
    """The last images of each episode are the queries."""

    images: Tensor  # (E, S + Q, C, H, W) float32, normalised
    labels: Tensor  # (E, S): the number of the class in this episode
    answers: Tensor  # (E, Q): those of the queries


class EpisodeItem(NamedTuple):
    """A batch."""

    epoch: int
    number: int
    size: int  # episodes


class EpisodeData(TakenRows):
    """Batches of episodes from a pool. Which images an episode has is a function of the seed and the item alone."""

    def __init__(self, images: np.ndarray, *, pixels: Pixels, batch_size: int, device: torch.device | str = "cpu"):
        self.pixels, self.batch_size, self.device = pixels, batch_size, device
        self.images = torch.from_numpy(np.ascontiguousarray(images))  # (N, H, W, C) uint8
        if images.nbytes <= BUDGET:
            self.images = self.images.to(device)

    ways: int  # classes of each episode
    count: int  # episodes of an epoch
    queries: int = 1  # of an episode

    @abstractmethod
    def episodes(self, item: EpisodeItem) -> tuple[Tensor, Tensor]:
        """The places of the images in the pool, and their labels, (E, S + Q) each."""

    def order(self, epoch: int) -> list[EpisodeItem]:
        full, rest = divmod(self.count, self.batch_size)
        sizes = [self.batch_size] * full + ([rest] if rest else [])
        return [EpisodeItem(epoch, number, size) for number, size in enumerate(sizes)]

    def change(self, images: Tensor, item: EpisodeItem) -> Tensor:
        """What is done to the images of a batch (N, H, W, C): nothing."""
        return images

    def take(self, places: Tensor) -> Tensor:
        """The images at these places (N,), as a model reads them: (N, C, H, W), on the device."""
        return self._read(self._look_up(places))

    def _look_up(self, places: Tensor) -> Tensor:
        return send(self.images[send(places, self.images.device)], self.device)

    def _read(self, images: Tensor) -> Tensor:
        return normalise(images, self.pixels.mean, self.pixels.std)

    def batch(self, item: EpisodeItem) -> EpisodeBatch:
        places, labels = self.episodes(item)
        images = self._read(self.change(self._look_up(places.flatten()), item))
        support, answers = labels.split((labels.shape[1] - self.queries, self.queries), 1)
        labels, answers = (send(part.contiguous(), self.device) for part in (support, answers))
        return EpisodeBatch(images.unflatten(0, places.shape), labels, answers)


class DrawnEpisodes(EpisodeData):
    """Classes, their images, their numbers and the order of the support are drawn. `count`: how many episodes;
    None: new episodes in every epoch, for training. `queries`: how many are asked about the same examples; of a
    class there may be several, or none. `distort`: how much images are turned, sheared, scaled and shifted;
    `thicken`: by how many pixels strokes grow at most; `coarsen`: the share of them that becomes as if it were
    enlarged; `invert`: the share that becomes dark where it is bright.

    In the first `curriculum_steps` batches the classes of an episode rise from 2 to `ways`, with numbers drawn from
    all: among many classes at once a network may never find out that the query has a counterpart."""

    def __init__(
        self,
        pool: Pool,
        *,
        ways: int,
        shots: int,
        pixels: Pixels,
        batch_size: int,
        seed: int,
        count: int | None = None,
        queries: int = 1,
        distort: float = 0.0,
        thicken: int = 0,
        coarsen: float = 0.0,
        invert: float = 0.0,
        curriculum_steps: int = 0,
        device: torch.device | str = "cpu",
    ):
        super().__init__(pool.images, pixels=pixels, batch_size=batch_size, device=device)
        self.ways, self.shots, self.queries, self.seed = ways, shots, queries, seed
        self.distort, self.thicken, self.coarsen, self.invert = distort, thicken, coarsen, invert
        self.curriculum_steps = curriculum_steps
        self.count = EPOCH * batch_size if count is None else count
        self.counts, self.starts = pool.counts, np.cumsum(pool.counts) - pool.counts

    def ways_of(self, item: EpisodeItem) -> int:
        """The classes of the episodes of a batch."""
        step = item.epoch * EPOCH + item.number
        if step >= self.curriculum_steps:
            return self.ways
        return min(2, self.ways) + (self.ways - 2) * step // self.curriculum_steps

    def change(self, images: Tensor, item: EpisodeItem) -> Tensor:
        drawn = [self.seed, item.epoch, item.number]
        if self.distort:
            images = distort(images, self.distort, np.random.default_rng([*drawn, 1]))
        if self.thicken:
            images = thicken(images, self.thicken, np.random.default_rng([*drawn, 3]))
        if self.coarsen:
            images = coarsen(images, self.coarsen, np.random.default_rng([*drawn, 4]))
        if self.invert:
            chosen = np.random.default_rng([*drawn, 2]).random(len(images)) < self.invert
            images = torch.where(
                send(torch.from_numpy(chosen), images.device)[:, None, None, None], 255 - images, images
            )
        return images

    def episodes(self, item: EpisodeItem) -> tuple[Tensor, Tensor]:
        generator = np.random.default_rng([self.seed, item.epoch, item.number])
        total, ways, shots = len(self.counts), self.ways_of(item), self.shots
        classes = different(generator, total, ways, item.size)  # (E, ways)
        counts = self.counts[classes]
        drawn = generator.random((item.size, ways, int(counts.max())))
        drawn[np.arange(drawn.shape[-1]) >= counts[..., None]] = 2.0  # there is no such image
        examples = drawn.argsort(-1) + self.starts[classes][..., None]  # (E, ways, images): shuffled
        labels = np.broadcast_to(np.arange(ways)[:, None], (ways, shots)).ravel()
        order = generator.permuted(np.tile(np.arange(ways * shots), (item.size, 1)), axis=1)
        support = np.take_along_axis(examples[..., :shots].reshape(item.size, -1), order, 1)
        query_classes = generator.integers(ways, size=(item.size, self.queries))
        left = np.take_along_axis(counts, query_classes, 1) - shots
        which = shots + (generator.random(query_classes.shape) * left).astype(int)
        query = examples[np.arange(item.size)[:, None], query_classes, which]
        places, numbers = np.concatenate([support, query], 1), np.concatenate([labels[order], query_classes], 1)
        if ways < self.ways:
            numbers = np.take_along_axis(different(generator, self.ways, ways, item.size), numbers, 1)
        return torch.from_numpy(places), torch.from_numpy(numbers)


def different(generator: np.random.Generator, total: int, count: int, rows: int) -> np.ndarray:
    """Rows of `count` different numbers below `total`, each as likely as any other: (rows, count)"""
    if total < 2 * count**2:
        return generator.random((rows, total)).argsort(1)[:, :count]
    drawn = generator.integers(total, size=(rows, count))
    while (again := (np.diff(np.sort(drawn, 1)) == 0).any(1)).any():  # few rows, as there are many numbers
        drawn[again] = generator.integers(total, size=(int(again.sum()), count))
    return drawn


class FixedEpisodes(EpisodeData):
    """Episodes that a file gives: places and labels (count, T)."""

    def __init__(
        self,
        images: np.ndarray,
        places: np.ndarray,
        labels: np.ndarray,
        *,
        pixels: Pixels,
        batch_size: int,
        device: torch.device | str = "cpu",
    ):
        super().__init__(images, pixels=pixels, batch_size=batch_size, device=device)
        self.places, self.labels = torch.from_numpy(places), torch.from_numpy(labels)
        self.count, self.ways = len(places), int(labels.max()) + 1

    def episodes(self, item: EpisodeItem) -> tuple[Tensor, Tensor]:
        first = item.number * self.batch_size
        rows = slice(first, first + item.size)
        return self.places[rows], self.labels[rows]


class Runs(NamedTuple):
    """One-shot runs, as Lake et al. 2015 have them: each shows an image of every class and asks several queries."""

    support: np.ndarray  # (runs, ways, H, W) uint8
    queries: np.ndarray  # (runs, queries, H, W) uint8
    answers: np.ndarray  # (runs, queries): which support image has the same class


def open_runs(path: Path) -> Runs | None:
    """The runs of an .npz file with the arrays support, test and label; None if it holds something else."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return None
    with explain_os_errors(path), explain_zip_errors(path, "an .npz file"), zipfile.ZipFile(path) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        wanted = [next((name for name in usual if name in names), "") for usual in FIXED]
        if not all(wanted):
            return None
        support, queries, answers = (read_array(archive, name, path) for name in wanted)
    for name, array in zip(wanted[:2], (support, queries), strict=True):
        if array.dtype != np.uint8 or array.ndim != 4 or 0 in array.shape:
            raise DataError(f"{path}: {name!r} must be (runs, images, H, W) uint8, got {array.shape} {array.dtype}")
    if answers.dtype.kind not in "iu" or answers.shape != queries.shape[:2] or len(support) != len(queries):
        raise DataError(
            f"{path}: {wanted[2]!r} must have a number for each query {queries.shape[:2]}, and {wanted[0]!r} "
            f"as many runs; got {answers.shape} {answers.dtype} and {len(support)} runs"
        )
    if answers.min() < 0 or answers.max() >= support.shape[1]:
        raise DataError(
            f"{path}: {wanted[2]!r} must lie in 0 to {support.shape[1] - 1}, the support images of a run; "
            f"got {answers.min()} to {answers.max()}"
        )
    return Runs(support, queries, answers.astype(np.int64))


def fixed_episodes(
    runs: Runs, *, size: Size, pixels: Pixels, batch_size: int, device: torch.device | str = "cpu"
) -> FixedEpisodes:
    """An episode for each query of each run."""
    both = [x.reshape(-1, *x.shape[2:], 1) for x in (runs.support, runs.queries)]
    images = np.concatenate([np.stack([fit_image(image, size, pixels) for image in part]) for part in both])
    (count, ways), queries = runs.support.shape[:2], runs.queries.shape[1]
    support = np.repeat(np.arange(count * ways).reshape(count, ways), queries, 0)  # (runs * queries, ways)
    places = np.concatenate([support, count * ways + np.arange(count * queries)[:, None]], 1)
    labels = np.concatenate([np.tile(np.arange(ways), (count * queries, 1)), runs.answers.reshape(-1, 1)], 1)
    return FixedEpisodes(images, places, labels, pixels=pixels, batch_size=batch_size, device=device)
