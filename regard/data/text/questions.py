"""Questions about texts, in the form of SQuAD (Rajpurkar et al. 2016, 2018).

    {"data": [{"paragraphs": [{"context": "...", "qas": [
        {"question": "...", "id": "...", "is_impossible": false,
         "answers": [{"text": "...", "answer_start": 17}]}]}]}]}

`answer_start` counts characters of the context. The form of version 1.1 has no `is_impossible`, and an answer to
every question; in that of version 2 the answers of an impossible question are empty, and it may have
`plausible_answers`, which are not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from regard.base.lines import open_chunks
from regard.base.records import check_text
from regard.errors import DataError

LARGEST = 1 << 30  # characters of a file


class AnswerIn(NamedTuple):
    """An answer as it stands in a context."""

    text: str
    start: int  # in characters


class Question(NamedTuple):
    context: str
    text: str
    answers: tuple[AnswerIn, ...] = ()  # each of them is right; (): the context does not say
    name: str = ""


def read_questions(path: Path) -> Iterator[Question]:
    """The questions of a file, plain or compressed, in its order."""
    table = _read_json(path)
    data = table.get("data") if isinstance(table, dict) else None
    if not isinstance(data, list):
        raise DataError(f'{path}: must be an object with "data", a list of articles, in the form of SQuAD')
    found = False
    for article in data:
        for paragraph in _items(article, "paragraphs", str(path)):
            context = check_text(paragraph.get("context"), "context", str(path))
            for item in _items(paragraph, "qas", str(path)):
                found = True
                yield _question(item, context, path)
    if not found:
        raise DataError(f"{path} has no questions; it needs at least one")


def _read_json(path: Path) -> Any:
    parts, count = [], 0
    for chunk in open_chunks(path):
        parts.append(chunk)
        count += len(chunk)
        if count > LARGEST:
            raise DataError(f"{path}: is longer than {LARGEST:,} characters; split it")
    try:
        return json.loads("".join(parts))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is no JSON: {error}") from None


def _items(table: Any, key: str, where: str) -> list[dict[str, Any]]:
    items = table.get(key) if isinstance(table, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DataError(f"{where}: {key} must be a list of objects, got {items!r:.60}")
    return items


def _question(item: dict[str, Any], context: str, path: Path) -> Question:
    name = str(item.get("id", ""))
    where = f"{path}, question {name!r:.60}"
    text = check_text(item.get("question"), "question", where)
    if not text.strip():
        raise DataError(f"{where}: the question is empty")
    impossible = item.get("is_impossible", False)
    if not isinstance(impossible, bool):
        raise DataError(f"{where}: is_impossible must be true or false, got {impossible!r:.60}")
    given = [] if impossible else _items(item, "answers", where)
    if not given and not impossible:
        raise DataError(f"{where}: has no answers; a question without any says is_impossible: true")
    return Question(context, text, tuple(dict.fromkeys(_answer(each, context, where) for each in given)), name)


def _answer(given: dict[str, Any], context: str, where: str) -> AnswerIn:
    text, start = check_text(given.get("text"), "text", where), given.get("answer_start")
    if type(start) is not int or start < 0 or not text.strip() or context[start : start + len(text)] != text:
        raise DataError(
            f"{where}: the answer {text[:40]!r} does not stand at character {start!r:.20} of its context, counted "
            "from 0 (answer_start)"
        )
    return AnswerIn(text, start)
