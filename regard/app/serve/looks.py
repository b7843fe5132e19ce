"""Attention on demand: one site of an answer, and of it one head and some rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from regard.app.serve.limits import Limits, Refused
from regard.app.serve.shelf import Served
from regard.show.plain import count_numbers
from regard.tasks.received import TooLarge
from regard.tasks.results import Answer
from regard.tasks.task import Run

KNOWN = ("site", "head", "rows", "pieces")


def read_look(
    one: Served, answer: Answer, query: Mapping[str, str], limits: Limits
) -> Callable[[Run], dict[str, Any]]:
    """`site`: a name, the usual picture without it; `head`: its number; `rows`: as 0-49; `pieces`: true for the
    model's own pieces of words."""
    for name in query:
        if name not in KNOWN:
            raise Refused(422, f"there is no {name[:40]!r}; there are {', '.join(KNOWN)}")
    site, head, rows = query.get("site", ""), read_number(query.get("head")), read_rows(query.get("rows"))
    if site and site not in {each["name"] for each in one.sites}:
        raise Refused(422, "site must be the name of one of the model's sites; /api/models lists them")
    if query.get("pieces", "false") not in ("true", "false"):
        raise Refused(422, "pieces must be true or false")

    def work(run: Run) -> dict[str, Any]:
        picture = answer.picture([site] if site else [])
        if picture is None:
            raise Refused(404, "nothing was looked at for this answer")
        picture = picture.pieces if query.get("pieces") == "true" else picture
        picture = picture.part(head=head, rows=rows)
        count = count_numbers(picture)
        if count > limits.numbers:
            raise TooLarge(
                f"this would be {count:,} numbers, and an answer has {limits.numbers:,} at most; ask for one head, "
                "or for fewer rows"
            )
        return {"model": one.name, "site": site, **picture.data()}

    return work


def read_number(given: str | None) -> int | None:
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) < 9):
        raise Refused(422, "head must be a whole number from 0 on")
    return int(given)


def read_rows(given: str | None) -> range | None:
    """0-49, both included."""
    if given is None:
        return None
    first, dash, last = given.partition("-")
    numbers = [one for one in (first, last) if one.isascii() and one.isdecimal() and len(one) < 9]
    if not dash or len(numbers) != 2 or int(first) > int(last):
        raise Refused(422, "rows must be the first and the last one, as in 0-49")
    return range(int(first), int(last) + 1)
