"""A task's desk: the class that does its work, imported when it is first needed.

A desk imports torch at the top of its file; this file, which the tables and commands read, does not."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from regard.base.divided import refuse_stream
from regard.base.fields import build
from regard.base.line_writer import line_writer
from regard.base.memory import explain_memory
from regard.base.memory_rows import MemoryRows
from regard.errors import BadInput, RecipeError, RunError
from regard.tasks.core.card import Card, Options
from regard.tasks.core.input_files import InputColumns
from regard.tasks.core.options import check_options
from regard.tasks.core.recipe_files import BY_NAME, files_of_recipe
from regard.tasks.core.results import Answer, Evaluation, Metric, Tick, no_tick
from regard.tasks.core.run import Run

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.learn.loop import Data
    from regard.metrics.bootstrap import Comparison
    from regard.models.protocols import Model, ModelConfig
    from regard.runs.folder import Folder
    from regard.show import Curves, Gates, Sheet
    from regard.tasks.core.settings import DataSettings, Job
    from regard.tasks.shared.stepping import Beginning
    from regard.tasks.shared.writing import Writing

S = TypeVar("S", bound="DataSettings")  # the settings
R = TypeVar("R", bound=Run)  # what a user holds
D = TypeVar("D")  # prepared data to evaluate on
T = TypeVar("T")

Stream = Callable[[str], None]  # gets the pieces of a text as they are written


@dataclass(frozen=True)
class Prepared(Generic[R, D]):
    """All that a training needs beside the model."""

    data: Data[Any]  # the training batches
    run: R  # the model that is being trained, to be evaluated as a user would ask it
    valid: D  # the validation data
    amount: str  # how much there is to learn from, for the README: "40,000 training pairs"


@dataclass(frozen=True)
class Amount:
    """How much there is to learn from, which the size of a model can follow."""

    count: int
    unit: str  # "training pairs"
    side: int = 0  # of the images, in pixels; 0: there are none


class Desk(ABC, Generic[S, R, D]):
    """Does the work of one task. The task's card holds an instance.

    Type parameters: the settings of its data, what a user holds, and the prepared data it is evaluated on. A
    subclass that takes a function as it is writes `survey = staticmethod(survey)`."""

    kind: ClassVar[type[Run]]  # what a user holds; such a run can be asked by this task's command

    def __init__(self, card: Card[Any]):
        self.card = card

    # -- training

    @abstractmethod
    def survey(self, job: Job[S], start: Artifacts | None) -> Artifacts:
        """What the model must know of the training data; `start`: of the run that training begins with."""

    @abstractmethod
    def prepare(self, job: Job[S], model: Model, artifacts: Artifacts, out: Path) -> Prepared[R, D]:
        """The training batches and the validation data. `out`: the run's folder, for data too large for memory."""

    def amount(self, job: Job[S]) -> Amount:
        """Asked where the model's size is left to the data."""
        raise RecipeError(f"model.size=auto is not for a model that is made to {self.card.verb}; name a size")

    def initialise(self, job: Job[S], model: Model, artifacts: Artifacts) -> None:
        """Give weights of a new training other values to begin with."""

    def trained_with(self, config: ModelConfig) -> frozenset[str]:
        """The part of the card's `trains_with` that applies to a model of this configuration."""
        return self.card.trains_with

    def metrics_of(self, config: ModelConfig) -> Mapping[str, Metric]:
        """The metrics that a model of this configuration gives; none: it can only be asked."""
        return self.card.metrics

    def not_trained(self) -> RecipeError:
        """The error for a model that can only be asked."""
        return RecipeError(
            f"a model that can only {self.card.verb} is not trained and has no metrics; to train or evaluate, give "
            "the model another head (model.head)"
        )

    # -- a run

    @abstractmethod
    def artifacts(self, folder: Folder) -> Artifacts:
        """What the folder keeps beside the weights, as far as this task needs it."""

    @abstractmethod
    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> R:
        """The object a user holds."""

    # -- evaluation

    @abstractmethod
    def test_data(self, run: R, settings: S) -> AbstractContextManager[D]:
        """The test data of the settings, prepared for this run."""

    @abstractmethod
    def evaluate(
        self, run: R, data: D, *, only: Sequence[str] = (), options: Options | None = None, tick: Tick = no_tick
    ) -> Evaluation:
        """The one path by which a run is evaluated: in training, by the commands, from Python. `only`: the metrics
        that are wanted, where the others would cost time."""

    def simple_ways(self, job: Job[S], prepared: Prepared[R, D]) -> Mapping[str, float]:
        """What the simplest ways reach on the validation data, by what they are called, in the first metric of the
        card's `chosen_by`. Asked once, after a training; it may take seconds."""
        return {}

    def held_out(self, run: R, data: D, count: int) -> Iterable[Answer]:
        """Answers to the first inputs of the validation data, whose pictures loggers get; none: there is nothing
        to look at."""
        return ()

    def compare(self, first: Evaluation, second: Evaluation) -> list[Comparison]:
        """Is the second better than the first, or could it be luck?"""
        return []

    def check_plot(self, run: R) -> None:
        """NoAttention where this run has nothing that `plot` draws."""

    def plot(self, evaluations: Mapping[str, Evaluation]) -> Curves | Gates | Sheet:
        """A picture of evaluations, by the names of their runs. The card's `plotted` says what it shows."""
        raise RunError(f"there is no picture of how well a run can {self.card.verb}")

    def ticks(self, data: D) -> int | None:
        """How often `evaluate` calls `tick`, where that is known beforehand."""
        return None

    # -- asking

    @abstractmethod
    def ask(
        self, run: R, inputs: Iterable[Any], options: Options, *, tick: Tick = no_tick, stream: Stream | None = None
    ) -> Iterator[Answer]:
        """The answers in the order of the inputs, which `reader` has read. `stream` gets the text of a single
        answer as it is written."""

    def settled(self, run: R, options: Options) -> Options:
        """The options as `reader` and all that follow it take them, made once for a run: those of decoding become
        one `decoding`. BadInput where their values contradict each other."""
        return options

    def writing(self, run: R, item: Any, options: Options) -> Writing | None:
        """The answer to one input, to be written together with others; None: it is not written token by token."""
        return None

    def beginning(self, run: R, item: Any, prefix: list[int], options: Options) -> Beginning:
        """The answer to one input that begins with these tokens, to be continued step by step."""
        raise BadInput(f"`{self.card.verb}` writes no tokens, so there are no steps to go through")

    def streams(self, run: R, options: Options) -> bool:
        """Can the answer to a single input be shown piece by piece while it is written?"""
        return False

    def takes(self, run: Run) -> bool:
        """Can this run be asked by this task's command? Tasks may share a kind of run."""
        return isinstance(run, self.kind)

    def check(self, run: R, *, drawing: bool = False) -> None:
        """RunError where this run cannot be asked; `drawing`: or cannot show where it looked."""

    def files(self, options: Options) -> Sequence[Path]:
        """Files and folders beside the inputs that are read, so that no answer or picture may overwrite them."""
        named = [option.name for option in self.card.options if option.kind is Path and not option.written]
        return [options[name] for name in named if options.get(name)]

    def input_columns(self, run: R, named: str = "") -> InputColumns:
        """Which columns of a file hold the inputs: those that are named, as in "text" or "premise,hypothesis", else
        those of the run's recipe, else those with usual names."""
        kind = self.card.inputs
        names = tuple(named.split(",")) if named else ()
        if not all(names) or len(names) > len(kind.fields):
            most = "two columns" if len(kind.fields) > 1 else "one column"
            raise BadInput(f"--columns names the column of the inputs, {most} at most; got {named!r}")
        data = (run.folder.recipe or {}).get("data") if run.folder else None
        own = [str(data.get(field) or "") for field in kind.fields] if isinstance(data, dict) else []
        return InputColumns(kind.usual, names, tuple(filter(None, own)) if own and own[0] else ())

    def reader(self, run: R, options: Options) -> Callable[[Any], Any]:
        """Reads one input as `ask` takes it, so that it is read only once. BadInput where it cannot be answered."""
        return lambda item: item

    def unanswered(self, run: R, options: Options, text: str | None) -> str:
        """What is printed for an input that cannot be answered, here its text or file name; as many lines as its
        answer would have."""
        return ""

    def written(self, run: R, answer: Answer, output: Path | None, options: Options, as_json: bool) -> Any:
        """What `writer` writes of an answer: plain data, which may come from another process. A Failed comes in
        place of the answer to an input that could not be read."""
        return as_text(answer, as_json)

    def writer(
        self, run: R, output: Path | None, options: Options
    ) -> AbstractContextManager[Callable[[Any], None]]:
        """Where answers go, each as `written` gives it: lines on stdout, or in a file that appears only when it is
        complete."""
        return line_writer(output)

    # -- what follows from the above

    def evaluate_on(
        self,
        run: R,
        data: str | None,
        *,
        columns: str = "",
        options: Options | None = None,
        progress: Callable[[int | None], AbstractContextManager[Tick]] = lambda count: nullcontext(no_tick),
    ) -> Evaluation:
        """Evaluate on a file, or on the test data of the run's recipe. `progress(count)` gives a tick for each unit
        of work, `count` of them where that is known."""
        if not self.metrics_of(run.model.config):
            raise self.not_trained()
        if data is not None:
            refuse_stream(data)
        settings = self.test_settings(run.folder, data, columns=columns, options=options)
        chosen = {name: value for name, value in (options or {}).items() if value is not None}
        counts = [option.flag for option in self.card.evaluate_options if option.kind is int]
        lower = " or ".join([*counts, "the amount of data"])
        with (
            explain_memory(f"evaluating on {settings.test_name}", lower),
            nullcontext() if data is not None else files_of_recipe(settings.test_files),
            self.test_data(run, settings) as prepared,
            progress(self.ticks(prepared)) as tick,
        ):
            return self.evaluate(run, prepared, options=chosen, tick=tick)

    def test_settings(
        self, folder: Folder | None, data: str | None, *, columns: str = "", options: Options | None = None
    ) -> S:
        """The settings of test data: of a file, read as the run's recipe reads its data, else the recipe's own."""
        chosen = {name: value for name, value in (options or {}).items() if value is not None}
        check_options(self.card.evaluate_options, chosen)
        allowed = {option.name for option in self.card.evaluate_options}
        if unknown := sorted(chosen.keys() - allowed):
            raise RunError(
                f"`{self.card.verb}` is not evaluated with {', '.join(unknown)}; {_there_are(sorted(allowed))}"
            )
        fields = self.card.Settings.__dataclass_fields__
        changes: dict[str, object] = {name: value for name, value in chosen.items() if name in fields}
        if columns:
            changes |= self.column_changes(columns)
        if folder is None or folder.recipe is None:
            if data is None:
                raise RunError(f"this run does not say what it was trained on; name data to evaluate on: {BY_NAME}")
            return self.with_columns(
                build(self.card.Settings, {**self.card.Settings.of_test_file(data), **changes}, "data"), columns
            )
        table = folder.recipe.get("data", {})
        if not isinstance(table, dict):
            raise RunError(f"{folder.path}, recipe.toml: data must be a section [data], got {table!r:.80}")
        try:
            settings = build(self.card.Settings, table, "data")
        except RecipeError as error:
            raise RunError(f"{folder.path}, recipe.toml: {error}") from None
        if data is not None:
            changes = {**settings.changes_to_test(data), **changes}
        return self.with_columns(dataclasses.replace(settings, **changes), columns)

    def with_columns(self, settings: S, columns: str) -> S:
        """The settings; BadInput where columns are named of test data that has none."""
        if not columns:
            return settings
        memory = [rows for rows in settings.test_files if isinstance(rows, MemoryRows)]
        if not (all(rows.in_columns for rows in memory) if memory else self.has_columns(settings)):
            raise BadInput(
                f"columns {columns} are named, and there are none in {settings.test_name}; leave them out"
            )
        return settings

    def has_columns(self, settings: S) -> bool:
        """Does the test data have columns that can be chosen?"""
        return bool(settings.test_files)

    def column_changes(self, columns: str) -> dict[str, str]:
        """--columns text,label -> {"text": "text", "label": "label"}: fields of the settings."""
        names = columns.split(",")
        for shape in self.card.columns:
            if len(shape) == len(names) and all(names):
                return {
                    **{key: "" for other in self.card.columns for key in other},
                    **dict(zip(shape, names, strict=True)),
                }
        wanted = " or ".join(",".join(shape).upper() for shape in self.card.columns)
        if not wanted:
            raise BadInput(f"columns are for data in columns, which `{self.card.verb}` does not read")
        raise BadInput(f"columns must be {wanted}, got {columns!r}")


def _there_are(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are no such options"


def as_text(answer: Answer, as_json: bool) -> str:
    return json.dumps(answer.to_dict(), ensure_ascii=False) if as_json else answer.line()


def ticked(answers: Iterable[T], tick: Tick) -> Iterator[T]:
    """The answers, with a tick for each."""
    for answer in answers:
        yield answer
        tick()
