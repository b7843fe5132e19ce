"""Pictures changed at random while a model learns: crops, flips, RandAugment, erasing, mixup, CutMix.

All works on a whole batch (B, H, W, C) of 0 to 255, on the device it lies on; what is drawn is drawn by numpy, so
that it is the same on every device. Operations do what Pillow's of the same name do, in one level at most off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batch import sent

STRONGEST = 30.0
GREY = 128  # what affine operations show from beyond the picture's edge, as in RandAugment
WIDEST = 4 / 3  # width to height of a random resized crop, or height to width
ERASED = (0.02, 0.33)  # share of the area that is erased
WIDEST_ERASED = 1 / 0.3


@dataclass(frozen=True)
class Augment:
    """Padding and crop, or random resized crop where `scale` is above 0; flip; `operations` of RandAugment
    (Cubuk 2020) of `strength` 0 to 30; random erasing (Zhong 2020); mixup (Zhang 2018) and CutMix (Yun 2019), where
    both are on each for about half of the pictures."""

    crop: int = 4  # pixels of black put round a picture before a part of its old size is cut out
    scale: float = 0.0  # least share of the area in a random resized crop, say 0.08; 0: none, `crop` instead
    flip: bool = True
    operations: int = 0
    strength: float = 9.0
    erase: float = 0.0  # share of the pictures in which a rectangle is erased
    mixup: float = 0.0  # alpha of Beta(alpha, alpha); 0: none
    cutmix: float = 0.0  # the same, of the share of a picture's area that stays its own

    def __post_init__(self) -> None:
        for name in ("crop", "operations", "mixup", "cutmix"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {getattr(self, name)}")
        for name, most in (("scale", 1.0), ("erase", 1.0), ("strength", STRONGEST)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie in 0 to {most:g}, got {getattr(self, name)}")

    def __call__(self, images: Tensor, targets: Tensor, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """uint8 (B, H, W, C) and (B, classes) -> float of 0 to 255, and targets; all but the resized crop, which
        must come before pictures have one size: see `box`."""
        images = self._shift(images, generator)
        for _ in range(self.operations):
            images = self._operate(images, generator)
        images = images.float()
        if self.erase:
            images = erase(images, self.erase, generator)
        if not (self.mixup or self.cutmix):
            return images, targets
        return mix(images, targets, generator, mixup=self.mixup, cutmix=self.cutmix)

    def box(self, height: int, width: int, draws: np.ndarray) -> tuple[float, float, float, float]:
        """What a random resized crop cuts out: left, top, right, bottom, from four numbers drawn in 0 to 1.

        A side that would be too long is cut short."""
        share, aspect, left, top = draws.tolist()
        area = (self.scale + (1 - self.scale) * share) * height * width
        aspect = WIDEST ** (2 * aspect - 1)
        across, down = min(width, math.sqrt(area * aspect)), min(height, math.sqrt(area / aspect))
        left, top = left * (width - across), top * (height - down)
        return left, top, min(width, left + across), min(height, top + down)

    def _shift(self, images: Tensor, generator: np.random.Generator) -> Tensor:
        """Crop and flip, both in one gathering of pixels."""
        crop = 0 if self.scale else self.crop
        if not (crop or self.flip):
            return images
        count, height, width, _ = images.shape
        rows = np.arange(height) + generator.integers(2 * crop + 1, size=(count, 1))  # (B, H)
        columns = np.arange(width) + generator.integers(2 * crop + 1, size=(count, 1))  # (B, W)
        turned = generator.random((count, 1)) < (0.5 if self.flip else 0)
        columns = np.where(turned, columns[:, ::-1], columns)
        padded = F.pad(images, (0, 0, crop, crop, crop, crop))
        rows += np.arange(count)[:, None] * (height + 2 * crop)  # of all pictures, one below the other
        rows *= width + 2 * crop
        return padded.flatten(0, 2)[_there(rows, images)[:, :, None] + _there(columns, images)[:, None]]

    def _operate(self, images: Tensor, generator: np.random.Generator) -> Tensor:
        """One operation on each picture, drawn for it alone; those that drew the same go through it together."""
        count, height, width, _ = images.shape
        names = generator.integers(len(NAMES), size=count)
        levels = self.strength / STRONGEST * generator.choice([-1.0, 1.0], size=count)
        order = np.argsort(names, kind="stable")  # those that drew the same side by side
        rows, level = _there(order, images), _there(levels[order], images)
        ends = np.searchsorted(names[order], np.arange(len(NAMES) + 1))
        changed = images.clone()
        moved = order[: ends[len(MOVES)]]  # their names come first
        if len(moved):
            drawn = zip(MOVES.values(), np.split(levels[moved], ends[1 : len(MOVES)]), strict=True)
            matrices = np.concatenate([move(some, height, width) for move, some in drawn])
            changed[rows[: len(moved)]] = affine(images[rows[: len(moved)]], matrices)
        for name, first, last in zip(NAMES, ends[:-1], ends[1:], strict=True):
            if first < last and name in CHANGES:
                changed[rows[first:last]] = CHANGES[name](images[rows[first:last]], level[first:last])
        return changed


def _there(numbers: np.ndarray, images: Tensor) -> Tensor:
    """Fractions in float32."""
    numbers = numbers.astype(np.float32) if numbers.dtype == np.float64 else numbers
    return sent(torch.from_numpy(numbers), images.device)


def mix(
    images: Tensor, targets: Tensor, generator: np.random.Generator, *, mixup: float = 0.0, cutmix: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mixup: lam x_i + (1 - lam) x_j, lam ~ Beta(mixup, mixup). CutMix: x_i but for a rectangle out of x_j, which
    takes 1 - lam of the area, lam ~ Beta(cutmix, cutmix), before the edges cut it off. Targets by the true shares.
    Each row has a lam and a partner of its own; where both are on, chance says which it is."""
    count, height, width, _ = images.shape
    partner = _there(generator.permutation(count), images)
    share = generator.beta(mixup, mixup, count) if mixup else np.ones(count)
    own = _there(share, images)[:, None, None]  # of each pixel: (B, 1, 1) or (B, H, W)
    if cutmix:
        cut = generator.random(count) < (0.5 if mixup else 1.0)
        sizes = np.array([[height], [width]])
        sides = np.sqrt(1 - generator.beta(cutmix, cutmix, count)) * sizes  # (2, B)
        middles = generator.random((2, count)) * sizes
        first, last = (np.clip(np.rint(middles + side / 2), 0, sizes) for side in (-sides, sides))
        share = np.where(cut, 1 - (last - first).prod(0) / (height * width), share)
        own = torch.where(_there(cut, images)[:, None, None], ~_boxes(images, first, last), own)
    images = torch.lerp(images[partner], images, own[..., None])
    return images, torch.lerp(targets[partner], targets, _there(share, images)[:, None])


def _boxes(images: Tensor, first: np.ndarray, last: np.ndarray) -> Tensor:
    """(B, H, W): which pixels lie in rectangles that reach from `first` to before `last`, (2, B): down, across."""
    edges = _there(np.stack([first, last], -1), images)  # (2, B, 2)
    down, across = (_between(edge, length) for edge, length in zip(edges, images.shape[1:3], strict=True))
    return down[:, :, None] & across[:, None, :]


def _between(edges: Tensor, length: int) -> Tensor:
    """edges (B, 2) -> (B, length)"""
    places = torch.arange(length, device=edges.device)
    return (edges[:, :1] <= places) & (places < edges[:, 1:])


def erase(images: Tensor, share: float, generator: np.random.Generator) -> Tensor:
    """In this share of the pictures, a rectangle becomes one random colour (noise in Zhong 2020)."""
    count, height, width, channels = images.shape
    area = generator.uniform(*ERASED, count) * height * width
    aspect = WIDEST_ERASED ** generator.uniform(-1, 1, count)
    sizes = np.array([[height], [width]])
    sides = np.clip(np.rint([np.sqrt(area / aspect), np.sqrt(area * aspect)]), 1, sizes)  # (2, B)
    first = np.floor(generator.random((2, count)) * (sizes - sides + 1))
    last = np.where(generator.random(count) < share, first + sides, first)  # to before the first: nothing
    colour = _there(generator.integers(256, size=(count, 1, 1, channels)), images).to(images.dtype)
    return torch.where(_boxes(images, first, last)[..., None], colour, images)


def affine(images: Tensor, matrices: np.ndarray) -> Tensor:
    """Bilinear. matrices (B, 2, 3) lead from a place in the new picture to one in the old, in pixels from the
    middle. As in Pillow, a place beyond the edge is grey, and the edge itself does not fade."""
    _, height, width, _ = images.shape
    matrix = _there(matrices, images)[..., None, None]  # (B, 2, 3, 1, 1)
    across = torch.arange(width, device=images.device) + 0.5 - width / 2  # (W,)
    down = (torch.arange(height, device=images.device) + 0.5 - height / 2)[:, None]  # (H, 1)
    size = _there(np.array([width, height]), images)
    places = matrix[:, :, 0] * across + matrix[:, :, 1] * down + matrix[:, :, 2]  # (B, 2, H, W)
    places = 2 * places.permute(0, 2, 3, 1) / size  # -1 and 1 are the edges
    inside = ((places >= -1) & (places < 1)).all(-1, keepdim=True)
    planes = images.permute(0, 3, 1, 2).float()
    seen = F.grid_sample(planes, places, padding_mode="border", align_corners=False).permute(0, 2, 3, 1)
    return torch.where(inside, seen.round(), GREY).to(torch.uint8)


def _matrices(*numbers: float | np.ndarray) -> np.ndarray:
    """Six numbers, each one for all pictures or (B,) -> (B, 2, 3)"""
    return np.stack(np.broadcast_arrays(*numbers), -1).reshape(-1, 2, 3)


def _rotate(level: np.ndarray, height: int, width: int) -> np.ndarray:
    sine, cosine = np.sin(np.radians(30 * level)), np.cos(np.radians(30 * level))
    return _matrices(cosine, sine, 0, -sine, cosine, 0)


# levels (B,) -> the matrices that `affine` takes. A level is signed and 1 at the strongest.
MOVES: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "shear x": lambda level, height, width: _matrices(1, 0.3 * level, 0, 0, 1, 0),
    "shear y": lambda level, height, width: _matrices(1, 0, 0, 0.3 * level, 1, 0),
    "translate x": lambda level, height, width: _matrices(1, 0, 0.45 * level * width, 0, 1, 0),
    "translate y": lambda level, height, width: _matrices(1, 0, 0, 0, 1, 0.45 * level * height),
    "rotate": _rotate,
}


def _blend(plain: Tensor, images: Tensor, level: Tensor) -> Tensor:
    """From the plain picture to the image and beyond: factor 1 + 0.9 level, cut off as Pillow does."""
    factor = (1 + 0.9 * level)[:, None, None, None]
    return torch.lerp(plain.float(), images.float(), factor).clamp(0, 255).to(torch.uint8)


def _grey(images: Tensor) -> Tensor:
    """ITU-R 601 in the whole numbers of Pillow: (B, H, W, 1) int32."""
    weights = _there(np.array([19595, 38470, 7471], dtype=np.int32), images)
    return ((images.int() * weights).sum(-1, keepdim=True, dtype=torch.int32) + 0x8000) >> 16


def brightness(images: Tensor, level: Tensor) -> Tensor:
    return _blend(torch.zeros_like(images), images, level)


def colour(images: Tensor, level: Tensor) -> Tensor:
    return _blend(_grey(images), images, level)


def contrast(images: Tensor, level: Tensor) -> Tensor:
    return _blend((_grey(images).double().mean((1, 2, 3), keepdim=True) + 0.5).floor(), images, level)


def sharpness(images: Tensor, level: Tensor) -> Tensor:
    """The plain picture is smoothed, but for its outermost pixels."""
    kernel = torch.ones(3, 3, device=images.device)
    kernel[1, 1] = 5
    smooth = images.clone()
    if min(images.shape[1:3]) > 2:
        channels = images.shape[3]
        planes = images.permute(0, 3, 1, 2).float()
        summed = F.conv2d(planes, kernel.expand(channels, 1, 3, 3), groups=channels).permute(0, 2, 3, 1)
        smooth[:, 1:-1, 1:-1] = (summed / 13 + 0.5).to(torch.uint8)
    return _blend(smooth, images, level)


def posterise(images: Tensor, level: Tensor) -> Tensor:
    """8 bits a colour become 4 at the strongest."""
    lost = torch.round(4 * level.abs()).to(torch.uint8)[:, None, None, None]
    return (images >> lost) << lost


def solarise(images: Tensor, level: Tensor) -> Tensor:
    """What is as bright as the threshold or brighter is inverted."""
    threshold = 256 * (1 - level.abs())[:, None, None, None]
    return torch.where(images < threshold, images, 255 - images)


def _look_up(images: Tensor, table: Tensor) -> Tensor:
    """table (B, C, 256): what each colour of each picture becomes."""
    planes = images.permute(0, 3, 1, 2)
    return (
        table.clamp(0, 255)
        .to(torch.uint8)
        .gather(2, planes.flatten(2).long())
        .view(planes.shape)
        .permute(0, 2, 3, 1)
    )


def auto_contrast(images: Tensor, level: Tensor) -> Tensor:
    """Each colour stretched to reach from 0 to 255, unless it is the same everywhere. `level` does not matter."""
    low, high = (edge.double()[..., None] for edge in torch.aminmax(images.flatten(1, 2), dim=1))  # (B, C, 1)
    shades = torch.arange(256, device=images.device).double()
    return _look_up(images, torch.where(high > low, (shades - low) * (255 / (high - low)), shades))


def equalise(images: Tensor, level: Tensor) -> Tensor:
    """Each shade moved to its rank, so that all become about as frequent. `level` does not matter."""
    count, _, _, channels = images.shape
    planes = images.permute(0, 3, 1, 2).reshape(count * channels, -1).long()  # (B C, H W)
    counts = torch.zeros(len(planes), 256, dtype=torch.long, device=images.device)
    counts = counts.scatter_add_(1, planes, torch.ones_like(planes)).view(count, channels, 256)
    brightest = planes.amax(1).view(count, channels, 1)
    step = (planes.shape[1] - counts.gather(2, brightest)) // 255
    table = (step // 2 + counts.cumsum(2) - counts) // step.clamp(min=1)
    return _look_up(images, torch.where(step > 0, table, torch.arange(256, device=images.device)))


# (images, level (B,), signed and 1 at the strongest) -> images.
CHANGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "brightness": brightness,
    "colour": colour,
    "contrast": contrast,
    "sharpness": sharpness,
    "posterise": posterise,
    "solarise": solarise,
    "auto-contrast": auto_contrast,
    "equalise": equalise,
}
NAMES = (*MOVES, *CHANGES, "identity")
