"""Killed with SIGKILL at random moments, and on a full disk. The training runs in children of one script
(this file, run as a program), so that torch is imported once and not once a kill."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.base.tensors import named_tensors, write_tensors
from regard.layers.loss import Loss
from regard.learn import checkpoint
from regard.learn.lock import locked
from regard.learn.loop import take_steps
from regard.learn.optimise import build_optimiser
from regard.learn.progress import Progress
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.learn.validation import Validation

STEPS, KILLS = 60, 20


@dataclass
class Rows:
    tokens: torch.Tensor

    def to(self, device):
        return Rows(self.tokens.to(device))


class Numbers:
    """Counting modulo 11 from random starts, with random strides."""

    def order(self, epoch):
        generator = torch.Generator().manual_seed(epoch)
        return torch.randint(1, 11, (7, 4, 2), generator=generator)  # 7 batches of 4 rows

    def batch(self, item):
        return Rows((item[:, :1] + item[:, 1:] * torch.arange(10)) % 11)


class Counter(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(11, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(dim, 11)
        self.out.weight = self.embed.weight

    def loss(self, batch, *, label_smoothing=0.0):
        states, _ = self.rnn(self.drop(self.embed(batch.tokens[:, :-1])))
        logits, target = self.out(self.drop(states)).flatten(0, 1), batch.tokens[:, 1:].flatten()
        total = functional.cross_entropy(logits, target, reduction="sum")
        return Loss(total, -total.detach()[None], torch.tensor(target.numel()))


def train(folder, *, resume, dim=16, steps=STEPS):
    def validate(model):
        loss = model.loss(Numbers().batch(Numbers().order(10**6)[0]))
        return {"valid_loss": (loss.total / loss.tokens).item()}

    def keep_best(model, metrics):
        write_tensors(folder / "model.safetensors", named_tensors(model))

    settings = Training(
        steps=steps, eval_every=5, accumulate_steps=2, average_checkpoints=3, learning_rate=0.01,
        schedule="plateau", seed=7, device="cpu",
    )  # fmt: skip
    model = Counter(dim)
    validation = Validation(model, validate, keep_best, ("valid_loss", "min"), settings)
    with locked(folder):
        return take_steps(Stepper(model, settings), Numbers(), validation, folder, resume, Progress())


def die_at_sync(number):
    """SIGKILL instead of the number-th fsync: in the middle of writing a checkpoint, the log or the best."""
    real, count = os.fsync, 0

    def fsync(handle):
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        real(handle)

    os.fsync = fsync


def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
    return child


def killing(folder, seconds):
    """Train in children, killing one after the other until one comes through; how many were killed.
    A run that nobody kills takes `seconds`."""
    choose = random.Random()
    for turn in range(KILLS):
        at_sync = choose.randint(1, 30) if turn % 2 else 0
        child = in_child(lambda number=at_sync: (die_at_sync(number), train(folder, resume=True)))
        if not at_sync:
            time.sleep(choose.uniform(0, seconds / 4))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return turn
    return KILLS


def main(folder):
    torch.set_num_threads(1)
    build_optimiser(Counter(), Training(steps=1))  # imports much of torch: here once, not in each child
    start = time.monotonic()
    assert os.waitpid(in_child(lambda: train(folder / "straight", resume=False)), 0)[1] == 0
    print("killed", killing(folder / "killed", time.monotonic() - start), flush=True)
    os.waitpid(in_child(lambda: train(folder / "killed", resume=True)), 0)


def run_script(folder):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # Python 3.12 warns of fork beside threads
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def rows_of(folder):
    """The log without the wall clock."""
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_killed_at_random_moments_it_takes_the_very_same_steps(tmp_path):
    done = run_script(tmp_path)
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert int(done.stdout.split()[1]) >= 4, done.stdout
    assert [row["step"] for row in rows_of(straight) if "loss" in row] == list(range(1, STEPS + 1))
    assert rows_of(killed) == rows_of(straight)
    assert (killed / "model.safetensors").read_bytes() == (straight / "model.safetensors").read_bytes()
    names = [path.relative_to(straight) for path in sorted(straight.rglob("*"))]
    assert [path.relative_to(killed) for path in sorted(killed.rglob("*"))] == names
    for name in names:
        if name.suffix == ".safetensors":
            assert (killed / name).read_bytes() == (straight / name).read_bytes(), name


def full_disk_is_survived(folder, make_full, make_room):
    """The error says what to do; what was saved is whole; with room made, the run goes on."""
    train(folder, resume=False, dim=32, steps=10)
    before = rows_of(folder)
    make_full()
    try:
        with pytest.raises(OSError, match=r"the disk is full.*last good checkpoint is .*step-.*--resume") as caught:
            train(folder, resume=True, dim=32, steps=40)
    finally:
        make_room()
    saved = checkpoint.checkpoints(folder)
    assert str(saved[0]) in str(caught.value)
    assert not list(folder.rglob(".tmp-*"))
    assert train(folder, resume=True, dim=32, steps=40).step == 40
    steps = [row["step"] for row in rows_of(folder) if "loss" in row]
    assert steps == list(range(1, 41))
    assert [row for row in before if "averaged" not in row] == rows_of(folder)[: len(before) - 1]


def test_a_file_that_may_not_grow_is_told_as_a_full_disk(tmp_path):
    """RLIMIT_FSIZE holds for this process only, and is lifted again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    full_disk_is_survived(
        tmp_path,
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard)),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)),
    )


def test_a_really_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system")
    try:
        ballast = disk / "ballast"

        def fill_up():
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            ballast.write_bytes(b"x" * (free - 80_000))

        full_disk_is_survived(disk / "run", fill_up, lambda: ballast.unlink())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
