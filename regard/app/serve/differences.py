"""Two looks compared: of two models, two layers or heads, or of a text before and after a word was changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.app.serve.limits import Limits, Refused
from regard.app.serve.looks import FORMS, Wanted, check_count, read_look
from regard.app.serve.shelf import Served
from regard.show.difference import Difference, as_map
from regard.show.map import Map
from regard.tasks.core.results import Answer

SIDE = ("model", "answer", "site", "head", "pieces")  # of one of the looks
SECOND = "2."  # before the names of the second
COMMON = ("form", "packed")

Call = Callable[[Served, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Side:
    """One of the two: an answer of a model, and what is seen of it."""

    served: Served
    answer: Answer
    wanted: Wanted

    async def map(self, call: Call, limits: Limits) -> Map:
        picture = await call(self.served, self.wanted.of(self.answer, limits))
        if (found := as_map(picture)) is None:
            raise Refused(
                404,
                f"what is seen of {self.served.name} is no single table of weights; choose one head",
            )
        return found


def read_side(query: Mapping[str, str], prefix: str, served: Served, kept: Callable[[Served, str], Answer]) -> Side:
    look = {name: query[prefix + name] for name in SIDE[2:] if prefix + name in query}
    return Side(served, kept(served, query[f"{prefix}answer"]), read_look(served, {**look, "way": "map"}))


def check_query(query: Mapping[str, str]) -> None:
    """`model`, `answer`, `site`, `head` and `pieces` say what the first look is, the same with `2.` before them the
    second; `form`: a file."""
    for name in query:
        if name.removeprefix(SECOND) not in SIDE and name not in COMMON:
            raise Refused(
                422,
                f"there is no {name[:40]!r}; there are {', '.join((*SIDE, *COMMON))}, and 2.model and so on",
            )
    for prefix in ("", SECOND):
        if not {f"{prefix}model", f"{prefix}answer"} <= query.keys():
            raise Refused(422, f"{prefix}model and {prefix}answer must be given, the latter by its id")
    if query.get("form", "json") not in FORMS or query.get("packed", "true") not in ("true", "false"):
        raise Refused(422, f"form must be one of {', '.join(FORMS)}, and packed true or false")


def difference(maps: Sequence[Map], sides: Sequence[Side], limits: Limits) -> Difference:
    first, second = maps
    rows, columns = len(first.rows) + len(second.rows), len(first.columns) + len(second.columns)
    check_count(rows * columns, limits.numbers)
    names = [side.served.name for side in sides]
    same = names[0] == names[1]
    title = f"{names[0]}: {second.title} less {first.title}" if same else f"{names[1]} less {names[0]}"
    return Difference.between(first, second, names=names, title=title)


def asked(sides: Sequence[Side]) -> dict[str, str]:
    """The inputs and the answers, each once, for a file."""
    inputs = dict.fromkeys(str(side.answer.to_dict().get("input", "")) for side in sides)
    return {"input": " / ".join(inputs), "answer": " / ".join(dict.fromkeys(side.answer.line() for side in sides))}
