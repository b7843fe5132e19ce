"""Searches for tests: the fields of settings and target by their names alone."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Target
from regard.decode.search import decode
from regard.decode.settings import Decoding

TARGET = [field.name for field in dataclasses.fields(Target)]


def parted(options: dict[str, Any]) -> tuple[Decoding, Target]:
    """What belongs to both, as a length, is the target's."""
    target = {name: value for name, value in options.items() if name in TARGET}
    return Decoding(**{name: value for name, value in options.items() if name not in TARGET}), Target(**target)


def search(model: Any, source: Tensor, mask: Tensor, **options: Any) -> list[list[Hypothesis]]:
    """All answers to each sentence."""
    return decode(model, source, mask, *parted(options))


def write(model: Any, source: Tensor, mask: Tensor, **options: Any) -> list[Hypothesis]:
    """The best answer to each sentence: greedy, unless a temperature says otherwise."""
    return [answers[0] for answers in search(model, source, mask, **options)]
