"""results/reliability.md, made from results/reliability.json: one run of a campaign after the other, whose counts
are added up. A run of cases that were counted before, the same first case of the same seed, takes their place. What
is to be said of a run, such as that its faults are mended, is written by hand into its `note`."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import torch

from campaigns.frame import Campaign, Tally

REPORT = Path(__file__).parents[1] / "results" / "reliability.md"
HEAD = """# Nothing lost

Faults made on purpose, and counted: `make campaign` runs all of it, which takes hours; `make campaign MINUTES=5` or
`make campaign ONLY=kills` a part. `OPTIONS='--seed 2'` draws other cases, `OPTIONS='--case 17'` does one again, and
`OPTIONS='--first 500'` goes on behind those that were counted. Each fault that was found became a test. What each
section says is what was counted, and no more; *whole* is what a campaign counts when it is given the time.
"""
FIRST_FAULTS = 5  # of a run that are listed


@dataclass
class Counted:
    """One run of a campaign."""

    campaign: str
    seed: int
    first: int  # the number of its first case
    cases: int
    counts: dict[str, int]  # by how cases ended
    faults: dict[str, str]  # by the number of the case
    minutes: int
    command: str
    hardware: str
    date: str
    note: str = ""


def counted(campaign: Campaign, tally: Tally, command: str) -> Counted:
    minutes, today = round(tally.seconds / 60), date.today().isoformat()
    faults = {str(number): f"{text:.300}" for number, text in tally.faults.items()}
    counts, first = dict(tally.counts.most_common()), tally.first
    return Counted(
        campaign.name, tally.seed, first, tally.cases, counts, faults, minutes, command, hardware(), today
    )


def hardware() -> str:
    threads = torch.get_num_threads()
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {threads} thread{'s' * (threads > 1)}, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )


def add(path: Path, run: Counted, campaigns: Mapping[str, Campaign]) -> None:
    """To the runs that the report tells of."""
    same = (run.campaign, run.seed, run.first)
    runs = [each for each in runs_of(path) if (each.campaign, each.seed, each.first) != same] + [run]
    text = json.dumps([asdict(each) for each in runs], indent=1, ensure_ascii=False)
    path.with_suffix(".json").write_text(f"{text}\n")
    path.write_text(text_of(runs, campaigns))


def runs_of(path: Path) -> list[Counted]:
    table = path.with_suffix(".json")
    return [Counted(**each) for each in json.loads(table.read_text())] if table.exists() else []


def text_of(runs: list[Counted], campaigns: Mapping[str, Campaign]) -> str:
    names = {run.campaign for run in runs}
    parts = [
        section(campaigns[name], [run for run in runs if run.campaign == name])
        for name in sorted(campaigns)
        if name in names
    ]
    if left := [f"`{name}`" for name in sorted(campaigns) if name not in names]:
        parts.append(f"## Not counted yet\n\n{', '.join(left)}.\n")
    return "\n".join([HEAD, *parts])


def section(campaign: Campaign, runs: list[Counted]) -> str:
    """Of one campaign."""
    counts = sum((Counter(run.counts) for run in runs), Counter[str]())
    ends = "\n".join(f"| {end} | {count:,} |" for end, count in counts.most_common())
    faults = sum(len(run.faults) for run in runs)
    lines = [
        f"## {campaign.name}\n",
        f"{campaign.about}\n",
        f"Must hold: {campaign.holds}\n",
        f"**{counts.total():,} cases, {faults:,} faults** (whole: {campaign.reach:,} cases).\n",
        f"| how it ended | cases |\n|---|---|\n{ends}\n",
        "Counted by:\n",
    ]
    for run in runs:
        lines.append(
            f"- `{run.command}`: {run.cases:,} cases from {run.first:,} of seed {run.seed}, {len(run.faults):,} "
            f"faults, {run.minutes} minutes; {run.hardware}, {run.date}. {run.note}".rstrip()
        )
        told = list(run.faults.items())
        lines += [f"    - case {number}: {text}" for number, text in told[:FIRST_FAULTS]]
        if len(told) > FIRST_FAULTS:
            lines.append(f"    - and {len(told) - FIRST_FAULTS} more")
    return "\n".join(lines) + "\n"
