"""`python -m campaigns`: what `make campaign` runs."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path

import torch

from campaigns import disks, folders, hours, inputs, kills, memory, requests, signals  # noqa: F401 - each declares some
from campaigns.frame import CAMPAIGNS, run
from campaigns.report import REPORT, add, counted, runs_of, text_of


def main() -> int:
    arguments = parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # both keep what was counted, also in the background of a script
        signal.signal(number, signal.default_int_handler)
    torch.set_num_threads(1)  # before anything is forked
    names = arguments.only or list(CAMPAIGNS)
    if unknown := [name for name in names if name not in CAMPAIGNS]:
        print(f"there is no campaign {unknown[0]!r}; there are {', '.join(CAMPAIGNS)}", file=sys.stderr)
        return 2
    if arguments.list:
        for each in CAMPAIGNS.values():
            print(f"{each.name:20} {each.reach:>7,} cases  {each.about}")
        return 0
    if arguments.write:
        arguments.report.write_text(text_of(runs_of(arguments.report), CAMPAIGNS))
        return 0
    faults = 0
    for name in names:
        single = arguments.case is not None
        first, cases = (arguments.case, 1) if single else (arguments.first, arguments.cases)
        minutes = arguments.minutes / len(names)
        tally = run(CAMPAIGNS[name], arguments.seed, minutes=minutes, cases=cases, first=first)
        faults += len(tally.faults)
        if not single and tally.cases:
            command = shlex.join(["python", "-m", "campaigns", *sys.argv[1:]])
            add(arguments.report, counted(CAMPAIGNS[name], tally, command), CAMPAIGNS)
    return 1 if faults else 0


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m campaigns",
        description="Make faults on purpose and count what happens. Exit status 1: there were faults.",
    )
    found.add_argument("only", nargs="*", metavar="NAME", help="campaigns to run; all of them unless named")
    found.add_argument(
        "--minutes", type=float, default=0, metavar="N", help="for all of them together; 0: no limit"
    )
    found.add_argument("--cases", type=int, default=0, metavar="N", help="of each; 0: a whole campaign")
    found.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed draws the same cases")
    found.add_argument(
        "--first", type=int, default=0, metavar="N", help="begin with case N: those before are counted"
    )
    found.add_argument("--case", type=int, metavar="N", help="case N alone, as it is named where it was a fault")
    found.add_argument(
        "--report",
        type=Path,
        default=REPORT,
        metavar="FILE",
        help="where the counts are written, and beside it (.json) added up with those of other runs",
    )
    found.add_argument("--list", action="store_true", help="tell the campaigns and run none")
    found.add_argument("--write", action="store_true", help="write the report anew from its counts and run none")
    return found


if __name__ == "__main__":
    sys.exit(main())
