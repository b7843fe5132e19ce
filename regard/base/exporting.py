"""Whether a model is being exported."""

from __future__ import annotations

import torch


def exporting() -> bool:
    """As torch.compiler.is_exporting(), but not in what torch.compile traces: torch 2.11 says so there too, and a
    training would be compiled as if its lengths were not known."""
    return torch.compiler._is_exporting_flag
