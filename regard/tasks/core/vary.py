"""What `--vary` of a sweep says: a range of numbers, as in `train.learning_rate=1e-4..3e-3:log`, or values, as in
`model.dropout=0.1,0.3`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.base.field_types import alternatives, types_of
from regard.errors import RecipeError
from regard.models import MODELS
from regard.tasks.core.compare import choices_of
from regard.tasks.core.settings import AnyJob

WANTED = (
    "--vary wants section.key=LOW..HIGH, LOW..HIGH:log or A,B,C, as in train.learning_rate=1e-4..3e-3:log or "
    "model.dropout=0.1,0.3"
)
DIGITS = 4  # of a number that is drawn


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included."""

    key: str
    low: float
    high: float
    log: bool
    whole: bool

    @property
    def ends(self) -> list[str]:
        return [self.text(self.low), self.text(self.high)]

    def text(self, value: float) -> str:
        """As a change of a recipe: of few digits, and within the range."""
        if self.whole:
            return f"{self.key}={int(value)}"
        return f"{self.key}={min(max(float(f'{value:.{DIGITS}g}'), self.low), self.high)!r}"

    def distribution(self) -> Any:
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choices:
    """One of these changes."""

    key: str
    changes: tuple[str, ...]

    @property
    def ends(self) -> list[str]:
        return list(self.changes)

    def text(self, value: str) -> str:
        return f"{self.key}={value}"

    def distribution(self) -> Any:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution([change.partition("=")[2] for change in self.changes])


Varied = Range | Choices


def read_varied(vary: Sequence[str] | Mapping[str, Any], job: AnyJob) -> list[Varied]:
    """In Python also {"train.learning_rate": "1e-4..3e-3:log", "model.dropout": [0.1, 0.3]}."""
    texts = [as_text(key, value) for key, value in vary.items()] if isinstance(vary, Mapping) else list(vary)
    if not texts:
        raise RecipeError(f"a sweep varies something; {WANTED}")
    varied = [read_one(text, job) for text in texts]
    keys = [each.key for each in varied]
    if twice := {key for key in keys if keys.count(key) > 1}:
        raise RecipeError(f"{twice.pop()} is varied twice; give all its values in one --vary")
    return varied


def as_text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return f"{key}={value}"
    if isinstance(value, Sequence) and value:
        return f"{key}={','.join(in_change(each) for each in value)}"
    raise RecipeError(f"{key} is varied by a text like '1e-4..3e-3:log' or a list of values; got {value!r:.80}")


def in_change(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_one(text: str, job: AnyJob) -> Varied:
    key, equals, values = text.partition("=")
    if not equals or not values or "." not in key:
        raise RecipeError(f"{WANTED}; got {text!r}")
    low, dots, rest = values.partition("..")
    if not dots or "," in values or not is_number(low):
        return Choices(key, tuple(choices_of(text)))
    high, colon, way = rest.partition(":")
    if not is_number(high) or (colon and way != "log"):
        raise RecipeError(f"{WANTED}; got {text!r}")
    ends = float(low), float(high)
    if ends[0] >= ends[1] or (way and ends[0] <= 0):
        first = "above 0 and " if way else ""
        raise RecipeError(f"a range goes from a number {first}below its second to that; got {text!r}")
    return Range(key, *ends, log=bool(way), whole=takes_whole_numbers(key, job))


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def takes_whole_numbers(key: str, job: AnyJob) -> bool:
    """Whether the setting is a whole number."""
    section, _, name = key.partition(".")
    parts = {"data": job.data, "train": job.train, "tokens": job.tokens, "decode": job.decode}
    kind = MODELS[job.model].Config if section == "model" else type(parts.get(section))
    kinds = alternatives(types_of(kind).get(name, float))
    return int in kinds and float not in kinds
