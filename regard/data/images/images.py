"""Images from files of every usual form, decoded on demand, and as a model reads them.

Every problem with a file is a DataError that names the image."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from PIL import Image, UnidentifiedImageError

from regard.base.files import check_regular, explain_os_errors
from regard.base.names import check_name
from regard.errors import DataError, RunError

if TYPE_CHECKING:
    from regard.data.artifacts import Pixels

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")  # no other decoder of Pillow is tried
MOST_DECODED = 1 << 24  # pixels above which an image is reduced as it is read,
KEPT = 16  # if they are also more than this many for each pixel that the model reads
STRIP = 1 << 18  # pixels that are converted at a time
# Pixels; its decoder takes 16 bytes for each, others 4 at most. Pillow's own limit is 178 million.
MOST_WEBP = 1 << 26
LARGEST_IMAGE = 1 << 28  # bytes of a file in a .zip or .tar
LONGEST_SIDE = 1_000_000  # pixels, as libpng's: each row of an image takes memory of its own
MOST_RESIZED = 1 << 26  # pixels of an image that is resized to be cropped; a very long image would fill the memory

RESAMPLING = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
# What Pillow raises for a damaged file; its warnings are errors where Python runs with -W error.
FAILED = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError, Warning)
ORIENTATION = 0x0112  # EXIF
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

Box = tuple[float, float, float, float]  # left, top, right, bottom
Size = tuple[int, int]  # height and width
ANY = (0, 0)  # the size of no model


class Images:
    """Images, each (H, W, C) uint8, C = 1 (grey) or 3: from one array `pixels` (N, H, W, C), or decoded on demand.
    `name(row)` is for error messages. `decode(row, size)` may give a large image reduced, for a model of that
    size. `files`: those that are read whenever an image of theirs is decoded."""

    def __init__(
        self,
        count: int,
        *,
        name: Callable[[int], str],
        pixels: np.ndarray | None = None,
        decode: Callable[[int, Size], np.ndarray] | None = None,
        files: Sequence[Path] = (),
    ) -> None:
        if (pixels is None) == (decode is None):
            raise ValueError("give either pixels or decode")
        self.count, self.name, self.pixels, self.decode, self.files = count, name, pixels, decode, files

    def __len__(self) -> int:
        return self.count

    def read(self, row: int, size: Size = ANY) -> np.ndarray:
        if self.decode is None:
            assert self.pixels is not None
            return self.pixels[row]
        try:
            return self.decode(row, size)
        except DataError as error:
            raise DataError(f"{error}; data.skip_broken=true leaves out images that cannot be read") from None

    def readable(self, rows: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """Those of the rows whose images can be read, and why the others cannot. Every image is decoded once."""
        if self.decode is None:
            return rows, []
        with ThreadPoolExecutor() as pool:  # Pillow releases the GIL
            errors = list(pool.map(self._error, rows.tolist()))
        fine = np.array([not error for error in errors], bool)
        return rows[fine], [error for error in errors if error]

    def _error(self, row: int) -> str:
        assert self.decode is not None
        try:
            self.decode(row, ANY)
        except DataError as error:
            return str(error)
        return ""

    def subset(self, rows: Sequence[int]) -> Images:
        def name(row: int) -> str:
            return self.name(rows[row])

        if (decode := self.decode) is None:
            assert self.pixels is not None
            return Images(len(rows), name=name, pixels=self.pixels[rows])
        return Images(len(rows), name=name, decode=lambda row, size: decode(rows[row], size))


def read_image(path: str | Path, size: Size = ANY) -> np.ndarray:
    """(H, W, 3) uint8; see `decode_image`."""
    check_name(path)
    check_regular(Path(path))
    with explain_os_errors(path), open(path, "rb") as file:
        return decode_image(file, str(path), size)


def decode_image(file: IO[bytes], name: str, size: Size = ANY) -> np.ndarray:
    """(H, W, 3) uint8: rotated as its EXIF says, transparent pixels on white, the first of several frames.

    A large image is reduced by a whole factor, to at most MOST_DECODED pixels or KEPT times those of a model's
    `size`. JPEG is reduced as it is decoded; other formats are decoded whole first, at up to 4 bytes per pixel."""
    most = _most(size)
    try:
        with Image.open(file, formats=FORMATS) as opened:
            if max(opened.size) > LONGEST_SIDE:
                came = f"{opened.width:,} x {opened.height:,} pixels"
                raise ValueError(f"it has {came}, and at most {LONGEST_SIDE:,} are read on a side")
            if opened.format == "WEBP" and opened.width * opened.height > MOST_WEBP:
                came = f"{opened.width} x {opened.height} pixels"
                raise ValueError(f"it has {came}, and at most {MOST_WEBP:,} are read; save it as JPEG, or smaller")
            factor = 1 << (_factor(opened, most) - 1).bit_length()  # JPEG can be decoded at 1/2, 1/4 and 1/8
            opened.draft(None, (max(1, opened.width // factor), max(1, opened.height // factor)))
            return _decoded(opened, size)
    except FAILED as error:
        why: object = error
        if isinstance(error, UnidentifiedImageError):
            why = "it has none of these formats" if file.seek(0, io.SEEK_END) else "it is empty"
        elif isinstance(error, Image.DecompressionBombError):
            why = f"{error} Save it with fewer pixels"
        raise DataError(f"{name} cannot be decoded as {', '.join(FORMATS)}: {why}") from None


def pillow_pixels(image: Image.Image, name: str, size: Size = ANY) -> np.ndarray:
    """The same of an image that Pillow has opened."""
    try:
        return _decoded(image, size)
    except FAILED as error:
        raise DataError(f"{name} cannot be read: {error}") from None


def _decoded(image: Image.Image, size: Size) -> np.ndarray:
    image.load()
    if not image.width or not image.height:
        raise ValueError(f"it has {image.width} x {image.height} pixels")
    if image.mode == "I" and image.format is None and np.max(image.getextrema()) < 256:  # 8 bits, made so in memory
        image = image.convert("L")
    reduced = _reduce(image, _factor(image, _most(size)))
    turn = TURNS.get(image.getexif().get(ORIENTATION, 1))
    return reduced if turn is None else np.asarray(Image.fromarray(reduced).transpose(turn))


def _most(size: Size) -> int:
    """Pixels up to which an image is not reduced."""
    return max(MOST_DECODED, KEPT * size[0] * size[1])


def _factor(image: Image.Image, most: int) -> int:
    return max(1, math.ceil(math.sqrt(image.width * image.height / most)))


def _reduce(image: Image.Image, factor: int) -> np.ndarray:
    """The means of squares of factor x factor pixels, in red, green and blue. Strip by strip, so that no second
    image of the whole size is made."""
    wide, high = image.size
    reduced = np.empty((math.ceil(high / factor), math.ceil(wide / factor), 3), np.uint8)
    rows = max(1, STRIP // (wide * factor))  # of the reduced image
    for top in range(0, len(reduced), rows):
        strip = image.crop((0, top * factor, wide, min(high, (top + rows) * factor)))
        reduced[top : top + rows] = np.asarray(_in_colour(strip).reduce(factor))
    return reduced


def _in_colour(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip at 255
        shades = np.asarray(image)
        if shades.min() < 0 or shades.max() >> 16:
            raise ValueError("its pixels have more than 16 bits; save it with 8 or 16")
        image = Image.fromarray((shades >> 8).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("its pixels are fractions, of any range; save it with 8 or 16 bits")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def is_image(path: Path) -> bool:
    """By its name. Hidden files do not count, such as the ._a.png that macOS puts beside a.png."""
    return path.suffix.lower() in SUFFIXES and not any(part.startswith(".") for part in path.parts)


# ---- as a model reads them


def check_channels(channels: int) -> None:
    """RunError for a model of other channels than images have."""
    if channels not in (1, 3):
        raise RunError(
            f"images are grey or have red, green and blue: model.channels must be 1 or 3, got {channels}"
        )


def with_channels(images: np.ndarray, channels: int) -> np.ndarray:
    """(..., H, W, 1 or 3) uint8 -> (..., H, W, channels). Grey is repeated, without a copy; colours become grey as
    in Pillow's mode "L": ITU-R 601, (19595 R + 38470 G + 7471 B) / 65536, rounded."""
    check_channels(channels)
    if images.shape[-1] == channels:
        return images
    if channels == 3:
        return np.broadcast_to(images, (*images.shape[:-1], 3))
    rows = images.reshape(-1, *images.shape[-2:])  # of all images, one below the other
    return np.array(Image.fromarray(rows).convert("L")).reshape(*images.shape[:-1], 1)


def resize(
    image: np.ndarray, height: int, width: int, box: Box | None = None, *, resample: str = "bilinear"
) -> np.ndarray:
    """With antialiasing, as in Pillow; only the part within `box`, if given. (H, W, C) -> (height, width, C)"""
    if image.shape[:2] == (height, width) and box is None:
        return image
    grey = image.shape[2] == 1
    opened = Image.fromarray(image[..., 0] if grey else image)
    resized = np.asarray(opened.resize((width, height), RESAMPLING[resample], box=box))
    return resized[..., None] if grey else resized


def fit_image(image: np.ndarray, size: Size, pixels: Pixels) -> np.ndarray:
    """(H, W, 1 or 3) uint8 of any size -> (height, width, channels), as a model with these pixels reads it: the
    whole image resized, or its centre if there is a `shortest_edge`."""
    image = with_channels(image, len(pixels.mean))
    if not pixels.shortest_edge:
        return resize(image, *size, resample=pixels.resample)
    whole = image.shape[0], image.shape[1]
    (high, wide), (top, left) = centre_of(whole, size, pixels.shortest_edge)
    if high * wide > MOST_RESIZED:  # the numbers may differ by one, as Pillow rounds the edges of a box
        return resize(image, *size, seen_box(whole, size, pixels), resample=pixels.resample)
    resized = resize(image, high, wide, resample=pixels.resample)
    return resized[top : top + size[0], left : left + size[1]].copy()  # a view would keep all of it in memory


def centre_of(whole: Size, size: Size, edge: int) -> tuple[Size, Size]:
    """The size of an image (height, width) once its shorter side has `edge` pixels, and the top left corner of its
    centre: torchvision's Resize and CenterCrop, which round down and to even."""
    short, long = min(whole), int(max(whole) * edge / min(whole))
    high, wide = (edge, long) if whole[0] == short else (long, edge)
    return (high, wide), (round((high - size[0]) / 2), round((wide - size[1]) / 2))


def seen_box(whole: Size, size: Size, pixels: Pixels) -> Box:
    """The part of an image (height, width) that a model with images of `size` reads."""
    height, width = whole
    if not pixels.shortest_edge:
        return 0, 0, width, height
    (high, wide), (top, left) = centre_of(whole, size, pixels.shortest_edge)
    right, bottom = (left + size[1]) * width / wide, (top + size[0]) * height / high
    return left * width / wide, top * height / high, min(right, width), min(bottom, height)


def unseen(whole: Size, size: Size, pixels: Pixels) -> dict[str, tuple[int, int]]:
    """How many rows and columns of an image (height, width) such a model reads, where that is not all of them."""
    left, top, right, bottom = seen_box(whole, size, pixels)
    sides = {"rows": (math.ceil(bottom - top), whole[0]), "columns": (math.ceil(right - left), whole[1])}
    return {name: (read, of) for name, (read, of) in sides.items() if read < of}


def seen_part(image: np.ndarray, size: Size, pixels: Pixels) -> np.ndarray:
    """What `fit_image` reads, in the image's own pixels: attention over it covers this part and no more."""
    left, top, right, bottom = seen_box((image.shape[0], image.shape[1]), size, pixels)
    return image[math.floor(top) : math.ceil(bottom), math.floor(left) : math.ceil(right)]
