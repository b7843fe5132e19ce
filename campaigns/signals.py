"""Ctrl-C and SIGTERM to a training, as people start it, at random moments: also in its first second, and twice."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import regard
from campaigns.frame import Case, Fault, campaign
from regard.learn.checkpoint import checkpoints
from tests.forked import Child, Parent

WORDS = ["train", "bahdanau-dates", "--out"]
SETTINGS = {
    "data.train_count": 200, "data.valid_count": 10, "model.encoder": 8, "model.decoder": 8, "model.embed": 8,
    "train.eval_every": 5, "train.device": "cpu", "train.steps": 100_000,
}  # fmt: skip
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
PATIENCE = 1200  # seconds until a process that was told to end has ended; others may use the cores too
FIRST, STARTED, TRAINED = 1.0, 10.0, 3.0  # seconds: the latest moments
PACKAGE = str(Path(regard.__file__).parent)
EARLY = {f"{PACKAGE}/{name}.py" for name in ("__init__", "errors", "__main__")}  # imported before any of it is run


@campaign(
    "signals",
    "SIGINT or SIGTERM, once or twice, to `regard train` as a process of its own, at a random moment: in its first "
    "second, while it starts, or while it trains (then forked off a process that has imported torch).",
    holds="it ends with status 130 or 143, or by the signal, which shells show so, and with a message; what was "
    "trained is saved, or nothing was begun. The signal is Python's while Python starts and the first lines are "
    "imported, and SIGINT may print its traceback there.",
    reach=300,
)
@contextmanager
def signals(place: Path) -> Iterator[Case]:
    folder = place / "case"
    words = [*WORDS, str(folder / "run")]
    for key, value in SETTINGS.items():
        words += ["--set", f"{key}={value}"]

    with contextlib.ExitStack() as opened:
        parents: list[Parent] = []  # once it is needed

        def case(draw: Random) -> str:
            nonlocal parents
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            number, twice = draw.choice((signal.SIGINT, signal.SIGTERM)), draw.random() < 0.4
            when = draw.choice(("first second", "while it starts", "while it trains"))
            with (folder / "said").open("wb") as said, contextlib.ExitStack() as kept:
                streams = {"stdout": said.fileno(), "stderr": said.fileno()}
                process: Child | subprocess.Popen[bytes]
                if when == "while it trains":
                    parents = parents or [opened.enter_context(Parent(PATIENCE))]
                    process = kept.enter_context(parents[0].start(*words, **streams))
                else:
                    process = kept.enter_context(popen(words, **streams))
                wait(folder / "run" / "log.jsonl", when, draw)
                for pause in (0.0, draw.uniform(0, 0.5))[: 1 + twice]:
                    time.sleep(pause)
                    with contextlib.suppress(ProcessLookupError):  # it has ended
                        process.send_signal(number)
                code = process.wait()
            text = (folder / "said").read_text(errors="replace")
            told = f"{number.name}{' twice' if twice else ''}, {when}"
            how = judge(code, number, text, folder / "run", told, at_once=twice and number == signal.SIGINT)
            return f"{when}: {how}"

        yield case


@contextmanager
def popen(words: list[str], **streams: int) -> Iterator[subprocess.Popen[bytes]]:
    """As people start it; it is killed when its time is over."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", *words]
    with subprocess.Popen(command, env=environment, **streams) as process:  # type: ignore[call-overload]
        late = threading.Timer(PATIENCE, process.kill)
        late.start()
        try:
            yield process
        finally:
            process.wait()
            late.cancel()


def wait(log: Path, when: str, draw: Random) -> None:
    begun = time.monotonic()
    last = {"first second": draw.uniform(0, FIRST), "while it starts": draw.uniform(FIRST, STARTED)}.get(
        when, PATIENCE
    )
    while time.monotonic() - begun < last and (when == "first second" or not log.exists()):
        time.sleep(0.01)
    if when == "while it trains":
        time.sleep(draw.uniform(0, TRAINED))


def judge(code: int, number: signal.Signals, text: str, run: Path, what: str, *, at_once: bool) -> str:
    if "Traceback" in text or "Exception ignored" in text or "Fatal Python" in text:
        ours = {name for name in re.findall(r'File "([^"]+)"', text) if name.startswith(PACKAGE)}
        if code in (-number, 1, CODES[number]) and ours <= EARLY:
            return "Python's own traceback, before our code can hear"
        raise Fault(f"{what}: status {code}, {text[-600:]}")
    if code == -number and not text.strip():
        return "ended by Python, before our code can hear"
    told = code == -number and "stopped" in text.lower()  # a second one came when Python had ended
    if code != CODES[number] and not told:
        raise Fault(f"{what}: status {code}: {text[-300:]}")
    if not text.strip():
        raise Fault(f"{what}: no message")
    if not (run / "log.jsonl").exists() or not (run / "log.jsonl").read_bytes():
        return "nothing begun"
    if not checkpoints(run) and at_once:
        return "stopped at once"
    if not checkpoints(run) and "nothing was trained that could be lost" not in text:
        raise Fault(f"{what}: trained, and no checkpoint: {text[-300:]}")
    return "saved" if checkpoints(run) else "nothing begun"
