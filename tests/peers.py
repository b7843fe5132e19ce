"""Models of transformers whose weights say something: parity is shown with these."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def draw_bert(model: nn.Module) -> None:
    """First weights say nearly the same of every word, first biases nothing, and norms are all ones."""
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, x in model.named_parameters():
            noise = torch.randn(x.shape, generator=dice)
            ones = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            x.copy_(noise * 1.4 / x.shape[-1] ** 0.5 if x.dim() == 2 else ones + 0.3 * noise)


def draw_vit(config: Any, head: str, *, pooler: bool = True) -> Any:
    """A ViT of transformers with its weights well off their first values."""
    import transformers

    torch.manual_seed(0)
    kind = getattr(transformers, f"ViT{head}")
    model = (kind(config, add_pooling_layer=pooler) if head == "Model" else kind(config)).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            noise = torch.randn_like(x)
            x.copy_(noise / x[0].numel() ** 0.5 if x.dim() > 1 else ("norm.weight" in name) + 0.3 * noise)
    return model
