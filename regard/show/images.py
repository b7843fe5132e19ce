"""Images that a picture is given; attention over them, in colour over the image in grey, so that colour always
means weight; and images inside SVG and HTML files, as data: URLs of PNGs."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import BadInput
from regard.show.arrays import to_plain
from regard.show.colours import HEAT, HIDDEN, shade

if TYPE_CHECKING:
    from PIL.Image import Image

STRENGTH = 0.5  # share of the colour in a pixel; the rest is the grey image
EXACT = 20_000  # characters of a data: URL up to which no image is worth losing anything
LEVELS = 64  # colours of an image of weights; the eye tells no more apart
FINE = 2  # pixels of an image for each pixel of a drawing, for high-resolution screens


def check_image(image: np.ndarray) -> np.ndarray:
    """A copy of bytes (H, W, 3); refuses anything else."""
    image = to_plain(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise BadInput(
            f"image must be bytes (height, width, 3), got {image.dtype} {image.shape}: "
            "undo the model's normalisation, scale to 0 to 255, and repeat a grey channel three times"
        )
    return image


def resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """RGB bytes (H, W, 3) or floats (H, W), resampled smoothly."""
    from PIL import Image  # only when a picture is drawn: `import regard.show` stays quick

    if image.dtype == np.uint8:
        return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS))
    return np.asarray(Image.fromarray(image.astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR))


def size_within(image: np.ndarray, wide: float, high: float) -> tuple[int, int]:
    """Width and height of the image where it fills this room as far as its shape allows."""
    scale = min(wide / image.shape[1], high / image.shape[0])
    return max(1, round(scale * image.shape[1])), max(1, round(scale * image.shape[0]))


def shrunk(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """The image for this place of a drawing: as it is, or with FINE pixels for each of the drawing's."""
    return resize(image, min(image.shape[1], FINE * width), min(image.shape[0], FINE * height))


def smooth(levels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Levels (rows, columns) in [0, 1], interpolated to (height, width)."""
    return resize(levels, width, height).clip(0, 1)


def grey(image: np.ndarray) -> np.ndarray:
    """The image's brightness, as RGB bytes (H, W, 3)."""
    bright = image @ np.array([0.299, 0.587, 0.114])
    return np.repeat(bright.round().astype(np.uint8)[..., None], 3, -1)


def blend(under: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The colours of levels (H, W) in [0, 1] over the grey image (H, W, 3)."""
    return ((1 - STRENGTH) * under + STRENGTH * shade(levels, HEAT)).round().astype(np.uint8)


def image_url(pixels: np.ndarray) -> str:
    """RGB bytes (H, W, 3)."""
    from PIL import Image  # only when a picture is drawn: `import regard.show` stays quick

    return _url(Image.fromarray(pixels))


def small_image_url(pixels: np.ndarray, side: int) -> str:
    """RGB bytes (H, W, 3), at most `side` pixels on the longer side; a photograph as JPEG, which is a fifth of the
    size."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    exact = _url(image)
    if len(exact) < EXACT:
        return exact
    lossy = _url(image, "jpeg", quality=88)
    return lossy if len(lossy) < len(exact) / 2 else exact


def weights_url(weights: np.ndarray, ramp: tuple[str, ...], hidden: np.ndarray | None = None) -> str:
    """Weights (H, W) in [0, 1], one pixel each, with the ramp as the palette: a third of the size of RGB. Hidden
    places have a colour of their own."""
    from PIL import Image

    places = np.rint(weights * (LEVELS - 1)).astype(np.uint8)
    if hidden is not None:
        places[hidden] = LEVELS
    image = Image.fromarray(places)
    image.putpalette(shade(np.linspace(0, 1, LEVELS), ramp).tobytes() + bytes.fromhex(HIDDEN[1:]))
    return _url(image)


def _url(image: Image, kind: str = "png", **options: int) -> str:
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return f"data:image/{kind};base64," + base64.b64encode(file.getvalue()).decode("ascii")
