"""Labelled images from a folder, an .npz or a .parquet file, or tars, decoded on demand.

Every problem with the files is a DataError that names the image."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from regard.base.files import class_folders, explain_os_errors, find_files
from regard.base.memory_rows import MemoryRows
from regard.base.records import Columns, check_text, first_ten, need_parquet, refuse_empty
from regard.base.zip_files import explain_zip_errors
from regard.data.images.images import SUFFIXES, Images, Size, decode_image, is_image, read_image
from regard.data.images.memory_images import held_images, image_columns
from regard.data.images.tar_images import Tell, are_tars, json_value, open_tars, text_of
from regard.errors import DataError

LARGEST = 16 << 30  # bytes that an array may declare; even a small file can declare more than fits in memory
MOST_CLASSES = 100_000  # their names are in config.json, which may have at most 16 MiB
ARRAYS = (("images", "labels"), ("x", "y"), ("data", "targets"))
COLUMNS = (("image", "img"), ("label", "labels"))
NUMBER = re.compile("-?[0-9]{1,18}")  # a label that is one
PACKED = ("header", "scans", "offsets")
TABLES = ("classes", "names")  # the names of classes, where the images of each are stacked


class ImageSet(Images):
    """Images with a class label each."""

    def __init__(
        self,
        labels: np.ndarray,
        classes: Sequence[str],
        *,
        name: Callable[[int], str],
        pixels: np.ndarray | None = None,
        decode: Callable[[int, Size], np.ndarray] | None = None,
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(len(labels), name=name, pixels=pixels, decode=decode, files=files)
        self.labels, self.classes = labels.astype(np.int64), tuple(classes)

    def relabelled(self, classes: Sequence[str]) -> ImageSet:
        """The same images with labels as indices into `classes`, e.g. a model's. Classes are matched by name."""
        places = {name: place for place, name in enumerate(classes)}
        unknown = [self.classes[label] for label in np.unique(self.labels) if self.classes[label] not in places]
        if unknown:
            first = self.name(int((self.labels == self.classes.index(unknown[0])).argmax()))
            raise DataError(
                f"{first}: there are images of {first_ten(unknown)}, but the classes are {first_ten(classes)}"
            )
        table = np.array([places.get(name, -1) for name in self.classes])
        return ImageSet(table[self.labels], classes, name=self.name, pixels=self.pixels, decode=self.decode)

    def taking(self, rows: np.ndarray) -> ImageSet:
        """The images of these rows alone."""
        part = self.subset(rows.tolist())
        return ImageSet(self.labels[rows], self.classes, name=part.name, pixels=part.pixels, decode=part.decode)


def open_image_set(path: str | Path, *, image: str = "", label: str = "", tell: Tell = lambda _: None) -> ImageSet:
    """A folder with a folder for each class, an .npz or a .parquet file, or a .tar, or a pattern of tars, found
    here or under $REGARD_DATA; or rows in memory.

    `image` and `label` name the arrays or columns ("" = the usual names), in a .tar the kind of the images' members
    and a key of the .json. What is left out of tars is said by `tell`."""
    if isinstance(path, MemoryRows):
        return _memory(path, image, label)
    paths = find_files(path)
    if are_tars(paths):
        images = _tars(paths, image, label, str(path), tell)
        path = paths[0]
    elif len(paths) > 1:
        raise DataError(f"{path} is {len(paths):,} files, such as {paths[0]}; of images only tars may be several")
    elif (path := paths[0]).is_dir():
        images = _folder(path)
    elif path.suffix.lower() == ".npz":
        images = _npz(path, image, label)
    elif path.suffix.lower() == ".parquet":
        images = _parquet(path, image, label)
    else:
        raise DataError(f"{path} must be a folder with a folder for each class, or end in .npz, .parquet or .tar")
    if not len(images):
        raise DataError(f"{path} holds no images; it needs at least one")
    if len(images.classes) > MOST_CLASSES:
        raise DataError(
            f"{path} has {len(images.classes):,} classes, such as {first_ten(images.classes)}; "
            f"at most {MOST_CLASSES:,} are supported"
        )
    return images


def need_classes(images: ImageSet, name: str | Path) -> None:
    """Training needs at least two classes; evaluation does not."""
    if len(images.classes) < 2:
        raise DataError(f"{name} has the class {first_ten(images.classes)} alone; a classifier needs at least two")


def image_folders(path: Path) -> dict[Path, list[Path]]:
    """The folders of the classes, each with its images."""
    return class_folders(path, lambda file: is_image(Path(file.name)))


def _folder(path: Path) -> ImageSet:
    folders = image_folders(path)
    if not folders:
        raise DataError(f"{path} has no folders in it; it needs one for each class, with the images of that class")
    for folder, own in folders.items():
        if not own:
            raise DataError(
                f"{folder} holds no images ({', '.join(SUFFIXES)}); each folder in {path} is a class, with its "
                "images directly in it: add some, or remove the folder"
            )
    files = list(chain.from_iterable(folders.values()))
    return ImageSet(
        np.repeat(np.arange(len(folders)), [len(own) for own in folders.values()]),
        [folder.name for folder in folders],
        name=lambda number: str(files[number]),
        decode=lambda number, size: read_image(files[number], size),
        files=files,
    )


def _memory(rows: MemoryRows, image: str, label: str) -> ImageSet:
    images, values = image_columns(rows, Columns((image, label), COLUMNS), ("image", "label"))
    labels, classes = _classes(np.array(values), (), rows.where)
    held = held_images(images, f"{rows.where}[{{}}]".format)
    return ImageSet(labels, classes, name=held.name, pixels=held.pixels, decode=held.decode, files=held.files)


def _tars(paths: Sequence[Path], image: str, label: str, where: str, tell: Tell) -> ImageSet:
    """KEY.jpg with its class, a number or a name, in KEY.cls or under a key of KEY.json."""

    def by_key(raw: bytes, where: str) -> str:
        key, value = json_value(raw, where, label, COLUMNS[1])
        whole = isinstance(value, int) and not isinstance(value, bool)
        return _filled(str(value) if whole else check_text(value, key, where), where)

    readers = {"json": by_key} if label else {"cls": _class_name, "json": by_key}
    images, names = open_tars(paths, readers, image=image, what="label", tell=tell)
    if all(map(NUMBER.fullmatch, names)):
        labels, classes = _classes(np.array([int(name) for name in names], np.int64), (), where)
    else:
        classes = tuple(sorted(set(names)))
        places = {name: place for place, name in enumerate(classes)}
        labels = np.array([places[name] for name in names], np.int64)
    return ImageSet(labels, classes, name=images.name, decode=images.decode)


def _class_name(raw: bytes, where: str) -> str:
    return _filled(text_of(raw, where), where)


def _filled(name: str, where: str) -> str:
    refuse_empty(name, "label", where)
    return name.strip()


def _npz(path: Path, image: str, label: str) -> ImageSet:
    """Images and labels; JPEG files with one header and labels; or images stacked by class, without labels."""
    with explain_os_errors(path), explain_zip_errors(path, "an .npz file"), zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        usual = next((pair for pair in ARRAYS if set(pair) <= set(names)), None)
        images, labels = image or (usual or ARRAYS[0])[0], label or (usual or ARRAYS[0])[1]
        if not image and set(PACKED) <= set(names):
            return _jpegs(path, archive, labels)
        if not (label or usual) and (stack := next((name for name in stacks(image) if name in names), "")):
            table = next((read_array(archive, name, path) for name in TABLES if name in names), None)
            return _by_class(path, stack, read_array(archive, stack, path), table)
        return _pixels(path, archive, images, labels)


def _read_arrays(path: Path, archive: zipfile.ZipFile, *wanted: str) -> tuple[list[np.ndarray], np.ndarray]:
    """The arrays of these names, and the names of the classes, if the file has them."""
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    for name in wanted:
        if name not in names:
            raise DataError(
                f"{path}: no array {name!r}; the file has {first_ten(names)}. Name the arrays with image, label"
            )
    arrays = [read_array(archive, name, path) for name in wanted]
    classes = read_array(archive, "classes", path) if "classes" in names else np.zeros(0, np.str_)
    if classes.ndim != 1 or classes.dtype.kind != "U":
        raise DataError(
            f"{path}: 'classes' must be a 1-d array of text (dtype str), got {classes.shape} {classes.dtype}"
        )
    return arrays, classes


def _pixels(path: Path, archive: zipfile.ZipFile, image: str, label: str) -> ImageSet:
    (pixels, values), names = _read_arrays(path, archive, image, label)
    labels, classes = _classes(values, names, str(path))
    came = f"{pixels.shape} {pixels.dtype}"
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or 0 in pixels.shape[1:]:
        raise DataError(f"{path}: {image!r} must be (N, H, W), (N, H, W, 1) or (N, H, W, 3) uint8, got {came}")
    if len(pixels) != len(labels):
        raise DataError(f"{path}: each image needs a label, got {len(pixels)} images and {len(labels)} labels")
    return ImageSet(labels, classes, name=f"{path}, image {{}}".format, pixels=pixels)


def _jpegs(path: Path, archive: zipfile.ZipFile, label: str) -> ImageSet:
    (header, scans, offsets, values), names = _read_arrays(path, archive, *PACKED, label)
    labels, classes = _classes(values, names, str(path))
    name = f"{path}, image {{}}".format
    decode = _packed(path, header, scans, offsets, name=name)
    if len(offsets) != len(labels) + 1:
        raise DataError(f"{path}: {len(labels)} labels need one more offset than labels, got {len(offsets)}")
    return ImageSet(labels, classes, name=name, decode=decode)


def stacks(image: str) -> tuple[str, ...]:
    """The names that an array of all classes may have; `image`: the name that was given."""
    return (image,) if image else tuple(images for images, _ in ARRAYS)


def _by_class(path: Path, stack: str, pixels: np.ndarray, table: np.ndarray | None) -> ImageSet:
    """Images (classes, examples, H, W) or (classes, examples, H, W, channels): there is no array of labels."""
    grey = pixels.ndim == 4 and pixels.shape[3] not in (1, 3)
    if (
        pixels.dtype != np.uint8
        or 0 in pixels.shape
        or not (grey or (pixels.ndim == 5 and pixels.shape[4] in (1, 3)))
    ):
        raise DataError(
            f"{path}: no array {ARRAYS[0][1]!r}; the file has {stack!r}, and without labels that must hold the "
            f"images of each class, (classes, examples, H, W) uint8; got {pixels.shape} {pixels.dtype}"
        )
    count, examples, height, width = pixels.shape[:4]
    if table is None:
        table = np.arange(count).astype(str)
    if table.shape != (count,) or table.dtype.kind != "U":
        raise DataError(f"{path}: {count} classes need as many names (dtype str), got {table.shape} {table.dtype}")
    labels, classes = _classes(np.repeat(np.arange(count), examples), table, str(path))
    flat = pixels.reshape(-1, height, width, 1 if grey else pixels.shape[4])
    return ImageSet(
        labels,
        classes,
        name=lambda number: f"{path}, class {number // examples}, image {number % examples}",
        pixels=flat,
    )


def _packed(
    path: Path, header: np.ndarray, scans: np.ndarray, offsets: np.ndarray, *, name: Callable[[int], str]
) -> Callable[[int, Size], np.ndarray]:
    """JPEG files that share one header: image k is header + scans[offsets[k] : offsets[k + 1]] + end marker."""
    for part, array in (("header", header), ("scans", scans)):
        if array.dtype != np.uint8 or array.ndim != 1:
            raise DataError(f"{path}: {part!r} must be a 1-d array of uint8, got {array.shape} {array.dtype}")
    ends = offsets.astype(np.int64) if offsets.ndim == 1 and offsets.dtype.kind in "iu" else np.zeros(0, np.int64)
    if not len(ends) or ends[0] != 0 or ends[-1] != len(scans) or (np.diff(ends) < 0).any():
        raise DataError(f"{path}: 'offsets' must increase from 0 to {len(scans)}, the bytes of 'scans'")
    begin, data = header.tobytes(), scans.tobytes()
    return lambda number, size: decode_image(
        io.BytesIO(begin + data[ends[number] : ends[number + 1]] + b"\xff\xd9"), name(number), size
    )


def read_array(archive: zipfile.ZipFile, name: str, path: Path) -> np.ndarray:
    """Checks the declared shape and type before any memory is allocated."""
    try:
        with archive.open(f"{name}.npy") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
        if dtype.hasobject:
            raise DataError(
                f"{path}: {name!r} holds Python objects, which are not read because they could run code; "
                "save it as numbers or as text (dtype str)"
            )
        size = dtype.itemsize * int(np.prod([int(length) for length in shape], dtype=object))
        if size > LARGEST:
            raise DataError(f"{path}: {name!r} declares {size:,} bytes; at most {LARGEST:,} are read")
        with archive.open(f"{name}.npy") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path}: {name!r} is damaged or not an array: {error}") from None


def _classes(values: np.ndarray, names: Iterable[object], where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as indices into the classes, and the names of the classes: those given, else the labels, sorted.

    Numbers are indices into the given names; without names each number that occurs is the name of a class."""
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise DataError(
            f"{where}: labels must be a 1-d array of whole numbers or text, got {values.shape} {values.dtype}"
        )
    classes = tuple(str(name) for name in names)
    if len(set(classes)) < len(classes):
        raise DataError(f"{where}: the names of classes must differ, got {first_ten(classes)}")
    if values.dtype.kind == "U":
        classes = classes or tuple(str(name) for name in np.unique(values))
        places = {name: place for place, name in enumerate(classes)}
        for name in values:
            if name not in places:
                raise DataError(f"{where}: the label {str(name)!r} is not one of the classes {first_ten(classes)}")
        return np.array([places[name] for name in values], np.int64), classes
    wrong = (values < 0) | (values >= len(classes)) if classes else values < 0
    if wrong.any():
        number = int(wrong.argmax())
        allowed = f"lie in 0 to {len(classes) - 1}" if classes else "be at least 0"
        raise DataError(f"{where}: labels must {allowed}, got {values[number]} at image {number}")
    if classes:
        return values.astype(np.int64), classes
    occurring, labels = np.unique(values, return_inverse=True)
    return labels, tuple(str(label) for label in occurring)


def _parquet(path: Path, image: str, label: str) -> ImageSet:
    pyarrow, parquet = need_parquet(path)
    try:
        with explain_os_errors(path), parquet.ParquetFile(path) as file:
            schema, groups = file.schema_arrow, file.metadata.num_row_groups
            size = sum(file.metadata.row_group(group).total_byte_size for group in range(groups))
            if size > LARGEST:
                raise DataError(f"{path} declares {size:,} bytes; at most {LARGEST:,} are read")
            image, label = _parquet_columns(path, schema.names, (image, label))
            table = file.read(columns=[image, label])
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} is damaged or not a parquet file: {error}") from None
    kind = schema.field(image).type
    data = (
        kind.field("bytes").type if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    )
    if not (pyarrow.types.is_binary(data) or pyarrow.types.is_large_binary(data)):
        raise DataError(f"{path}: {image!r} must hold bytes, or {{bytes, path}}, got {kind}")
    values = table.column(label).to_pylist()
    if None in values:
        raise DataError(f"{path}, image {values.index(None)}: has no label; fill it in or remove the row")
    try:
        values = np.array(values or np.zeros(0, np.int64))
    except ValueError:  # lists of several lengths
        came = schema.field(label).type
        raise DataError(f"{path}: labels must be a 1-d array of whole numbers or text, got {came}") from None
    labels, classes = _classes(values, _feature_names(schema.metadata, label), str(path))
    name = f"{path}, image {{}}".format
    column = table.column(image)

    def decode(number: int, size: Size) -> np.ndarray:
        value = column[number].as_py()
        value = value["bytes"] if isinstance(value, dict) else value
        if value is None:  # there may be a path, but a table must not open other files
            raise DataError(f"{name(number)}: has no bytes; put the image itself into the table")
        return decode_image(io.BytesIO(value), name(number), size)

    return ImageSet(labels, classes, name=name, decode=decode)


def _parquet_columns(path: Path, names: Sequence[str], named: tuple[str, str]) -> list[str]:
    """The columns of images and labels: those named, else those with usual names."""
    wanted = Columns(named, COLUMNS).choose(names, str(path))
    for name in wanted:
        if name not in names:
            raise DataError(
                f"{path}: no column {name!r}; the file has {first_ten(names)}. Name the columns with image, label"
            )
        if names.count(name) > 1:
            raise DataError(f"{path}: more than one column {name!r}; rename or remove one")
    return wanted


def _feature_names(metadata: dict[bytes, bytes] | None, label: str) -> list[str]:
    """The names of the classes from the metadata that `datasets` writes, if there are any."""
    try:
        return list(json.loads((metadata or {})[b"huggingface"])["info"]["features"][label]["names"])
    except (KeyError, TypeError, ValueError):
        return []
