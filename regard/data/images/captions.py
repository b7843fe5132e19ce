"""Images with captions: TSV, CSV, JSONL or COCO JSON beside a folder or a .zip of images, or tars of both.

Every problem with the files is a DataError that names the line or the image."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np

from regard.base.files import explain_os_errors, find_file, find_files
from regard.base.lines import DAMAGED, open_decompressed
from regard.base.memory_rows import MemoryRows
from regard.base.records import (
    Columns,
    Row,
    by_header,
    by_keys,
    by_tabs,
    check_text,
    check_texts,
    filled_lines,
    first_ten,
    form_of,
    read_csv,
    refuse_empty,
    split_at_tabs,
    tabbed_lines,
    value_of,
)
from regard.base.zip_files import explain_zip_errors, read_member
from regard.data.images.images import LARGEST_IMAGE, Images, Size, decode_image, read_image
from regard.data.images.memory_images import held_images, image_columns
from regard.data.images.tar_images import Tell, are_tars, json_value, open_tars, text_of
from regard.errors import DataError

USUAL = (("image", "file_name", "filename"), ("caption", "text", "sentence"))  # names of columns
LARGEST_JSON = 1 << 28  # bytes of a COCO file; COCO's own file has 92 MB
NUMBERED = re.compile(r"#[0-9]+$")  # Flickr8k: name.jpg#0 is the first caption of name.jpg

Caption = tuple[str, str, str]  # where it is said, the image's name, the caption


class Named(NamedTuple):
    """An object in an image that a word of its caption names."""

    word: int  # its index in the caption, split at spaces
    mask: np.ndarray  # (H, W) bool: the object's pixels


class CaptionSet:
    """Images, each with one caption or several; `objects`, if they are known, are those that its first caption
    names."""

    def __init__(
        self,
        images: Images,
        captions: Sequence[tuple[str, ...]],
        objects: Sequence[tuple[Named, ...]] | None = None,
    ) -> None:
        for what, parts in (("captions", captions), ("objects", objects)):
            if parts is not None and len(parts) != len(images):
                raise ValueError(
                    f"each image needs its {what}, got {len(images)} images and {len(parts)} of {what}"
                )
        self.images, self.captions, self.objects = images, captions, objects

    def __len__(self) -> int:
        return len(self.images)

    @property
    def files(self) -> Sequence[Path]:
        """The files of the images."""
        return self.images.files

    def subset(self, rows: Sequence[int] | np.ndarray) -> CaptionSet:
        places = [int(row) for row in rows]
        objects = None if self.objects is None else [self.objects[row] for row in places]
        return CaptionSet(self.images.subset(places), [self.captions[row] for row in places], objects)


def open_caption_set(
    name: str | Path,
    *,
    images: str | Path = "",
    image: str = "",
    caption: str = "",
    only: str | Path = "",
    tell: Tell = lambda _: None,
) -> CaptionSet:
    """The captions of a file or of a pattern of files, found here or under $REGARD_DATA, plain or compressed, in
    order of their images.

    TSV, CSV and JSONL have an image's name and a caption in each row; `image` and `caption` name the columns ("" =
    the usual names). A TSV needs no header: its columns are image and caption, or numbers from 1. Rows of the same
    image are its captions; in JSONL a caption may be a list. In a TSV "name.jpg#0" is the image name.jpg, as in
    Flickr8k. .json is COCO's form: `images` with `id` and `file_name`, `annotations` with `image_id` and `caption`.

    `images`: the folder or .zip with the images ("" = the folder of the file). `only`: a file with the names of the
    images to take, one per line.

    Tars have the images in them: KEY.jpg with KEY.txt, a caption a line, or KEY.json; `image` names the kind of the
    images' members and `caption` a key of the .json. What is left out of them is said by `tell`.

    Of rows in memory the image is the image itself, or a file in the folder `images` ("" = from here)."""
    if isinstance(name, MemoryRows):
        return _memory(name, image, caption, Path(images))
    paths = find_files(name)
    if are_tars(paths):
        if images or only:
            raise DataError(f"{paths[0]} has its images in it: leave data.images and lists of images' names out")
        return _tars(paths, image, caption, tell)
    captions: dict[str, list[str]] = {}  # by the names of their images
    places: dict[str, str] = {}  # where an image is first named
    for where, image_name, text in (row for path in paths for row in _read(path, image, caption)):
        refuse_empty(image_name, "name of the image", where)
        refuse_empty(text, "caption", where)
        places.setdefault(image_name, where)
        captions.setdefault(image_name, []).append(text.strip())
    if not captions:
        raise DataError(f"{name} has no captions; it needs at least one")
    names = _only(find_file(only), captions) if only else list(captions)
    for image_name in names:
        _check_name(image_name, places[image_name])
    folder = find_file(images) if images else paths[0].parent
    open_images = _folder if folder.is_dir() else _zip
    return CaptionSet(open_images(folder, names, places), [tuple(captions[each]) for each in names])


def _memory(rows: MemoryRows, image: str, caption: str, folder: Path) -> CaptionSet:
    """A row for each image, with its caption or a list of them."""
    images, texts = image_columns(rows, Columns((image, caption), USUAL), ("image", "caption"))
    captions = []
    for place, text in enumerate(texts):
        where = f"{rows.where}[{place}]"
        captions.append(tuple(each.strip() for each in check_texts(text, "caption", where)))
        for each in captions[-1]:
            refuse_empty(each, "caption", where)
    values = [folder / image if isinstance(image, str | Path) else image for image in images]
    return CaptionSet(held_images(values, f"{rows.where}[{{}}]".format), captions)


def _tars(paths: Sequence[Path], image: str, caption: str, tell: Tell) -> CaptionSet:
    def by_line(raw: bytes, where: str) -> tuple[str, ...]:
        return _stripped(text_of(raw, where).split("\n"), where)

    def by_key(raw: bytes, where: str) -> tuple[str, ...]:
        key, texts = json_value(raw, where, caption, ("caption", "captions", *USUAL[1][1:]))
        return _stripped(check_texts(texts, key, where), where)

    readers = {"json": by_key} if caption else {"txt": by_line, "json": by_key}
    return CaptionSet(*open_tars(paths, readers, image=image, what="caption", tell=tell))


def _stripped(texts: Iterable[str], where: str) -> tuple[str, ...]:
    """Without empty ones, if there are others."""
    captions = tuple(text.strip() for text in texts if text.strip())
    refuse_empty(" ".join(captions), "caption", where)
    return captions


# ---- the captions


def _read(path: Path, image: str, caption: str) -> Iterator[Caption]:
    columns = Columns((image, caption), USUAL)
    if path.is_dir():
        raise DataError(f"{path} is a folder; name the file with the captions, and the folder with `images`")
    match form_of(path):
        case "jsonl" | "parquet":
            return _jsonl(path, columns)
        case "json":
            return _coco(path)
        case "csv":
            return _said(by_header(read_csv(path), columns))
    in_tabs, lines = tabbed_lines(path)
    if in_tabs:
        return _tsv(split_at_tabs(lines), columns)
    return _said(by_header(read_csv(path), columns))


def _said(rows: Iterable[Row]) -> Iterator[Caption]:
    for where, (image, caption) in rows:
        yield where, image, caption


def _tsv(rows: Iterator[Row], columns: Columns) -> Iterator[Caption]:
    for where, (image, caption) in by_tabs(rows, columns, ("image", "caption")):
        yield where, NUMBERED.sub("", image), caption


def _jsonl(path: Path, columns: Columns) -> Iterator[Caption]:
    for where, values in by_keys(path, columns, "an image and a caption"):
        (image, name), (caption, texts) = values
        for text in check_texts(texts, caption, where):
            yield where, check_text(name, image, where), text


def _coco(path: Path) -> Iterator[Caption]:
    with explain_os_errors(path), open_decompressed(path) as file:
        try:
            data = file.read(LARGEST_JSON + 1)
        except DAMAGED as error:
            raise DataError(f"{path} is damaged or truncated ({error}); download or compress it again") from None
    if len(data) > LARGEST_JSON:
        raise DataError(f"{path} has more than {LARGEST_JSON:,} bytes; at most so many are read")
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON ({error}); a file with one object per line is named .jsonl") from None
    files = {}
    for where, record in _records(path, whole, "images"):
        files[_number(record, "id", where)] = check_text(value_of(record, "file_name", where), "file_name", where)
    for where, record in _records(path, whole, "annotations"):
        number = _number(record, "image_id", where)
        if number not in files:
            raise DataError(f"{where}: there is no image with the id {number!r:.40}")
        yield where, files[number], check_text(value_of(record, "caption", where), "caption", where)


def _records(path: Path, whole: object, key: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The objects in COCO's list of that name, each with its place."""
    if not isinstance(whole, dict):
        raise DataError(f"{path}: must hold an object with images and annotations, got a {type(whole).__name__}")
    records = value_of(whole, key, str(path))
    if not isinstance(records, list):
        raise DataError(f"{path}: {key!r} must be a list, got {records!r:.40}")
    for number, record in enumerate(records):
        where = f"{path}, {key}[{number}]"
        if not isinstance(record, dict):
            raise DataError(f"{where}: must be an object, got {record!r:.40}")
        yield where, record


def _number(record: dict[str, object], key: str, where: str) -> int | str:
    value = value_of(record, key, where)
    if not isinstance(value, int | str):
        raise DataError(f"{where}: {key!r} must be a number or text, got {value!r:.40}")
    return value


def _only(path: Path, captions: dict[str, list[str]]) -> list[str]:
    names = {}
    for where, line in filled_lines(path):
        if line.strip() not in captions:
            raise DataError(
                f"{where}: the image {line.strip()!r:.200} has no caption; there are {first_ten(captions)}"
            )
        names[line.strip()] = where
    if not names:
        raise DataError(f"{path} is empty; it needs the name of at least one image")
    return list(names)


# ---- the images


def _check_name(name: str, where: str) -> None:
    """No name may lead out of the folder."""
    path = PurePath(name)
    if path.anchor or ".." in path.parts or not path.parts:
        raise DataError(f"{where}: the image {name!r:.200} must be a path within the folder of the images")


def _folder(folder: Path, names: list[str], places: dict[str, str]) -> Images:
    files = [folder / name for name in names]
    for file, name in zip(files, names, strict=True):
        if not file.is_file():
            raise _missing(name, folder, places)
    return Images(
        len(files),
        name=lambda row: str(files[row]),
        decode=lambda row, size: read_image(files[row], size),
        files=files,
    )


def _zip(path: Path, names: list[str], places: dict[str, str]) -> Images:
    """Images in a .zip, by their paths in it or, if the file name is unique, by the file name."""
    if path.suffix.lower() != ".zip":
        raise DataError(f"{path} must be a folder of images, or a .zip of them")
    with explain_os_errors(path), explain_zip_errors(path):
        archive = zipfile.ZipFile(path)  # open as long as the images are in use
    members: dict[str, list[str]] = {}
    for member in archive.namelist():
        members.setdefault(PurePath(member).name, []).append(member)
    whole = set(archive.namelist())
    chosen = []
    for image in names:
        fitting = [image] if image in whole else members.get(image, [])
        if not fitting:
            raise _missing(image, path, places)
        if len(fitting) > 1:
            raise DataError(
                f"{places[image]}: {path} has several images {image!r}: {first_ten(fitting)}; say which"
            )
        chosen += fitting

    def name(row: int) -> str:
        return f"{path}, {chosen[row]}"

    def decode(row: int, size: Size) -> np.ndarray:
        with explain_os_errors(path):
            data = read_member(archive, chosen[row], name(row), LARGEST_IMAGE)
        return decode_image(io.BytesIO(data), name(row), size)

    return Images(len(chosen), name=name, decode=decode, files=[path])


def _missing(name: str, folder: Path, places: dict[str, str]) -> DataError:
    return DataError(
        f"{places[name]}: there is no image {name!r:.200} in {folder}; set `images` to the folder or .zip with "
        "the images, or list the images to take"
    )
