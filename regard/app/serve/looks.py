"""Attention on demand: one site of an answer or all sites, optionally only one head or some rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.app.serve.limits import Limits, Refused
from regard.app.serve.past_answers import anew
from regard.app.serve.shelf import Served
from regard.show.heads import Heads
from regard.show.plain import count_numbers
from regard.show.vectors import Vectors
from regard.tasks.core.results import Answer, Picture
from regard.tasks.core.run import Run
from regard.tasks.shared.looking import Part, wanted_part
from regard.tasks.shared.reader_answers import BarsAndLooks
from regard.tasks.shared.received import TooLarge

KNOWN = ("site", "head", "rows", "pieces", "side", "packed", "form", "way", "row", "others")
FORMS = ("json", "csv", "png", "svg")
WAYS = ("usual", "map", "links", "text")
EVERY = "*"  # all sites of attention
SIDES = range(4, 129)
POOLED = 100_000_000  # numbers that an overview may be made of


@dataclass(frozen=True)
class Wanted:
    """Which part of an answer's attention is asked for, and in which form."""

    sites: tuple[str, ...]  # (): the usual picture
    head: int | None
    rows: range | None
    pieces: bool
    side: int | None  # every head, pooled to at most side x side
    packed: bool  # large tables are texts, as the views read them
    form: str  # "": plain data, not as a file
    way: str = ""  # as what one head, or the mean of all, is seen; "": the whole picture
    row: int | None = None  # whose links or text
    others: tuple[str, ...] = ()  # answers whose vectors stand below these

    def of(self, answer: Answer, limits: Limits, others: Sequence[Answer] = ()) -> Callable[[Run], Picture]:
        """What to do in the model's thread."""

        def work(run: Run) -> Picture:
            most = POOLED if self.side else limits.numbers
            with wanted_part(Part(self.head, self.rows, self.side, most)):
                if len(self.sites) > 1 and not self.side:  # estimated from the first site, before all are in memory
                    check_count(count_numbers(self.part(answer, self.sites[:1])) * len(self.sites), most)
                picture = self.part(answer, self.sites)
                if others:
                    picture = beside(picture, [self.part(other, self.sites) for other in others])
            check_count(count_numbers(picture), most)
            return picture

        return work

    def part(self, answer: Answer, sites: tuple[str, ...]) -> Picture:
        picture = anew(answer).picture(list(sites))
        if picture is None:
            raise Refused(404, "nothing was looked at for this answer")
        picture = picture.looks if isinstance(picture, BarsAndLooks) else picture  # bars are for a terminal
        picture = picture.pieces if self.pieces else picture
        one = self.head is not None or self.way not in ("", "usual")  # else all heads
        if self.way and one and isinstance(picture, Heads) and len(sites) == 1:
            return picture.map(sites[0], self.head).part(rows=self.rows)
        return picture.part(head=self.head, rows=self.rows)


def beside(picture: Picture, others: Sequence[Picture]) -> Picture:
    alike = [other for other in others if isinstance(other, Vectors)]
    if not isinstance(picture, Vectors) or len(alike) < len(others):
        raise Refused(422, "others are for answers that are seen as vectors")
    if any(other.vectors.shape[1] != picture.vectors.shape[1] for other in alike):
        raise Refused(422, "others must have vectors of as many numbers")
    return picture.beside(alike)


def check_count(count: int, most: int) -> None:
    if count > most:
        raise TooLarge(
            f"this would be {count:,} numbers, and an answer has {most:,} at most; ask for one site and head, for "
            "fewer rows, or for an overview (side=24)"
        )


def read_look(served: Served, query: Mapping[str, str]) -> Wanted:
    """`site`: a name, or * for all; the usual picture without it; `head`: its number; `rows`: as 0-49; `pieces`:
    true for the model's own pieces of words; `side`: an overview; `form`: a file; `way` and `row`: in which way
    to see one head it is drawn."""
    for name in query:
        if name not in KNOWN:
            raise Refused(422, f"there is no {name[:40]!r}; there are {', '.join(KNOWN)}")
    site, head, rows = query.get("site", ""), read_number(query, "head"), read_rows(query.get("rows"))
    if site not in ("", EVERY) and site not in {each["name"] for each in served.sites}:
        raise Refused(422, "site must be * or the name of one of the model's sites; /api/models lists them")
    for name in ("pieces", "packed"):
        if query.get(name, "false") not in ("true", "false"):
            raise Refused(422, f"{name} must be true or false")
    if (side := read_number(query, "side")) is not None and side not in SIDES:
        raise Refused(422, f"side must be a whole number from {SIDES[0]} to {SIDES[-1]}")
    if query.get("form", "json") not in FORMS:
        raise Refused(422, f"form must be one of {', '.join(FORMS)}")
    if query.get("way", "map") not in WAYS:
        raise Refused(422, f"way must be one of {', '.join(WAYS)}")
    sites: Any = (site,) if site else ()
    if site == EVERY:
        sites = tuple(each["name"] for each in served.sites if each["kind"] == "attention")
    pieces, packed = (query.get(name) == "true" for name in ("pieces", "packed"))
    return Wanted(
        sites,
        head,
        rows,
        pieces,
        side,
        packed,
        query.get("form", ""),
        query.get("way", ""),
        read_number(query, "row"),
        tuple(filter(None, query.get("others", "").split(","))),
    )


def read_number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise Refused(422, f"{name} must be a whole number from 0 on")
    return int(text)


def read_rows(text: str | None) -> range | None:
    """0-49, both included."""
    if text is None:
        return None
    first, dash, last = text.partition("-")
    numbers = [end for end in (first, last) if end.isascii() and end.isdecimal() and len(end) < 9]
    if not dash or len(numbers) != 2 or int(first) > int(last):
        raise Refused(422, "rows must be the first and the last one, as in 0-49")
    return range(int(first), int(last) + 1)
