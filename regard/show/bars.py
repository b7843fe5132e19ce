"""A few answers with their probabilities, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from regard.base.arguments import check_argument, checked
from regard.errors import BadInput
from regard.show.label_text import clean, trim
from regard.show.terminal import usable_width

LONGEST = 40  # cells of a full bar, and of a name
EIGHTHS = " ▏▎▍▌▋▊▉"  # of a cell
NUMBER = 8  # cells of " 100.0 %"


@checked
def bars(rows: Sequence[tuple[str, float]], *, width: int | None = None) -> str:
    """A line for each (name, probability): name, bar and percentage, at most `width` cells wide.

    A full bar is 100 %, so bars of different answers can be compared. Without `width`, the terminal's is used."""
    width = usable_width(width)
    rows = list(rows)
    for row in rows:
        check_argument("each of rows", row, Sequence[Any])
        name, share = row if len(row) == 2 else (row, None)
        check_argument("the name of a row", name, str)
        check_argument("the share of a row", share, float)
        if not -1e-3 <= share <= 1 + 1e-3:  # float16 may overshoot a little; NaN is refused too
            raise BadInput(f"shares must lie in [0, 1], got {share} for {name!r}: give probabilities, not scores")
    # The name gets at least two cells beside the number; the bar gets what both leave.
    longest = min(LONGEST, max(2, (width - NUMBER) // 2))
    names = [trim(clean(name), longest) for name, _ in rows]
    margin = max(map(cell_len, names), default=0)
    room = min(LONGEST, width - NUMBER - margin - 1)
    lines = []
    for name, (_, share) in zip(names, rows, strict=True):
        share = min(max(share, 0.0), 1.0)
        line = name + " " * (margin - cell_len(name))
        if room >= 4:
            line += " " + _bar(share, room)
        lines.append(line + f"{100 * share:.1f} %".rjust(NUMBER))
    return "".join(line + "\n" for line in lines)


def _bar(share: float, room: int) -> str:
    """At least an eighth of a cell for any share above 0."""
    eighths = max(round(share * room * 8), 1 if share > 0 else 0)
    bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    return bar.ljust(room)
