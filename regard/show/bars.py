"""A few answers with their probabilities, as lines of text."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from regard.show.terminal import NARROWEST
from regard.show.text import cells, clean, trim

LONGEST = 40  # cells of a full bar, and of a name
PARTS = " ▏▎▍▌▋▊▉"  # eighths of a cell
NUMBER = 8  # " 100.0 %"


def bars(rows: Sequence[tuple[str, float]], *, width: int | None = None) -> str:
    """Name, bar and percentage of each share in [0, 1], in lines of at most `width` cells (else the terminal's).

    A full bar is 100 %: bars of different answers compare."""
    if width is None:
        width = max(shutil.get_terminal_size().columns, NARROWEST)
    if width < NARROWEST:
        raise ValueError(f"width must be at least {NARROWEST} cells, got {width}")
    for name, share in rows:
        if not -1e-3 <= share <= 1 + 1e-3:  # half precision may overshoot a little; NaN is refused too
            raise ValueError(f"shares must lie in [0, 1], got {share} for {name!r}: give probabilities, not scores")
    # The name has two cells or more beside the number; the bar takes what both leave.
    longest = min(LONGEST, max(2, (width - NUMBER) // 2))
    names = [trim(clean(name), longest) for name, _ in rows]
    margin = max(map(cells, names), default=0)
    room = min(LONGEST, width - NUMBER - margin - 1)
    lines = []
    for name, (_, share) in zip(names, rows, strict=True):
        share = min(max(share, 0.0), 1.0)
        line = name + " " * (margin - cells(name))
        if room >= 4:
            line += " " + _bar(share, room)
        lines.append(line + f"{100 * share:.1f} %".rjust(NUMBER))
    return "".join(line + "\n" for line in lines)


def _bar(share: float, room: int) -> str:
    """Any share above 0 is seen."""
    eighths = max(round(share * room * 8), 1 if share > 0 else 0)
    bar = "█" * (eighths // 8) + PARTS[eighths % 8].strip()
    return bar.ljust(room)
