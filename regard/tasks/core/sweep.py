"""A sweep: trainings of one recipe whose settings are proposed by optuna, judged by their validations; those that
fall behind are ended early. Trainings run in processes of their own, and are watched by what they write to their
log.jsonl; this process alone writes to the study."""

from __future__ import annotations

import io
import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.base.files import open_to_append, write_file
from regard.errors import BadInput, Diverged, Interrupted, OutOfMemory, RecipeError, RunError
from regard.learn.checkpoint import checkpoints
from regard.learn.lock import locked
from regard.learn.progress import say
from regard.runs.folder import find
from regard.show.trials import Trials
from regard.tasks.core.at_once import run_at_once
from regard.tasks.core.recipe import read
from regard.tasks.core.recipe_files import logged
from regard.tasks.core.results import Metric
from regard.tasks.core.run_log import RunLog
from regard.tasks.core.settings import AnyJob
from regard.tasks.core.table import TASKS
from regard.tasks.core.training import train
from regard.tasks.core.vary import Range, Varied, read_varied

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import Trial as Proposed

STUDY, BEGUN, TABLE, PICTURE = "study.jsonl", "sweep.json", "table.md", "sweep.svg"
FIRST = 4  # trials that nothing is compared with: before them none is ended early
DONE, PRUNED, FAILED, LEFT = "done", "ended early", "failed", "not finished"
LOST = (Diverged, OutOfMemory, RecipeError)  # errors of these settings, and not of the whole sweep


@dataclass(frozen=True)
class Trial:
    """One training of a sweep."""

    number: int
    changes: tuple[str, ...]  # section.key=value
    value: float | None  # of its best validation; None: it had none
    step: int  # of its last validation
    state: str  # done, ended early, failed, not finished
    folder: Path


@dataclass(frozen=True)
class Sweep:
    """What a sweep has found."""

    trials: tuple[Trial, ...]  # the best first
    by: str
    better: str  # min or max
    folder: Path
    recipe: str
    base: tuple[str, ...]  # what all trials change
    log: tuple[str, ...] = ()  # the settings that were drawn by their logarithm

    @property
    def best(self) -> Trial:
        """Whose folder is a run: `regard.load(sweep.best.folder)`."""
        if self.trials[0].state != DONE:
            raise RunError(f"no trial of {self.folder} was finished")
        return self.trials[0]

    def table(self) -> str:
        keys = [change.partition("=")[0] for change in self.trials[0].changes]
        head = ["trial", *keys, self.by, "steps", "state"]
        lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        for trial in self.trials:
            value = "" if trial.value is None else f"{trial.value:.4f}"
            cells = [str(trial.number), *(change.partition("=")[2] for change in trial.changes), value]
            lines.append(f"| {' | '.join([*cells, f'{trial.step:,}', trial.state])} |")
        notes = [f"{self.by} of the best validation; {'lower' if self.better == 'min' else 'higher'} is better"]
        if self.trials[0].state == DONE:
            words = [word for change in (*self.base, *self.best.changes) for word in ("--set", change)]
            notes.append(f"the best: `{shlex.join(['regard', 'train', self.recipe, *words])}`")
        return "\n".join([*lines, *(line for note in notes for line in ("", note)), ""])

    def picture(self) -> Trials:
        """The value of each trial over each setting that was varied."""
        rows = [trial for trial in self.trials if trial.value is not None]
        settings = {
            key: [dict(change.split("=", 1) for change in trial.changes)[key] for trial in rows]
            for key in (change.partition("=")[0] for change in self.trials[0].changes)
        }
        done = [trial.state == DONE for trial in rows]
        values = [trial.value or 0.0 for trial in rows]
        return Trials(settings, values, done, self.by, title=f"sweep of {self.recipe}", log=self.log)

    def __repr__(self) -> str:
        return f"<Sweep of {self.recipe}: {len(self.trials)} trials by {self.by}, in {self.folder}>"

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def sweep(
    recipe: str,
    vary: Sequence[str] | Mapping[str, Any],
    changes: Sequence[str],
    *,
    trials: int,
    at_once: int,
    by: str | None,
    out: Path,
    start: str | None = None,
    prune: bool = True,
) -> Sweep:
    """Train `trials` times; what is in the folder of the same sweep counts. Its table and picture are written to
    `out` too."""
    if find_spec("optuna") is None:
        raise BadInput("a sweep needs optuna: pip install 'regard[sweep]'")
    begin = None if start is None else find(start)
    job, text = read(recipe, changes, begin)
    by, metric = measure(job, by)
    base = [*changes, f"train.best_by={by}"]
    varied = read_varied(vary, job)
    for each in varied:
        for change in each.ends:  # a mistake stops here, before training
            read(recipe, [*base, change], begin)
    with locked(out):
        check_begun(out, {"recipe": text, "vary": sorted(end for each in varied for end in each.ends), "by": by,
                          "start": str(begin or "")})  # fmt: skip
        work = Sweeping(recipe, base, varied, by, metric, out, at_once, begin, prune)
        work.run(trials)
        log = tuple(each.key for each in varied if isinstance(each, Range) and each.log)
        found = Sweep(work.results(), by, metric.better, out, recipe, tuple(changes), log)
        write_file(out / TABLE, found.table().encode())
        if any(trial.value is not None for trial in found.trials):
            found.picture().save(out / PICTURE)
    return found


def measure(job: AnyJob, by: str | None) -> tuple[str, Metric]:
    """A metric of validations by its name in log.jsonl."""
    task = TASKS[job.task]
    known = task.desk.metrics_of(job.config)
    there = {logged(name): known[name] for name in task.validated if name in known}
    name = logged(task.chosen_by[0] if by is None else by)
    if name not in there:
        raise RecipeError(f"--by must be one of {', '.join(there)}, got {by!r}")
    return name, there[name]


def check_begun(out: Path, now: dict[str, Any]) -> None:
    """The trials of a folder are all of the same sweep; only how many, and how many at once, may change."""
    file = out / BEGUN
    if not file.is_file():
        write_file(file, json.dumps(now, indent=1).encode())
        return
    try:
        then = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{file} is damaged ({error}); take another --out") from None
    if other := [key for key in now if then.get(key) != now[key]]:
        raise RecipeError(
            f"{out} holds another sweep, with another {' and '.join(other)}; give the same command to go on, or "
            "take another --out"
        )


class Sweeping:
    """The study and the trainings that run."""

    def __init__(
        self,
        recipe: str,
        base: list[str],
        varied: list[Varied],
        by: str,
        metric: Metric,
        out: Path,
        at_once: int,
        start: Path | None,
        prune: bool,
    ) -> None:
        self.recipe, self.base, self.varied, self.by, self.metric = recipe, base, varied, by, metric
        self.out, self.at_once, self.start, self.prune = out, at_once, start, prune
        self.study = open_study(out / STUDY, metric.better)
        self.running: dict[int, Proposed] = {}
        self.logs: dict[int, RunLog] = {}
        self.reported: dict[int, Collection[int]] = {}  # validations of trials that go on, which the study has
        self.ended: set[int] = set()  # those that were told to end early
        self.told = 0

    def run(self, trials: int) -> None:
        run_at_once(train_trial, self.proposals(trials), self.at_once, self.tell, self.look)

    def proposals(self, trials: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """First those that were not finished; then new ones, each proposed when a process is free for it."""
        import optuna
        from optuna.trial import TrialState

        left = [each for each in self.study.trials if each.state == TrialState.RUNNING]
        for frozen in left:
            self.reported[frozen.number] = frozen.intermediate_values
            yield self.begin(optuna.Trial(self.study, frozen._trial_id))
        while (number := len(self.study.trials)) < trials:
            # A sampler of its own for each: what is proposed does not depend on when a sweep was stopped.
            self.study.sampler = optuna.samplers.TPESampler(
                seed=number, multivariate=True, constant_liar=self.at_once > 1
            )
            yield self.begin(self.study.ask({each.key: each.distribution() for each in self.varied}))

    def begin(self, proposed: Proposed) -> tuple[int, tuple[Any, ...]]:
        self.running[proposed.number] = proposed
        changes = [*self.base, *self.changes(proposed.params)]
        call = (
            self.recipe,
            changes,
            self.folder(proposed.number),
            self.by,
            self.at_once,
            self.start,
        )
        return proposed.number, call

    def changes(self, params: Mapping[str, Any]) -> list[str]:
        return [each.text(params[each.key]) for each in self.varied if each.key in params]

    def folder(self, number: int) -> Path:
        return self.out / f"trial-{number:03d}"

    def tell(self, number: int, result: float | BaseException) -> None:
        from optuna.trial import TrialState

        self.look()  # at its last validations
        proposed = self.running.pop(number)
        said = " ".join(self.changes(proposed.params))
        if isinstance(result, Interrupted) and number in self.ended:
            self.study.tell(proposed, state=TrialState.PRUNED)
            said += "  ended early"
        elif isinstance(result, LOST):
            self.study.tell(proposed, state=TrialState.FAIL)
            said += f"  failed: {result}"
        elif isinstance(result, BaseException):
            raise result
        else:
            self.study.tell(proposed, result)
            said += f"  {self.by} {result:.{self.metric.digits}f}"
        say(f"trial {number}  {said}")

    def look(self) -> list[int]:
        """The trials that are to end: their validations are worse than the median of the others at that step."""
        for number, proposed in self.running.items():
            for step, value in self.new_points(number):
                if step not in self.reported.get(number, ()):
                    proposed.report(value, step)
                if self.prune and proposed.should_prune():
                    self.ended.add(number)
        return [number for number in self.running if number in self.ended]

    def new_points(self, number: int) -> list[tuple[int, float]]:
        folder = self.folder(number)
        if not (folder / "log.jsonl").is_file():
            return []
        log = self.logs.setdefault(number, RunLog(folder))
        before = len(log.series.get(self.by, []))
        log.more()
        return log.series.get(self.by, [])[before:]

    def results(self) -> tuple[Trial, ...]:
        from optuna.trial import TrialState

        names = {TrialState.COMPLETE: DONE, TrialState.PRUNED: PRUNED, TrialState.FAIL: FAILED}
        best = min if self.metric.better == "min" else max
        found = []
        for each in self.study.trials:
            points = each.intermediate_values
            value = each.value if each.state == TrialState.COMPLETE else best(points.values(), default=None)
            changes = tuple(self.changes(each.params))
            state = names.get(each.state, LEFT)
            found.append(
                Trial(each.number, changes, value, max(points, default=0), state, self.folder(each.number))
            )
        sign = 1 if self.metric.better == "min" else -1
        order = [DONE, PRUNED, LEFT, FAILED]
        return tuple(sorted(found, key=lambda trial: (order.index(trial.state), sign * (trial.value or 0.0))))


def open_study(path: Path, better: str) -> Study:
    """A journal: lines of JSON that are only added to."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = JournalStorage(JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path))))
    return optuna.create_study(
        study_name="sweep",
        storage=storage,
        direction="minimize" if better == "min" else "maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=FIRST),
        load_if_exists=True,
    )


def train_trial(recipe: str, changes: list[str], folder: Path, by: str, at_once: int, start: Path | None) -> float:
    """One training, in a process of its own; it goes on where it was stopped. The value of its best validation."""
    job, text = read(recipe, changes, start)
    if at_once > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // at_once))
    folder.mkdir(parents=True, exist_ok=True)
    words = ["regard", "train", recipe, *(["--from", str(start)] if start else [])]
    command = shlex.join([*words, *(word for change in changes for word in ("--set", change))])
    with io.TextIOWrapper(open_to_append(folder / "progress.txt"), "utf-8") as file, redirect_stderr(file):
        if parent_process() is not None:
            os.dup2(file.fileno(), 2)  # also of what is written when a signal comes
        report = train(job, folder, recipe=text, command=command, resume=bool(checkpoints(folder)), start=start)
    if report.best is None or by not in report.best:
        raise Diverged(f"no validation of {folder} gave a finite {by}")
    return report.best[by]
