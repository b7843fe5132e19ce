"""Image files of every usual form, and how much memory a large one takes."""

import io
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data.images import images
from regard.data.images.images import Images, decode_image, is_image, read_image
from regard.errors import DataError

TURNED = 0x0112


def random(height: int = 8, width: int = 10, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)


def smooth(height: int, width: int) -> Image.Image:
    return Image.fromarray(random(4, 4)).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, form: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def decoded(image: Image.Image, form: str = "PNG", size=(0, 0), **options) -> np.ndarray:
    return decode_image(io.BytesIO(encoded(image, form, **options)), "a photo", size)


# ---- formats


@pytest.mark.parametrize(
    ("form", "options", "suffix"),
    [
        ("PNG", {}, ".png"),
        ("BMP", {}, ".bmp"),
        ("WEBP", {"lossless": True}, ".webp"),
        ("TIFF", {}, ".tif"),
        ("TIFF", {"compression": "tiff_lzw"}, ".tiff"),
        ("TIFF", {"compression": "tiff_adobe_deflate"}, ".TIFF"),
    ],
    ids=lambda value: str(value),
)
def test_formats_without_loss(tmp_path, form, options, suffix):
    known = random()
    (tmp_path / f"a{suffix}").write_bytes(encoded(Image.fromarray(known), form, **options))
    assert is_image(tmp_path.relative_to(tmp_path) / f"a{suffix}")
    assert np.array_equal(read_image(tmp_path / f"a{suffix}"), known)


@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg(progressive):
    data = encoded(smooth(40, 30), "JPEG", progressive=progressive)
    assert np.array_equal(decode_image(io.BytesIO(data), "a photo"), np.asarray(Image.open(io.BytesIO(data))))


@pytest.mark.parametrize("form", ["GIF", "TIFF", "WEBP", "PNG"])
def test_the_first_of_several_frames(form):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    options = {"lossless": True} if form == "WEBP" else {}
    assert decoded(frames[0], form, save_all=True, append_images=frames[1:], **options)[0, 0].tolist() == [
        255,
        0,
        0,
    ]


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits(form):
    shades = np.array([[0, 200 << 8, 65535]], np.uint16)
    assert decoded(Image.fromarray(shades), form)[0].tolist() == [[0] * 3, [200] * 3, [255] * 3]


def test_sixteen_bits_of_colour():
    """Pillow writes no such file, so one is put together: 1 x 1 pixel, red 0xC800, green 0x00FF, blue 0xFFFF."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)

    head = (1).to_bytes(4) * 2 + bytes([16, 2, 0, 0, 0])
    data = zlib.compress(b"\0" + bytes.fromhex("c80000ffffff"))
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    assert decode_image(io.BytesIO(file), "a photo").tolist() == [[[200, 0, 255]]]


@pytest.mark.parametrize(
    ("shades", "message"),
    [
        (np.array([[1 << 20]], np.int32), "more than 16 bits; save it with 8 or 16"),
        (np.array([[-1]], np.int32), "more than 16 bits; save it with 8 or 16"),
        (np.array([[0.5]], np.float32), "are fractions, of any range"),
    ],
)
def test_pixels_without_a_range_are_refused(shades, message):
    with pytest.raises(DataError, match=f"a photo cannot be decoded .*{message}"):
        decoded(Image.fromarray(shades), "TIFF")


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk(form):
    found = decoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), form)[4, 4]
    assert np.abs(found.astype(int) - [255, 0, 0]).max() < 8


@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP"])
def test_transparency_shows_white(form):
    image = np.zeros((1, 3, 4), np.uint8)
    image[0, :, 3] = [0, 128, 255]
    options = {"lossless": True, "exact": True} if form == "WEBP" else {}
    assert decoded(Image.fromarray(image), form, **options)[0].tolist() == [[255] * 3, [127] * 3, [0] * 3]


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_a_transparent_colour_of_a_palette(form):
    image = Image.fromarray(np.array([[0, 1]], np.uint8))
    image.putpalette([10, 20, 30, 40, 50, 60])
    assert decoded(image, form, transparency=0)[0].tolist() == [[255, 255, 255], [40, 50, 60]]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P"])
def test_other_modes(mode):
    image = Image.fromarray(np.array([[0, 255]], np.uint8)).convert(mode)
    assert decoded(image)[0].tolist() == [[0] * 3, [255] * 3]


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_the_camera_was_held_otherwise(form, turn):
    """As EXIF defines it: where row 0 and column 0 of the file are in the image that is seen."""
    known = np.zeros((16, 24, 3), np.uint8)
    known[:8, :12] = 255  # the corner where the file begins
    exif = Image.Exif()
    exif[TURNED] = turn
    options = {"lossless": True} if form == "WEBP" else {}
    seen = decoded(Image.fromarray(known), form, exif=exif, **options)
    assert seen.shape == ((16, 24, 3) if turn < 5 else (24, 16, 3))
    bright = seen.mean(-1) > 128
    corners = {(0, 0): {1, 5}, (0, -1): {2, 6}, (-1, -1): {3, 7}, (-1, 0): {4, 8}}  # the rows' and columns' begin
    assert [turn in turns for turns in corners.values()] == [bright[place] for place in corners]


@pytest.mark.parametrize("turn", range(1, 9))
def test_turned_as_pillow_does(turn):
    exif = Image.Exif()
    exif[TURNED] = turn
    data = encoded(Image.fromarray(random()), exif=exif)
    from PIL import ImageOps

    wanted = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert np.array_equal(decode_image(io.BytesIO(data), "a photo"), wanted)


@pytest.mark.parametrize("name", ["a.txt", "a", ".a.png", "._a.jpg", ".hidden/a.png", "a.svg"])
def test_names_of_no_image(tmp_path, name):
    assert not is_image(type(tmp_path)(name))


# ---- large images


def test_ordinary_images_are_read_as_they_are():
    known = random(300, 400)
    assert np.array_equal(decoded(Image.fromarray(known)), known)
    assert np.array_equal(decoded(Image.fromarray(known), size=(4, 4)), known)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "CMYK", "I;16"])
def test_a_large_image_is_reduced_to_means(monkeypatch, mode):
    monkeypatch.setattr(images, "MOST_DECODED", 200)
    monkeypatch.setattr(images, "STRIP", 300)  # several strips
    whole = smooth(50, 70)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(whole.convert("L")).astype(np.uint16) << 8)
    else:
        image = whole.convert(mode)
    found = decoded(image, "TIFF" if mode == "CMYK" else "PNG")  # 5 x 5 pixels become one
    monkeypatch.setattr(images, "MOST_DECODED", 10_000)
    wanted = decoded(image, "TIFF" if mode == "CMYK" else "PNG").reshape(10, 5, 14, 5, 3).mean((1, 3))
    assert found.shape == (10, 14, 3)
    assert np.abs(found - wanted).max() <= 1


def test_sides_that_are_no_multiple(monkeypatch):
    monkeypatch.setattr(images, "MOST_DECODED", 200)
    whole = smooth(47, 68)
    assert np.array_equal(decoded(whole), np.asarray(whole.reduce(4)))


def test_a_larger_model_reads_more(monkeypatch):
    monkeypatch.setattr(images, "MOST_DECODED", 100)
    whole = smooth(80, 80)
    assert decoded(whole, size=(4, 4)).shape == (16, 16, 3)  # 256 pixels: 16 for each of the model's
    assert decoded(whole, size=(10, 10)).shape == (40, 40, 3)
    assert decoded(whole, size=(20, 20)).shape == (80, 80, 3)


@pytest.mark.parametrize("shape", [(1, 5000), (5000, 1), (3, 4000)])
def test_a_long_image(monkeypatch, shape):
    monkeypatch.setattr(images, "MOST_DECODED", 100)
    for form in ("PNG", "JPEG"):
        assert 20 <= decoded(smooth(*shape), form)[..., 0].size <= 1000


@pytest.mark.parametrize("size", [(2_000_000, 1), (1, 2_000_000)])
def test_a_side_without_end_is_refused(size):
    """Pillow takes memory for each row, and strips of a whole row are made."""
    with pytest.raises(DataError, match=r"has [\d,]+ x [\d,]+ pixels, and at most 1,000,000 are read on a side"):
        decoded(Image.new("L", size))


def test_a_large_jpeg_is_nearly_that_of_the_same_size(monkeypatch):
    whole = smooth(200, 300)
    exif = Image.Exif()
    exif[TURNED] = 6
    monkeypatch.setattr(images, "MOST_DECODED", 10_000)
    found = decoded(whole, "JPEG", quality=95, exif=exif)
    assert found.shape == (75, 50, 3)
    wanted = np.rot90(np.asarray(whole.resize((75, 50), Image.Resampling.BOX)), -1).astype(int)
    assert np.abs(found - wanted).mean() < 3


PEAK = """
import resource, sys
from regard.data.images import images
images.MOST_DECODED = 1 << 19
images.read_image(sys.argv[1])  # so that modules and buffers are there
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert images.read_image(sys.argv[2]).size < 3 << 19
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.parametrize(("form", "most"), [("JPEG", 12_000_000), ("PNG", 28_000_000)])
def test_the_memory_of_a_large_image(tmp_path, form, most):
    """16 million pixels: of a JPEG only the reduced image is held, of a grey PNG one byte for each pixel. In colour
    they take 64 million bytes, and took four times that."""
    pytest.importorskip("resource", reason="there is no such measure on Windows")
    grey = Image.linear_gradient("L").resize((4000, 4000))
    image = grey if form == "PNG" else Image.merge("RGB", [grey] * 3)
    options = {"compress_level": 1} if form == "PNG" else {}
    for name, size in (("small", 1000), ("large", 4000)):
        (tmp_path / name).write_bytes(encoded(image.resize((size, size)), form, **options))
    command = [sys.executable, "-c", PEAK, str(tmp_path / "small"), str(tmp_path / "large")]
    assert int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) < most


# ---- refused


def test_a_decompression_bomb():
    """A PNG of a few bytes that declares 40,000 x 40,000 pixels."""
    small = encoded(Image.new("L", (8, 8)))
    head = b"IHDR" + (40_000).to_bytes(4) * 2 + small[24:29]
    bomb = small[:12] + head + zlib.crc32(head).to_bytes(4) + small[33:]
    with pytest.raises(
        DataError, match=r"a photo cannot be decoded .*1600000000 pixels.* exceeds limit.* Save it with fewer"
    ):
        decode_image(io.BytesIO(bomb), "a photo")


def test_a_large_webp(monkeypatch):
    monkeypatch.setattr(images, "MOST_WEBP", 1000)
    with pytest.raises(DataError, match="it has 50 x 40 pixels, and at most 1,000 are read; save it as JPEG"):
        decoded(smooth(40, 50), "WEBP")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("end", [0, 10, 100])
def test_a_truncated_file_is_named(form, end):
    data = encoded(Image.fromarray(random(40, 40)), form)
    with pytest.raises(DataError, match="a photo cannot be decoded as PNG, JPEG, WEBP, BMP, GIF, TIFF"):
        decode_image(io.BytesIO(data[:end]), "a photo")


# ---- a set


def test_a_subset_of_images():
    known = np.stack([random()] * 5) + np.arange(5, dtype=np.uint8)[:, None, None, None]
    asked = []

    def decode(row, size):
        asked.append(size)
        return known[row]

    for whole in (Images(5, name=str, pixels=known), Images(5, name=str, decode=decode)):
        some = whole.subset([3, 1])
        assert len(some) == 2
        assert some.name(0) == "3"
        assert np.array_equal(some.read(1, (7, 9)), known[1])
        assert (some.pixels is None) == (whole.pixels is None)
    assert asked == [(7, 9)]


def test_a_broken_image_of_a_subset_is_told_once():
    def decode(row, size):
        raise DataError(f"{row}.png is empty")

    with pytest.raises(DataError, match=r"^3\.png is empty; data\.skip_broken=true leaves out [^;]*$"):
        Images(5, name=str, decode=decode).subset([3, 1]).subset([0]).read(0)
