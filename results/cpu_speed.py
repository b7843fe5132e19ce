"""Write the table of speeds in results/cpu_speed.md from what the benchmarks have measured:

python -m benchmarks transformer-translate gpt2-decode --device cpu --seconds 3 --json speeds.json
python results/cpu_speed.py speeds.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from regard.base.files import write_file

PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- speeds: written by python results/cpu_speed.py -->\n", "<!-- end of speeds -->"
WORK = {  # what a case of a row is called in the table
    ("transformer-translate", "greedy"): "translator, greedy, sentences/s",
    ("transformer-translate", "beam 5"): "translator, beam 5, sentences/s",
    ("gpt2-decode", "1 x 128 after 32"): "GPT-2 124M, 1 row, tokens/s",
    ("gpt2-decode", "8 x 128 after 32"): "GPT-2 124M, 8 rows, tokens/s",
    ("gpt2-decode", "1 x 1 after 512"): "a prompt of 512, tokens/s",
}
READ = {"1 x 1 after 512": 512}  # tokens of a call that are counted in place of those that are written
BESIDE = "CTranslate2 float32"
HOW = {
    True: "One thread and its CPU time, on a machine that others used: ratios count, absolute numbers do not.",
    False: "Two threads on two cores.",
}


def table(measured: dict[str, Any]) -> str:
    """The speeds of all contenders by work, and how many times that of CTranslate2 in float32 the first one has."""
    speeds, same = {}, {}
    for row in measured["rows"]:
        for line in row["lines"]:
            key, who = WORK[row["row"], line["case"]], line["contender"]
            speeds[key, who] = line[f"{row['unit']}/s"] * READ.get(line["case"], 1)
            same[key, who] = line["as regard"].removesuffix(" the same")
    contenders = list(dict.fromkeys(who for _, who in speeds))
    lines = [f"| work | {' | '.join(contenders)} | regard : {BESIDE} |", "|---" * (len(contenders) + 2) + "|"]
    for key in WORK.values():
        cells = [cell(speeds.get((key, who)), same.get((key, who))) for who in contenders]
        beside = speeds.get((key, BESIDE))
        ratio = f"{speeds[key, contenders[0]] / beside:.2f}" if beside else ""
        lines.append(f"| {key} | {' | '.join(cells)} | {ratio} |")
    about = ", ".join(f"{name} {value}" for name, value in measured["machine"].items())
    return "\n".join(lines) + f"\n\n{about}. {HOW[measured['machine'].get('threads') == 1]}\n"


def cell(speed: float | None, same: str | None) -> str:
    """A speed, and in brackets the share of the answers that are those of regard, where it is not all of them."""
    if speed is None:
        return ""
    shown = f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"
    return shown if same == "100%" else f"{shown} ({same})"


def with_table(page: str, measured: dict[str, Any]) -> str:
    """The page with the table of what was measured."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table(measured)}{END}{after}"


if __name__ == "__main__":
    (file,) = sys.argv[1:]
    measured = json.loads(Path(file).read_text(encoding="utf-8"))
    write_file(PAGE, with_table(PAGE.read_text(encoding="utf-8"), measured).encode())
