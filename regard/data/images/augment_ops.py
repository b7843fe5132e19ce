"""Image augmentation on whole batches (B, H, W, C) with values 0 to 255, on the device of the batch.

Random numbers are drawn by numpy, so that they are the same on every device. Operations match Pillow's of the same
name within one grey level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batches.batch import send, wide
from regard.data.images.augment import MAX_MAGNITUDE, Augment

GREY = 128  # the fill value of affine operations outside the image, as in RandAugment
ERASED = (0.02, 0.33)  # range of the share of the area that is erased
COARSER = (2, 3, 4)  # how many times smaller a coarse image was
WIDEST_ERASED = 1 / 0.3  # largest aspect ratio of an erased rectangle


def augment_images(
    augment: Augment, images: Tensor, targets: Tensor, generator: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """uint8 (B, H, W, C) and (B, classes) -> float images with values 0 to 255, and targets.

    Everything but the random resized crop, which happens before images have one size: see `Augment.box`."""
    images = _crop_and_flip(augment, images, generator)
    for _ in range(augment.num_ops):
        images = _operate(images, augment.magnitude, generator)
    images = images.float()
    if augment.erase_probability:
        images = erase(images, augment.erase_probability, generator)
    if augment.cutout:
        images = cut_out(images, augment.cutout, generator)
    if not (augment.mixup or augment.cutmix):
        return images, targets
    return mix(images, targets, generator, mixup=augment.mixup, cutmix=augment.cutmix)


def _crop_and_flip(augment: Augment, images: Tensor, generator: np.random.Generator) -> Tensor:
    """Both in one gather of pixels."""
    crop = 0 if augment.scale else augment.crop
    if not (crop or augment.flip):
        return images
    count, height, width, _ = images.shape
    rows = np.arange(height) + generator.integers(2 * crop + 1, size=(count, 1))  # (B, H)
    columns = np.arange(width) + generator.integers(2 * crop + 1, size=(count, 1))  # (B, W)
    flipped = generator.random((count, 1)) < (0.5 if augment.flip else 0)
    columns = np.where(flipped, columns[:, ::-1], columns)
    padded = F.pad(images, (0, 0, crop, crop, crop, crop))
    rows += np.arange(count)[:, None] * (height + 2 * crop)  # rows of all images, one below the other
    rows *= width + 2 * crop
    return padded.flatten(0, 2)[_there(rows, images)[:, :, None] + _there(columns, images)[:, None]]


def _operate(images: Tensor, magnitude: float, generator: np.random.Generator) -> Tensor:
    """One operation for each image, drawn independently; images with the same operation go through it together."""
    count, height, width, _ = images.shape
    names = generator.integers(len(NAMES), size=count)
    levels = magnitude / MAX_MAGNITUDE * generator.choice([-1.0, 1.0], size=count)
    order = np.argsort(names, kind="stable")  # images with the same operation side by side
    rows, level = _there(order, images), _there(levels[order], images)
    ends = np.searchsorted(names[order], np.arange(len(NAMES) + 1))
    changed = images.clone()
    moved = order[: ends[len(MOVES)]]  # the moves come first in NAMES
    if len(moved):
        drawn = zip(MOVES.values(), np.split(levels[moved], ends[1 : len(MOVES)]), strict=True)
        matrices = np.concatenate([move(level, height, width) for move, level in drawn])
        changed[rows[: len(moved)]] = affine(images[rows[: len(moved)]], matrices)
    for name, first, last in zip(NAMES, ends[:-1], ends[1:], strict=True):
        if first < last and name in CHANGES:
            changed[rows[first:last]] = CHANGES[name](images[rows[first:last]], level[first:last])
    return changed


def _there(numbers: np.ndarray, images: Tensor) -> Tensor:
    """To the images' device; fractions as float32."""
    numbers = numbers.astype(np.float32) if numbers.dtype == np.float64 else numbers
    return send(torch.from_numpy(numbers), images.device)


def mix(
    images: Tensor, targets: Tensor, generator: np.random.Generator, *, mixup: float = 0.0, cutmix: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mixup: lam x_i + (1 - lam) x_j, lam ~ Beta(mixup, mixup). CutMix: x_i with a rectangle from x_j, which covers
    1 - lam of the area, lam ~ Beta(cutmix, cutmix), before it is clipped at the edges. Targets are mixed by the
    true shares. Each row has its own lam and partner; if both are on, each row draws one of them."""
    count, height, width, _ = images.shape
    partner = _there(generator.permutation(count), images)
    share = generator.beta(mixup, mixup, count) if mixup else np.ones(count)
    own = _there(share, images)[:, None, None]  # of each pixel: (B, 1, 1) or (B, H, W)
    if cutmix:
        cut = generator.random(count) < (0.5 if mixup else 1.0)
        sizes = np.array([[height], [width]])
        sides = np.sqrt(1 - generator.beta(cutmix, cutmix, count)) * sizes  # (2, B)
        first, last = _around_any_place(sides, sizes, generator)
        share = np.where(cut, 1 - (last - first).prod(0) / (height * width), share)
        own = torch.where(_there(cut, images)[:, None, None], ~_boxes(images, first, last), own)
    images = torch.lerp(images[partner], images, own[..., None])
    return images, torch.lerp(targets[partner], targets, _there(share, images)[:, None])


def _around_any_place(
    sides: np.ndarray, sizes: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Where rectangles of these sides (2, B) begin and end, around any place of an image of `sizes` (2, 1), whose
    edges cut them off."""
    middles = generator.random(sides.shape) * sizes
    first, last = (np.clip(np.rint(middles + side / 2), 0, sizes) for side in (-sides, sides))
    return first, last


def _boxes(images: Tensor, first: np.ndarray, last: np.ndarray) -> Tensor:
    """(B, H, W): the pixels in rectangles from `first` up to `last`, not included, both (2, B): down, across."""
    edges = _there(np.stack([first, last], -1), images)  # (2, B, 2)
    down, across = (_between(edge, length) for edge, length in zip(edges, images.shape[1:3], strict=True))
    return down[:, :, None] & across[:, None, :]


def _between(edges: Tensor, length: int) -> Tensor:
    """edges (B, 2) -> (B, length)"""
    places = torch.arange(length, device=edges.device)
    return (edges[:, :1] <= places) & (places < edges[:, 1:])


def erase(images: Tensor, probability: float, generator: np.random.Generator) -> Tensor:
    """With this probability a rectangle of an image becomes one random colour (noise in Zhong 2020)."""
    count, height, width, channels = images.shape
    area = generator.uniform(*ERASED, count) * height * width
    aspect = WIDEST_ERASED ** generator.uniform(-1, 1, count)
    sizes = np.array([[height], [width]])
    sides = np.clip(np.rint([np.sqrt(area / aspect), np.sqrt(area * aspect)]), 1, sizes)  # (2, B)
    first = np.floor(generator.random((2, count)) * (sizes - sides + 1))
    last = np.where(generator.random(count) < probability, first + sides, first)  # else an empty rectangle
    colour = _there(generator.integers(256, size=(count, 1, 1, channels)), images).to(images.dtype)
    return torch.where(_boxes(images, first, last)[..., None], colour, images)


def cut_out(images: Tensor, side: int, generator: np.random.Generator) -> Tensor:
    """A square around any place of each image has the image's mean colour (DeVries & Taylor 2017: the mean of all
    images'); at the edges it is cut off."""
    count, height, width, _ = images.shape
    first, last = _around_any_place(np.full((2, count), float(side)), np.array([[height], [width]]), generator)
    return torch.where(_boxes(images, first, last)[..., None], images.mean((1, 2), keepdim=True), images)


def distort(images: Tensor, share: float, generator: np.random.Generator) -> Tensor:
    """(B, H, W, C), each image turned, sheared, scaled and shifted: the place x shows what was at (I + D) x + d,
    with D, and d in parts of a side, uniform in +-share. Edges are continued."""
    count, height, width, _ = images.shape
    drawn = share * generator.uniform(-1, 1, (count, 2, 3))
    return affine(images, np.eye(2, 3) + drawn * [[1, 1, width], [1, 1, height]], fill=None)


def thicken(images: Tensor, most: int, generator: np.random.Generator) -> Tensor:
    """(B, H, W, C), the bright strokes of each image wider by 0 to `most` pixels on each side."""
    wider = _there(generator.integers(most + 1, size=len(images)), images)[:, None, None, None]
    planes = images.permute(0, 3, 1, 2).float()
    for pixels in range(1, most + 1):
        planes = torch.where(wider >= pixels, F.max_pool2d(planes, 3, 1, 1), planes)
    return planes.permute(0, 2, 3, 1).to(torch.uint8)


def coarsen(images: Tensor, share: float, generator: np.random.Generator) -> Tensor:
    """(B, H, W, C), a share of the images as if enlarged from a half, a third or a quarter of the size."""
    drawn = np.where(generator.random(len(images)) < share, generator.choice(COARSER, len(images)), 1)
    times = _there(drawn, images)[:, None, None, None]
    planes = images.permute(0, 3, 1, 2).float()
    seen = planes
    for less in COARSER:
        height, width = (max(side // less, 1) for side in planes.shape[2:])
        small = F.adaptive_avg_pool2d(planes, (height, width))
        enlarged = F.interpolate(small, planes.shape[2:], mode="bilinear").round()
        seen = torch.where(times == less, enlarged, seen)
    return seen.permute(0, 2, 3, 1).to(torch.uint8)


def affine(images: Tensor, matrices: np.ndarray, *, fill: int | None = GREY) -> Tensor:
    """Bilinear. matrices (B, 2, 3) map a place in the new image to a place in the old, in pixels from the centre.
    As in Pillow, a place outside the image is grey, and the edge is not blended with the grey. `fill` None: it is
    as the nearest edge."""
    _, height, width, _ = images.shape
    matrix = _there(matrices, images)[..., None, None]  # (B, 2, 3, 1, 1)
    across = torch.arange(width, device=images.device) + 0.5 - width / 2  # (W,)
    down = (torch.arange(height, device=images.device) + 0.5 - height / 2)[:, None]  # (H, 1)
    size = _there(np.array([width, height]), images)
    places = matrix[:, :, 0] * across + matrix[:, :, 1] * down + matrix[:, :, 2]  # (B, 2, H, W)
    places = 2 * places.permute(0, 2, 3, 1) / size  # -1 and 1 are the edges
    planes = images.permute(0, 3, 1, 2).float()
    seen = F.grid_sample(planes, places, padding_mode="border", align_corners=False).permute(0, 2, 3, 1).round()
    if fill is not None:
        inside = ((places >= -1) & (places < 1)).all(-1, keepdim=True)
        seen = torch.where(inside, seen, fill)
    return seen.to(torch.uint8)


def _matrices(*numbers: float | np.ndarray) -> np.ndarray:
    """Six numbers, each one for all images or (B,) -> (B, 2, 3)"""
    return np.stack(np.broadcast_arrays(*numbers), -1).reshape(-1, 2, 3)


def _rotate(level: np.ndarray, height: int, width: int) -> np.ndarray:
    sine, cosine = np.sin(np.radians(30 * level)), np.cos(np.radians(30 * level))
    return _matrices(cosine, sine, 0, -sine, cosine, 0)


# levels (B,) -> matrices for `affine`. A level lies in [-1, 1].
MOVES: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "shear x": lambda level, height, width: _matrices(1, 0.3 * level, 0, 0, 1, 0),
    "shear y": lambda level, height, width: _matrices(1, 0, 0, 0.3 * level, 1, 0),
    "translate x": lambda level, height, width: _matrices(1, 0, 0.45 * level * width, 0, 1, 0),
    "translate y": lambda level, height, width: _matrices(1, 0, 0, 0, 1, 0.45 * level * height),
    "rotate": _rotate,
}


def _blend(plain: Tensor, images: Tensor, level: Tensor) -> Tensor:
    """From the plain image to the given one and beyond: factor 1 + 0.9 level, clipped as Pillow does."""
    factor = (1 + 0.9 * level)[:, None, None, None]
    return torch.lerp(plain.float(), images.float(), factor).clamp(0, 255).to(torch.uint8)


def _grey(images: Tensor) -> Tensor:
    """ITU-R 601 with Pillow's integer weights: (B, H, W, 1) int32. Images of one channel are grey already."""
    if images.shape[3] == 1:
        return images.int()
    weights = _there(np.array([19595, 38470, 7471], dtype=np.int32), images)
    return ((images.int() * weights).sum(-1, keepdim=True, dtype=torch.int32) + 0x8000) >> 16


def brightness(images: Tensor, level: Tensor) -> Tensor:
    return _blend(torch.zeros_like(images), images, level)


def colour(images: Tensor, level: Tensor) -> Tensor:
    return _blend(_grey(images), images, level)


def contrast(images: Tensor, level: Tensor) -> Tensor:
    return _blend((wide(_grey(images)).mean((1, 2, 3), keepdim=True) + 0.5).floor(), images, level)


def sharpness(images: Tensor, level: Tensor) -> Tensor:
    """The degenerate image is the smoothed image, except for its outermost pixels."""
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
    """8 bits per channel become 4 at the highest level."""
    lost = torch.round(4 * level.abs()).to(torch.uint8)[:, None, None, None]
    return (images >> lost) << lost


def solarise(images: Tensor, level: Tensor) -> Tensor:
    """Values at or above the threshold are inverted."""
    threshold = 256 * (1 - level.abs())[:, None, None, None]
    return torch.where(images < threshold, images, 255 - images)


def _look_up(images: Tensor, table: Tensor) -> Tensor:
    """table (B, C, 256): the new value for each value of each channel."""
    planes = images.permute(0, 3, 1, 2)
    return (
        table.clamp(0, 255)
        .to(torch.uint8)
        .gather(2, planes.flatten(2).long())
        .view(planes.shape)
        .permute(0, 2, 3, 1)
    )


def auto_contrast(images: Tensor, level: Tensor) -> Tensor:
    """Stretches each channel to 0 to 255, unless it is constant. `level` is not used."""
    low, high = (wide(edge)[..., None] for edge in torch.aminmax(images.flatten(1, 2), dim=1))  # (B, C, 1)
    shades = wide(torch.arange(256, device=images.device))
    return _look_up(images, torch.where(high > low, (shades - low) * (255 / (high - low)), shades))


def equalise(images: Tensor, level: Tensor) -> Tensor:
    """Histogram equalisation of each channel. `level` is not used."""
    count, _, _, channels = images.shape
    planes = images.permute(0, 3, 1, 2).reshape(count * channels, -1).long()  # (B C, H W)
    counts = torch.zeros(len(planes), 256, dtype=torch.long, device=images.device)
    counts = counts.scatter_add_(1, planes, torch.ones_like(planes)).view(count, channels, 256)
    brightest = planes.amax(1).view(count, channels, 1)
    step = (planes.shape[1] - counts.gather(2, brightest)) // 255
    table = (step // 2 + counts.cumsum(2) - counts) // step.clamp(min=1)
    return _look_up(images, torch.where(step > 0, table, torch.arange(256, device=images.device)))


# (images, level (B,) in [-1, 1]) -> images.
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
