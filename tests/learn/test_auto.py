"""What `auto` stands for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from small_models import fresh
from small_training import Run

from regard.layers.block import Block
from regard.learn import auto
from regard.learn.settings import AUTO, BY_HARDWARE, Training
from regard.learn.stepper import Stepper

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))


class Wide(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(Block(512, 8, 16))


def test_on_a_cpu_it_is_what_it_was_before_there_was_auto() -> None:
    settings = auto.settled(Training(steps=1), fresh("gpt2"), CPU)
    assert settings == Training(steps=1, precision="float32", compile=False, capture=False)
    asked = Training(steps=1, precision="bfloat16", compile=True, capture=True)
    assert auto.settled(asked, fresh("gpt2"), CPU) == asked


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("name", "precision", "captured"),
    [("gpt2", "bfloat16", True), ("bahdanau", "bfloat16", True), ("elmo", "bfloat16", False),
     ("ntm", "float32", True), ("snail", "tf32", True), ("snail_agent", "float32", True),
     ("bert", "bfloat16", False)],  # it fills in words
)  # fmt: skip
def test_on_a_gpu_the_model_says_what_it_allows(name: str, precision: str, captured: bool) -> None:
    model = fresh(name)
    settings = auto.settled(Training(steps=10**6), model, CUDA)
    assert (settings.precision, settings.compile, settings.capture) == (precision, False, captured)
    assert not auto.settled(Training(steps=9), model, CUDA, several=True).capture
    assert not auto.settled(Training(steps=9), model, CUDA, capturable=False).capture
    for other in ({"accumulate_steps": 2}, {"precision": "float16"}, {"recompute": True}):
        assert not auto.settled(Training(steps=9, **other), model, CUDA).capture
    alike = auto.settled(Training(steps=9, deterministic=True), model, CUDA)
    assert alike.capture == (captured and name != "bahdanau")  # cuDNN's layers in a graph give other bits
    explicit = Training(steps=9, precision="tf32", compile=True, capture=False)
    assert auto.settled(explicit, model, CUDA) == explicit


def test_gpus_without_bfloat16_take_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert auto.settled(Training(steps=1), fresh("gpt2"), CUDA).precision == "float32"


@pytest.mark.usefixtures("hopper")
def test_compiling_is_left_to_the_first_steps_of_wide_blocks_alone() -> None:
    def left(model: torch.nn.Module, **changes: object) -> object:
        return auto.settled(Training(**{"steps": 1000, **changes}), model, CUDA).compile

    assert left(Wide()) == AUTO
    assert left(fresh("gpt2")) is False
    assert left(Wide(), steps=50) is False
    assert left(Wide(), deterministic=True) is False
    assert left(Wide(), shard=True) is False


@pytest.mark.parametrize(("seconds", "steps", "shapes", "repays"), [
    (0.1, 20_000, 1, True), (0.1, 2_000, 1, False), (0.001, 20_000, 1, False), (1.0, 20_000, 3, False),
    (0.1, 8_000, 1, True), (0.1, 8_000, 2, False),
])  # fmt: skip
def test_compiling_repays_where_what_it_saves_is_more_than_it_takes(
    seconds: float, steps: int, shapes: int, repays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(auto.time, "perf_counter", lambda: now[0])
    measured = auto.Repays(steps, CPU)
    for step in range(1, auto.TO + 1):
        now[0] += seconds if step > auto.FROM else 60 * seconds  # the first steps are slow
        measured.shapes.add(step % shapes)
        decision = measured.after(step)
        assert (decision is None) == (step < auto.TO)
    assert decision is repays


def test_a_training_that_goes_on_keeps_what_was_chosen() -> None:
    chosen = {"device": "cuda", "precision": "bfloat16", "compile": True, "capture": True}
    plain = Training(steps=1, precision="float32", compile=False, capture=False)
    asked = Training(steps=1)
    assert auto.kept(asked, chosen, CUDA) == replace(plain, precision="bfloat16", compile=True, capture=True)
    assert auto.kept(asked, chosen, CPU) == plain
    assert auto.kept(asked, {}, CUDA) == plain  # begun before there was auto, or on the CPU
    assert auto.kept(replace(asked, capture=False), chosen, CUDA).capture is False


@pytest.mark.usefixtures("hopper")
def test_it_is_told_in_a_line() -> None:
    assert auto.told(auto.settled(Training(steps=1), fresh("gpt2"), CUDA)) == "bfloat16, captured steps: auto"
    assert auto.told(auto.settled(Training(steps=1), fresh("ntm"), CUDA)) == "float32, captured steps: auto"
    wide = auto.told(auto.settled(Training(steps=1000), Wide(), CUDA, capturable=False))
    assert wide == f"bfloat16, compiled from step {auto.TO} on if that repays: auto"


def test_on_a_cpu_nothing_is_told_logged_or_kept(tmp_path) -> None:  # type: ignore[no-untyped-def]
    run = Run(tmp_path)
    run.fit()
    assert "auto" not in (tmp_path / "log.jsonl").read_text() + run.shown.getvalue()
    state = json.loads((tmp_path / "training" / "step-00000012" / "state.json").read_text())
    assert state["standing"]["chosen"] == {}
    assert Stepper(run.model, run.settings).settings.precision == "float32"
    assert all(getattr(run.settings, name) == AUTO for name in BY_HARDWARE)
