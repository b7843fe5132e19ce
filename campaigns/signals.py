"""Ctrl-C and SIGTERM to a training, as people start it, at random moments: also in its first second, and twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from campaigns.frame import Case, Fault, campaign
from regard.learn.checkpoint import checkpoints

WORDS = ["train", "bahdanau-dates", "--out", "run"]
SETTINGS = {
    "data.train_count": 200, "data.valid_count": 10, "model.encoder": 8, "model.decoder": 8, "model.embed": 8,
    "train.eval_every": 5, "train.device": "cpu", "train.steps": 100_000,
}  # fmt: skip
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
PATIENCE = 120  # seconds until a process that was told to end has ended
FIRST = 1.0  # second


@campaign(
    "signals",
    "SIGINT or SIGTERM, once or twice, to `regard train` as a process of its own, at a random moment: in its first "
    "second, while it starts, or while it trains.",
    holds="it ends with status 130 or 143 and one message; what was trained is saved, or nothing was begun. While "
    "Python itself starts, before any of our code runs, the signal ends it without a message.",
    reach=300,
)
@contextmanager
def signals(place: Path) -> Iterator[Case]:
    words = [sys.executable, "-m", "regard", *WORDS]
    for key, value in SETTINGS.items():
        words += ["--set", f"{key}={value}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def case(draw: Random) -> str:
        folder = place / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        number, twice = draw.choice((signal.SIGINT, signal.SIGTERM)), draw.random() < 0.4
        when = draw.choice(("first second", "while it starts", "while it trains"))
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(words, cwd=folder, env=environment, stdout=said, stderr=said)
            wait(process, folder, when, draw)
            begun = process.poll() is None
            process.send_signal(number)
            if twice:
                time.sleep(draw.uniform(0, 0.5))
                process.send_signal(number)
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise Fault(f"{number.name}, {when}: it did not end in {PATIENCE} s") from None
        text = (folder / "said").read_text(errors="replace")
        what = f"{number.name}{' twice' if twice else ''}, {when}"
        if not begun:
            raise Fault(f"{what}: it ended by itself: {text[-500:]}")
        return judge(code, number, text, folder / "run", what)

    yield case


def wait(process: subprocess.Popen[bytes], folder: Path, when: str, draw: Random) -> None:
    if when == "first second":
        time.sleep(draw.uniform(0, FIRST))
        return
    log, late = folder / "run" / "log.jsonl", time.monotonic() + PATIENCE
    begun = time.monotonic()
    while not log.exists() and process.poll() is None and time.monotonic() < late:
        time.sleep(0.02)
        if when == "while it starts" and time.monotonic() - begun > draw.uniform(FIRST, 15):
            return
    time.sleep(draw.uniform(0, 3))


def judge(code: int, number: signal.Signals, text: str, run: Path, what: str) -> str:
    if "Traceback" in text or "Exception ignored" in text:
        raise Fault(f"{what}: status {code}, {text[-600:]}")
    if code == -number and not text.strip():
        return "before our code"
    if code != CODES[number]:
        raise Fault(f"{what}: status {code}: {text[-300:]}")
    if not text.strip():
        raise Fault(f"{what}: no message")
    if not (run / "log.jsonl").exists() or not (run / "log.jsonl").read_bytes():
        return "nothing begun"
    if not checkpoints(run) and "nothing was trained that could be lost" not in text:
        raise Fault(f"{what}: trained, and no checkpoint: {text[-300:]}")
    return "saved" if checkpoints(run) else "nothing begun"
