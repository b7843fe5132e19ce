"""The optimiser and the learning rate of each step, as the settings ask for them."""

from __future__ import annotations

import inspect
import math
from functools import cache
from typing import Any

import torch

from regard.learn.settings import Training
from regard.models.protocols import Module


def build_optimiser(model: Module, settings: Training) -> torch.optim.Optimizer:
    """Weight decay applies to tensors of two and more dimensions, not to biases, norms and scales, nor to modules
    with `decayed = False`."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter that requires a gradient; there is nothing to train")
    modules = [module for module in model.modules() if not getattr(module, "decayed", True)]
    free = {id(p) for module in modules for p in module.parameters()} | {id(p) for p in trained if p.dim() < 2}
    groups = [
        {"params": [p for p in trained if id(p) not in free], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if id(p) in free], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    on_gpu = all(p.is_cuda for p in trained)
    capture = on_gpu and settings.capture is True
    # A captured step reads the learning rate from a GPU tensor.
    rate = torch.tensor(settings.learning_rate, device=trained[0].device) if capture else settings.learning_rate
    fused = True if on_gpu else None  # None: torch's own default
    if settings.optimiser == "sgd":
        nesterov = settings.nesterov
        return uncompiled(torch.optim.SGD)(
            groups, lr=rate, momentum=settings.momentum, nesterov=nesterov, fused=fused
        )
    # torch's default on a CPU makes a dozen passes over each tensor, which took a sixth of a small ViT's step.
    if all(p.is_cpu and p.is_floating_point() for p in trained):
        fused = True
    return uncompiled(torch.optim.AdamW)(groups, lr=rate, betas=settings.betas, fused=fused, capturable=capture)


@cache
def uncompiled(kind: type[torch.optim.Optimizer]) -> Any:
    """The same optimiser without what keeps torch's compiler off its methods: the first call of one imports that
    compiler, for two seconds, and no step of an optimiser is compiled here."""
    methods = {name: getattr(kind, name) for name in dir(kind) if hasattr(getattr(kind, name), "__wrapped__")}
    plain = {name: inspect.unwrap(method) for name, method in methods.items()}
    return type(kind.__name__, (kind,), {**plain, "step": torch.no_grad()(plain["step"])})


def rate_at(step: int, settings: Training, plateau_scale: float = 1.0) -> float:
    """The learning rate of step 1, 2, ...; every schedule peaks at step `warmup_steps`.

    cosine: from the peak down to min_lr_ratio * learning_rate at the last step.
    inverse_root: learning_rate * sqrt(warmup_steps / step)   (Vaswani 2017, eq. 3, with the peak as a setting).
    plateau: learning_rate * plateau_scale, which the loop lowers when validation stops improving."""
    scale = plateau_scale if settings.schedule == "plateau" else 1.0
    if step < settings.warmup_steps:
        return settings.learning_rate * scale * step / settings.warmup_steps
    if settings.schedule == "cosine":
        done = min(1.0, (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps))
        share = 0.5 * (1 + math.cos(math.pi * done))
        return settings.learning_rate * (settings.min_lr_ratio + (1 - settings.min_lr_ratio) * share)
    if settings.schedule == "inverse_root":
        return settings.learning_rate * math.sqrt(max(1, settings.warmup_steps) / step)
    return settings.learning_rate * scale
