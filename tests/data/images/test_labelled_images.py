import io
import json
import os
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data.images import labelled_images
from regard.data.images.images import read_image
from regard.data.images.labelled_images import ImageSet, need_classes, open_image_set
from regard.errors import DataError


def pixels(count: int = 6, height: int = 8, width: int = 10, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, height, width, channels), np.uint8)


def encoded(image: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind)
    return file.getvalue()


def made(count: int = 20, height: int = 8, width: int = 8) -> ImageSet:
    return ImageSet(
        np.arange(count) % 3, ("a", "b", "c"), name="image {}".format, pixels=pixels(count, height, width)
    )


def every(image_set: ImageSet) -> np.ndarray:
    return np.stack([image_set.read(number) for number in range(len(image_set))])


# A folder of classes


def folder_of(path, names: dict[str, list[np.ndarray]], suffix: str = ".png"):
    for name, known in names.items():
        (path / name).mkdir(parents=True)
        for number, image in enumerate(known):
            Image.fromarray(image).save(path / name / f"{number}{suffix}")
    return path


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".webp", ".PNG"])
def test_a_folder(tmp_path, suffix):
    known = pixels(4)
    folder_of(tmp_path, {"dog": list(known[2:]), "cat": list(known[:2]), ".git": [known[0]]}, suffix)
    (tmp_path / "cat" / ".hidden.png").write_bytes(b"nothing")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "readme.txt").write_text("no class")
    found = open_image_set(tmp_path)
    assert found.classes == ("cat", "dog")
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.labels.dtype == np.int64
    assert found.name(2) == str(tmp_path / "dog" / f"0{suffix}")
    assert every(found).shape == known.shape
    if suffix != ".webp":  # with loss
        assert np.array_equal(every(found), known)


def test_images_of_several_sizes(tmp_path):
    known = [pixels(1, 8, 8)[0], pixels(1, 8, 8)[0], pixels(1, 5, 9)[0]]
    folder_of(tmp_path, {"a": known[:2], "b": known[2:]})
    found = open_image_set(tmp_path)
    assert all(np.array_equal(found.read(number), image) for number, image in enumerate(known))


def test_it_is_sought_under_regard_data_too(tmp_path, monkeypatch):
    folder_of(tmp_path / "pets", {"a": list(pixels(2)), "b": list(pixels(2))})
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert len(open_image_set("pets")) == 4
    with pytest.raises(DataError, match="there is no file plants"):
        open_image_set("plants")


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({}, "has no folders in it"),
        ({"a": 2, "b": 0}, "b holds no images .*add some, or remove the folder"),
    ],
)
def test_folders_that_are_refused(tmp_path, classes, message):
    folder_of(tmp_path, {name: list(pixels(count)) for name, count in classes.items()})
    with pytest.raises(DataError, match=message):
        open_image_set(tmp_path)


def test_a_damaged_image_is_named(tmp_path):
    folder_of(tmp_path, {"a": list(pixels(2)), "b": list(pixels(2))})
    broken = tmp_path / "b" / "1.png"
    broken.write_bytes(broken.read_bytes()[:-60])
    with pytest.raises(DataError, match=r"b/1\.png cannot be decoded"):
        open_image_set(tmp_path).read(3)
    broken.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")  # Pillow knows it, we do not let it
    with pytest.raises(DataError, match=r"b/1\.png cannot be decoded"):
        open_image_set(tmp_path).read(3)
    with pytest.raises(DataError, match="does not exist"):
        read_image(tmp_path / "none.png")
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(DataError, match=r"pipe\.png must be a regular file, and is a pipe"):
        read_image(tmp_path / "pipe.png")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b")
    with pytest.raises(DataError, match=r"must be a folder .* or end in \.npz, \.parquet or \.tar"):
        open_image_set(tmp_path / "a.csv")


# .npz


@pytest.mark.parametrize(("image", "label"), [("images", "labels"), ("x", "y"), ("data", "targets"), ("a", "b")])
@pytest.mark.parametrize("compressed", [False, True])
def test_arrays(tmp_path, image, label, compressed):
    known, path = pixels(6), tmp_path / "set.npz"
    save = np.savez_compressed if compressed else np.savez
    save(path, **{image: known, label: np.array([2, 0, 1, 2, 0, 1], np.uint8)})
    found = open_image_set(path) if image != "a" else open_image_set(path, image="a", label="b")
    assert np.array_equal(every(found), known)
    assert found.labels.tolist() == [2, 0, 1, 2, 0, 1]
    assert found.classes == ("0", "1", "2")
    assert found.name(4) == f"{path}, image 4"


@pytest.mark.parametrize("shape", [(4, 8, 10), (4, 8, 10, 1)])
def test_grey_arrays(tmp_path, shape):
    known = pixels(4, channels=1).reshape(shape)
    np.savez(tmp_path / "set.npz", images=known, labels=np.arange(4), classes=np.array(list("wxyz")))
    found = open_image_set(tmp_path / "set.npz")
    assert found.classes == ("w", "x", "y", "z")
    assert np.array_equal(found.read(1), known[1].reshape(8, 10, 1))


def test_labels_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", images=pixels(3), labels=np.array(["dog", "cat", "dog"]))
    found = open_image_set(tmp_path / "a.npz")
    assert (found.classes, found.labels.tolist()) == (("cat", "dog"), [1, 0, 1])
    classes = np.array(["dog", "eel", "cat"])
    np.savez(tmp_path / "b.npz", images=pixels(3), labels=np.array(["dog", "cat", "dog"]), classes=classes)
    found = open_image_set(tmp_path / "b.npz")
    assert (found.classes, found.labels.tolist()) == (("dog", "eel", "cat"), [0, 2, 0])


LABELS = np.arange(6)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": pixels(6)}, "no array 'labels'; the file has 'images'"),
        ({"images": pixels(6).astype(np.float32), "labels": LABELS}, "must be .* uint8, got .* float32"),
        ({"images": pixels(6).transpose(0, 3, 1, 2), "labels": LABELS}, r"must be .* got \(6, 3, 8, 10\) uint8"),
        ({"images": pixels(6, channels=2), "labels": LABELS}, r"got \(6, 8, 10, 2\)"),
        ({"images": pixels(6), "labels": LABELS[:5]}, "6 images and 5 labels"),
        ({"images": pixels(6), "labels": LABELS / 2}, "labels must be a 1-d array of whole numbers or text"),
        ({"images": pixels(6), "labels": LABELS - 1}, "be at least 0, got -1 at image 0"),
        ({"images": pixels(6), "labels": LABELS, "classes": np.array(list("abc"))}, "0 to 2, got 3 at image 3"),
        (
            {"images": pixels(6), "labels": LABELS, "classes": np.array(list("abcdea"))},
            "the names of classes must differ",
        ),
        ({"images": pixels(6), "labels": LABELS, "classes": np.arange(6)}, "'classes' must be a 1-d array of text"),
        (
            {"images": pixels(2), "labels": np.array(list("az")), "classes": np.array(list("ab"))},
            "'z' is not one of the classes",
        ),
        ({"images": pixels(6)[:0], "labels": LABELS[:0]}, "holds no images"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_arrays_that_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(DataError, match=message):
        open_image_set(tmp_path / "set.npz")


def test_objects_are_refused_before_they_are_read(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trapped"),)

    path = tmp_path / "set.npz"
    np.savez(path, images=pixels(2), labels=np.arange(2), classes=np.array([Trap(), "b"], object))
    with pytest.raises(DataError, match=r"'classes' holds Python objects.*could run code"):
        open_image_set(path)
    assert not (tmp_path / "trapped").exists()


def test_declared_sizes_are_looked_at_first(tmp_path):
    """A few bytes that declare 2 ** 50 of them."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 20, 1 << 15, 1 << 15)}
    )
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue())
        archive.writestr("labels.npy", b"")
    with pytest.raises(DataError, match="'images' declares 1,125,899,906,842,624 bytes; at most"):
        open_image_set(tmp_path / "set.npz")


def test_damaged_archives(tmp_path):
    path = tmp_path / "set.npz"
    np.savez_compressed(path, images=pixels(6), labels=LABELS)
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    with pytest.raises(DataError, match="damaged, truncated"):
        open_image_set(path)
    path.write_bytes(whole[:300] + bytes(20) + whole[320:])
    with pytest.raises(DataError, match="damaged"):
        open_image_set(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"no array")
        archive.writestr("labels.npy", b"no array")
    with pytest.raises(DataError, match="'images' is damaged or not an array"):
        open_image_set(path)


# JPEG images that share a header


def packed_of(images: np.ndarray) -> tuple[dict[str, np.ndarray], list[bytes]]:
    files = [encoded(image, "JPEG") for image in images]
    length = files[0].index(b"\xff\xda")  # where the scan begins
    scans = [file[length:-2] for file in files]
    arrays = {
        "header": np.frombuffer(files[0][:length], np.uint8),
        "scans": np.frombuffer(b"".join(scans), np.uint8),
        "offsets": np.cumsum([0, *map(len, scans)]).astype(np.int32),
        "labels": np.arange(len(files), dtype=np.uint8),
        "classes": np.array([f"class {number}" for number in range(len(files))]),
    }
    return arrays, files


def test_packed_jpeg(tmp_path):
    arrays, files = packed_of(pixels(4))
    np.savez(tmp_path / "set.npz", **arrays)
    found = open_image_set(tmp_path / "set.npz")
    assert found.classes == ("class 0", "class 1", "class 2", "class 3")
    for number, file in enumerate(files):
        assert np.array_equal(found.read(number), np.asarray(Image.open(io.BytesIO(file))))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("offsets", np.array([0, 5, 3, 9]), "'offsets' must increase from 0 to"),
        ("offsets", np.array([], np.int32), "'offsets' must increase"),
        ("offsets", np.array([0.0, 1.0]), "'offsets' must increase"),
        ("labels", np.arange(3), "3 labels need one more offset than labels, got 5"),
        ("header", np.zeros(9, np.int64), "'header' must be a 1-d array of uint8"),
        ("header", np.zeros(9, np.uint8), "image 0 cannot be decoded"),
    ],
    ids=["falling", "empty", "fractions", "too few labels", "wide header", "no header"],
)
def test_packed_jpeg_that_is_refused(tmp_path, name, value, message):
    arrays, _ = packed_of(pixels(4))
    np.savez(tmp_path / "set.npz", **(arrays | {name: value}))
    with pytest.raises(DataError, match=message):
        every(open_image_set(tmp_path / "set.npz"))


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="set REGARD_DATA to the folder with cifar10_jpeg")
def test_cifar():
    found = open_image_set("cifar10_jpeg/train.npz")
    assert len(found) == 50000
    assert found.classes[:4] == ("airplane", "automobile", "bird", "cat")
    assert found.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert np.bincount(found.labels).tolist() == [5000] * 10
    with np.load(
        os.path.join(os.environ["REGARD_DATA"], "cifar10_jpeg", "train.npz"), allow_pickle=False
    ) as arrays:
        scan = arrays["scans"][: arrays["offsets"][1]].tobytes()
        file = io.BytesIO(arrays["header"].tobytes() + scan + b"\xff\xd9")
    assert np.array_equal(found.read(0), np.asarray(Image.open(file)))
    assert found.read(49999).shape == (32, 32, 3)


# .parquet


def parquet_of(path, columns: dict, names: list[str] | None = None):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'regard[parquet]'")
    from pyarrow import parquet

    table = pyarrow.table(columns)
    if names is not None:
        info = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("struct", [False, True])
@pytest.mark.parametrize("image", ["image", "img", "photo"])
def test_a_table(tmp_path, struct, image):
    known = pixels(4)
    files = [encoded(image) for image in known]
    column = [{"bytes": file, "path": "/etc/passwd"} for file in files] if struct else files
    path = parquet_of(tmp_path / "set.parquet", {image: column, "label": [1, 0, 1, 0]}, ["cat", "dog"])
    found = open_image_set(path, image="photo" if image == "photo" else "")
    assert found.classes == ("cat", "dog")
    assert found.labels.tolist() == [1, 0, 1, 0]
    assert np.array_equal(every(found), known)


def test_a_table_without_names(tmp_path):
    files = [encoded(image) for image in pixels(3)]
    path = parquet_of(tmp_path / "a.parquet", {"image": files, "label": [2, 0, 0]})
    found = open_image_set(path)
    assert (found.classes, found.labels.tolist()) == (("0", "2"), [1, 0, 0])
    path = parquet_of(tmp_path / "b.parquet", {"image": files, "label": ["eel", "dog", "eel"]})
    found = open_image_set(path)
    assert (found.classes, found.labels.tolist()) == (("dog", "eel"), [1, 0, 1])
    assert np.array_equal(found.read(2), pixels(3)[2])


PNG = encoded(pixels(1)[0])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": [PNG], "kind": [1]}, "no column 'label'; the file has 'image', 'kind'"),
        (
            {"image": ["a.png", "b.png"], "label": [0, 1]},
            r"'image' must hold bytes, or \{bytes, path\}, got string",
        ),
        ({"image": [{"path": "a.png"}] * 2, "label": [0, 1]}, "'image' must hold bytes"),
        (
            {"image": [{"bytes": PNG, "path": ""}, {"bytes": None, "path": "a.png"}], "label": [0, 1]},
            "1: has no bytes",
        ),
        ({"image": [PNG, None], "label": [0, 1]}, "image 1: has no bytes"),
        ({"image": [PNG, b"abc"], "label": [0, 1]}, "image 1 cannot be decoded"),
        ({"image": [PNG, PNG], "label": [0, None]}, "image 1: has no label"),
        ({"image": [PNG, PNG], "label": [0.5, 1.0]}, "labels must be a 1-d array of whole numbers or text"),
        ({"image": [PNG, PNG], "label": [[0], [0, 1]]}, "labels must be a 1-d array .* got list<.*int64>"),
        ({"image": [PNG][:0], "label": [0][:0]}, "must hold bytes|holds no images"),
    ],
    ids=["column", "text", "path", "no bytes", "null", "damaged", "no label", "fractions", "lists", "empty"],
)
def test_tables_that_are_refused(tmp_path, columns, message):
    path = parquet_of(tmp_path / "set.parquet", columns)
    with pytest.raises(DataError, match=message):
        every(open_image_set(path))


@pytest.mark.parametrize("twice", ["image", "label"])
def test_two_columns_of_one_name(tmp_path, twice):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'regard[parquet]'")
    from pyarrow import parquet

    columns = {"image": pyarrow.array([PNG, PNG]), "label": pyarrow.array([0, 1])}
    table = pyarrow.table(columns).append_column("other", columns[twice])
    parquet.write_table(table.rename_columns(["image", "label", twice]), tmp_path / "set.parquet")
    with pytest.raises(DataError, match=rf"set\.parquet: more than one column '{twice}'"):
        open_image_set(tmp_path / "set.parquet")
    parquet.write_table(table.append_column("other", columns[twice]), tmp_path / "set.parquet")
    assert len(open_image_set(tmp_path / "set.parquet")) == 2  # of those that are not read there may be two


def test_no_table(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pip install 'regard[parquet]'")
    path = tmp_path / "set.parquet"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="damaged or not a parquet file"):
        open_image_set(path)
    parquet_of(path, {"image": [PNG, PNG], "label": [0, 1]})
    monkeypatch.setattr(labelled_images, "LARGEST", 10)
    with pytest.raises(DataError, match=r"declares .* bytes; at most 10 are read"):
        open_image_set(path)


def test_a_table_needs_the_extra(tmp_path, monkeypatch):
    (tmp_path / "set.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'regard\[parquet\]'"):
        open_image_set(tmp_path / "set.parquet")


# Labels


def test_classes_are_the_numbers_that_occur(tmp_path, monkeypatch):
    path = tmp_path / "set.npz"
    np.savez(path, images=pixels(4), labels=np.array([600_000, 0, 9, 600_000], np.int32))
    found = open_image_set(path)
    assert (found.classes, found.labels.tolist()) == (("0", "9", "600000"), [2, 0, 1, 2])
    np.savez(path, images=pixels(2), labels=np.array([9, 9]))
    assert open_image_set(path).relabelled(found.classes).labels.tolist() == [1, 1]
    np.savez(path, images=pixels(2), labels=np.array([2, 0]), classes=np.array(list("abc")))
    assert (open_image_set(path).classes, open_image_set(path).labels.tolist()) == (("a", "b", "c"), [2, 0])
    monkeypatch.setattr(labelled_images, "MOST_CLASSES", 2)
    with pytest.raises(DataError, match=r"set\.npz has 3 classes, such as 'a', 'b', 'c'; at most 2"):
        open_image_set(path)


def test_one_class_is_enough_to_be_judged_by_but_not_to_learn(tmp_path):
    folder_of(tmp_path, {"a": list(pixels(2))})
    found = open_image_set(tmp_path)
    assert found.relabelled(["b", "a"]).labels.tolist() == [1, 1]
    with pytest.raises(DataError, match=r"pets has the class 'a' alone; a classifier needs at least two"):
        need_classes(found, "pets")
    need_classes(made(), "pets")


def test_relabelled():
    found = made(6).relabelled(["c", "x", "a", "b"])
    assert found.classes == ("c", "x", "a", "b")
    assert found.labels.tolist() == [2, 3, 0, 2, 3, 0]
    assert np.array_equal(found.read(1), made(6).read(1))
    with pytest.raises(DataError, match="there are images of 'c', but the classes are 'a', 'b'"):
        made(6).relabelled(["a", "b"])
    assert made(2).relabelled(["a", "b"]).labels.tolist() == [0, 1]  # there is no image of c


def test_an_image_set_has_one_source():
    with pytest.raises(ValueError, match="give either pixels or decode"):
        ImageSet(np.zeros(1), ("a",), name=str)
