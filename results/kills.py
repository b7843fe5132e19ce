"""kill -9 of any one process of a training at random moments: is anything lost?

    python results/kills.py [KILLS] [PROCESSES]      # by default 50 kills, 2 processes; prints one line

One torchrun with --max-restarts trains a small translator. Again and again, at a random moment of the time that a
start and some steps take, a random one of its processes is killed. In the end the log must hold each step once, and
the weights must be those of a training that nobody disturbed, to the last bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = ("train", "bahdanau-dates", "--set", "data.train_count=2000", "--set", "data.valid_count=20")
LONGEST = 16  # seconds between two kills: twice what a start takes
SETTINGS = ("train.eval_every=5", "train.device=cpu", "model.encoder=32", "model.decoder=32", "model.embed=16")


def start(out: Path, steps: int, count: int, restarts: int) -> subprocess.Popen[bytes]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    words = [sys.executable, *torchrun, "--max-restarts", str(restarts), "-m", "regard", *RECIPE]
    for setting in (f"train.steps={steps}", *SETTINGS):
        words += ["--set", setting]
    log = (out.parent / f"{out.name}.txt").open("wb")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*words, "--out", str(out)], env=environment, stdout=log, stderr=log)


def workers(agent: int) -> list[int]:
    """The processes that torchrun has started."""
    tasks = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return [int(task) for task in tasks if b"regard" in Path(f"/proc/{task}/cmdline").read_bytes()]


def main(kills: int, count: int) -> None:
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as temporary:
        straight, disturbed = Path(temporary, "straight"), Path(temporary, "disturbed")
        steps = 20 * kills
        assert start(straight, steps, count, 0).wait() == 0, Path(f"{straight}.txt").read_text()[-3000:]
        begun = time.monotonic()
        agent, done = start(disturbed, steps, count, kills + 5), 0
        while done < kills and agent.poll() is None:
            time.sleep(draw.uniform(0.5, LONGEST))
            try:
                running = workers(agent.pid)
                if len(running) == count:
                    os.kill(draw.choice(running), signal.SIGKILL)
                    done += 1
            except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                continue
        code = agent.wait()
        said = Path(f"{disturbed}.txt").read_text()
        assert code == 0, said[-3000:]
        rows = [json.loads(line) for line in (disturbed / "log.jsonl").read_text().splitlines()]
        logged = [row["step"] for row in rows if "gradient_norm" in row]
        assert logged == list(range(1, steps + 1)), logged
        weights = [(run / "model.safetensors").read_bytes() for run in (straight, disturbed)]
        same = "equal to the last bit" if weights[0] == weights[1] else "DIFFERENT"
        seconds = time.monotonic() - begun
        print(
            f"{done} kills, {count} processes, {steps} steps in {seconds:.0f} s: each logged once, weights {same}"
        )
        print(f"restarts that went on: {said.count('Resuming after step')}")


if __name__ == "__main__":
    main(*(int(word) for word in (sys.argv[1:] + ["50", "2"][len(sys.argv) - 1 :])))
