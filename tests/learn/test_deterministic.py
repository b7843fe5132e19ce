"""`deterministic = true`: the same bits, also on a GPU, captured or not, killed and resumed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data.batches.test_few_shapes import data_of
from small_models import batch, fresh
from small_training import train

from regard.data.text.windows import TextData
from regard.errors import BadInput
from regard.learn.checkpoint import Standing
from regard.learn.deterministic import deterministic
from regard.learn.optimise import rate_at
from regard.learn.settings import Training
from regard.learn.stepper import Stepper

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
STEPS = 18
SETTINGS: dict[str, Any] = {
    "steps": STEPS, "learning_rate": 0.01, "schedule": "cosine", "deterministic": True, "seed": 5, "eval_every": 4,
}  # fmt: skip


def texts() -> TextData:
    ids = np.random.default_rng(0).integers(3, 11, 900).astype(np.int32)
    return TextData(ids, length=12, batch_tokens=96, seed=1, end=2)


def material(name: str) -> tuple[Any, Any]:
    """A model with dropout, and its batches."""
    if name == "vit":
        model = fresh(name, dropout=0.1)
        return model, [batch(model)] * 99
    model = fresh(name, dropout=0.1)
    data = texts() if name in ("gpt2", "rnnlm") else data_of(120, 128, 11, most=model.max_source_positions)[1]
    return model, [data.batch(item) for epoch in range(9) for item in data.order(epoch)]


def walk(stepper: Stepper, batches: list[Any], first: int, last: int) -> list[float]:
    told = []
    for step in range(first, last + 1):
        rate = rate_at(step, stepper.settings)
        told.append(stepper.step(step, [batches[step - 1]], rate)["loss"].item())
    return told


def bits(stepper: Stepper) -> str:
    parts = [parameter.detach().cpu().view(torch.uint8).numpy() for parameter in stepper.model.parameters()]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


@needs_gpu
@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["gpt2", "rnnlm", "bahdanau", "luong", "transformer", "vit"])
def test_on_a_gpu_a_training_goes_on_bit_by_bit(name: str, precision: str, capture: bool, tmp_path: Path) -> None:
    settings = Training(**SETTINGS, precision=precision, capture=capture, compile=False, device="cuda")
    (tmp_path / "training").mkdir()
    with deterministic():
        (model, batches), *others = (material(name) for _ in range(3))
        straight = Stepper(model, settings)
        wanted = walk(straight, batches, 1, STEPS)
        first, second = (Stepper(model, settings) for model, _ in others)
        found = walk(first, batches, 1, 10)
        first.save(tmp_path, Standing(step=10), tensors=True)
        assert second.load(tmp_path, print).step == 10  # type: ignore[union-attr]
        found += walk(second, batches, 11, STEPS)
    assert found == wanted
    assert bits(second) == bits(straight)
    recurrent = any(isinstance(part, torch.nn.RNNBase) for part in model.modules())
    assert (straight.captured is not None) == (capture and not recurrent)  # `auto.replays_bits`
    if straight.captured is not None:
        assert straight.captured.recordings
        assert not straight.captured.refused


class Dying:
    """Texts whose reader is killed at a batch."""

    def __init__(self, at: int) -> None:
        self.texts, self.at, self.count = texts(), at, 0

    def order(self, epoch: int) -> Any:
        return self.texts.order(epoch)

    def batch(self, item: Any) -> Any:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.texts.batch(item)


def run(folder: str, device: str, at: int) -> str:
    """Everything left to auto; in a process of its own."""
    model = fresh("gpt2", dropout=0.1)
    settings = Training(**SETTINGS, device=device)
    resume = Path(folder, "training").exists()
    train(model, Dying(at), settings, Path(folder), lambda model: {"valid_loss": 1.0}, resume=resume)
    return hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()


def called(folder: Path, device: str, at: int) -> str:
    here = Path(__file__).parent
    program = f"import test_deterministic as test; print(test.run({str(folder)!r}, {device!r}, {at}))"
    environment = {**os.environ, "PYTHONPATH": f"{here.parent}{os.pathsep}{here.parent.parent}"}
    call = [sys.executable, "-c", program]
    done = subprocess.run(call, cwd=here, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == (-signal.SIGKILL if at else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=needs_gpu)])
def test_killed_and_resumed_it_has_the_bits_of_a_run_that_nobody_killed(device: str, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    wanted = called(one, device, 0)
    assert called(other, device, 11) == ""
    assert called(other, device, 0) == wanted


def test_an_operation_without_such_a_form_is_named_and_nothing_stays_changed() -> None:
    cudnn = torch.backends.cudnn.benchmark
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    said = r"train\.deterministic: put_ does not have a deterministic implementation; set it to false, or train"
    with pytest.raises(BadInput, match=said), deterministic():
        torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.benchmark == cudnn
    assert torch.utils.deterministic.fill_uninitialized_memory == filled  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="no memory"), deterministic():
        raise RuntimeError("no memory")
