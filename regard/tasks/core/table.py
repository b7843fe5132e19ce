"""The table of all tasks, by their cards, and opening a run by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import BadInput, RunError
from regard.runs.engine_names import check_engine, is_plain
from regard.tasks.ask.card import ask_card
from regard.tasks.caption.card import caption_card
from regard.tasks.classify.card import classify_card
from regard.tasks.core.card import Card
from regard.tasks.core.desk import Desk
from regard.tasks.core.run import Run
from regard.tasks.embed.card import embed_card
from regard.tasks.fewshot.card import fewshot_card
from regard.tasks.fill.card import fill_card
from regard.tasks.follows.card import follows_card
from regard.tasks.generate.card import generate_card
from regard.tasks.play.card import play_card
from regard.tasks.recall.card import recall_card
from regard.tasks.recognise.card import recognise_card
from regard.tasks.translate.card import translate_card

if TYPE_CHECKING:
    from torch import nn

    from regard.models.protocols import Model
    from regard.runs.folder import Folder

AnyTask = Card[Desk[Any, Any, Any]]
TASKS: dict[str, AnyTask] = {  # by their verbs
    "translate": translate_card,
    "generate": generate_card,
    "fill": fill_card,
    "follows": follows_card,
    "ask": ask_card,
    "embed": embed_card,
    "classify": classify_card,
    "recognise": recognise_card,
    "caption": caption_card,
    "fewshot": fewshot_card,
    "play": play_card,
    "recall": recall_card,
}
R = TypeVar("R", bound=Run)


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


def load(run: str | Path, device: str = "auto", *, engine: str = "torch", dtype: str = "float32") -> Run:
    """A run, opened on a device: whatever `Folder` finds. `engine`: what computes its answers, `dtype`: in which
    numbers; see `runs.engine_names`."""
    from torch import nn

    from regard.base.device import choose_device
    from regard.layers.packed import keep_freed_memory, pack_products
    from regard.runs.folder import Folder

    check_engine(engine, dtype)
    plain = is_plain(engine, dtype)
    place = choose_device("cpu" if device == "auto" and not plain else device)
    opened = _opened(Folder(run), lambda folder: folder.model().to(place))
    keep_freed_memory()
    if plain:
        assert isinstance(opened.model, nn.Module)
        pack_products(opened.model)
    else:
        from regard.runs.engines import take_engine

        assert opened.folder is not None
        assert opened.task is not None
        take_engine(opened.folder, opened.model, opened.task.desk.artifacts(opened.folder), engine, dtype)
    return opened


def outline(run: str | Path) -> Run:
    """A run without its weights: what it is for, what it reads and its modules, on the meta device."""
    from regard.runs.folder import Folder

    return _opened(Folder(run), lambda folder: folder.outline())


def _opened(folder: Folder, read: Callable[[Folder], Model]) -> Run:
    task = task_for(folder)
    artifacts = task.desk.artifacts(folder)  # small files first: a fault there is found before the weights are read
    if "decode" in task.sections:
        folder.decoding()
    opened: Run = task.desk.open(folder, read(folder), artifacts)
    opened.task, opened.folder = task, folder
    return opened


def tasks_for(opened: Run) -> list[AnyTask]:
    """The tasks that a run can be asked for, first the task it was trained for."""
    own = [opened.task] if opened.task else []
    return own + [task for task in TASKS.values() if task is not opened.task and _can(task, opened)]


def load_as(run: str | Path, kind: type[R], verb: str) -> R:
    """A run of this kind, the only kind that can be asked to `verb`."""
    opened = load(run)
    if not isinstance(opened, kind):
        raise cannot(run, opened, verb)
    return opened


def load_for(
    run: str | Path, task: AnyTask, device: str = "auto", *, engine: str = "torch", dtype: str = "float32"
) -> Run:
    """A run that can be asked by this task's command."""
    opened = load(run, device, engine=engine, dtype=dtype)
    if not task.desk.takes(opened):
        raise cannot(run, opened, task.verb)
    return opened


def cannot(run: str | Path, opened: Run, verb: str) -> RunError:
    verbs = [f"`regard {name}`" for name, task in TASKS.items() if _can(task, opened)]
    use = f"for {' or '.join(verbs)} and not" if verbs else "not"
    return RunError(f"{run} has the model {type(opened.model).__name__}, {use} for `regard {verb}`")


def _can(task: AnyTask, opened: Run) -> bool:
    """Some commands need a head as well, which an encoder may lack."""
    if not task.desk.takes(opened):
        return False
    try:
        task.desk.check(opened)
    except RunError:
        return False
    return True
