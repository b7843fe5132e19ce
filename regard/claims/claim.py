"""A claim is one row of claims.toml: the commands that gave a number, where and when, and the interval in which it
should lie when somebody runs them again. No torch here, so that the list and --help answer at once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from regard.base.fields import build, check, nearest, read_toml, setting
from regard.errors import BadInput, RecipeError

CLAIMS = Path(__file__).parent / "claims.toml"
BENCHMARK = "python -m benchmarks "  # so begins the command of a speed
SEED, OUT = "{seed}", "{out}"  # in a command: one of the claim's seeds, and the folder where its runs go


@dataclass(frozen=True)
class Claim:
    """One row. The commands are those of a shell with {seed} and {out} in some words: trainings, each with
    --out {out}/NAME as its last words, and last of all one evaluation. Claims that name the same run share it. The
    claim of a speed has one command, `python -m benchmarks ROW`, in a checkout of the project."""

    what: str  # the claim in a line, without its value
    commands: tuple[str, ...]  # as a user types them, in their order
    # of `regard evaluate --json`: NAME, PART.NAME, `100 - NAME`, or `NAME / NAME`; of a benchmark
    # CASE.CONTENDER.COLUMN
    metric: str
    value: float  # the mean of the seeds, or the share of them that learn, as the page tells it
    low: float  # where the value of another seed, or of another machine, should lie
    high: float
    hardware: str
    date: str  # of the measurement: 2026-11-15
    page: str  # the page of results/ that tells it
    said: str  # how the page says it: a part of it that has the value
    unit: str = setting("", choices=("", "%"))
    seeds: tuple[int, ...] = (0,)
    values: tuple[float, ...] = ()  # one for each seed, where the page has them
    # a seed has learned if its metric is below this, and the value is the share that has; 0: the mean counts
    learned_below: float = setting(0.0, at_least=0)
    minutes: float = setting(0.0, at_least=0)  # of one seed on that hardware; 0: not measured
    published: str = ""  # the value of others, and whose it is
    needs: str = ""  # what has to be made first, beside public data under $REGARD_DATA

    def __post_init__(self) -> None:
        check(self)
        try:
            date.fromisoformat(self.date)
        except ValueError:
            raise BadInput(f"date must be a day, as 2026-11-15, got {self.date!r}") from None
        if not self.low <= self.value <= self.high:
            raise BadInput(f"value must lie in low to high, {self.low} to {self.high}, got {self.value}")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise BadInput(f"seeds must be one or more, each once, got {list(self.seeds)}")
        self._check_values()
        self._check_commands()

    def _check_values(self) -> None:
        if not self.values:
            return
        if self.learned_below:
            raise BadInput("the share of seeds that learn has no values of its own")
        if len(self.values) != len(self.seeds):
            raise BadInput(f"values must be one for each of {len(self.seeds)} seeds, got {len(self.values)}")
        if abs(mean(self.values) - self.value) > 10**-self.digits:
            raise BadInput(f"value must be the mean of values, {mean(self.values):.4g}, got {self.value}")

    def _check_commands(self) -> None:
        if self.commands[:1] and self.commands[0].startswith(BENCHMARK):
            if len(self.commands) > 1 or len(self.seeds) > 1:
                raise BadInput(f"`{BENCHMARK}ROW` must be the only command, without seeds")
            return
        *trainings, evaluation = self._words() or [[]]
        if evaluation[:2] != ["regard", "evaluate"] or len(evaluation) < 3:
            raise BadInput(f"the last command must be an evaluation, `regard evaluate RUN`, got {evaluation}")
        runs = [words[-1] for words in trainings]
        for words in trainings:
            if words[:2] != ["regard", "train"] or words[-2] != "--out" or not words[-1].startswith(f"{OUT}/"):
                raise BadInput(
                    f"a command before the last must be `regard train ... --out {OUT}/NAME`, got {words}"
                )
        for word in (word for words in (*trainings, evaluation) for word in words if word.startswith(OUT)):
            if word not in runs:
                raise BadInput(f"{word} is trained by none of the commands")
        if len(self.seeds) > 1 and not any(SEED in word for words in trainings for word in words):
            raise BadInput("several seeds need a training with {seed}")

    def _words(self) -> list[list[str]]:
        try:
            return [shlex.split(command) for command in self.commands]
        except ValueError as error:
            raise BadInput(f"commands must be words as in a shell: {error}") from None

    @property
    def trains(self) -> bool:
        return len(self.commands) > 1

    @property
    def is_speed(self) -> bool:
        """Measured by a benchmark."""
        return self.commands[0].startswith(BENCHMARK)

    @property
    def digits(self) -> int:
        """After the point, as told: those of the finest number of the row, as TOML does not know 9.70 from 9.7."""
        numbers = (self.value, *self.values, self.low, self.high)
        return max(len(repr(number).partition(".")[2]) for number in numbers)

    def steps(self, seed: int, out: Path) -> list[list[str]]:
        """The words of each command after `regard`, with this seed and this folder. Words are parted first, so
        that nothing in a path is read as anything but a path."""
        return [
            [word.replace(SEED, str(seed)).replace(OUT, str(out)) for word in words[1:]] for words in self._words()
        ]

    def plain(self, value: float) -> str:
        """As the page writes it: with the digits of the recorded value."""
        return f"{value:,.{self.digits}f}"

    def number(self, value: float) -> str:
        """As `plain`, with its unit."""
        return f"{self.plain(value)} {self.unit}".rstrip()

    def over(self, values: Sequence[float]) -> float:
        """The claim's value, from that of each seed."""
        if not self.learned_below:
            return mean(values)
        return 100 * sum(value < self.learned_below for value in values) / len(values)

    @property
    def recorded(self) -> str:
        """The value and where it is from, in one line."""
        kind = "share" if self.learned_below else "mean"
        seeds = f"{kind} of {len(self.seeds)} seeds, " if len(self.seeds) > 1 else ""
        return f"{self.number(self.value)}: {seeds}{self.hardware}, {self.date}"

    def measured(self, evaluation: Mapping[str, Any]) -> float:
        """The value in what `regard evaluate --json`, or a benchmark, gave."""
        before, minus, name = self.metric.rpartition(" - ")
        upper, over, lower = name.partition(" / ")
        value = _of(evaluation, upper) / (_of(evaluation, lower) if over else 1)
        return float(before) - value if minus else value


def _of(evaluation: Mapping[str, Any], name: str) -> float:
    found: Any = evaluation
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise BadInput(f"the evaluation has no {name}; it has {', '.join(evaluation)}")
        found = found[part]
    return float(found)


@cache
def claims() -> dict[str, Claim]:
    """Every claim by its name, in the order of the file."""
    return read_claims(CLAIMS)


def read_claims(path: Path) -> dict[str, Claim]:
    """RecipeError names the row and what is wrong in it. TOML itself refuses a name that comes twice."""
    return {name: build(Claim, row, name) for name, row in read_toml(path).items()}


def find_claims(names: Sequence[str]) -> dict[str, Claim]:
    every = claims()
    for name in names:
        if name not in every:
            raise RecipeError(
                f"there is no claim {name!r}{nearest(name, every)}; `regard reproduce --list` lists them"
            )
    return {name: every[name] for name in names}
