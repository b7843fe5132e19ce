"""A task's card: what it is called, what it is asked with, by which metrics it is measured. Data, and no torch: so
`regard --help`, recipes, completion and the description of a served run answer at once.

What does the work is the desk (`desk.py`), which is imported when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from regard.tasks.core.inputs import InputKind, check_there
from regard.tasks.core.options import Option
from regard.tasks.core.results import Metric

K = TypeVar("K")  # the desk

Options = Mapping[str, Any]  # values by the names of a card's options; their types are those of the options


@dataclass(frozen=True)
class TaskRequest:
    """What a command or a request to a server gives, before anything is loaded."""

    options: Options
    inputs: Sequence[Any] = ()  # among the arguments
    input_file: Path | None = None  # that has the inputs instead
    output: Path | None = None
    as_json: bool = False


def allow(request: TaskRequest) -> None:
    """No options of the task contradict each other."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Card(Generic[K]):
    """What a run is for, told in one place. TASKS holds the card of each task.

    `desk_name` and `settings_name` are written as `package.module:Class`."""

    verb: str  # the command, and the name in TASKS
    summary: str  # one line for --help
    help: str = ""  # the rest of the command's help, with examples
    desk_name: str
    settings_name: str  # the dataclass of a recipe's [data]

    inputs: InputKind  # what it is asked with
    options: tuple[Option, ...] = ()  # of asking
    check_request: Callable[[TaskRequest], None] = allow  # BadInput where options contradict each other
    output: str = "Write the answers to a file."  # help of --output
    in_words: bool = True  # its pictures are drawn in words, with --pieces in the model's pieces of words
    shows_gates: bool = False  # its pictures can be of gates too
    picture: str = "looks.png"  # the name of an example picture, for the README
    writes: bool = False  # its answers are written token by token: `Desk.writing`, `Desk.beginning`
    continues: bool = False  # its answers continue the input
    hub_task: str = ""  # what the Hugging Face Hub calls it: translation
    openai: str = ""  # what it is called in the API of OpenAI: completions, embeddings

    metrics: Mapping[str, Metric]  # `regard compare` tabulates the first by default
    validated: tuple[str, ...]  # the metrics of a validation; "loss" is logged as valid_loss
    # Of these, what chooses the best weights and stops early unless a recipe says otherwise; each next one breaks
    # ties. (): the first.
    best_by: tuple[str, ...] = ()
    unit: str = "tokens"  # what the loss is a mean over
    evaluate_options: tuple[Option, ...] = ()  # those that are fields of the settings change these
    plotted: str = ""  # what `Desk.plot` draws: "BLEU by source length"; "": nothing
    plot_suffixes: tuple[str, ...] = (".svg", ".png")
    columns: tuple[tuple[str, ...], ...] = ()  # the orders in which --columns may name fields of the settings

    sections: tuple[str, ...] = ()  # sections of a recipe beside data, model and train: tokens, decode
    trains_with: frozenset[str] = frozenset()  # of the settings in recipe.NOT_FOR_ALL

    def __repr__(self) -> str:
        return f"<task {self.verb}: {self.summary}>"

    def check_there(self, text: Any, what: str = "the text") -> None:
        """BadInput where a text that is asked for has nothing in it. One that is continued may be empty."""
        if not (self.continues or self.inputs.may_be_drawn):
            check_there(text, self.verb, what)

    @property
    def chosen_by(self) -> tuple[str, ...]:
        """The metrics by which the best weights are chosen, the first one first."""
        return self.best_by or self.validated[:1]

    @cached_property
    def desk(self) -> K:
        """What does the task's work. The first call imports torch."""
        desk: K = resolve_name(self.desk_name)(self)
        return desk

    @cached_property
    def Settings(self) -> Any:
        """The frozen dataclass of a recipe's [data]; imports no torch."""
        return resolve_name(self.settings_name)
