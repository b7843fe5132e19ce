"""Trainings in several processes: the losses are those of one process, checkpoints fit any number of processes."""

import io
import json
import math
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import run
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.app.cli.main import explain_once, main
from regard.base import processes
from regard.errors import Interrupted, PeerLost
from regard.layers.block import blocks_of
from regard.learn import checkpoint, teams
from regard.learn.distribute import OwnRows
from regard.learn.interrupt import Interrupt
from regard.learn.ppo import passes
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.learn.validation import Validation
from regard.tasks.core.recipe import read
from regard.tasks.core.table import TASKS
from regard.tasks.core.training import build_model
from tests.in_processes import CONTEXT, LONGEST, Group, free_port, in_processes
from tests.own_data import text
from tests.small_fit import fit_small

TRAIN = {
    "precision": "float32",
    "capture": False,
    "steps": 6,
    "eval_every": 3,
    "learning_rate": 1e-3,
    "device": "cpu",
}
PAIRS = {"made": "copy", "train_count": 60, "valid_count": 8, "batch_tokens": 256, "eval_pairs": 3}
TRANSFORMER = {
    "data": PAIRS,
    "tokens": {"kind": "character"},
    "decode": {"max_length": 5},
    "model": {
        "name": "transformer", "dim": 8, "layers": 1, "heads": 2, "ff": 16, "max_positions": 64, "dropout": 0.0,
    },
}  # fmt: skip
SENET = {
    "data": {"made": "shapes", "train_count": 30, "valid_count": 4, "batch_size": 5, "crop": 1},
    "model": {"name": "senet", "image_size": 8, "depths": [1], "widths": [4], "reduction": 2},
    # AdamW would enlarge rounding errors of weights that batch normalisation leaves without effect.
    "train": {"optimiser": "sgd", "momentum": 0.9, "learning_rate": 0.01},
}
RECIPES = {
    "hard attention": {
        "data": PAIRS,
        "tokens": {"kind": "character"},
        "decode": {"max_length": 5},
        "model": {
            "name": "bahdanau", "embed": 4, "encoder": 4, "decoder": 8, "readout": 4, "dropout": 0.0,
            "weigh": "hard",
        },
    },
    "several batches, tied, last row 0": {**TRANSFORMER, "train": {"accumulate_steps": 3}},
    "batch norm, fewer rows than processes": {
        "data": {
            "made": "glyphs", "train_count": 3, "valid_count": 2, "test_count": 2, "valid_episodes": 10,
            "batch_size": 2, "mean": [0.5], "std": [0.5],
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
NEXT = "next sentences, recomputed"
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
    file = folder / text(folder, blank_every=6)
    return {
        "data": {"train": str(file), "valid": str(file), "documents": "blank", "batch_tokens": 128, "length": 24},
        "tokens": {"kind": "wordpiece", "size": 60},
        "model": {**BERT, "head": "pretrain", "pooler": True},
        "train": {"recompute": True},
    }


def first_steps(
    recipes: dict, folder: Path, shard: bool = False, watch: Callable[[nn.Module], object] = lambda model: None
) -> dict[str, list[dict[str, float]]]:
    """Loss and gradient norm of two steps of each recipe, then the metrics of a validation, in this process or in
    all. `watch` gets each model."""
    numbers = {}
    for name, recipe in recipes.items():
        table = {**recipe, "train": {**TRAIN, **recipe.get("train", {}), "shard": shard}}
        job, _ = read(table, {}, None, None)
        desk = TASKS[job.task].desk
        artifacts = desk.survey(job, None)
        model = build_model(job, artifacts)
        prepared = desk.prepare(job, model, artifacts, folder)
        data = prepared.data
        stepper = Stepper(model, job.train, passes=passes(model, job.train))
        watch(model)
        items, numbers[name] = chain.from_iterable(map(data.order, range(9))), []
        for step in (1, 2):
            batches = [stepper.team.batch(data, item) for item in islice(items, job.train.accumulate_steps)]
            found = stepper.step(step, batches, job.train.learning_rate)
            numbers[name].append({key: float(found[key]) for key in ("loss", "gradient_norm")})
        numbers[name].append(validated(stepper, desk, prepared, TASKS[job.task].validated))
    return numbers


def validated(stepper: Stepper, desk: Any, prepared: Any, only: Sequence[str]) -> dict[str, float]:
    """As the loop does it."""
    settings = stepper.settings

    def validate(model: Any) -> dict[str, float]:
        return dict(desk.evaluate(prepared.run, prepared.valid, only=only).metrics)

    validation = Validation(stepper.model, validate, lambda *_: None, (only[0], "min"), settings)
    if processes.launched():  # a signal to one of the processes: all of them give it up
        interrupt = Interrupt()
        interrupt.signal = signal.SIGTERM if processes.rank() == 1 else 0
        assert stepper.team.validate(lambda: validation.measure(3), interrupt, divided=True) is None
    metrics = stepper.team.validate(lambda: validation.measure(3), Interrupt(), divided=True)
    assert metrics is not None
    return metrics


def every_way(recipes: dict, folder: Path) -> list[dict]:
    return [first_steps(recipes, folder, shard) for shard in (False, True)]


def in_half_precision(recipe: dict, folder: Path) -> tuple[list, list, set]:
    """DDP, FSDP2, and what is there of the first block while the second one runs, and of the second: the types of
    its weights."""
    seen = set()

    def watch(model: nn.Module) -> None:
        first, second = blocks_of(model)

        def look(block: nn.Module, *_: object) -> None:
            weights = dict(second.named_parameters())
            sharded = isinstance(first.feed.inner.weight, DTensor)
            seen.add((sharded, weights["feed.inner.weight"].dtype, weights["feed_norm.weight"].dtype))

        second.feed_norm.register_forward_hook(look)

    table = {"": {**recipe, "train": {**recipe["train"], "precision": "bfloat16"}}}
    whole = first_steps(table, folder)[""]
    return whole, first_steps(table, folder, True, watch)[""], seen


def draws() -> list[list[float]]:
    """What dropout would draw for two batches, the first of them once more; and what rows draw."""
    team = teams.team_for(torch.device("cpu"), Training(steps=1, device="cpu"))
    found = []
    for seed in (5, 6, 5):
        team.begin(OwnRows(torch.zeros(1), 3), seed, torch.device("cpu"))
        found.append([torch.rand(()).item(), torch.rand((), generator=team.generator).item()])
    return found


def into_one_piece(rnn: nn.RNNBase) -> None:
    """What torch does on a GPU before the first batch, for cuDNN: it moves the weights to memory of their own."""
    for weight in rnn._flat_weights:
        weight.data = weight.data.clone()


def two_ways(recipes: dict, folder: Path) -> tuple[list[dict], tuple]:
    nn.RNNBase.flatten_parameters = into_one_piece  # in this process alone
    return every_way(recipes, folder), in_half_precision(recipes[NEXT], folder)


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> tuple[Path, dict, dict]:
    """Of one process: a folder, recipes and their numbers."""
    folder = tmp_path_factory.mktemp("single")
    recipes = {**RECIPES, NEXT: next_sentences(folder)}
    return folder, recipes, first_steps(recipes, folder)


@pytest.mark.parametrize("count", [2, 3, pytest.param(4, marks=pytest.mark.thorough)])
def test_losses_gradients_and_metrics_are_those_of_one_process(single, count):
    folder, recipes, wanted = single
    if count > 2:  # what is drawn for a row is the same thing for two
        recipes = {name: recipe for name, recipe in recipes.items() if name not in ("hard attention", "an agent")}
    results = in_processes(count, two_ways if count == 2 else every_way, recipes, folder)
    assert all(result == results[0] for result in results)
    of_all, half = results[0] if count == 2 else (results[0], None)
    for shard, found in enumerate(of_all):
        for name, numbers in found.items():
            close = [pytest.approx(row, rel=2e-5 if "norm" in name else 2e-6) for row in wanted[name]]
            assert numbers == close, (name, count, shard)
    if half is not None:
        whole, divided, seen = half
        assert divided[:-1] == [pytest.approx(row, rel=1e-6) for row in whole[:-1]]
        assert divided[-1] == pytest.approx(whole[-1], rel=2e-2)  # validated in bfloat16, and in float32
        assert divided[-1]["loss"] != whole[-1]["loss"]
        # Weights travel in bfloat16 but for those of norms, and only one block is there at a time.
        assert seen == {(True, torch.bfloat16, torch.float32)}


# ---- checkpoints


def go_on(recipe: dict, folder: Path, steps: int, resume: bool, **settings: object) -> None:
    table = {**recipe, "train": {**TRAIN, **recipe.get("train", {}), "steps": steps, **settings}}
    table["train"] |= {"eval_every": 2, "average_checkpoints": 2}
    regard.train(table, out=folder, resume=resume)


def save_by_three(folder: Path) -> None:
    go_on(TRANSFORMER, folder / "tied/straight", 4, False, shard=True)
    go_on(TRANSFORMER, folder / "tied/three", 2, False, shard=True, async_save=True)
    go_on(SENET, folder / "integers/two", 2, False, shard=True)
    if processes.is_first():
        for other in ("two", "two whole", "one"):
            shutil.copytree(folder / "tied/three", folder / "tied" / other)
        shutil.copytree(folder / "integers/two", folder / "integers/one")
    processes.barrier()
    go_on(TRANSFORMER, folder / "tied/three", 4, True, shard=True)
    # To the last bit, which the order of a sum decides where there are three or more.
    go_on(TRANSFORMER, folder / "copies/straight", 4, False)
    for steps in (2, 4):
        go_on(TRANSFORMER, folder / "copies/resumed", steps, steps > 2)


def resume_by_two(folder: Path) -> None:
    go_on(TRANSFORMER, folder / "tied/two", 4, True, shard=True)
    go_on(TRANSFORMER, folder / "tied/two whole", 4, True, shard=False)
    go_on(SENET, folder / "integers/two", 4, True, shard=True)


def test_a_run_of_three_processes_goes_on_with_three_two_and_one(tmp_path):
    """With weights that are tied, and with tensors of integers."""
    in_processes(3, save_by_three, tmp_path)
    in_processes(2, resume_by_two, tmp_path)
    go_on(SENET, tmp_path / "integers/straight", 4, False)
    others = {"tied": ("three", "two", "two whole", "one"), "integers": ("two", "one")}
    for name, recipe in {"tied": TRANSFORMER, "integers": SENET}.items():
        go_on(recipe, tmp_path / name / "one", 4, True)
        straight = tmp_path / name / "straight"
        wanted = checkpoint.read_plain(checkpoint.checkpoints(straight)[0])
        for other in others[name]:
            folder = tmp_path / name / other
            found = checkpoint.read_plain(checkpoint.checkpoints(folder)[0])
            for kind, part in zip(wanted, found, strict=True):
                assert kind.keys() == part.keys()
                assert other != "three" or all(torch.equal(kind[label], part[label]) for label in kind)
            assert losses(folder) == pytest.approx(losses(straight), abs=1e-6)
            assert metrics(folder) == [pytest.approx(row, rel=1e-5) for row in metrics(straight)]
            assert regard.load(folder).model is not None
        with pytest.raises(checkpoint.Damaged, match="was truncated or altered"):
            checkpoint.read_plain(with_a_bit_changed(checkpoint.checkpoints(straight)[0]))
    straight, resumed = tmp_path / "copies/straight", tmp_path / "copies/resumed"  # to the last bit
    assert losses(resumed) == losses(straight)
    assert metrics(resumed) == metrics(straight)
    assert (resumed / "model.safetensors").read_bytes() == (straight / "model.safetensors").read_bytes()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".jsonl", ".svg", ".md", ".toml"}


def train_on(device: str, folder: Path) -> None:
    for shard in (False, True):
        go_on(TRANSFORMER, folder / f"shard {shard}", 4, False, shard=shard, device=device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_counts_are_sent_from_there(tmp_path):
    """NCCL sends nothing that lies on the CPU: not the tokens of a batch, nor a saved step or a metric."""
    go_on(TRANSFORMER, tmp_path / "plain", 4, False, device="cuda")
    in_processes(1, train_on, "cuda", tmp_path)
    for shard in (False, True):
        assert losses(tmp_path / f"shard {shard}") == pytest.approx(losses(tmp_path / "plain"), abs=1e-5)


def with_a_bit_changed(path: Path) -> Path:
    file = next(path.glob("*.safetensors"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    return path


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Of the log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def losses(folder: Path) -> dict[int, float]:
    """Of every step, each of which is logged once."""
    rows = rows_of(folder)
    numbers = [(row["step"], row["loss"]) for row in rows if "gradient_norm" in row]
    assert [step for step, _ in numbers] == [1, 2, 3, 4]
    return dict(numbers)


def metrics(folder: Path) -> list[dict[str, float]]:
    """Of the last validation, and of the average of two checkpoints."""
    rows = [row for row in rows_of(folder) if "valid_loss" in row][-2:]
    assert rows[-1]["averaged"] == 2
    return rows


# ---- a module of one's own, signals, lost processes


class NoNumber(TorchDispatchMode):
    """Refuses `.item()` and whatever else fetches a number from a tensor: a GPU would have to be waited for, and
    such a step could not be captured."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten._local_scalar_dense.default, "a step fetches a number"
        return function(*args, **(kwargs or {}))


def fit_without_waiting(folder: Path) -> tuple[list[float], list[list[float]]]:
    """With steps that fetch no number; and `draws`."""
    update = Stepper._update

    def watched(*args: Any) -> Any:
        with NoNumber():
            return update(*args)

    Stepper._update = watched  # in this process alone
    return fit_small(folder, optimiser="sgd"), draws()


def test_a_module_of_ones_own_is_trained_by_all_processes(tmp_path):
    """No step waits for its number of tokens, and each process draws dropout of its own, from the seed of the step:
    a state of the first process is restored nowhere."""
    wanted = fit_small(tmp_path / "one", optimiser="sgd")
    (first, draws_of_first), (second, draws_of_second) = in_processes(2, fit_without_waiting, tmp_path / "two")
    for found in (first, second):
        assert found == pytest.approx(wanted, rel=1e-5)
    for one, other in zip(draws_of_first, draws_of_second, strict=True):
        assert one[0] != other[0]
        assert one[1] == other[1]
    assert draws_of_first[0] == draws_of_first[2] != draws_of_first[1]
    assert (tmp_path / "one/model.safetensors").stat().st_size == (
        tmp_path / "two/model.safetensors"
    ).stat().st_size


def pause(folder: Path) -> list[Interrupted]:
    """The second process gets a signal in a step, and in the training after it in a validation."""
    found = []
    for name, stop_at in {"step": (7, True), "validation": (10, False)}.items():

        def during(*place: int, stop_at: tuple = stop_at) -> None:
            if place == stop_at and processes.rank() == 1:
                os.kill(os.getpid(), signal.SIGTERM)

        try:
            fit_small(folder / name, during, steps=50)
        except Interrupted as stop:
            found.append(stop)
    return found


def test_a_signal_to_any_process_stops_all_and_saves_once(tmp_path):
    for found in in_processes(2, pause, tmp_path):
        assert [stop.signal for stop in found] == [signal.SIGTERM, signal.SIGTERM]
    for name, saved in {"step": (7, 5), "validation": (10, 5)}.items():
        paths = checkpoint.checkpoints(tmp_path / name)
        assert [path.name for path in paths] == [f"step-{step:08}" for step in saved]
        validated = [row["step"] for row in rows_of(tmp_path / name) if "valid_loss" in row]
        assert validated == [5]  # the one that was given up comes first when the training goes on


def hang(folder: Path) -> None:
    """The second process hangs until the first has ended."""
    processes.SETTLED = 0.5  # in these processes alone
    ended = folder.with_name("ended")

    def during(step: int, training: bool) -> None:
        while step == 3 and processes.rank() == 1 and not ended.exists():
            time.sleep(0.05)

    try:
        fit_small(folder, during)
    finally:
        ended.touch()


def test_a_hung_process_is_named_by_rank_and_host(tmp_path):
    first = Group(2, hang, tmp_path / "run", REGARD_TIMEOUT="2").results()[0]
    assert isinstance(first, PeerLost)
    assert f"rank 1 on {os.uname().nodename} does not answer" in str(first)
    assert "hung for 2 s (REGARD_TIMEOUT sets the limit)" in str(first)


def fail(folder: Path) -> tuple[str, str]:
    """The second process fails before it has met the first, which waits for it: the error, and what is said."""
    processes.SETTLED, told = 0.5, folder / "told"  # in these processes alone
    with redirect_stderr(io.StringIO()) as said:
        try:
            if processes.rank() == 0:
                processes.join()
            sys.argv = ["regard", "train", str(folder / "nosuch.toml")]
            main()
        except PeerLost as lost:
            error = str(lost)
            while not told.exists():
                time.sleep(0.05)
            explain_once(lost)
        except SystemExit as end:
            error = str(end.code)
            told.touch()
    return error, said.getvalue()


def test_an_error_is_told_once_with_its_rank_and_a_process_that_does_not_come_is_named(tmp_path):
    (lost, silence), (code, said) = in_processes(2, fail, tmp_path, REGARD_TIMEOUT="1")
    assert re.fullmatch(r"rank 1 does not answer: ended, or hung for \d s \(REGARD_TIMEOUT sets the limit\)", lost)
    assert silence == ""
    assert code == "2"
    assert "nosuch.toml" in said
    assert said.endswith(f"(in the process of rank 1 on {os.uname().nodename}, one of 2)\n")


KILLED = """
import os
from pathlib import Path
from regard.base import processes
from tests.small_fit import fit_small

processes.SETTLED = 0.5

def during(step, training):
    if step == 8 and processes.rank() == 1 and processes.restarts() == 0:
        os.kill(os.getpid(), 9)

fit_small(Path({out!r}), during)
"""


def torchrun(words: list[str], log: Path) -> None:
    """As the command does, in a process that has torch already."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    run.main(words)


def test_torchrun_goes_on_by_itself_after_a_process_was_killed(tmp_path):
    wanted, script = fit_small(tmp_path / "straight"), tmp_path / "script.py"
    script.write_text(KILLED.format(out=str(tmp_path / "run")))
    # Two machines with a process each, of which both are this one.
    words = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "two"]
    words += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--max-restarts", "1"]
    words += ["--run-path", "--start-method", "fork", str(script)]  # without importing torch four times
    logs = [tmp_path / f"{number}.txt" for number in range(2)]
    both = [CONTEXT.Process(target=torchrun, args=(words, log)) for log in logs]
    for machine in both:
        machine.start()
    for machine in both:
        machine.join(LONGEST)
    said = [log.read_text() for log in logs]
    assert [machine.exitcode for machine in both] == [0, 0], said
    rows = rows_of(tmp_path / "run")
    assert [row["step"] for row in rows if "gradient_norm" in row] == list(range(1, 13))
    for row, other in zip(rows, rows_of(tmp_path / "straight"), strict=True):
        assert row.get("loss", 0) == pytest.approx(other.get("loss", 0), rel=1e-5)
    assert sum(text.count("Resuming after step 5") for text in said) == 1
    assert not (tmp_path / "run/.torchrun").exists()
    assert len(wanted) == 4


def test_what_cannot_be_sharded_is_refused():
    settings = Training(steps=1, device="cpu", shard=True)
    assert settings.shard
    with pytest.raises(ValueError, match="float16 cannot be sharded"):
        replace(settings, precision="float16")
    with pytest.raises(ValueError, match="recompute is for models of Transformer blocks"):
        Stepper(nn.Linear(2, 2), replace(settings, recompute=True), lambda batch: math.nan)
