"""Trainings in several processes: the losses are those of one process, checkpoints fit any number of processes."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import pytest
import torch
from torch import nn

import regard
from regard.base import processes
from regard.errors import Interrupted, PeerLost
from regard.learn import checkpoint, fit
from regard.learn.loop import Stepper
from regard.learn.ppo import passes
from regard.tasks.core.recipe import read
from regard.tasks.core.table import TASKS
from regard.tasks.core.training import build_model
from tests.in_processes import LONGEST, Group, free_port, in_processes

TRAIN = {"steps": 6, "eval_every": 3, "learning_rate": 1e-3, "device": "cpu"}
DATES = {"made": "dates", "train_count": 60, "valid_count": 4, "batch_tokens": 256}
TRANSFORMER = {
    "data": DATES,
    "tokens": {"kind": "character"},
    "model": {
        "name": "transformer", "dim": 8, "layers": 1, "heads": 2, "ff": 16, "max_positions": 64, "dropout": 0.0,
    },
}  # fmt: skip
SENET = {
    "data": {"made": "shapes", "train_count": 30, "valid_count": 4, "batch_size": 5, "crop": 1},
    "model": {"name": "senet", "image_size": 8, "depths": [1], "widths": [4], "reduction": 2},
}
RECIPES = {
    "hard attention": {
        "data": DATES,
        "tokens": {"kind": "character"},
        "model": {
            "name": "bahdanau", "embed": 4, "encoder": 4, "decoder": 8, "readout": 4, "dropout": 0.0,
            "weigh": "hard",
        },
    },
    "tied, last row 0": TRANSFORMER,
    "several batches": {**TRANSFORMER, "train": {"accumulate_steps": 3}},
    "batch norm, fewer rows than processes": {
        "data": {
            "made": "glyphs", "train_count": 20, "valid_count": 4, "batch_size": 3, "mean": [0.5], "std": [0.5],
        },
        "model": {
            "name": "snail", "ways": 2, "shots": 1, "conv_filters": 4, "keys": [4, 4], "values": [4, 4],
            "tc_filters": 4,
        },
    },
    "an agent": {
        "data": {"made": "environments", "batch_size": 9, "valid_count": 4},
        "model": {"name": "snail_agent", "environment": "bandits", "actions": 3, "pulls": 4, "dim": 4},
        "train": {"ppo_passes": 2, "ppo_parts": 2},
    },
}  # fmt: skip
BERT = {
    "name": "bert",
    "dim": 8,
    "layers": 2,
    "heads": 2,
    "max_positions": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


def next_sentences(folder: Path) -> dict:
    """Masked words and next sentences, with activations computed again."""
    file = folder / "documents.txt"
    words = [
        "the",
        "cat",
        "sat",
        "on",
        "the",
        "mat",
        "and",
        "then",
        "a",
        "dog",
        "lay",
        "down",
        "by",
        "an",
        "old",
        "door",
        "of",
        "this",
        "house",
    ]
    lines = [" ".join(words[i % 7 : i % 7 + 3 + i % 5]) for i in range(60)]
    file.write_text("\n\n".join("\n".join(lines[i : i + 6]) for i in range(0, 60, 6)))
    return {
        "data": {"train": str(file), "valid": str(file), "documents": "blank", "batch_tokens": 128, "length": 24},
        "tokens": {"kind": "wordpiece", "size": 60},
        "model": {**BERT, "head": "pretrain", "pooler": True},
        "train": {"recompute": True},
    }


def first_steps(recipes: dict, folder: Path, shard: bool = False) -> dict[str, list[tuple[float, float]]]:
    """Loss and gradient norm of three steps of each recipe, in this process or in all."""
    numbers = {}
    for name, recipe in recipes.items():
        table = {**recipe, "train": {**TRAIN, **recipe.get("train", {}), "shard": shard}}
        job, _ = read(table, {}, None, None)
        desk = TASKS[job.task].desk
        artifacts = desk.survey(job, None)
        model = build_model(job, artifacts)
        data = desk.prepare(job, model, artifacts, folder).data
        stepper = Stepper(model, job.train, passes=passes(model, job.train))
        items, numbers[name] = chain.from_iterable(map(data.order, range(9))), []
        for step in (1, 2, 3):
            batches = [stepper.team.batch(data, item) for item in islice(items, job.train.accumulate_steps)]
            found = stepper.step(step, batches, job.train.learning_rate)
            numbers[name].append((float(found["loss"]), float(found["gradient_norm"])))
    return numbers


def every_way(recipes: dict, folder: Path) -> list[dict]:
    return [first_steps(recipes, folder, shard) for shard in (False, True)]


@pytest.mark.parametrize("count", [2, 4])
def test_losses_and_gradients_are_those_of_one_process(tmp_path, count):
    recipes = {**RECIPES, "next sentences, recomputed": next_sentences(tmp_path)}
    single = first_steps(recipes, tmp_path)
    of_all = in_processes(count, every_way, recipes, tmp_path)
    assert all(of_one == of_all[0] for of_one in of_all)
    for shard, found in enumerate(of_all[0]):
        for name, numbers in found.items():
            close = [pytest.approx(pair, rel=2e-5 if "norm" in name else 2e-6) for pair in single[name]]
            assert numbers == close, (name, count, shard)


# ---- checkpoints


def go_on(recipe: dict, folder: Path, steps: int, resume: bool, **settings: object) -> None:
    table = {**recipe, "train": {**TRAIN, "steps": steps, **settings}}
    regard.train(table, out=folder, resume=resume)


def save_by_four(folder: Path) -> None:
    for name, recipe in {"tied": TRANSFORMER, "integers": SENET}.items():
        go_on(recipe, folder / name / "straight", 6, False, shard=True)
        go_on(recipe, folder / name / "four", 3, False, shard=True, async_save=True)
        if processes.is_first():
            for other in ("two", "two whole", "one"):
                shutil.copytree(folder / name / "four", folder / name / other)
        processes.barrier()
        go_on(recipe, folder / name / "four", 6, True, shard=True)


def resume_by_two(folder: Path) -> None:
    for name, recipe in {"tied": TRANSFORMER, "integers": SENET}.items():
        go_on(recipe, folder / name / "two", 6, True, shard=True)
        go_on(recipe, folder / name / "two whole", 6, True, shard=False)


def test_a_run_of_four_processes_goes_on_with_four_two_and_one(tmp_path):
    in_processes(4, save_by_four, tmp_path)
    in_processes(2, resume_by_two, tmp_path)
    for name, recipe in {"tied": TRANSFORMER, "integers": SENET}.items():
        go_on(recipe, tmp_path / name / "one", 6, True)
        straight = tmp_path / name / "straight"
        wanted = checkpoint.read_plain(checkpoint.checkpoints(straight)[0])
        for other in ("four", "two", "two whole", "one"):
            folder = tmp_path / name / other
            found = checkpoint.read_plain(checkpoint.checkpoints(folder)[0])
            for kind, part in zip(wanted, found, strict=True):
                assert kind.keys() == part.keys()
                assert other != "four" or all(torch.equal(kind[label], part[label]) for label in kind)
            assert losses(folder) == pytest.approx(losses(straight), abs=1e-6)
            assert regard.load(folder).model is not None
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".jsonl", ".svg", ".md", ".toml"}


def losses(folder: Path) -> dict[int, float]:
    """Of every step, each of which is logged once."""
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    numbers = [(row["step"], row["loss"]) for row in rows if "gradient_norm" in row]
    assert [step for step, _ in numbers] == [1, 2, 3, 4, 5, 6]
    return dict(numbers)


# ---- a module of one's own, signals, lost processes


def batches(epoch: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(epoch)
    x = torch.randn(21, 3, generator=generator)
    return list(zip(x.split(5), x.sum(1, keepdim=True).split(5), strict=True))


def squares(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


def fit_small(folder: Path, during=lambda step: None, steps: int = 12, **settings: object) -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    count = 0

    def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        nonlocal count
        count += model.training
        during(count)
        return squares(model, batch)

    settings = {"eval_every": 5, "learning_rate": 0.05, "device": "cpu", **settings}
    fit(model, batches, loss=loss, validate=batches(99), out=folder, steps=steps, **settings)
    return [*model.weight[0].tolist(), model.bias.item()]


def test_a_module_of_ones_own_is_trained_by_all_processes(tmp_path):
    wanted = fit_small(tmp_path / "one")
    for found in in_processes(2, fit_small, tmp_path / "two"):
        assert found == pytest.approx(wanted, rel=1e-5)
    assert (tmp_path / "one/model.safetensors").stat().st_size == (
        tmp_path / "two/model.safetensors"
    ).stat().st_size


def pause_at(folder: Path, stop_at: int) -> None:
    """The second process gets a signal in this step."""

    def during(step: int) -> None:
        if step == stop_at and processes.rank() == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    fit_small(folder, during, steps=50)


def test_a_signal_to_any_process_stops_all_and_saves_once(tmp_path):
    results = Group(2, pause_at, tmp_path / "run", 7).results()
    assert [type(result) for result in results] == [Interrupted, Interrupted]
    assert [result.signal for result in results] == [signal.SIGTERM, signal.SIGTERM]
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run")] == ["step-00000007", "step-00000005"]


def hang(folder: Path) -> None:
    def during(step: int) -> None:
        if step == 3 and processes.rank() == 1:
            time.sleep(6)

    fit_small(folder, during)


def test_a_hung_process_is_named_by_rank_and_host(tmp_path):
    first = Group(2, hang, tmp_path / "run", REGARD_TIMEOUT="2").results()[0]
    assert isinstance(first, PeerLost)
    assert f"rank 1 on {os.uname().nodename} does not answer" in str(first)
    assert "hung for 2 s (REGARD_TIMEOUT sets the limit)" in str(first)


KILLED = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from regard.base import processes
from tests.learn.test_distribute import fit_small

def during(step):
    if step == 8 and processes.rank() == 1 and processes.restarts() == 0:
        os.kill(os.getpid(), 9)

fit_small(Path({out!r}), during)
"""


def test_torchrun_goes_on_by_itself_after_a_process_was_killed(tmp_path):
    wanted, script = fit_small(tmp_path / "straight"), tmp_path / "script.py"
    root = Path(__file__).parent.parent.parent
    script.write_text(KILLED.format(root=str(root), out=str(tmp_path / "run")))
    # Two machines with a process each, of which both are this one.
    machines = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "two"]
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        *machines,
        "--rdzv-endpoint",
        f"127.0.0.1:{free_port()}",
    ]
    words += ["--max-restarts", "1", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = [subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [machine.communicate(timeout=LONGEST)[1] for machine in both]
    assert [machine.returncode for machine in both] == [0, 0], said
    rows = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "gradient_norm" in row] == list(range(1, 13))
    straight = [json.loads(line) for line in (tmp_path / "straight/log.jsonl").read_text().splitlines()]
    for row, other in zip(rows, straight, strict=True):
        assert row.get("loss", 0) == pytest.approx(other.get("loss", 0), rel=1e-5)
    assert sum(text.count("Resuming after step 5") for text in said) == 1
    assert not (tmp_path / "run/.torchrun").exists()
    assert len(wanted) == 4


def test_what_cannot_be_sharded_is_refused():
    from regard.learn.settings import Training

    settings = Training(steps=1, device="cpu", shard=True)
    assert settings.shard
    with pytest.raises(ValueError, match="float16 cannot be sharded"):
        replace(settings, precision="float16")
    with pytest.raises(ValueError, match="recompute is for models of Transformer blocks"):
        Stepper(nn.Linear(2, 2), replace(settings, recompute=True), lambda batch: math.nan)
