"""The table of all tasks, and opening a run by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import BadInput, RunError
from regard.tasks.caption.record import CaptionTask
from regard.tasks.classify.record import Classify
from regard.tasks.core.task import Run, Task
from regard.tasks.embed.record import Embed
from regard.tasks.fewshot.record import FewShotTask
from regard.tasks.fill.record import Fill
from regard.tasks.generate.record import Generate
from regard.tasks.play.record import Play
from regard.tasks.recall.record import Recall
from regard.tasks.recognise.record import Recognise
from regard.tasks.translate.record import Translate

if TYPE_CHECKING:
    from torch import nn

    from regard.models.protocols import Model
    from regard.runs.folder import Folder

AnyTask = Task[Any, Any, Any]
TASKS: dict[str, AnyTask] = {  # by their verbs
    "translate": Translate(),
    "generate": Generate(),
    "fill": Fill(),
    "embed": Embed(),
    "classify": Classify(),
    "recognise": Recognise(),
    "caption": CaptionTask(),
    "fewshot": FewShotTask(),
    "play": Play(),
    "recall": Recall(),
}
Kind = TypeVar("Kind", bound=Run)


def task_for(folder: Folder) -> AnyTask:
    """What the run in a folder is for."""
    from regard.models import task_of

    return TASKS[task_of(folder.name, folder.config)]


def task_named(verb: str) -> AnyTask:
    if verb not in TASKS:
        raise BadInput(f"task must be one of {', '.join(TASKS)}, got {verb!r}")
    return TASKS[verb]


def load_model(run: str | Path, device: str = "cpu") -> nn.Module:
    """The module of a run, in eval mode; whatever `Folder` finds, with or without a tokenizer."""
    from torch import nn

    from regard.base.device import choose_device
    from regard.runs.folder import Folder

    place = choose_device(device)
    model = Folder(run).model()
    assert isinstance(model, nn.Module)
    return model.to(place)


def load(run: str | Path, device: str = "auto") -> Run:
    """A run, opened on a device: whatever `Folder` finds."""
    from regard.base.device import choose_device
    from regard.runs.folder import Folder

    place = choose_device(device)
    return _opened(Folder(run), lambda folder: folder.model().to(place))


def outline(run: str | Path) -> Run:
    """A run without its weights: what it is for, what it reads and its modules, on the meta device."""
    from regard.runs.folder import Folder

    return _opened(Folder(run), lambda folder: folder.outline())


def _opened(folder: Folder, read: Callable[[Folder], Model]) -> Run:
    task = task_for(folder)
    artifacts = task.artifacts(folder)  # small files first: a fault there is found before the weights are read
    if "decode" in task.sections:
        folder.decoding()
    opened: Run = task.open(folder, read(folder), artifacts)
    opened.task, opened.folder = task, folder
    return opened


def tasks_for(opened: Run) -> list[AnyTask]:
    """The tasks that a run can be asked for, the one it was trained for first."""
    own = [opened.task] if opened.task else []
    return own + [task for task in TASKS.values() if task is not opened.task and _can(task, opened)]


def load_as(run: str | Path, kind: type[Kind], verb: str) -> Kind:
    """The same where only one kind of run will do: the one that is asked to `verb`."""
    opened = load(run)
    if not isinstance(opened, kind):
        raise cannot(run, opened, verb)
    return opened


def load_for(run: str | Path, task: AnyTask, device: str = "auto") -> Run:
    """A run that can be asked by this task's command."""
    opened = load(run, device)
    if not task.takes(opened):
        raise cannot(run, opened, task.verb)
    return opened


def cannot(run: str | Path, opened: Run, verb: str) -> RunError:
    verbs = [f"`regard {name}`" for name, task in TASKS.items() if _can(task, opened)]
    use = f"for {' or '.join(verbs)} and not" if verbs else "not"
    return RunError(f"{run} has the model {type(opened.model).__name__}, {use} for `regard {verb}`")


def _can(task: AnyTask, opened: Run) -> bool:
    """Some commands need a head as well, which an encoder may lack."""
    if not task.takes(opened):
        return False
    try:
        task.check(opened)
    except RunError:
        return False
    return True
