"""Draws what `python -m benchmarks 'recurrence-*' --json FILE` measured: gradient by distance, time by length.

python results/recurrence.py FILE PICTURE      # .svg or .png"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from regard.show import Curves


def draw(measured: dict, out: Path) -> None:
    rows = {row["row"]: row["lines"] for row in measured["rows"]}
    gradient, times = {}, {}
    for line in rows["recurrence-gradient"]:
        shares = {int(name): share for name, share in line.items() if name != "layer"}
        gradient[line["layer"]] = (list(shares), list(shares.values()))
    for line in rows["recurrence-time"]:
        length = int(line["case"].split()[0].replace(",", ""))
        lengths, milliseconds = times.setdefault(line["contender"], ([], []))
        lengths.append(length)
        milliseconds.append(line["ms"])
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    labels = {"x_label": "distance in tokens", "y_label": "share of that at distance 0"}
    Curves(gradient, title="Gradient that reaches a token", **labels).plot(left).set(yscale="log")
    where = measured["machine"]["machine"]
    pace = Curves(times, title=f"Forward and backward, {where}", x_label="tokens", y_label="milliseconds")
    pace.plot(right).set(yscale="log")
    right.set_xscale("log", base=2)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, dpi=160, facecolor="white")


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
