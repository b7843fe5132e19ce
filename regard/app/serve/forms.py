"""A picture as a file to keep: PNG and SVG as the commands draw them, its numbers as JSON and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from starlette.responses import Response

from regard.app.serve.answering import encoded
from regard.app.serve.looks import Wanted
from regard.show.label_text import trim
from regard.show.picture import Picture
from regard.show.saving import save
from regard.show.svg import render_svg
from regard.tasks.core.results import Answer

KINDS = {"json": "application/json", "csv": "text/csv; charset=utf-8", "png": "image/png", "svg": "image/svg+xml"}
DRAWING = threading.Lock()  # matplotlib draws one picture at a time
SMALL = 16 << 10  # bytes, as they are sent, of a look that comes with its answer
COLUMNS = ("table", "head", "row", "column", "row_name", "column_name", "value")


def drawn(picture: Picture, wanted: Wanted, about: Mapping[str, str], said: Mapping[str, Any]) -> Response:
    """The picture as plain data, or with a form as a file. `about`: the model and the site; `said`: the input and
    the answer, which a file names too."""
    form = wanted.form
    if form in ("", "json"):
        content = picture.data() if wanted.side is None else picture.overview(wanted.side)
        data = encoded({**about, **said, **(content if wanted.packed or wanted.side else listed(content, picture))})
    elif form == "csv":
        data = as_csv(picture, {**about, **said})
    else:
        data = as_image(picture, wanted, headline(about["model"], said))
    headers = {"content-disposition": f'attachment; filename="{file_name(about)}.{form}"'} if form else {}
    return Response(data, media_type=KINDS[form or "json"], headers=headers)


def small_data(picture: Picture, model: str) -> dict[str, Any]:
    """What `drawn` gives with packed tables, if it has few bytes when it is compressed; else nothing."""
    data = {"model": model, "site": "", **picture.data()}
    return data if len(zlib.compress(encoded(data), 1)) <= SMALL else {}


def listed(data: Any, source: Any) -> Any:
    """The data of a picture with its large tables, which are packed into texts, as lists of their numbers."""
    if isinstance(source, np.ndarray) and isinstance(data, dict):
        return precise(source)
    if isinstance(source, np.ndarray) and source.dtype.kind == "f":
        return precise(source)
    if isinstance(source, Mapping) and isinstance(data, dict):
        if not data.keys() & source.keys():  # one table for all sites
            return listed(data, next(iter(source.values())))
        return {name: listed(item, source[name]) if name in source else item for name, item in data.items()}
    if isinstance(data, dict):
        return {name: listed(item, getattr(source, name, None)) for name, item in data.items()}
    if isinstance(data, list) and isinstance(source, list | tuple):
        return [listed(*both) for both in zip(data, source, strict=True)]
    return data


def precise(numbers: np.ndarray) -> Any:
    """Lists of numbers, with as many digits as CSV has."""
    if numbers.ndim > 1 or numbers.dtype.kind != "f":
        return [precise(row) for row in numbers] if numbers.ndim > 1 else numbers.tolist()
    return [float(f"{number:.6g}") for number in numbers]


def said_of(answer: Answer, picture: Picture) -> dict[str, str]:
    """The input and the answer, in the words of the page."""
    told: dict[str, Any] = answer.to_dict()
    asked, label = told.get("input", ""), told.get("label")
    share = told.get("probabilities", {}).get(label)
    text = told.get("output") or (label if share is None else f"{label} {100 * share:.1f} %") or told.get("text")
    if not text or (text == asked and "output" not in told):  # it has no words of its own
        text = picture.title or answer.line()
    return {"input": " / ".join(asked) if isinstance(asked, list) else str(asked), "answer": text}


def headline(model: str, said: Mapping[str, Any]) -> str:
    """dates: "3 May 1979" -> 1979-05-03"""
    asked, answer = (" ".join(str(said.get(name, "")).split()) for name in ("input", "answer"))
    return f"{model}: {trim(asked, 36)} → {trim(answer, 36)}"


def file_name(about: Mapping[str, str]) -> str:
    """A file name with letters that every system takes."""
    name = "-".join(part for part in about.values() if part).replace("*", "all")
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]


def as_image(picture: Picture, wanted: Wanted, title: str) -> bytes:
    """What is seen, under a title that says of what it is."""
    picture = picture.with_title("\n".join(filter(None, (picture.title, title))))
    with tempfile.TemporaryDirectory() as folder, DRAWING:
        path = Path(folder) / f"picture.{wanted.form}"
        if not wanted.way:
            picture.save(path)
        else:
            from regard.show.figure import write_png

            drawing = picture.shown_as(wanted.way, wanted.row)
            save(
                path,
                png=lambda file: write_png(drawing, file, side=picture.png_side),
                svg=lambda: render_svg(drawing),
                html=picture.html,
            )
        return path.read_bytes()


def as_csv(picture: Picture, about: Mapping[str, Any]) -> bytes:
    """A line for each number: in which table and where it stands. The lines before these begin with # and say of
    what they are."""
    text = io.StringIO()
    for name, value in about.items():
        if value != "":
            text.write(f"# {name}: {' '.join(str(value).split())}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, numbers, rows, columns in tables(picture):
        for place, value in np.ndenumerate(numbers):
            *heads, row, column = ("", "", *place)[-max(2, len(place)) :]
            row_name = rows[row] if row != "" and len(rows) == numbers.shape[-2] else ""
            column_name = columns[column] if len(columns) == numbers.shape[-1] else ""
            head = ".".join(map(str, heads))
            writer.writerow((name, head, row, column, row_name, column_name, f"{value:.6g}"))
    return text.getvalue().encode("utf-8", "replace")


Table = tuple[
    str, np.ndarray, Sequence[str], Sequence[str]
]  # its name, numbers (..., R, C), names of rows and columns


def tables(value: Any, name: str = "", owner: Any = None) -> Iterator[Table]:
    """All tables of numbers in a picture, without its images."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and value.ndim:
            yield (
                name,
                value,
                names_of(owner, name, ("rows", "queries")),
                names_of(owner, name, ("columns", "words")),
            )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tables(item, f"{name}/{key}" if name else str(key), owner)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from tables(item, f"{name}/{number}" if name else str(number), owner)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tables(getattr(value, field.name), f"{name}/{field.name}" if name else field.name, value)


def names_of(owner: Any, table: str, fields: Sequence[str]) -> Sequence[str]:
    """The names along one side of a table: a field of the picture, either for all of its tables or by table."""
    for field in (*fields, "sentences"):
        names, last = getattr(owner, field, None), table.rpartition("/")[2]
        if field == "sentences" and names is not None and last.isdecimal():
            names = names[int(last)]
        if isinstance(names, Mapping):
            names = next((value for key, value in names.items() if table.endswith(f"/{key}")), None)
        if names is not None and all(isinstance(name, str) for name in names):
            return names
    return ()
