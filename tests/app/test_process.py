"""What only a process of its own can show: pipes, terminals, signals. Few, since each waits for torch."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Signals are heard also where these tests were started with them ignored, as in the background of a script.
REGARD = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
runpy.run_module("regard", run_name="__main__")
"""
PIPE = subprocess.PIPE
PATIENCE = 120  # seconds, after which a child is killed: what it was asked to do takes a few


@contextmanager
def started(*words: object, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """`regard ...` as a process, which ends with the block whatever happens in it."""
    with subprocess.Popen([sys.executable, "-c", REGARD, *map(str, words)], **options) as child:
        late = threading.Timer(PATIENCE, child.kill)
        late.start()
        try:
            yield child
            child.wait()
        finally:
            late.cancel()
            child.kill()


def test_answers_reach_a_pipe_though_progress_is_on_a_terminal(run: str) -> None:
    """stdout and stderr must not be mixed up by whatever draws the bar."""
    here, there = pty.openpty()
    with started("translate", run, "a b c", "z y x", stdout=PIPE, stderr=there, stdin=subprocess.DEVNULL) as child:
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
        assert child.stdout is not None
        out = child.stdout.read()
    os.close(here)
    assert child.returncode == 0
    assert len(out.splitlines()) == 2, f"two answers should be on stdout, got {out!r}; stderr has {seen!r}"
    assert b"\x1b" not in out
    assert b"texts" in seen, "the bar is on the terminal"


def test_a_reader_who_leaves_is_no_error(run: str) -> None:
    """While answers are written; test_surroundings.py has one who has left before the end."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with started("translate", run, env=buffered, stdin=PIPE, stdout=PIPE, stderr=PIPE) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.stdin is not None
        child.stdin.write(b"a b c d e f g h\n" * 400)
        child.stdin.close()
        assert child.stderr is not None
        assert child.stderr.read() == b""
    assert child.returncode == 1


def test_ctrl_c_saves_the_training_and_says_how_to_go_on(call: Any, recipe: str, tmp_path: Path) -> None:
    """The comparison below is ended by SIGTERM."""
    words = ["train", recipe, "--set", "train.steps=100000", "--out", tmp_path / "run"]
    with started(*words, stdout=PIPE, stderr=PIPE, text=True) as child:
        assert child.stderr is not None
        lines = iter(child.stderr.readline, "")
        before = next(line for line in lines if line.startswith("step "))  # a first validation has been told
        beside = call(*words, "--resume")
        assert (beside.code, beside.out) == (2, "")
        assert beside.err.startswith(f"error: {tmp_path / 'run'} is being trained by process {child.pid} on ")
        child.send_signal(signal.SIGINT)
        after = child.stderr.read()
        assert child.stdout is not None
        assert child.stdout.read() == ""
    assert child.returncode == 130
    assert "Traceback" not in before + after
    told = re.search(r"Stopped after step (\d+) of 100000, saved in \S+\. Go on with --resume", after)
    assert told, after
    step = int(told[1])
    done = call("train", recipe, "--set", f"train.steps={step + 1}", "--out", tmp_path / "run", "--resume")
    assert (done.code, done.out) == (0, f"{tmp_path / 'run'}\n")
    assert f"Resuming after step {step}" in done.err


def test_a_comparison_ends_when_it_is_told_to_also_with_a_training_done(recipe: str, tmp_path: Path) -> None:
    """The process of one training has ended; the other saves what it has."""
    varied = ["--vary", "train.steps=1,100000", "--seeds", "1", "--jobs", "2", "--out", tmp_path / "all"]
    with started("compare", recipe, *varied, stdout=PIPE, stderr=PIPE, text=True) as child:
        assert child.stderr is not None
        lines = iter(child.stderr.readline, "")
        next(line for line in lines if line.startswith("1/2"))
        progress = tmp_path / "all" / "100000-0" / "progress.txt"
        while not (progress.exists() and "step " in progress.read_text()):
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        child.stderr.read()
    assert child.returncode == 143
    assert "saved in" in progress.read_text() or list((tmp_path / "all" / "100000-0" / "training").glob("step-*"))
