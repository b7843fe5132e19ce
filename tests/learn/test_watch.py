import io

import pytest

from regard.errors import Diverged
from regard.learn.log import Log
from regard.learn.progress import Progress
from regard.learn.settings import Training
from regard.learn.watch import Watch


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
