"""One weight of a picture opened: query, keys, scores, weights and values of the look that it belongs to.

Which look of the model that is, is found by its weights: a picture may show some of a site's queries and places, in
words of several pieces, or the mean of its heads."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.app.serve.forms import tables
from regard.app.serve.limits import Limits, Refused
from regard.app.serve.looks import check_count, read_number
from regard.app.serve.past_answers import anew
from regard.app.serve.shelf import Served
from regard.show.plain import plain
from regard.show.site_names import site_name
from regard.tasks.core.results import Answer
from regard.tasks.core.run import Run
from regard.tasks.shared.looking import LONG, Part, wanted_part
from regard.tasks.shared.reader_answers import BarsAndLooks
from regard.tasks.shared.received import TooLarge

if TYPE_CHECKING:
    from regard.attention.record import Trace

KNOWN = ("site", "table", "head", "row", "column", "turned", "pieces", "of", "first")
FLAGS = ("pieces", "turned", "first")
CLOSE = 2e-3  # a picture's weights are rounded, and those of a batch may differ by more than those of one
FAINT = (
    0.1  # of looks whose largest weight is below this, weights must be as much closer: else others are like them
)
TOO_LONG = "a weight is opened in texts of some hundred tokens; this one is longer"
NOT_A_LOOK = (
    "this is not the look of one query: it was made of several. Choose a layer under Where, and open a weight there"
)


@dataclass(frozen=True)
class Cell:
    """Which weight is opened. `row` None: the whole table is one look; `of`: another head than the one shown;
    `first`: nobody asked for it, so one that cannot be opened is no mistake."""

    site: str
    table: str
    head: int | None
    row: int | None
    column: int
    turned: bool
    pieces: bool
    of: int | None
    first: bool

    def opened(self, served: Served, answer: Answer, limits: Limits) -> Callable[[Run], dict[str, Any] | None]:
        """What to do in the model's thread."""

        def work(run: Run) -> dict[str, Any] | None:
            try:
                return self.work(run, served, answer, limits)
            except TooLarge:
                if self.first:
                    return None
                raise

        return work

    def work(self, run: Run, served: Served, answer: Answer, limits: Limits) -> dict[str, Any] | None:
        sites = [self.site] if self.site else self.likely(served)
        with wanted_part(Part(most=LONG)):  # else a long text's weights would be computed before it is refused
            shown = self.shown(answer)
        check_count(shown.weights.size * len(sites), limits.numbers)
        heads = max((each["heads"] or 1 for each in served.sites if each["name"] in sites), default=1)
        if heads * len(shown.columns) ** 2 > LONG:
            raise TooLarge(TOO_LONG)
        found = self.found(run, answer, sites, shown)
        if found is None and not self.first:
            raise Refused(422, NOT_A_LOOK)
        return None if found is None else self.data(run, answer, found, shown, limits)

    def likely(self, served: Served) -> list[str]:
        """The sites that a picture may be of: the one that its table is named after, the usual one first."""
        names = [each["name"] for each in served.sites if each["kind"] == "attention"]
        named = [name for name in names if name in self.table]
        return named or sorted(names, key=lambda name: name != served.alignment)

    def shown(self, answer: Answer) -> Shown:
        try:
            picture = anew(answer).picture([self.site] if self.site else [])
        except TooLarge:
            raise TooLarge(TOO_LONG) from None
        if picture is None:
            raise Refused(404, "nothing was looked at for this answer")
        picture = picture.looks if isinstance(picture, BarsAndLooks) else picture
        try:
            inside = Shown.of(picture.pieces, self)
        except (KeyError, IndexError):
            raise Refused(422, "the picture of this answer has no such weight") from None
        if self.pieces or picture.pieces is picture:
            return inside
        words = Shown.of(picture, self)
        return words.in_pieces(inside)

    def found(self, run: Run, answer: Answer, sites: Sequence[str], shown: Shown) -> Found | None:
        from regard.attention import trace

        with trace(run.model, *sites) as seen:
            anew(answer).picture(list(sites))
        for site in (name for name in sites if name in seen.sites):
            places = [one for row in shown.rows for one in matches(seen, site, shown.weights[row], row)]
            if places:
                near = [one for one in places if one.head == self.head] or places
                return near[0]
        return None

    def data(self, run: Run, answer: Answer, found: Found, shown: Shown, limits: Limits) -> dict[str, Any]:
        from regard.attention.opened import open_look

        head = next(one for one in (self.of, found.head, found.strongest(shown.column)) if one is not None)
        if head >= found.heads:
            raise Refused(422, f"of must be one of {found.heads} heads")
        look = open_look(
            run.model,
            found.site,
            lambda: anew(answer).picture([found.site]),
            item=found.item,
            head=head,
            row=found.row,
        )
        tables = {name: getattr(look, name).numpy() for name in ("query", "keys", "values", "scores", "weights")}
        check_count(sum(table.size for table in tables.values()), limits.numbers)
        places = len(tables["weights"])  # fewer than are shown where the memory had not grown so far
        names = [*[""] * found.first, *shown.columns, *[""] * places][:places]
        if shown.column + found.first >= places:
            raise Refused(422, "this place was not there yet when the query looked")
        return {
            "site": found.site,
            "said": {found.site: site_name(found.site)},
            "head": head,
            "heads": found.heads,
            "row": shown.row_name,
            "column": shown.column + found.first,
            "columns": names,
            "score": look.score,
            "weigh": look.weigh,
            **plain({**tables, "beside": {name: x.numpy() for name, x in look.beside.items()}}),
        }


@dataclass(frozen=True)
class Shown:
    """A table of a picture: weights (R, C), which rows the opened one may be, and names."""

    weights: np.ndarray
    rows: Sequence[int]
    column: int
    row_name: str
    row_names: Sequence[str]
    columns: Sequence[str]

    @classmethod
    def of(cls, picture: Any, cell: Cell) -> Shown:
        _, numbers, rows, columns = next(
            (one for one in tables(picture) if one[0] == cell.table), ("", None, (), ())
        )
        if numbers is None:
            raise KeyError(cell.table)
        numbers = numbers[cell.head] if cell.head is not None and numbers.ndim == 3 else numbers
        numbers = numbers.T if cell.turned else numbers
        grid = (1, *numbers.shape)[-2:]
        if cell.row is None:
            numbers = numbers.reshape(1, -1)
        flat = numbers.reshape(len(numbers), -1)
        if len(columns) != flat.shape[1]:
            is_image = flat.shape[1] == grid[0] * grid[1] and grid[0] > 1
            rows = rows or columns  # of a caption
            columns = [
                f"row {at // grid[1] + 1}, column {at % grid[1] + 1}" if is_image else f"place {at}"
                for at in range(flat.shape[1])
            ]
        row = cell.row or 0
        if row >= len(flat) or cell.column >= flat.shape[1]:
            raise IndexError(row)
        names = rows if len(rows) == len(flat) else ()
        return cls(flat, [row], cell.column, names[row] if names else "", names, columns)

    def in_pieces(self, inside: Shown) -> Shown:
        """The pieces of the words that were pointed at: of these the column with the largest weight."""
        if self.weights.shape == inside.weights.shape:
            return inside
        rows = [*pieces_of(self.row_names, inside.row_names, self.rows[0])] if self.row_names else [self.rows[0]]
        columns = [*pieces_of(self.columns, inside.columns, self.column)]
        if not rows or not columns:
            raise Refused(422, "turn on Pieces of words to open this weight")
        row, column = max(
            ((row, column) for row in rows for column in columns), key=lambda place: inside.weights[place]
        )
        name = inside.row_names[row] if inside.row_names else ""
        return Shown(inside.weights, [row], column, name, inside.row_names, inside.columns)


def pieces_of(words: Sequence[str], pieces: Sequence[str], word: int) -> Iterator[int]:
    """The pieces whose letters are those of this word."""
    before = sum(len(letters(each)) for each in words[:word])
    end = before + len(letters(words[word]))
    at = 0
    for number, piece in enumerate(pieces):
        count = len(letters(piece))
        if count and before <= at < end:
            yield number
        at += count


def letters(word: str) -> str:
    """Without what marks a piece's place in its word."""
    kept = word.removeprefix("##").replace("▁", "").replace("Ġ", "")
    return "".join(unicodedata.normalize("NFC", kept).split())


@dataclass(frozen=True)
class Found:
    """A look of a site: item of the batch, query, first place that is shown; `head` None: the mean of all."""

    site: str
    item: int
    row: int
    first: int
    head: int | None
    weights: np.ndarray  # (H, K)

    @property
    def heads(self) -> int:
        return len(self.weights)

    def strongest(self, column: int) -> int:
        """The head that looks most at a place that is shown."""
        return int(self.weights[:, column + self.first].argmax())


def matches(seen: Trace, site: str, shown: np.ndarray, row: int) -> Iterator[Found]:
    """The looks with these weights, those first whose place among the queries is that in the picture."""
    weights = seen[site].float().cpu().numpy()
    weights = weights[:, None] if weights.ndim == 3 else weights  # (B, H, Q, K)
    size, close = len(shown), CLOSE * min(1.0, float(shown.max()) / FAINT)
    for first in range(weights.shape[-1] - size + 1):
        part = weights[..., first : first + size]
        found: list[tuple[int, int | None, int]] = []
        for head in [*range(part.shape[1]), None]:
            table = part.mean(1) if head is None else part[:, head]
            items, queries = np.nonzero(np.abs(table - shown).max(-1) < close)
            found += [(int(item), head, int(query)) for item, query in zip(items, queries, strict=True)]
        for item, head, query in sorted(found, key=lambda one: abs(one[2] - row)):
            yield Found(site, item, query, first, head, weights[item, :, query])


def read_cell(served: Served, query: Mapping[str, str]) -> Cell:
    """`table`: as CSV names it; `row` and `column` of it; `head`: which of its heads; `of`: another head instead;
    `turned`: rows and columns are the other way round; `pieces`: it is seen in pieces of words; `first`: it opens
    by itself, and the answer is null where it was made of several looks."""
    for name in query:
        if name not in KNOWN:
            raise Refused(422, f"there is no {name[:40]!r}; there are {', '.join(KNOWN)}")
    for name in FLAGS:
        if query.get(name, "false") not in ("true", "false"):
            raise Refused(422, f"{name} must be true or false")
    site = query.get("site", "")
    if site and site not in {each["name"] for each in served.sites}:
        raise Refused(422, "site must be the name of one of the model's sites; /api/models lists them")
    numbers = {name: read_number(query, name) for name in ("head", "row", "column", "of")}
    if numbers["column"] is None or "table" not in query:
        raise Refused(422, "name the table and the column of the weight to open")
    flags = {name: query.get(name) == "true" for name in FLAGS}
    return Cell(
        site,
        query["table"],
        numbers["head"],
        numbers["row"],
        numbers["column"],
        flags["turned"],
        flags["pieces"],
        numbers["of"],
        flags["first"],
    )
