"""Runs evaluated side by side on the same data, as `regard evaluate` prints them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.base.files import is_stream
from regard.base.overwriting import refuse_overwriting
from regard.errors import DataError, RunError
from regard.learn.progress import say
from regard.metrics.bootstrap import Comparison
from regard.runs.engine_names import FLOAT32, TORCH, check_engine, is_plain
from regard.runs.folder import Folder, find, own_files
from regard.show.html_table import html_table
from regard.tasks.core.card import Options
from regard.tasks.core.results import Evaluation, Tick
from regard.tasks.core.table import AnyTask, load, task_for
from regard.tasks.shared.measuring import aligned, number


@dataclass(frozen=True)
class SideBySide:
    """Evaluations by the names of their runs; those after the first may be compared with it."""

    task: AnyTask
    data: str  # what all were evaluated on
    evaluations: dict[str, Evaluation]
    against_first: dict[str, list[Comparison]]

    def to_data(self) -> dict[str, object] | list[dict[str, object]]:
        """One run: its numbers. Several: a list of them, each but the first with its comparison to the first."""
        rows: list[dict[str, object]] = []
        for run, evaluation in self.evaluations.items():
            against = {
                each.metric: {"difference": each.difference, "interval": each.interval, "p": each.p}
                for each in self.against_first.get(run, [])
            }
            compared = {"against_first": against} if against else {}
            rows.append({"run": run, "data": self.data, **evaluation.to_dict(), **compared})
        return rows[0] if len(rows) == 1 else rows

    def text(self) -> str:
        """A column for each run; below it their notes, which are told apart where they differ, the comparisons of
        several, and what they were evaluated on."""
        table, below = self._parts()
        return "\n\n".join([aligned(table), *below])

    def __repr__(self) -> str:
        return f"<SideBySide: {', '.join(self.evaluations)} on {self.data}>"

    def _repr_html_(self) -> str:
        table, below = self._parts()
        return html_table(table, header=len(self.evaluations) > 1, notes="\n\n".join(below))

    def _parts(self) -> tuple[list[list[str]], list[str]]:
        """The rows of the table, and the texts below it."""
        lines = [["run", *self.evaluations]] if len(self.evaluations) > 1 else []
        every = list(self.evaluations.values())
        lines += [[key, *(number(each.counts.get(key, "")) for each in every)] for key in every[0].counts]
        for name, metric in self.task.metrics.items():
            if any(name in each.metrics for each in every):
                lines.append([name, *(number(each.metrics.get(name, ""), metric.digits) for each in every)])
        for row in dict.fromkeys(row for each in every for row in each.rows):
            lines.append([row, *(number(each.rows.get(row, ""), 2) for each in every)])
        common = [note for note in every[0].notes if all(note in each.notes for each in every)]
        own = [
            f"{run}:\n{note}"
            for run, evaluation in self.evaluations.items()
            for note in evaluation.notes
            if note not in common
        ]
        comparisons = [self._comparison(run) for run in self.against_first]
        return lines, [*common, *own, *comparisons, f"evaluated on {self.data}"]

    def _comparison(self, run: str) -> str:
        first = next(iter(self.evaluations))
        lines = [f"{run} against {first}, paired bootstrap of 1,000 test sets:"]
        for test in self.against_first[run]:
            low, high = test.interval
            lines.append(
                f"  {test.metric}: {test.difference:+.2f}, 95 % within {low:+.2f} to {high:+.2f}, p = {test.p:.3f}"
            )
        return "\n".join(lines)


def task_of_runs(runs: list[str]) -> AnyTask:
    """The task of all of them; a mixture is refused, and so is a run that is named twice."""
    if twice := {run for run in runs if runs.count(run) > 1}:
        raise RunError(f"{', '.join(sorted(twice))} is named twice; a run needs no comparison with itself")
    tasks = {run: task_for(Folder(run)) for run in runs}
    if len({task.verb for task in tasks.values()}) > 1:
        named = ", ".join(f"{run} ({task.verb})" for run, task in tasks.items())
        raise RunError(f"runs of different tasks cannot be evaluated on the same data: {named}")
    return next(iter(tasks.values()))


def check_data(task: AnyTask, runs: list[str], data: str | None, columns: str, options: Options) -> str:
    """Before anything is evaluated: every run has data to be tested on, and all of them the same. Returns what it
    is called; files that only a recipe names are told first."""
    if data is not None and len(runs) > 1 and is_stream(Path(data)):
        raise DataError(f"{data} can be read only once, and there are {len(runs)} runs; save it to a file first")
    tested: dict[str, str] = {}
    for run in runs:
        try:
            settings = task.desk.test_settings(Folder(run), data, columns=columns, options=options)
        except RunError as error:
            raise RunError(f"{run}: {error}") from None
        tested[run] = settings.test_name
    first, *others = runs
    named = bool(settings.test_files)
    for run in others:
        if data is None and tested[run] != tested[first]:
            raise RunError(
                f"{run} would be tested on {tested[run]} and {first} on {tested[first]}; name data for both: "
                "--data FILE"
            )
    if data is None and named:
        say(f"evaluating on {tested[first]}, as the recipe says")
    return tested[first] if data is None else data


def ways(run: str, engine: str, dtype: str) -> dict[str, dict[str, str]]:
    """How a run is evaluated, by the name of the column: as it is, and beside it so computed."""
    check_engine(engine, dtype)
    if is_plain(engine, dtype):
        return {run: {}}
    return {run: {"device": "cpu"}, f"{run} ({engine} {dtype})": {"engine": engine, "dtype": dtype}}


def evaluate_runs(
    runs: list[str],
    data: str | None,
    *,
    columns: str = "",
    options: Options,
    picture: Path | None = None,
    engine: str = TORCH,
    dtype: str = FLOAT32,
    progress: Callable[[str, int | None], AbstractContextManager[Tick]],
) -> SideBySide:
    """`picture`: the file it will be drawn to. Before anything is evaluated, a run without anything to draw is
    refused, and a picture that would overwrite what is read. `progress(run, count)` gives a tick for each unit of
    work, `count` of them where that is known. With another engine or dtype, each run is evaluated beside itself."""
    task = task_of_runs(runs)
    tested = check_data(task, runs, data, columns, options)
    if picture:
        settings = [task.desk.test_settings(Folder(run), data, columns=columns, options=options) for run in runs]
        read = [file for each in settings for file in each.files()]
        refuse_overwriting([*read, *(file for run in runs for file in own_files(find(run)))], [picture])
    evaluations: dict[str, Evaluation] = {}
    for run in runs:
        for name, how in ways(run, engine, dtype).items():
            show, opened = partial(progress, name), load(run, **how)
            if picture:
                task.desk.check_plot(opened)
            evaluations[name] = task.desk.evaluate_on(opened, data, columns=columns, options=options, progress=show)
    first, *others = evaluations
    tests = {run: task.desk.compare(evaluations[first], evaluations[run]) for run in others}
    return SideBySide(task, tested, evaluations, {run: test for run, test in tests.items() if test})
