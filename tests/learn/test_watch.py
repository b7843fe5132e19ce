import io

import pytest
import torch

from regard.errors import Diverged
from regard.learn.log import Log
from regard.learn.progress import Progress
from regard.learn.settings import Training
from regard.learn.watch import SMOOTHED_OVER, Watch


def test_float16_may_skip_some_steps_but_not_forever(tmp_path):
    watch = Watch(
        Log(tmp_path / "log.jsonl"), Progress(io.StringIO()), Training(steps=99, precision="float16"), tmp_path
    )

    def skip(steps):
        for step in steps:
            watch.add({"step": step, "learning_rate": 1.0, "loss": 2.0, "gradient_norm": float("inf"), "tokens": 1})
        watch.look()

    skip(range(1, 21))
    watch.add({"step": 21, "learning_rate": 1.0, "loss": 2.0, "gradient_norm": 1.0, "tokens": 1})
    skip(range(22, 42))
    with pytest.raises(Diverged, match="step 42 is no longer finite"):
        skip([42])


def test_the_loss_shown_is_smoothed_over_the_last_steps_and_read_when_the_log_is_written(tmp_path):
    """So that no step waits for the GPU: a loss that is not read yet cannot be shown."""
    now, file = [0.0], io.StringIO()
    log = Log(tmp_path / "log.jsonl", clock=lambda: now[0])
    watch = Watch(log, Progress(file, clock=lambda: now[0]), Training(steps=999), tmp_path)
    read = []

    class OnGpu(torch.Tensor):
        def item(self):
            read.append(1)
            return super().item()

    def step(number, loss, seconds):
        now[0] += seconds
        value = torch.tensor(loss).as_subclass(OnGpu)
        watch.add({"step": number, "learning_rate": 1.0, "loss": value, "gradient_norm": 1.0, "tokens": 1})

    watch.progress.begin(0, 999)
    for number in range(1, 2 * SMOOTHED_OVER + 1):
        step(number, 8.0 if number <= SMOOTHED_OVER else (2.0, 4.0)[number % 2], 0.001)
    assert (read, file.getvalue()) == ([], "")
    step(2 * SMOOTHED_OVER + 1, 2.0, 30)
    assert len(read) == 2 * SMOOTHED_OVER + 1
    assert "smoothed loss 2.9800" in file.getvalue()  # of the last hundred, 51 are 2 and 49 are 4
