"""After a training: is the model better than the simplest ways to do the same?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from regard.learn.loop import Report
from regard.learn.progress import say
from regard.tasks.core.desk import Prepared
from regard.tasks.core.recipe_files import logged
from regard.tasks.core.settings import AnyJob
from regard.tasks.core.table import AnyTask

WHICH = "docs/data.md says which recipe suits which data, and what it reaches"


def tell_if_below(job: AnyJob, task: AnyTask, prepared: Prepared[Any, Any], report: Report) -> None:
    """One line, where a simple way is better on the same validation data."""
    name = task.chosen_by[0]
    reached = (report.best or {}).get(logged(name))
    if reached is None:
        return
    sign, digits = (1 if task.metrics[name].better == "max" else -1), task.metrics[name].digits
    ways = task.desk.simple_ways(job, prepared)
    above = [f"{way} {value:.{digits}f}" for way, value in ways.items() if sign * value > sign * reached]
    if above:
        say(f"This run loses to simpler ways: {name} {reached:.{digits}f}, {', '.join(above)}. {WHICH}")


def majority(train: Sequence[Any], test: Sequence[Any]) -> dict[str, float]:
    """How often the most frequent class of the training data is right, in percent."""
    label, _ = Counter(train).most_common(1)[0]
    return {f"always {str(label)[:40]!r}": 100 * sum(each == label for each in test) / len(test)}
