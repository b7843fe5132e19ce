"""A short form of every campaign, and the frame itself: what is a fault is counted as one."""

from __future__ import annotations

import itertools
import mmap
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from safetensors import safe_open

from campaigns import hours
from campaigns.children import MIB, can_trace, in_child
from campaigns.damage import damage
from campaigns.folders import judge
from campaigns.frame import CAMPAIGNS, Campaign, Case, Fault, Tally, run
from campaigns.memory import asking, grown
from campaigns.report import REPORT, add, counted, runs_of, text_of
from regard.runs.shipped import SHIPPED

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="children are watched as Linux allows it")
SHORT = ("folders", "kills", "disks", "commands", "python", "requests", "signals")


def test_a_short_form_of_each(tmp_path: Path) -> None:
    """In a process of its own, as they are run: what they fork must not have what other tests left in this one."""
    report = tmp_path / "reliability.md"
    words = [sys.executable, "-m", "campaigns", *SHORT, "--cases", "1", "--seed", "5", "--report", str(report)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    told = report.read_text()
    for name in SHORT:
        assert "**1 cases, 0 faults**" in told.partition(f"\n## {name}\n")[2].partition("\n## ")[0], name


def test_what_is_gained_in_memory() -> None:
    """The short form of `memory`."""
    gained = in_child(lambda: grown(asking("copy"), 50)).result
    assert gained < 5
    kept: list[mmap.mmap] = []

    def keep(number: int) -> None:
        kept.append(mmap.mmap(-1, MIB))  # memory that this process has not had before
        kept[-1].write(bytes(MIB))

    assert in_child(lambda: grown(keep, 20)).result > 10


def test_hours_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short form of `hours`: three looks, and nothing may rise as little as that."""
    for name, value in {
        "HOURS": 1.5 / 3600,
        "EACH": 0.5,
        "ASKED": 0.1,
        "DAMAGED": 2,
        "KEPT": 2,
        "FIRST": 2,
        "WARM": 0,
        "MOST": -1e9,
    }.items():
        monkeypatch.setattr(hours, name, value)
    [(_, fault)] = run(CAMPAIGNS["hours"], seed=1, quiet=True).faults.items()
    assert re.fullmatch(r"serving [-+][\d.]+, training [-+][\d.]+ MiB an hour", fault)


def test_the_slope_of_memory() -> None:
    rising = [500.0, 100, 102, 104, 106]  # MiB, a minute apart; the first fifth does not count
    assert hours.slope(rising) == pytest.approx(120)


# ---- the frame


@contextmanager
def unlucky(place: Path) -> Iterator[Case]:
    def case(draw: Random) -> str:
        number = draw.randint(1, 6)
        if number == 6:
            raise Fault(f"it fell on {number} in {place.is_dir()}")
        return "even" if number % 2 == 0 else "odd"

    yield case


DICE = Campaign("dice", "A die is thrown.", "no six.", 60, unlucky)


def test_cases_are_counted_and_each_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    whole = run(DICE, 3)
    assert whole.cases == 60
    assert whole.counts["fault"] == len(whole.faults) > 0
    assert run(DICE, 3, quiet=True).faults == whole.faults
    number, text = next(iter(whole.faults.items()))
    assert run(DICE, 3, cases=1, first=number, quiet=True).faults == {number: text}
    assert f"dice: fault in case {number} of seed 3: it fell on 6 in True" in capsys.readouterr().err
    assert run(DICE, 4, quiet=True).faults != whole.faults


def test_time_ends_it_and_ctrl_c_keeps_what_was_counted() -> None:
    assert run(DICE, 1, minutes=1e-9, quiet=True).cases < 60

    @contextmanager
    def interrupted(place: Path) -> Iterator[Case]:
        ends = iter(["fine", "fine"])

        def case(draw: Random) -> str:
            end = next(ends, "")
            if not end:
                raise KeyboardInterrupt
            return end

        yield case

    tally = run(Campaign("short", "", "", 10, interrupted), 1, quiet=True)
    assert tally.counts == {"fine": 2}


def test_the_report_adds_up_runs_and_counts_none_twice(tmp_path: Path) -> None:
    path = tmp_path / "reliability.md"
    table = {"kills": replace(DICE, name="kills"), "dice": DICE, "later": replace(DICE, name="later")}

    def count(name: str, seed: int, first: int, cases: int) -> str:
        tally = Tally(seed, first)
        tally.counts["refused"], tally.counts["fault"], tally.seconds = cases - 1, 1, 90
        tally.faults[first + 4] = "a | fault"
        add(path, counted(table[name], tally, "python -m campaigns dice"), table)
        return path.read_text()

    count("dice", 7, 0, 12)
    count("kills", 7, 0, 2)
    assert "**12 cases, 1 faults** (whole: 60 cases)" in count("dice", 7, 0, 12)  # the same again
    text = count("dice", 7, 12, 8)
    assert "**20 cases, 2 faults**" in text
    assert "| refused | 18 |" in text
    assert "8 cases from 12 of seed 7, 1 faults, 2 minutes; " in text
    assert "- case 16: a | fault" in text
    assert "**50 cases, 3 faults**" in count("dice", 8, 0, 30)
    assert text.index("## dice") < text.index("## kills") < text.index("## Not counted yet\n\n`later`.")


def test_the_report_is_what_was_counted() -> None:
    import campaigns.__main__  # noqa: F401 - declares them

    runs = runs_of(REPORT)
    assert REPORT.read_text() == text_of(runs, CAMPAIGNS), "python -m campaigns --write"
    for each in runs:
        assert sum(each.counts.values()) == each.cases
        assert each.counts.get("fault", 0) == len(each.faults)


# ---- children


def take(mib: int) -> None:
    """Not by malloc, which may have as much at hand."""
    mmap.mmap(-1, mib * MIB)[:: mmap.PAGESIZE] = bytes(mib * MIB // mmap.PAGESIZE)


def test_how_children_end() -> None:
    assert in_child(lambda: {"a": 1}).result == {"a": 1}
    assert in_child(lambda: os.kill(os.getpid(), 10)).code == -10
    failed = in_child(lambda: 1 / 0)
    assert failed.traceback
    assert failed.result is None
    for work in (lambda: time.sleep(60), lambda: [None for _ in itertools.count()]):
        late = in_child(work, seconds=0.05)
        assert (late.late, late.code) == (True, -9)
    assert in_child(lambda: take(50)).peak > 45
    assert "Cannot allocate memory" in in_child(lambda: len(mmap.mmap(-1, 500 * MIB)), memory=100 * MIB).said


@pytest.mark.skipif(not can_trace(), reason="strace is not installed")
def test_what_rust_opens_is_seen(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path := SHIPPED / "copy" / "model.safetensors")

    def opened() -> int:
        with safe_open(tmp_path / "link", "pt") as file:
            return len(file.keys())

    ended = in_child(opened, traced=True)
    assert ended.result > 3
    assert str(path) in ended.opened
    with pytest.raises(Fault, match=r"opened \['/etc/passwd'\]"):
        judge(ended, {}, "x", 1.0, outside=["/etc/passwd"])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"end": "untyped", "why": "KeyError: 3"}, "KeyError"),
        ({"end": "answer", "answer": "a", "outside": ["/etc/passwd"]}, "opened"),
        (None, "ended with status"),
    ],
)
def test_what_is_a_fault_of_a_folder(found: dict[str, object] | None, said: str) -> None:
    answer = found and {"outside": [], "warned": False, **found}
    ended = in_child(lambda: answer)
    with pytest.raises(Fault, match=said):
        judge(ended, {"answer": "a"}, "x", 1.0)

    def refused() -> dict[str, object]:
        take(300)
        return {"end": "refused", "outside": []}

    taken = in_child(refused)
    with pytest.raises(Fault, match=r"took 3\d\d MiB"):
        judge(taken, {"answer": "a"}, "x", 1.0)


def test_damage_follows_from_the_seed(tmp_path: Path) -> None:
    def damaged(seed: int) -> list[str]:
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "config.json").write_text('{"a": {"b": [1, 2, 3]}, "c": 0.5}')
        (folder / "vocab.txt").write_text("a\nb\nc\n")
        said = [damage(folder, Random(f"{seed}/{number}"), folder, tmp_path / "other") for number in range(3)]
        small = [path for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_size < 10_000]
        said += [f"{path.name}: {path.read_bytes()!r}" for path in small if not path.is_symlink()]
        shutil.rmtree(folder)
        return said

    assert all(damaged(seed) == damaged(seed) for seed in range(9))
    assert len({str(damaged(seed)) for seed in range(9)}) > 6
