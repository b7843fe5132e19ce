"""Images that a picture is given; attention over them, which keeps the colours of what is looked at and fades the
rest; and images inside SVG and HTML files, as data: URLs of PNGs."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import BadInput
from regard.show.arrays import to_plain
from regard.show.colours import HIDDEN, VEIL, shade

if TYPE_CHECKING:
    from PIL.Image import Image

STRENGTH = 0.85  # how far a place without weight is faded
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


def faded(image: np.ndarray, levels: np.ndarray, veil: str = VEIL) -> np.ndarray:
    """The image (H, W, 3) in its colours where levels (H, W) are 1, and the more faded the lower they are."""
    opacity = STRENGTH * (1 - levels[..., None])
    return ((1 - opacity) * image + opacity * np.array(list(bytes.fromhex(veil[1:])))).round().astype(np.uint8)


def veil_url(levels: np.ndarray) -> str:
    """What fades an image that lies below: as opaque as the levels (H, W) are low."""
    from PIL import Image

    image = Image.fromarray(np.rint(levels * (LEVELS - 1)).astype(np.uint8))
    image.putpalette(bytes.fromhex(VEIL[1:]) * LEVELS)
    opacity = 255 * STRENGTH * (1 - np.linspace(0, 1, LEVELS))
    return _url(image, transparency=opacity.round().astype(np.uint8).tobytes())


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


def _url(image: Image, kind: str = "png", **options: int | bytes) -> str:
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return f"data:image/{kind};base64," + base64.b64encode(file.getvalue()).decode("ascii")
