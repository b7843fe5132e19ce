"""Captions from files, and the images that they speak of."""

import gzip
import json
import lzma
import os
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data.images import captions
from regard.data.images.captions import CaptionSet, open_caption_set
from regard.data.images.images import Images
from regard.errors import DataError

KNOWN = {"a.png": ("a dog .", "two dogs , running"), "b.png": ("a cat",)}
ROWS = [("a.png", "a dog ."), ("b.png", "a cat"), ("a.png", "two dogs , running")]
COCO = {
    "images": [{"id": 7, "file_name": "a.png", "width": 4}, {"id": "x", "file_name": "b.png"}],
    "annotations": [
        {"id": 1, "image_id": 7, "caption": "a dog ."},
        {"id": 2, "image_id": "x", "caption": "a cat"},
        {"id": 3, "image_id": 7, "caption": "two dogs , running"},
    ],
}


def lines(*rows: tuple[str, ...], by: str = "\t") -> str:
    return "".join(by.join(row) + "\n" for row in rows)


FORMS = {
    "captions.tsv": lines(("image", "caption"), *ROWS),
    "more.tsv": lines(("id", "caption", "image"), *(("1", text, name) for name, text in ROWS)),
    "plain.tsv": lines(*ROWS),
    "token.txt": lines(("a.png#0", "a dog ."), ("b.png#0", "a cat"), ("a.png#1", "two dogs , running")),
    "captions.csv": lines(("image", "caption"), *((name, f'"{text}"') for name, text in ROWS), by=","),
    "kaggle.txt": lines(("image", "caption"), *((name, f'"{text}"') for name, text in ROWS), by=","),
    "captions.jsonl": "".join(json.dumps({"image": name, "caption": text}) + "\n" for name, text in ROWS),
    "lists.jsonl": "".join(json.dumps({"file_name": name, "text": texts}) + "\n" for name, texts in KNOWN.items()),
    "coco.json": json.dumps(COCO),
}


def shade(name: str) -> int:
    return 10 * (1 + "ab".index(name[0]))


@pytest.fixture
def folder(tmp_path):
    for name in KNOWN:
        Image.new("RGB", (4, 3), (shade(name),) * 3).save(tmp_path / name)
    return tmp_path


def zipped(folder, under: str = ""):
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for name in KNOWN:
            archive.write(folder / name, under + name)
            (folder / name).unlink()
    return folder / "images.zip"


def check(found: CaptionSet) -> None:
    assert len(found) == 2
    assert found.captions == list(KNOWN.values())
    assert found.objects is None
    for row, name in enumerate(KNOWN):
        assert found.images.read(row).shape == (3, 4, 3)
        assert (found.images.read(row) == shade(name)).all()
        assert found.images.name(row).endswith(name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compressed", ["", ".gz", ".xz"])
def test_forms(folder, form, compressed):
    data = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[compressed](FORMS[form].encode())
    (folder / (form + compressed)).write_bytes(data)
    check(open_caption_set(folder / (form + compressed)))


def test_a_pattern_of_files(folder):
    for number, row in enumerate(ROWS):
        (folder / f"part-{number}.tsv").write_text(lines(row))
    check(open_caption_set(folder / "part-*.tsv"))


def test_columns_by_name_and_by_number(folder):
    rows = [("1", text, name) for name, text in ROWS]
    (folder / "a.tsv").write_text(lines(("n", "says", "photo"), *rows))
    check(open_caption_set(folder / "a.tsv", image="photo", caption="says"))
    (folder / "b.tsv").write_text(lines(*rows))
    check(open_caption_set(folder / "b.tsv", image="3", caption="2"))
    (folder / "c.jsonl").write_text(json.dumps({"photo": "a.png", "says": ["x", "y"]}) + "\n")
    assert open_caption_set(folder / "c.jsonl", image="photo", caption="says").captions == [("x", "y")]


def test_images_elsewhere(folder, tmp_path, monkeypatch):
    (folder / "photos").mkdir()
    for name in KNOWN:
        (folder / name).rename(folder / "photos" / name)
    (folder / "a.tsv").write_text(lines(*ROWS))
    check(open_caption_set(folder / "a.tsv", images=folder / "photos"))
    monkeypatch.setenv("REGARD_DATA", str(folder))
    check(open_caption_set("a.tsv", images="photos"))
    (folder / "a.tsv").write_text(lines(*((f"photos/{name}", text) for name, text in ROWS)))
    check(open_caption_set("a.tsv"))


@pytest.mark.parametrize("under", ["", "Dataset/", "a/b/"])
def test_images_in_a_zip(folder, under):
    (folder / "a.tsv").write_text(lines(*ROWS))
    check(open_caption_set(folder / "a.tsv", images=zipped(folder, under)))


def test_only_some_images(folder):
    rows = [*ROWS, ("none.png", "there is no such image"), ("../c.png", "nor such a name")]
    (folder / "a.tsv").write_text(lines(*rows))
    (folder / "only.txt").write_text("b.png\na.png\nb.png\n")
    found = open_caption_set(folder / "a.tsv", only=folder / "only.txt")
    assert found.captions == [KNOWN["b.png"], KNOWN["a.png"]]
    assert found.images.name(0) == str(folder / "b.png")
    (folder / "only.txt").write_text("c.png\n")
    with pytest.raises(
        DataError, match=r"only\.txt, line 1: the image 'c\.png' has no caption; there are 'a\.png'"
    ):
        open_caption_set(folder / "a.tsv", only=folder / "only.txt")
    (folder / "only.txt").write_text("")
    with pytest.raises(DataError, match=r"only\.txt is empty"):
        open_caption_set(folder / "a.tsv", only=folder / "only.txt")


# ---- refused


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("a.tsv", "", r"a\.tsv has no captions"),
        ("a.tsv", "a.png\t \n", "line 1: the caption is empty"),
        ("a.tsv", "a.png\tx\n\t y\n", "line 2: the name of the image is empty"),
        ("a.tsv", "a.png\tx\n\nb.png\ty\n", "line 2: the line is empty"),
        ("a.tsv", "a.png\tx\ny\n", "line 2: 1 column"),
        ("a.tsv", "1\ta.png\tx\n", "3 columns and no header with usual names .image, caption.; say which"),
        ("a.tsv", "c.png\tx\n", r"line 1: there is no image 'c\.png' in .*set `images` to"),
        ("a.csv", "photo,caption\na.png,x\n", "no column 'image'; the header names 'photo', 'caption'"),
        ("a.csv", "image,caption\na.png,x,y\n", "line 2: 3 columns, but the first line has 2"),
        ("a.csv", 'image,caption\na.png,"x\n', "is not CSV"),
        ("a.jsonl", '{"image": "a.png"}\n', "line 1: no key 'caption'; the object has 'image'"),
        ("a.jsonl", '{"image": "a.png", "caption": []}\n', "the list under 'caption' is empty"),
        ("a.jsonl", '{"image": "a.png", "caption": [3]}\n', "'caption' must be text, got 3"),
        ("a.jsonl", '{"image": 3, "caption": "x"}\n', "'image' must be text, got 3"),
        ("a.jsonl", "[1]\n", "must hold an object with an image and a caption"),
        ("a.json", "{", "is not JSON .*one object per line is named .jsonl"),
        ("a.json", '{"image": "a.png"}\n{"image": "b.png"}', "is not JSON .*is named .jsonl"),
        ("a.json", "[]", "must hold an object with images and annotations, got a list"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.json", '{"annotations": []}', "no key 'images'; the object has 'annotations'"),
        ("a.json", '{"images": []}', "no key 'annotations'"),
        ("a.json", '{"images": 3, "annotations": []}', "'images' must be a list, got 3"),
        ("a.json", '{"images": [3], "annotations": []}', r"images\[0\]: must be an object, got 3"),
        ("a.json", '{"images": [{"id": 1}], "annotations": []}', r"images\[0\]: no key 'file_name'"),
        (
            "a.json",
            '{"images": [{"id": [], "file_name": "a"}], "annotations": []}',
            "'id' must be a number or text",
        ),
        ("a.json", '{"images": [], "annotations": [{"image_id": 3}]}', r"annotations\[0\]: there is no .* id 3"),
        ("a.json", '{"images": [], "annotations": []}', "has no captions"),
    ],
)
def test_captions_that_are_refused(folder, form, text, message):
    (folder / form).write_text(text)
    with pytest.raises(DataError, match=message):
        open_caption_set(folder / form)


@pytest.mark.parametrize("name", ["../secret.png", "x/../../secret.png", "/etc/secret.png", "..", "."])
@pytest.mark.parametrize("inside", ["folder", "zip"])
def test_names_that_leave_the_folder(folder, name, inside):
    """Although there is such a file."""
    (folder / "photos").mkdir()
    Image.new("RGB", (4, 3)).save(folder / "secret.png")
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        archive.write(folder / "secret.png", name)
    (folder / "photos" / "a.jsonl").write_text(json.dumps({"image": name, "caption": "x"}) + "\n")
    with pytest.raises(DataError, match=r"line 1: the image .* must be a path within the folder of the images"):
        open_caption_set(folder / "photos" / "a.jsonl", images=folder / "images.zip" if inside == "zip" else "")


def test_zips_that_are_refused(folder, monkeypatch):
    (folder / "a.tsv").write_text(lines(*ROWS))
    path = zipped(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"images\.zip is damaged, truncated, encrypted or not a \.zip file"):
        open_caption_set(folder / "a.tsv", images=path)
    place = whole.index(b"IDAT")
    path.write_bytes(whole[:place] + bytes(4) + whole[place + 4 :])  # found by the sum of the file
    found = open_caption_set(folder / "a.tsv", images=path)
    with pytest.raises(DataError, match=r"images\.zip, a\.png is damaged"):
        found.images.read(0)
    assert (found.images.read(1) == shade("b.png")).all()
    path.write_bytes(whole)
    monkeypatch.setattr(captions, "LARGEST_IMAGE", 50)
    with pytest.raises(DataError, match=r"a\.png has more than 50 bytes"):
        open_caption_set(folder / "a.tsv", images=path).images.read(0)
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("one/a.png", "two/a.png", "b.png"):
            archive.writestr(name, b"")
    with pytest.raises(DataError, match=r"has several images 'a\.png': 'one/a\.png', 'two/a\.png'; say which"):
        open_caption_set(folder / "a.tsv", images=path)
    with pytest.raises(DataError, match=r"a\.tsv must be a folder of images, or a \.zip"):
        open_caption_set(folder / "a.tsv", images=folder / "a.tsv")


def test_files_that_are_not_there(folder):
    with pytest.raises(DataError, match=r"there is no file nowhere\.tsv"):
        open_caption_set("nowhere.tsv")
    with pytest.raises(DataError, match="is a folder; name the file with the captions"):
        open_caption_set(folder)
    (folder / "a.json.gz").write_bytes(gzip.compress(b"{}")[:-9])
    with pytest.raises(DataError, match=r"a\.json\.gz is damaged or truncated"):
        open_caption_set(folder / "a.json.gz")


def test_a_damaged_image_is_named(folder):
    (folder / "a.tsv").write_text(lines(*ROWS))
    (folder / "a.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"a\.png cannot be decoded"):
        open_caption_set(folder / "a.tsv").images.read(0)


def test_each_image_needs_its_captions():
    images = Images(2, name=str, pixels=np.zeros((2, 4, 4, 3), np.uint8))
    with pytest.raises(ValueError, match="2 images and 1 of captions"):
        CaptionSet(images, [("a",)])
    with pytest.raises(ValueError, match="2 images and 0 of objects"):
        CaptionSet(images, [("a",), ("b",)], [])


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="set REGARD_DATA to the folder with flickr8k")
@pytest.mark.parametrize(("split", "count"), [("train", 6000), ("dev", 1000), ("test", 1000)])
def test_flickr8k(split, count):
    found = open_caption_set(
        "flickr8k/Flickr8k.token.txt.gz",
        images="flickr8k/images128.zip",
        only=f"flickr8k/Flickr_8k.{split}Images.txt.gz",
    )
    assert len(found) == count
    assert {len(some) for some in found.captions} == {5}
    assert found.images.read(count - 1).shape == (128, 128, 3)
    if split == "dev":
        assert found.images.name(0).endswith("2090545563_a4e66ec76b.jpg")
