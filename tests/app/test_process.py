"""What only a process of its own can show: pipes, terminals, signals. Few, since each waits for torch."""

from __future__ import annotations

import os
import pty
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forked import PIPE

Start = Callable[..., Any]


def test_answers_reach_a_pipe_though_progress_is_on_a_terminal(started: Start, run: str) -> None:
    """stdout and stderr must not be mixed up by whatever draws the bar."""
    here, there = pty.openpty()
    with started("translate", run, "a b c", "z y x", stderr=there) as child:
        os.close(there)
        seen = b""
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not part:
                break
            seen += part
        out = child.stdout.read()
    os.close(here)
    assert child.returncode == 0
    assert len(out.splitlines()) == 2, f"two answers should be on stdout, got {out!r}; stderr has {seen!r}"
    assert b"\x1b" not in out
    assert b"texts" in seen, "the bar is on the terminal"


def test_a_reader_who_leaves_is_no_error(started: Start, run: str) -> None:
    """While answers are written; test_surroundings.py has one who has left before the end."""
    with started("translate", run, stdin=PIPE) as child:
        child.stdout.close()
        child.stdin.write(b"a b c d e f g h\n" * 400)
        child.stdin.close()
        assert child.stderr.read() == b""
    assert child.returncode == 1


def test_ctrl_c_saves_the_training_and_says_how_to_go_on(
    started: Start, call: Any, recipe: str, tmp_path: Path
) -> None:
    """The comparison below is ended by SIGTERM."""
    words = ["train", recipe, "--set", "train.steps=100000", "--out", tmp_path / "run"]
    with started(*words, text=True) as child:
        lines = iter(child.stderr.readline, "")
        before = next(line for line in lines if line.startswith("step "))  # a first validation has been told
        beside = call(*words, "--resume")
        assert (beside.code, beside.out) == (2, "")
        assert beside.err.startswith(f"error: {tmp_path / 'run'} is being trained by process {child.pid} on ")
        child.send_signal(signal.SIGINT)
        after = child.stderr.read()
        assert child.stdout.read() == ""
    assert child.returncode == 130
    assert "Traceback" not in before + after
    told = re.search(r"Stopped after step (\d+) of 100000, saved in \S+\. Go on with --resume", after)
    assert told, after
    step = int(told[1])
    done = call("train", recipe, "--set", f"train.steps={step + 1}", "--out", tmp_path / "run", "--resume")
    assert (done.code, done.out) == (0, f"{tmp_path / 'run'}\n")
    assert f"Resuming after step {step}" in done.err


def test_a_comparison_ends_when_it_is_told_to_also_with_a_training_done(
    started: Start, recipe: str, tmp_path: Path
) -> None:
    """The process of one training has ended; the other saves what it has."""
    varied = ["--vary", "train.steps=1,100000", "--seeds", "1", "--jobs", "2", "--out", tmp_path / "all"]
    with started("compare", recipe, *varied, text=True) as child:
        lines = iter(child.stderr.readline, "")
        next(line for line in lines if line.startswith("1/2"))
        progress = tmp_path / "all" / "100000-0" / "progress.txt"
        while not (progress.exists() and "step " in progress.read_text()):
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        child.stderr.read()
    assert child.returncode == 143
    assert "saved in" in progress.read_text() or list((tmp_path / "all" / "100000-0" / "training").glob("step-*"))
