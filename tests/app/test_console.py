"""The progress bar of long jobs."""

from __future__ import annotations

import io
import os
import re
import sys

import pytest

from regard.app.console import Rate, progress
from regard.tasks.core.table import TASKS, load


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def bar(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, count: int) -> str:
    """What is shown on stderr while this many are done."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress(count, "texts") as tick:
        for _ in range(count):
            tick()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())


def test_a_bar_has_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"4/4 texts [0-9.,e+]+/s +0:00:00", bar(monkeypatch, Terminal(), 4))


def test_no_bar_without_a_terminal_or_for_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bar(monkeypatch, Terminal(), 1) == bar(monkeypatch, io.StringIO(), 4) == ""


def test_a_slow_rate_is_not_nothing() -> None:
    class Slow:
        finished_speed, speed = None, 0.0213

    assert str(Rate().render(Slow())) == "0.021/s"  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["classify", "embed"])
def test_texts_are_ticked_as_they_are_answered(verb: str, classifier: str) -> None:
    """Not all at the end of a thousand."""
    run, desk, ticks = load(classifier), TASKS[verb].desk, []
    options = desk.settled(run, {option.name: option.default for option in TASKS[verb].options})
    texts = [desk.reader(run, options)("the cat " * 7) for _ in range(1000)]
    answers = desk.ask(run, texts, options, tick=lambda: ticks.append(os.times().elapsed))
    next(answers)
    assert len(ticks) == 1000
    assert ticks[0] < ticks[-1]
