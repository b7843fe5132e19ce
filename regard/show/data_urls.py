"""Images inside SVG and HTML files, as data: URLs of PNGs."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np

from regard.show.colours import HIDDEN, shade

if TYPE_CHECKING:
    from PIL.Image import Image

EXACT = 20_000  # characters of a data: URL up to which no image is worth losing anything
LEVELS = 64  # colours of an image of weights; the eye tells no more apart


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
