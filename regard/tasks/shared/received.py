"""Inputs and options that come over a network. None of them names a file. No torch here, as in card.py."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

IMAGE = {
    "type": "string",
    "format": "byte",
    "description": "An image file (PNG, JPEG, WebP, BMP, GIF, TIFF) in base64, or a data: URL of one.",
}


class TooLarge(BadInput):
    """What was sent is over a limit, which the message names."""


@dataclass(frozen=True)
class Received:
    """How a value is sent in JSON: its schema, and how it is read, given the most pixels that an image may have."""

    schema: Mapping[str, Any]
    read: Callable[[object, int], Any]


def received_image(sent: object, most_pixels: int) -> np.ndarray:
    """The pixels of an image file that was sent as bytes or in base64. Its size is checked before it is decoded."""
    from PIL import Image

    from regard.data.images.images import FAILED, FORMATS, decode_image

    data = sent if isinstance(sent, bytes) else decode_base64(sent)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            width, height = opened.size
    except FAILED:
        width = height = 0  # `decode_image` says why
    if width * height > most_pixels:
        raise TooLarge(f"an image may have {most_pixels:,} pixels, and this one has {width:,} x {height:,}")
    return decode_image(io.BytesIO(data), "the image")


def decode_base64(sent: object) -> bytes:
    if not isinstance(sent, str):
        raise BadInput(f"an image must be a string of base64, got {type(sent).__name__}")
    if sent.startswith("data:"):
        sent = sent.partition(",")[2]
    try:
        return base64.b64decode(sent, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("an image must be a file in base64, and this is no base64") from None


def received_support(sent: object, most_pixels: int) -> dict[str, list[np.ndarray]]:
    """{class: images}"""
    if not isinstance(sent, dict) or not all(isinstance(images, list) for images in sent.values()):
        raise BadInput('support must be an object of lists of images: {"cat": ["..."], "dog": ["..."]}')
    return {label: [received_image(image, most_pixels) for image in images] for label, images in sent.items()}


SUPPORT = Received(
    {
        "type": "object",
        "additionalProperties": {"type": "array", "items": IMAGE, "minItems": 1},
        "description": "Examples: the name of each class with its images.",
    },
    received_support,
)
