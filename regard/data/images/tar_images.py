"""Images in tars as webdataset writes them: KEY.jpg, and beside it KEY.cls, KEY.txt or KEY.json.

The places of all members are read once; an image is read by its place when it is needed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from regard.base.files import parse_json
from regard.base.records import Columns, check_text, first_ten, value_of
from regard.base.tar_files import Member, is_tar, read_member, tar_members
from regard.data.images.images import LARGEST_IMAGE, Images, Size, decode_image
from regard.errors import DataError

KINDS = ("jpg", "jpeg", "png", "webp")  # of images
LARGEST_TEXT = 1 << 20  # bytes of a label, a caption or a .json
# As webdataset has it, the key ends at the first dot of the name; what is hidden has none.
NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)

T = TypeVar("T")
Tell = Callable[[str], None]
Readers = Mapping[str, Callable[[bytes, str], T]]  # by the kinds of members: what one says, from its bytes


def are_tars(paths: Sequence[Path]) -> bool:
    """Are these tars? DataError for tars among other files."""
    tars = {path: is_tar(path) for path in paths}
    if any(tars.values()) and not all(tars.values()):
        other = next(path for path, fits in tars.items() if not fits)
        raise DataError(f"{other} is no .tar, and {paths[0]} to {paths[-1]} must all be: narrow the pattern")
    return any(tars.values())


def open_tars(
    paths: Sequence[Path], readers: Readers[T], *, image: str = "", what: str, tell: Tell
) -> tuple[Images, list[T]]:
    """The images of tars, and what is said of each by the member with its key and the first kind of `readers` that
    is there. `image`: the kind of the images' members ("" = KINDS); `what`: a label or a caption.

    Keys without an image, or without anything said of it, are told and left out."""
    kinds = (image.lower().removeprefix("."),) if image else KINDS
    places: list[tuple[Path, Member]] = []
    values, alone = [], []
    for path in paths:
        for key, members in _by_key(path, kinds, readers).items():
            kind = next((kind for kind in readers if kind in members), "")
            if "image" not in members or not kind:
                alone.append(f"{path}, {key}")
                continue
            member = members[kind]
            values.append(readers[kind](read_member(path, member, LARGEST_TEXT), f"{path}, {member.name}"))
            places.append((path, members["image"]))
    needed = f"an image (KEY.{', .'.join(kinds)}) and a {what} (KEY.{', .'.join(readers)}) with the same KEY"
    if not places:
        raise DataError(f"{_all(paths)}: no key has {needed}; there are {first_ten(alone)}")
    if alone:
        tell(f"{len(alone):,} of {len(places) + len(alone):,} keys left out, without {needed}: {first_ten(alone)}")

    def name(row: int) -> str:
        path, member = places[row]
        return f"{path}, {member.name}"

    def decode(row: int, size: Size) -> np.ndarray:
        return decode_image(io.BytesIO(read_member(*places[row], LARGEST_IMAGE)), name(row), size)

    return Images(len(places), name=name, decode=decode), values


def text_of(raw: bytes, where: str) -> str:
    try:
        return check_text(raw.decode("utf-8-sig"), "text", where)
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8: {error}") from None


def json_value(raw: bytes, where: str, key: str, usual: tuple[str, ...]) -> tuple[str, object]:
    """The key of an object, that which is named or else a usual one, and its value."""
    try:
        record = parse_json(raw)
    except ValueError as error:
        raise DataError(f"{where} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise DataError(f"{where}: must hold an object, got {record!r:.40}")
    (key,) = Columns((key,), (usual,)).choose(list(record), where)
    return key, value_of(record, key, where)


def _by_key(path: Path, images: Iterable[str], others: Iterable[str]) -> dict[str, dict[str, Member]]:
    """The members of each key that are needed, by their kinds."""
    kinds = {**{kind: kind for kind in others}, **dict.fromkeys(images, "image")}
    keys: dict[str, dict[str, Member]] = {}
    for member in tar_members(path):
        if not (parts := NAME.fullmatch(member.name)) or not (kind := kinds.get(parts[2].lower())):
            continue
        members = keys.setdefault(parts[1], {})
        if kind in members:
            raise DataError(
                f"{path}: {members[kind].name} and {member.name} are two of one key and kind ({kind}); each key "
                "may have one. Where images are of several kinds, data.image names one, as in data.image=png"
            )
        members[kind] = member
    return keys


def _all(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
