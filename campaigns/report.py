"""results/reliability.md: one section for each campaign, replaced when the campaign is run again."""

from __future__ import annotations

import platform
import re
from datetime import date
from pathlib import Path

import torch

from campaigns.frame import Campaign, Tally

REPORT = Path(__file__).parents[1] / "results" / "reliability.md"
HEAD = """# Nothing lost

Faults made on purpose, and counted: `make campaign` runs all of it, which takes hours; `make campaign MINUTES=5` or
`make campaign ONLY=kills` a part. `OPTIONS='--seed 2'` draws other cases, `OPTIONS='--case 17'` does one again.
Each fault that was found became a test. What each section says is what was counted, and no more; *whole* is what a
campaign counts when it is given the time.
"""
FIRST_FAULTS = 20  # that are listed


def section(campaign: Campaign, tally: Tally, command: str) -> str:
    """Of one campaign."""
    ends = "\n".join(f"| {end} | {count:,} |" for end, count in tally.counts.most_common())
    minutes = tally.seconds / 60
    lines = [
        f"## {campaign.name}\n",
        f"{campaign.about}\n",
        f"Must hold: {campaign.holds}\n",
        f"**{tally.cases:,} cases, {len(tally.faults):,} faults** (whole: {campaign.reach:,} cases), "
        f"seed {tally.seed}, {minutes:.0f} minutes. `{command}`, {hardware()}, {date.today().isoformat()}.\n",
        f"| how it ended | cases |\n|---|---|\n{ends}\n",
    ]
    faults = list(tally.faults.items())
    lines += [f"- case {number}: {text:.300}" for number, text in faults[:FIRST_FAULTS]]
    if len(faults) > FIRST_FAULTS:
        lines.append(f"- and {len(faults) - FIRST_FAULTS} more")
    return "\n".join(lines).rstrip() + "\n"


def hardware() -> str:
    cores = torch.get_num_threads()
    threads = f"{cores} thread{'s' * (cores > 1)}"
    return f"{platform.machine()}, {threads}, torch {torch.__version__}, Python {platform.python_version()}"


def write(path: Path, sections: dict[str, str], order: list[str]) -> None:
    """The report with these sections, and those it had of other campaigns."""
    found = path.read_text() if path.exists() else ""
    parts = {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in re.split(r"^## ", found, flags=re.M)[1:]}
    parts |= sections
    ordered = [parts.pop(name) for name in order if name in parts] + list(parts.values())
    path.write_text("\n".join([HEAD, *ordered]))
