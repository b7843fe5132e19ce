"""Images as people hold them: files, PIL images, numpy arrays, torch tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.data.images.given_images import image_name, pixels_of
from regard.data.images.memory_images import held_image
from regard.errors import BadInput, DataError

COLOURS = np.random.default_rng(0).integers(256, size=(7, 5, 3), dtype=np.uint8)
GREY = COLOURS[..., 0]
PLANES = torch.from_numpy(COLOURS).permute(2, 0, 1)
CLEAR = np.dstack([COLOURS, np.full((7, 5), 255, np.uint8)])
REPEATED = np.repeat(GREY[..., None], 3, 2)
HELD: dict[str, tuple[Any, np.ndarray]] = {
    "PIL": (Image.fromarray(COLOURS), COLOURS),
    "grey PIL": (Image.fromarray(GREY), REPEATED),
    "PIL with opacity": (Image.fromarray(CLEAR), COLOURS),
    "bytes": (COLOURS, COLOURS),
    "grey": (GREY, REPEATED),
    "one channel": (GREY[..., None], REPEATED),
    "with opacity": (CLEAR, COLOURS),
    "float32": ((COLOURS / 255).astype(np.float32), COLOURS),
    "float64": (COLOURS / 255, COLOURS),
    "turned": (np.ascontiguousarray(COLOURS[::-1])[::-1], COLOURS),
    "tensor": (PLANES, COLOURS),
    "float tensor": ((PLANES / 255).requires_grad_(), COLOURS),
    "grey tensor": (torch.from_numpy(GREY.copy())[None], REPEATED),
    "flat tensor": (torch.from_numpy(GREY.copy()), REPEATED),
}


@pytest.mark.parametrize("name", HELD)
def test_pixels_are_those_that_are_held(name: str) -> None:
    held, wanted = HELD[name]
    pixels = pixels_of(held)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, wanted)


def test_half_precision_is_near(tmp_path: Path) -> None:
    for kind in (torch.float16, torch.bfloat16):
        assert abs(pixels_of((PLANES / 255).to(kind)).astype(int) - COLOURS).max() <= 1


WRONG: dict[str, tuple[Any, str]] = {
    "floats of bytes": (COLOURS.astype(float), "with values from .*: divide by 255, or convert it to uint8"),
    "normalised": (PLANES / 128 - 1, "undo its normalisation"),
    "nan": (np.full((4, 4), np.nan), "values from nan"),
    "planes in numpy": (PLANES.numpy(), r"a numpy array of uint8 \(3, 7, 5\)"),
    "channels last in torch": (torch.from_numpy(COLOURS), r"a torch tensor of uint8 \(7, 5, 3\)"),
    "a batch": (PLANES[None], r"several images are a list of these; got a torch tensor of uint8 \(1, 3, 7, 5\)"),
    "int64": (PLANES.long(), r"int64 \(3, 7, 5\)"),
    "bool": (GREY > 9, r"bool \(7, 5\)"),
    "nothing": (np.zeros((0, 4), np.uint8), r"\(0, 4\)"),
    "a number": (3, "got int"),
    "a dict": ({}, "got dict"),
}


@pytest.mark.parametrize(("wrong", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_image_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(BadInput, match=f"an image must be the name of a file, a PIL image, .*{said}"):
        pixels_of(wrong)


def test_the_empty_name_is_no_folder() -> None:
    with pytest.raises(DataError, match='"" names no file'):
        pixels_of("")


def test_a_pil_image_is_read_as_its_file(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated
    path = tmp_path / "a.png"
    Image.fromarray(COLOURS).save(path, exif=exif)
    with Image.open(path) as opened:
        assert np.array_equal(pixels_of(opened), pixels_of(path))
        assert pixels_of(opened).shape == (5, 7, 3)
        assert image_name(opened) == str(path)
    Image.fromarray(COLOURS).save(tmp_path / "b.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "b.png").read_bytes()[:60])
    with Image.open(tmp_path / "broken.png") as opened, pytest.raises(DataError, match="cannot be read: "):
        pixels_of(opened)
    with pytest.raises(DataError, match="it has 0 x 3 pixels"):
        pixels_of(Image.new("RGB", (0, 3)))


def test_every_task_takes_them_alone_and_mixed(tmp_path: Path) -> None:
    image = np.random.default_rng(1).integers(256, size=(32, 32, 3), dtype=np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(image).save(path)
    held: list[Any] = [path, Image.fromarray(image), image, torch.from_numpy(image).permute(2, 0, 1) / 255]
    names = [str(path), "image", "image", "image"]
    shapes, scenes, signs = (regard.load(name) for name in ("shapes", "scenes", "omniglot"))
    found = shapes.recognise(held)
    assert [answer.name for answer in found] == names
    assert len({tuple(answer.probabilities.items()) for answer in found}) == 1
    assert shapes.recognise(held[1]).probabilities == pytest.approx(found[0].probabilities, abs=1e-5)
    assert found[3].overlay().panels.keys() == found[0].overlay().panels.keys()
    assert len({answer.text for answer in scenes.caption(held)}) == 1
    support = {"one": held[:2], "two": Image.fromarray(255 - image)}
    told = signs.fewshot(held, support)
    assert len({answer.label for answer in told}) == 1
    told[1].examples()


@pytest.mark.parametrize("name", HELD)
def test_rows_to_train_with_are_read_as_those_to_ask_about(name: str) -> None:
    """But for grey, which is kept as one channel."""
    held, wanted = HELD[name]
    pixels = held_image(held, "data[0]")
    assert np.array_equal(np.broadcast_to(pixels, wanted.shape), wanted)
    assert pixels.shape[2] == (1 if not isinstance(held, Image.Image) and wanted is REPEATED else 3)


def test_a_row_that_is_no_image_is_named() -> None:
    with pytest.raises(DataError, match=r"^data\[0\] cannot be read: it has 0 x 3 pixels"):
        held_image(Image.new("RGB", (0, 3)), "data[0]")
    for wrong, said in WRONG.values():
        with pytest.raises(DataError, match=rf"^data\[0\]: an image must be the name of a file, a PIL.*{said}"):
            held_image(wrong, "data[0]")
