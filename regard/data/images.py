"""Labelled pictures from a folder, an .npz or a .parquet file, decoded when they are asked for.

Whatever is wrong with the files is a DataError that names the picture."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from regard.data.batch import sent
from regard.data.files import find_data
from regard.data.pairs import DataError, explained, few, need_parquet

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")  # the only decoders that a file can reach
LARGEST = 16 << 30  # bytes an array may declare; a small file can declare more than any memory
MOST_CLASSES = 100_000  # their names stand in config.json, which can be opened up to 16 MiB
ARRAYS = (("images", "labels"), ("x", "y"), ("data", "targets"))
COLUMNS = (("image", "img"), ("label", "labels"))
PACKED = ("header", "scans", "offsets")

RESAMPLING = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}

Box = tuple[float, float, float, float]  # left, top, right, bottom


class Pictures:
    """Labelled pictures, each (H, W, 3) uint8: in one array `pixels` (N, H, W, 3), else decoded when asked for."""

    def __init__(
        self,
        labels: np.ndarray,
        classes: Sequence[str],
        *,
        name: Callable[[int], str],
        pixels: np.ndarray | None = None,
        decode: Callable[[int], np.ndarray] | None = None,
    ) -> None:
        if (pixels is None) == (decode is None):
            raise ValueError("pictures come as pixels or by decode: give one of them")
        self.labels, self.classes = labels.astype(np.int64), tuple(classes)
        self.name, self.pixels, self.decode = name, pixels, decode

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, number: int) -> np.ndarray:
        if self.decode is None:
            assert self.pixels is not None
            return self.pixels[number]
        return self.decode(number)

    def relabelled(self, classes: Sequence[str]) -> Pictures:
        """The same pictures with labels that count in `classes`, say those of a model. Classes are told by name."""
        places = {name: place for place, name in enumerate(classes)}
        unknown = [self.classes[label] for label in np.unique(self.labels) if self.classes[label] not in places]
        if unknown:
            raise DataError(f"there are pictures of {few(unknown)}, but the classes are {few(classes)}")
        table = np.array([places.get(name, -1) for name in self.classes])
        return Pictures(table[self.labels], classes, name=self.name, pixels=self.pixels, decode=self.decode)


def open_images(path: str | Path, *, image: str = "", label: str = "") -> Pictures:
    """A folder with a folder for each class, an .npz or a .parquet file, sought here, else under $REGARD_DATA.

    `image` and `label` name the arrays or columns ("" = the usual names)."""
    try:
        found = find_data(str(path))
    except FileNotFoundError as error:
        raise DataError(str(error)) from None
    if found.is_dir():
        pictures = _folder(found)
    elif found.suffix.lower() == ".npz":
        pictures = _npz(found, image, label)
    elif found.suffix.lower() == ".parquet":
        pictures = _parquet(found, image, label)
    else:
        raise DataError(f"{found} must be a folder with a folder for each class, or end in .npz or .parquet")
    if not len(pictures):
        raise DataError(f"{found} holds no pictures; it needs at least one")
    if len(pictures.classes) > MOST_CLASSES:
        raise DataError(
            f"{found} has {len(pictures.classes):,} classes, as {few(pictures.classes)}; "
            f"at most {MOST_CLASSES:,} can be told apart"
        )
    return pictures


def need_classes(pictures: Pictures, name: str | Path) -> None:
    """To learn from: there must be classes to tell apart. To be judged by, one is enough."""
    if len(pictures.classes) < 2:
        raise DataError(f"{name} has the class {few(pictures.classes)} alone; to be told apart there must be two")


def open_picture(path: str | Path) -> np.ndarray:
    """One picture from its file: (H, W, 3) uint8."""
    with explained(path), open(path, "rb") as file:
        return _decode(file, str(path))


def _decode(file: IO[bytes], name: str) -> np.ndarray:
    """Turned as its EXIF says; what is transparent shows white; of several frames the first."""
    try:
        with Image.open(file, formats=FORMATS) as opened:
            image: Image.Image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            if "A" in image.getbands() or "transparency" in image.info:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        why = "it is none of them" if isinstance(error, UnidentifiedImageError) else error
        raise DataError(f"{name} cannot be decoded as {', '.join(FORMATS)}: {why}") from None


def is_picture(path: Path) -> bool:
    """By its name. Hidden files are a system's own, as the ._a.png that macOS puts beside a.png."""
    return path.suffix.lower() in SUFFIXES and not any(part.startswith(".") for part in path.parts)


def _folder(path: Path) -> Pictures:
    folders = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    if not folders:
        raise DataError(f"{path} has no folders in it; it needs one for each class, with that class's pictures")
    files, labels = [], []
    for label, folder in enumerate(folders):
        found = [each for each in sorted(folder.iterdir()) if is_picture(Path(each.name)) and each.is_file()]
        if not found:
            raise DataError(
                f"{folder} holds no picture ({', '.join(SUFFIXES)}); each folder in {path} is taken for a class, "
                "with its pictures right in it: add some, or remove it"
            )
        files += found
        labels += [label] * len(found)
    names = [folder.name for folder in folders]
    return Pictures(
        np.array(labels),
        names,
        name=lambda number: str(files[number]),
        decode=lambda number: open_picture(files[number]),
    )


def _npz(path: Path, image: str, label: str) -> Pictures:
    with explained(path), _sound(path), zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        packed = not image and set(PACKED) <= set(names)
        usual = next((pair for pair in ARRAYS if set(pair) <= set(names)), ARRAYS[0])
        wanted = [*(PACKED if packed else [image or usual[0]]), label or usual[1]]
        for name in wanted:
            if name not in names:
                raise DataError(
                    f"{path}: no array {name!r}; the file has {few(names)}. Name the arrays by image, label"
                )
        arrays = [_array(archive, name, path) for name in wanted]
        table = _array(archive, "classes", path) if "classes" in names else np.zeros(0, np.str_)
    if table.ndim != 1 or table.dtype.kind != "U":
        raise DataError(f"{path}: 'classes' must be a row of text (dtype str), got {table.shape} {table.dtype}")
    labels, classes = _classes(arrays[-1], table, str(path))
    name = f"{path}, picture {{}}".format
    if packed:
        decode = _packed(path, *arrays[:-1], name=name)
        if len(arrays[2]) != len(labels) + 1:
            raise DataError(f"{path}: {len(labels)} labels need one offset more, got {len(arrays[2])}")
        return Pictures(labels, classes, name=name, decode=decode)
    pixels = arrays[0]
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or 0 in pixels.shape[1:]:
        came = f"{arrays[0].shape} {arrays[0].dtype}"
        raise DataError(f"{path}: {wanted[0]!r} must be (N, H, W), (N, H, W, 1) or (N, H, W, 3) uint8, got {came}")
    if len(pixels) != len(labels):
        raise DataError(f"{path}: each picture needs a label, got {len(pixels)} pictures and {len(labels)} labels")
    return Pictures(labels, classes, name=name, pixels=np.broadcast_to(pixels, (*pixels.shape[:3], 3)))


def _packed(
    path: Path, header: np.ndarray, scans: np.ndarray, offsets: np.ndarray, *, name: Callable[[int], str]
) -> Callable[[int], np.ndarray]:
    """JPEG files that share one header: picture k is header + scans[offsets[k] : offsets[k + 1]] + end mark."""
    for part, array in (("header", header), ("scans", scans)):
        if array.dtype != np.uint8 or array.ndim != 1:
            raise DataError(f"{path}: {part!r} must be a row of uint8, got {array.shape} {array.dtype}")
    ends = offsets.astype(np.int64) if offsets.ndim == 1 and offsets.dtype.kind in "iu" else np.zeros(0, np.int64)
    if not len(ends) or ends[0] != 0 or ends[-1] != len(scans) or (np.diff(ends) < 0).any():
        raise DataError(f"{path}: 'offsets' must rise from 0 to {len(scans)}, the bytes of 'scans'")
    begin, data = header.tobytes(), scans.tobytes()
    return lambda number: _decode(
        io.BytesIO(begin + data[ends[number] : ends[number + 1]] + b"\xff\xd9"), name(number)
    )


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError) as error:
        raise DataError(f"{path} is damaged, cut short, encrypted or no .npz file: {error}") from None


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> np.ndarray:
    """What the array declares is looked at before memory is taken for it."""
    try:
        with archive.open(f"{name}.npy") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
        if dtype.hasobject:
            raise DataError(
                f"{path}: {name!r} holds Python objects, which are not read, for they could run code; "
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
        raise DataError(f"{path}: {name!r} is damaged or no array: {error}") from None


def _classes(values: np.ndarray, names: Iterable[Any], where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as places among the classes, and the classes' names: those given, else the labels that occur, sorted.

    Numbers are places among the names given; without any, each number that occurs is the name of a class."""
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise DataError(
            f"{where}: labels must be a row of whole numbers or of text, got {values.shape} {values.dtype}"
        )
    known = tuple(str(name) for name in names)
    if len(set(known)) < len(known):
        raise DataError(f"{where}: each class must have a name of its own, got {few(known)}")
    if values.dtype.kind == "U":
        known = known or tuple(str(name) for name in np.unique(values))
        places = {name: place for place, name in enumerate(known)}
        for name in values:
            if name not in places:
                raise DataError(f"{where}: the label {str(name)!r} is none of the classes {few(known)}")
        return np.array([places[name] for name in values], np.int64), known
    wrong = (values < 0) | (values >= len(known)) if known else values < 0
    if wrong.any():
        number = int(wrong.argmax())
        allowed = f"lie in 0 to {len(known) - 1}" if known else "be at least 0"
        raise DataError(f"{where}: labels must {allowed}, got {values[number]} at picture {number}")
    if known:
        return values.astype(np.int64), known
    occurring, labels = np.unique(values, return_inverse=True)
    return labels, tuple(str(label) for label in occurring)


def _parquet(path: Path, image: str, label: str) -> Pictures:
    pyarrow, parquet = need_parquet(path)
    try:
        with explained(path), parquet.ParquetFile(path) as file:
            schema, groups = file.schema_arrow, file.metadata.num_row_groups
            size = sum(file.metadata.row_group(group).total_byte_size for group in range(groups))
            if size > LARGEST:
                raise DataError(f"{path} declares {size:,} bytes; at most {LARGEST:,} are read")
            wanted = [image, label]
            for place, usual in enumerate(COLUMNS):
                wanted[place] = wanted[place] or next((name for name in usual if name in schema.names), usual[0])
                if wanted[place] not in schema.names:
                    raise DataError(
                        f"{path}: no column {wanted[place]!r}; the file has {few(schema.names)}. "
                        "Name the columns by image, label"
                    )
                if schema.names.count(wanted[place]) > 1:
                    raise DataError(f"{path}: more than one column {wanted[place]!r}; rename or remove one")
            table = file.read(columns=wanted)
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} is damaged or no parquet file: {error}") from None
    kind = schema.field(wanted[0]).type
    data = (
        kind.field("bytes").type if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    )
    if not (pyarrow.types.is_binary(data) or pyarrow.types.is_large_binary(data)):
        raise DataError(f"{path}: {wanted[0]!r} must hold bytes, or {{bytes, path}}, got {kind}")
    values = table.column(wanted[1]).to_pylist()
    if None in values:
        raise DataError(f"{path}, picture {values.index(None)}: has no label; fill it in or remove the row")
    try:
        values = np.array(values or np.zeros(0, np.int64))
    except ValueError:  # lists of several lengths
        came = schema.field(wanted[1]).type
        raise DataError(f"{path}: labels must be a row of whole numbers or of text, got {came}") from None
    labels, classes = _classes(values, _feature_names(schema.metadata, wanted[1]), str(path))
    name = f"{path}, picture {{}}".format
    column = table.column(wanted[0])

    def decode(number: int) -> np.ndarray:
        value = column[number].as_py()
        value = value["bytes"] if isinstance(value, dict) else value
        if value is None:  # a path may stand there, but a table has no business with other files
            raise DataError(f"{name(number)}: has no bytes; put the picture itself into the table")
        return _decode(io.BytesIO(value), name(number))

    return Pictures(labels, classes, name=name, decode=decode)


def _feature_names(metadata: dict[bytes, bytes] | None, label: str) -> list[str]:
    """The classes' names as `datasets` keeps them beside the table; none if it does not."""
    try:
        return list(json.loads((metadata or {})[b"huggingface"])["info"]["features"][label]["names"])
    except (KeyError, TypeError, ValueError):
        return []


def resize(
    picture: np.ndarray, height: int, width: int, box: Box | None = None, *, resample: str = "bilinear"
) -> np.ndarray:
    """By all pixels that fall together, as Pillow has it; of the part within `box` alone, if there is one."""
    if picture.shape[:2] == (height, width) and box is None:
        return picture
    return np.asarray(Image.fromarray(picture).resize((width, height), RESAMPLING[resample], box=box))


def normalise(images: Tensor | np.ndarray, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(x / 255 - mean) / std for each colour: (B, H, W, C) of 0 to 255 -> (B, C, H, W) float32."""
    images = images if isinstance(images, Tensor) else torch.from_numpy(np.array(images))  # Pillow's are read-only
    planes = images.permute(0, 3, 1, 2).contiguous().float() / 255
    average, spread = (sent(torch.tensor(each), planes.device).view(-1, 1, 1) for each in (mean, std))
    return planes.sub_(average).div_(spread)
