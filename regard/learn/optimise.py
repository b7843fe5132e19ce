"""Every setting of the training, the optimiser they ask for, and the rate of each step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

CHOICES = {
    "optimiser": ("adamw", "sgd"),
    "schedule": ("constant", "cosine", "inverse_root", "plateau"),
    "precision": ("float32", "bfloat16", "float16"),
    "device": ("auto", "cpu", "cuda"),
    "best_by": ("valid_loss", "bleu", "exact_match", "accuracy"),
}
CAPTURED = {"optimiser": ("adamw",), "precision": ("float32", "bfloat16"), "accumulate": (1,)}
AT_LEAST = {  # whole numbers
    "steps": 1,
    "warmup": 0,
    "plateau_patience": 1,
    "accumulate": 1,
    "every": 1,
    "patience": 0,
    "average": 0,
    "seed": 0,
}
RANGES = {
    "rate": ("be above 0", lambda x: x > 0),
    "weight_decay": ("be at least 0", lambda x: x >= 0),
    "momentum": ("lie in [0, 1)", lambda x: 0 <= x < 1),
    "final_rate": ("lie in [0, 1]: a share of rate", lambda x: 0 <= x <= 1),
    "plateau_factor": ("lie in (0, 1)", lambda x: 0 < x < 1),
    "smoothing": ("lie in [0, 1)", lambda x: 0 <= x < 1),
    "agreement": ("be at least 0 (0 = off)", lambda x: x >= 0),
    "clip": ("be at least 0 (0 = off)", lambda x: x >= 0),
    "reinforce_weight": ("be at least 0", lambda x: x >= 0),
    "entropy_weight": ("be at least 0", lambda x: x >= 0),
}


@dataclass(frozen=True)
class Training:
    """The rate rises over `warmup` steps in every schedule, then follows the schedule."""

    steps: int
    optimiser: str = "adamw"
    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)  # adamw
    weight_decay: float = 0.0  # on matrices only, see build_optimiser
    momentum: float = 0.0  # sgd
    schedule: str = "constant"
    warmup: int = 0
    final_rate: float = 0.0  # where cosine ends, as a share of rate
    plateau_factor: float = 0.5
    plateau_patience: int = 2  # validations without improvement before the rate falls
    smoothing: float = 0.0
    agreement: float = 0.0  # translators: how much two passes, each with a dropout of its own, must agree (R-Drop)
    clip: float = 1.0  # global gradient norm, 0 = off
    accumulate: int = 1  # batches in one step
    precision: str = "float32"
    compile: bool = False
    capture: bool = False  # pictures, on a card: record a step once and play it again (CUDA graph), see capture.py
    every: int = 100  # steps between validations, and between checkpoints
    best_by: str = "valid_loss"  # the validation number by which the weights that are kept are chosen
    patience: int = 0  # validations without improvement before stopping early, 0 = never
    average: int = 0  # how many of the last checkpoints to average at the end
    seed: int = 0
    device: str = "auto"
    reinforce_weight: float = 1.0  # hard attention only
    entropy_weight: float = 0.01  # hard attention only

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name, least in AT_LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name, (words, allows) in RANGES.items():
            value = getattr(self, name)
            if not _is_number(value) or not allows(value):
                raise ValueError(f"{name} must {words}, got {value!r}")
        for name in ("compile", "capture"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        for name, fits in CAPTURED.items():
            if self.capture and (value := getattr(self, name)) not in fits:
                raise ValueError(f"a step with {name} = {value} cannot be captured; set capture = false")
        betas = self.betas
        if not isinstance(betas, (list, tuple)) or len(betas) != 2:
            raise ValueError(f"betas must be two numbers, got {betas!r}")
        if not all(_is_number(beta) and 0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must lie in [0, 1), got {betas!r}")
        object.__setattr__(self, "betas", tuple(betas))  # a TOML file gives a list


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def choose_device(settings: Training) -> torch.device:
    """`auto` takes the graphics card where there is one."""
    there = torch.cuda.is_available()
    if settings.device == "cuda" and not there:
        raise ValueError("device is cuda, but torch sees no CUDA card here; use device = auto or cpu")
    device = torch.device("cuda" if there and settings.device != "cpu" else "cpu")
    if settings.precision == "float16" and device.type != "cuda":
        raise ValueError("precision float16 needs a CUDA card; on the CPU use bfloat16 or float32")
    return device


def build_optimiser(model: nn.Module, settings: Training) -> torch.optim.Optimizer:
    """Weight decay pulls on tensors of two and more dimensions; biases, norms and scales are left alone."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter that requires a gradient; there is nothing to train")
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=settings.rate, momentum=settings.momentum)
    on_card = all(p.is_cuda for p in trained)
    capture = on_card and settings.capture
    # What is recorded reads the rate from the card, where each step leaves its own.
    rate = torch.tensor(settings.rate, device=trained[0].device) if capture else settings.rate
    fused = True if on_card else None  # None: torch's own default
    return torch.optim.AdamW(groups, lr=rate, betas=settings.betas, fused=fused, capturable=capture)


def rate_at(step: int, settings: Training, plateau_scale: float = 1.0) -> float:
    """The rate of step 1, 2, ...; every schedule has its peak at step `warmup`.

    cosine: from the peak down to final_rate * rate at the last step.
    inverse_root: rate * sqrt(warmup / step)   (Vaswani 2017, eq. 3, its peak given instead of d_model).
    plateau: rate * plateau_scale, which the loop lowers when validation stands still."""
    scale = plateau_scale if settings.schedule == "plateau" else 1.0
    if step < settings.warmup:
        return settings.rate * scale * step / settings.warmup
    if settings.schedule == "cosine":
        done = min(1.0, (step - settings.warmup) / max(1, settings.steps - settings.warmup))
        share = 0.5 * (1 + math.cos(math.pi * done))
        return settings.rate * (settings.final_rate + (1 - settings.final_rate) * share)
    if settings.schedule == "inverse_root":
        return settings.rate * math.sqrt(max(1, settings.warmup) / step)
    return settings.rate * scale
