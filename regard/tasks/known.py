"""What a model must know before it can be built, and what its folder keeps beside weights and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.text import Tokenizer


@dataclass(frozen=True)
class Pixels:
    """How pictures become numbers: brought to the model's size, then (value / 255 - mean) / std in each channel."""

    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    resample: str = "bilinear"  # or another of data.images.RESAMPLING


@dataclass(frozen=True)
class Known:
    """Words, the names of classes, how pictures are read: each task has some of them."""

    tokenizer: Any = None  # a translator's for the target, and for the source where that has none
    source_tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] = ()
    pixels: Pixels | None = None
    longest: int = 0  # so many tokens of a text were read while it learned; 0: as many as the model takes

    def settings(self) -> dict[str, Any]:
        """What of it stands in the model's configuration."""
        found: dict[str, Any] = {}
        if self.tokenizer is not None:
            found["vocabulary"] = len(self.tokenizer)
        if self.source_tokenizer is not None:
            found["source_vocabulary"] = len(self.source_tokenizer)
        if self.labels:
            found["labels"] = self.labels
        return found
