"""What `auto` stands for in `train.precision`, `train.compile` and `train.capture`: chosen by device, model and
length of the run, and kept in the checkpoint for a training that goes on.

On a CPU, and on Apple's GPUs: float32, neither compiled nor captured. On a CUDA GPU:

precision   bfloat16 where the GPU has it, unless the model's mathematics needs more (`least_precision`)
capture     where batches come in few shapes, which the model's configuration (`can_capture`) and its task say.
            Steps are watched before they are captured; what cannot be captured runs as it is (`learn.capture`)
compile     models of wide Transformer blocks, once the first steps have shown that the training is long enough to
            repay the time that the compiler takes"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.base import processes
from regard.base.device import choose_device
from regard.layers.block import blocks_of
from regard.learn.settings import AUTO, BY_HARDWARE, CAPTURED, Training
from regard.models.protocols import Module

Chosen = dict[str, Any]  # the settings that auto stands for; empty: nothing was left to it

WIDE = 512  # blocks at least so wide gain from the compiler
GAIN = 0.2  # of the time of a step, that a compiled one saves: 10 to 35 % on an H200
COMPILING = 120.0  # seconds that the compiler takes at most, for the models that gain
FROM, TO = 10, 30  # steps between which the time of a step is measured
AMPERE = (8, 0)  # the first that have bfloat16 and TF32
PLAIN: Chosen = {"precision": "float32", "compile": False, "capture": False}


def settled(
    settings: Training, model: Module, device: torch.device, *, several: bool = False, capturable: bool = True
) -> Training:
    """The settings with what auto stands for; `compile` stays auto where the first steps decide it. `several`: the
    training has several processes. `capturable`: batches come in few shapes."""
    left = [name for name in BY_HARDWARE if getattr(settings, name) == AUTO]
    if not left or device.type != "cuda":
        return replace(settings, **{name: PLAIN[name] for name in left})
    values: Chosen = {
        "precision": precision_for(model, device),
        "compile": AUTO if may_repay(settings, model) else False,
        "capture": capturable and not several and can_capture(settings, model),
    }
    return replace(settings, **{name: values[name] for name in left})


def precision_for(model: Module, device: torch.device) -> str:
    least: str = getattr(model, "least_precision", "bfloat16")
    return least if torch.cuda.get_device_capability(device) >= AMPERE else "float32"


def can_capture(settings: Training, model: Module) -> bool:
    fits = all(getattr(settings, name) in values for name, values in CAPTURED.items())
    able = getattr(getattr(model, "config", None), "can_capture", True) and replays_bits(settings, model)
    return fits and not settings.recompute and able


def replays_bits(settings: Training, model: Module) -> bool:
    """Whether a captured step may be taken. A training that goes on takes its first steps eagerly, and cuDNN's
    recurrent layers do not give the same bits in a graph."""
    recurrent = any(isinstance(part, nn.RNNBase) for part in model.modules())
    return not (settings.deterministic and recurrent)


def captures(settings: Training) -> bool:
    """Whether steps are captured, so that batches should have few shapes; for settled settings."""
    return settings.capture is True and choose_device(settings.device).type == "cuda" and not processes.launched()


def may_repay(settings: Training, model: Module) -> bool:
    """Whether to measure if compiling repays: of models that are known to gain. Two trainings need not measure the
    same, so never where every bit counts."""
    wide = any(block.attend.query.in_features >= WIDE for block in blocks_of(model))  # type: ignore[arg-type]
    return wide and not settings.deterministic and not settings.shard and settings.steps > 2 * TO


def kept(settings: Training, chosen: Mapping[str, Any], device: torch.device) -> Training:
    """With what auto stood for when a training was begun on the same kind of device; else, and where there was no
    auto yet, nothing was chosen."""
    before: Chosen = PLAIN | dict(chosen) if chosen.get("device") == device.type else PLAIN
    left = [name for name in BY_HARDWARE if getattr(settings, name) == AUTO]
    return replace(settings, **{name: before[name] for name in left})


def told(settings: Training) -> str:
    """One line for people."""
    parts = [settings.precision]
    if settings.capture:
        parts.append("captured steps")
    if settings.compile is True:
        parts.append("compiled")
    elif settings.compile == AUTO:
        parts.append(f"compiled from step {TO} on if that repays")
    return f"{', '.join(parts)}: auto"


class Repays:
    """Measures steps until it is known whether compiling repays."""

    def __init__(self, steps: int, device: torch.device) -> None:
        self.steps, self.device = steps, device
        self.taken, self.begun = 0, 0.0
        self.shapes: set[Any] = set()  # of the batches so far

    def after(self, step: int) -> bool | None:
        """Called after each step; None: not known yet. The GPU is waited for twice in all."""
        self.taken += 1
        if self.taken == FROM:
            self.begun = self._now()
        if self.taken < TO:
            return None
        seconds = (self._now() - self.begun) / (TO - FROM)
        # Each shape is compiled anew.
        return len(self.shapes) <= 2 and (self.steps - step) * seconds * GAIN > COMPILING * len(self.shapes)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
