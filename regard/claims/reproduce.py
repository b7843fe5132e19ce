"""Run the commands of a claim again, one after another: a training beside another would slow both down.

Each command is a program of its own, `python -m regard ...`, so that one seed leaves nothing in the memory of a GPU
for the next."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from regard.base.files import find_aligned, parse_json, write_file
from regard.base.programs import program_of
from regard.claims.claim import OUT, Claim
from regard.claims.plan import TRAINED
from regard.errors import DataError, RunError
from regard.runs.folder import RECIPE, Folder
from regard.tasks.core.recipe import read
from regard.tasks.core.settings import AnyJob
from regard.tasks.core.table import task_for

PROGRAMS = {"regard": ["regard"], "benchmarks": ["python", "-m", "benchmarks"]}  # a module -> as a user types it
QUICK = 10  # steps of a training that only shows that the commands work
CHECKOUT = Path(__file__).parents[2]  # with benchmarks/, unless only the package is installed
Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a claim's commands."""

    name: str
    claim: Claim
    values: dict[int, float]  # by seed; none of a speed that was only tried at a tiny size
    quick: bool = False  # the trainings were cut short, so that the value says nothing

    @property
    def value(self) -> float | None:
        return self.claim.over([*self.values.values()]) if self.values else None

    @property
    def holds(self) -> bool | None:
        """Whether the value, as it is told, lies in the claim's interval; None: it is not judged."""
        if self.quick or self.value is None:
            return None
        return self.claim.low <= round(self.value, self.claim.digits) <= self.claim.high

    def text(self) -> str:
        claim = self.claim
        if self.value is None:
            return f"{self.name}: the command works at a tiny size, which is not judged"
        seeds = f" (seeds {', '.join(map(claim.plain, self.values.values()))})" if len(self.values) > 1 else ""
        metric = f"{claim.metric} below {claim.learned_below:g} in" if claim.learned_below else claim.metric
        found = f"{self.name}: {metric} {claim.number(self.value)}{seeds}"
        if self.quick:
            return f"{found} after {QUICK} steps: the commands work, and the value is not judged"
        lies = "lies in" if self.holds else "does NOT lie in"
        return f"{found} {lies} {claim.low:g} to {claim.high:g} (recorded {claim.recorded})"

    def to_dict(self) -> dict[str, object]:
        values = {str(seed): value for seed, value in self.values.items()}
        judged = {"low": self.claim.low, "high": self.claim.high, "holds": self.holds}
        return {"claim": self.name, "metric": self.claim.metric, "value": self.value, "seeds": values, **judged,
                "recorded": self.claim.value}  # fmt: skip


class Work:
    """The commands of claims, run in one folder. What is trained there is not trained again, and claims that need
    the same evaluation share it."""

    def __init__(self, out: Path, say: Say, *, quick: bool = False) -> None:
        self.out, self.say, self.quick = out, say, quick
        self.evaluations: dict[tuple[str, ...], Mapping[str, Any]] = {}  # by their words

    def reproduce(self, name: str, claim: Claim, seeds: Sequence[int]) -> Outcome:
        """The claim's value with each of these seeds."""
        if claim.is_speed:
            return self._measure(name, claim)
        if claim.needs:
            self.say(f"{name} needs what is made by: {claim.needs}")
        values: dict[int, float] = {}
        for number, seed in enumerate(seeds, 1):
            self.say(
                f"{name}: {claim.what}" + (f", seed {seed} ({number} of {len(seeds)})" if claim.trains else "")
            )
            *trainings, evaluation = claim.steps(seed, self.out)
            for words in trainings:
                self._train(cut_short(words) if self.quick else words)
            values[seed] = claim.measured(self._evaluate(evaluation))
        return Outcome(name, claim, values, self.quick and claim.trains)

    def _measure(self, name: str, claim: Claim) -> Outcome:
        self.say(f"{name}: {claim.what}")
        words = [*shlex.split(claim.commands[0])[3:], *["--quick"][: self.quick], "--json", "-"]
        if tuple(words) not in self.evaluations:
            self.say(f"$ {claim.commands[0]}")
            self.evaluations[tuple(words)] = by_case(parse_json(run_program(words, "benchmarks"))["rows"])
        values = {} if self.quick else {0: claim.measured(self.evaluations[tuple(words)])}
        return Outcome(name, claim, values, self.quick)

    def _train(self, words: list[str]) -> None:
        folder = Path(words[-1])
        if _is_trained(words, folder):
            self.say(f"{folder} is trained")
            return
        self.say(f"$ {_shown(words)}")
        run_program([*words, "--resume"] if (folder / RECIPE).is_file() else words)
        write_file(folder / TRAINED, f"{_shown(words)}\n".encode())

    def _evaluate(self, words: list[str]) -> Mapping[str, Any]:
        if tuple(words) not in self.evaluations:
            self.say(f"$ {_shown(words)}")
            self.evaluations[tuple(words)] = parse_json(run_program([*words, "--json"]))
        return self.evaluations[tuple(words)]


def by_case(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The lines of benchmarks by their case and contender."""
    found: dict[str, dict[str, Any]] = {}
    for line in (line for row in rows for line in row["lines"]):
        found.setdefault(line["case"], {})[line["contender"]] = line
    return found


def check_data(name: str, claim: Claim) -> None:
    """DataError, which says what to set or to make, if data of a command is missing: before hours of work."""
    if claim.is_speed:
        if not (CHECKOUT / "benchmarks").is_dir():
            raise DataError(f"{name}: speeds are measured in a checkout of regard (pip install -e .)")
        return
    try:
        for word in _data_of(claim):
            find_aligned(word)
    except DataError as error:
        made = f"; it is made by: {claim.needs}" if claim.needs else ""
        raise DataError(f"{name}: {error}{made}") from None


def _data_of(claim: Claim) -> Iterator[str]:
    """The data that the commands name, in their words and by their recipes."""
    *trainings, evaluation = claim.steps(claim.seeds[0], Path(OUT))
    for words in trainings:
        yield from (start for start in _options(words, "--from") if not start.startswith(OUT))
        data = _job(words, None)[0].data
        yield from data.test_files
        data.sources()  # finds what is trained on
    if "--data" in evaluation:
        yield from _options(evaluation, "--data")
    elif not trainings:
        run = Folder(evaluation[1])
        yield from task_for(run).desk.test_settings(run, None, columns="", options={}).test_files


def cut_short(training: list[str]) -> list[str]:
    """A training of a few steps; --out stays the last option."""
    few = [word for name in ("steps", "eval_every") for word in ("--set", f"train.{name}={QUICK}")]
    return [*training[:-2], *few, *training[-2:]]


def _is_trained(words: list[str], folder: Path) -> bool:
    """Whether this very training, by the recipe as it is today, has come to its end in the folder."""
    if not (folder / TRAINED).is_file() or not (folder / RECIPE).is_file():
        return False
    start = next((Path(name) for name in _options(words, "--from")), None)
    return (folder / RECIPE).read_text(encoding="utf-8") == _job(words, start)[1]


def _job(words: list[str], start: Path | None) -> tuple[AnyJob, str]:
    return read(words[1], list(_options(words, "--set")), start)


def _options(words: list[str], flag: str) -> Iterator[str]:
    return (value for option, value in pairwise(words) if option == flag)


def _shown(words: list[str]) -> str:
    return shlex.join([*PROGRAMS["regard"], *words])


def run_program(words: list[str], module: str = "regard") -> bytes:
    """What the command prints on stdout; its progress and errors go to our stderr. It ends with us: on Ctrl-C and
    SIGTERM a training saves a checkpoint, from which the same command goes on."""
    command, environment = program_of(module)
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, env=environment) as process:
        try:
            printed, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()  # `with` would not, on Ctrl-C
            raise
    if process.returncode:
        shown = shlex.join([*PROGRAMS[module], *words])
        raise RunError(f"`{shown}` failed with exit code {process.returncode}; its message stands above")
    return printed


def as_json_text(outcomes: Sequence[Outcome]) -> str:
    """One outcome, or the list of several."""
    rows = [outcome.to_dict() for outcome in outcomes]
    return json.dumps(rows[0] if len(rows) == 1 else rows)
