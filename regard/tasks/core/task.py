"""What a task is: the one record that training, evaluation, the command line and a page work from.

Importing this file, or a task's record, does not import torch: `regard --help` answers at once. What a record does
with torch it imports inside its methods."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from regard.base.fields import build
from regard.base.line_writer import line_writer
from regard.errors import BadInput, RecipeError, RunError
from regard.tasks.core.inputs import Inputs
from regard.tasks.core.options import Option, check_options, checks_keywords
from regard.tasks.core.recipe_data import BY_NAME, files_of_recipe
from regard.tasks.core.results import Answer, Evaluation, Metric
from regard.tasks.core.ticks import Tick, no_tick

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.learn.loop import Data, Report
    from regard.metrics.bootstrap import Comparison
    from regard.models.protocols import Model, ModelConfig
    from regard.runs.folder import Folder
    from regard.show import Curves, Gates, Sheet
    from regard.tasks.core.settings import DataSettings, Job
    from regard.tasks.shared.stepping import Beginning
    from regard.tasks.shared.writing import Writing

CLASSES = 10  # that a run's card names

Options = Mapping[str, Any]  # values by the names of a record's options; their types stand there

S = TypeVar("S", bound="DataSettings")  # the settings
R = TypeVar("R", bound="Run")  # what a user holds
D = TypeVar("D")  # prepared data to evaluate on


@dataclass(frozen=True)
class Prepared(Generic[R, D]):
    """All that a training needs beside the model."""

    data: Data[Any]  # the training batches
    run: R  # the model that is being trained, to be evaluated as a user would ask it
    held: D  # the validation data
    amount: str  # how much there is to learn from, for the README: "40,000 training pairs"


class Run:
    """A trained model with all it needs to answer, as `regard.load` gives it. Each task has its own kind."""

    model: Model
    task: Task[Any, Any, Any] | None = None  # None: it was built by hand, not opened
    folder: Folder | None = None
    report: Report | None = None  # how its training ended, if `regard.train` opened it

    def to(self, device: str) -> Self:
        """Move the model to a device, by torch's name for it (cpu, cuda, cuda:1, mps); auto: a GPU if there is one.
        Returns the run itself."""
        from regard.base.device import choose_device

        self.model.to(choose_device(device))
        return self

    def save(self, folder: str | Path) -> None:
        """Write the run with the weights it has now to a new folder, which `regard.load` opens."""
        from regard.runs.writing import save

        _, own = self._opened("save")
        save(own, Path(folder), self.model)

    def export(self, folder: str | Path, *, dtype: str = "float32") -> None:
        """Write a new folder of `transformers` or `timm` with the weights the run has now, as `regard export` does.
        `dtype`: float32, bfloat16 or float16."""
        from regard.runs.writing import export

        task, own = self._opened("export")
        export(own, Path(folder), task.artifacts(own), "decode" in task.sections, dtype=dtype, model=self.model)

    def _opened(self, verb: str) -> tuple[Task[Any, Any, Any], Folder]:
        if self.task is None or self.folder is None:
            raise RunError(f"this object was built by hand; open a run with regard.load to {verb} it")
        return self.task, self.folder

    @checks_keywords
    def evaluate(self, data: str | Path | None = None, *, columns: str = "") -> Evaluation:
        """How good the run is on data it has not seen, as `regard evaluate` says: a file, or without one the test
        data of its recipe. `columns`: as in "text,label"."""
        return self._evaluate(data, columns)

    def _evaluate(self, data: str | Path | None, columns: str, **options: object) -> Evaluation:
        task, _ = self._opened("evaluate")
        if not isinstance(data, str | Path | None):
            raise BadInput(
                "data must be the name of a file to evaluate on, or None for the test data of the run's recipe; "
                f"got {data!r:.40} ({type(data).__name__})"
            )
        return task.evaluate_on(self, None if data is None else str(data), columns=columns, options=options)

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        where = f" from {self.folder.path}" if self.folder else ""
        return f"<{type(self).__name__}: {type(self.model).__name__}, {count:,} parameters{where}>"

    def _repr_html_(self) -> str:
        from regard.show.html_table import html_table

        return html_table(list(self.about().items()), title=type(self).__name__)

    def about(self) -> dict[str, str]:
        """The run in a few lines: its model and paper, how large it is, what it is for, what it reads."""
        count = sum(parameter.numel() for parameter in self.model.parameters())
        found = {"model": type(self.model).__name__, "paper": self.model.paper, "parameters": f"{count:,}"}
        if self.task:
            found["task"] = f"{self.task.verb}: {self.task.summary}"
        if size := getattr(self.model.config, "vocabulary", 0):
            found["vocabulary"] = f"{size:,} tokens"
        if labels := getattr(self.model.config, "labels", ()):
            more = ", ..." if len(labels) > CLASSES else ""
            found["classes"] = f"{len(labels):,}: {', '.join(labels[:CLASSES])}{more}"
        if self.folder:
            found["folder"] = str(self.folder.path)
        return found


# ---- the record


class Task(ABC, Generic[S, R, D]):
    """What a run is for, told in one place. TASKS holds one object of each subclass.

    Type parameters: the settings of its data, what a user holds, and the prepared data it is evaluated on."""

    verb: ClassVar[str]  # the command, and the name in TASKS
    summary: ClassVar[str]  # one line for --help
    help: ClassVar[str] = ""  # the rest of the command's help, with examples
    inputs: ClassVar[Inputs]  # what it is asked with
    options: ClassVar[tuple[Option, ...]] = ()  # of asking
    output: ClassVar[str] = "Write the answers to a file."  # help of --output
    in_words: ClassVar[bool] = True  # its pictures are drawn in words, with --pieces in the model's pieces of words
    shows_gates: ClassVar[bool] = False  # its pictures can be of gates too
    picture: ClassVar[str] = "looks.png"  # the name of an example picture, for the README
    writes: ClassVar[bool] = False  # its answers are written token by token: `writing`, `beginning`
    continues: ClassVar[bool] = False  # its answers go on from the input
    openai: ClassVar[str] = ""  # what it is called in the API of OpenAI: completions, embeddings

    metrics: ClassVar[Mapping[str, Metric]] = {}  # the first one is what `regard compare` tabulates unless told
    validated: ClassVar[tuple[str, ...]] = ()  # the metrics of a validation; "loss" is logged as valid_loss
    unit: ClassVar[str] = "tokens"  # what the loss is a mean over
    evaluate_options: ClassVar[tuple[Option, ...]] = ()  # those that are fields of the settings change these
    plotted: ClassVar[str] = ""  # what `plot` draws: "BLEU by source length"; "": nothing
    plot_suffixes: ClassVar[tuple[str, ...]] = (".svg", ".png")
    columns: ClassVar[tuple[tuple[str, ...], ...]] = ()  # the orders in which --columns may name fields of settings

    sections: ClassVar[tuple[str, ...]] = ()  # sections of a recipe beside data, model and train: tokens, decode
    trains_with: ClassVar[frozenset[str]] = frozenset()  # of the settings in recipe.NOT_FOR_ALL

    def __repr__(self) -> str:
        return f"<task {self.verb}: {self.summary}>"

    # -- training

    @property
    def Settings(self) -> type[S]:
        """The dataclass of a recipe's [data]."""
        raise self.not_trained()

    def survey(self, job: Job[S], start: Artifacts | None) -> Artifacts:
        """What the model must know of the training data; `start`: of the run that training begins with."""
        raise self.not_trained()

    def prepare(self, job: Job[S], model: Model, artifacts: Artifacts, out: Path) -> Prepared[R, D]:
        """The training batches and the validation data. `out`: the run's folder, for data too large for memory."""
        raise self.not_trained()

    def not_trained(self) -> RecipeError:
        """The error for a task, or a head of the model, that is only asked."""
        return RecipeError(
            f"a model that can only {self.verb} is not trained and has no metrics; to train or evaluate, give the "
            "model another head (model.head)"
        )

    # -- a run

    @abstractmethod
    def artifacts(self, folder: Folder) -> Artifacts:
        """What the folder keeps beside the weights, as far as this task needs it."""

    @abstractmethod
    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> R:
        """The object a user holds."""

    # -- evaluation

    def test_data(self, run: R, settings: S) -> AbstractContextManager[D]:
        """The test data of the settings, prepared for this run."""
        raise self.not_trained()

    def evaluate(
        self, run: R, data: D, *, only: Sequence[str] = (), options: Options | None = None, tick: Tick = no_tick
    ) -> Evaluation:
        """The one path by which a run is evaluated: in training, by the commands, from Python. `only`: the metrics
        that are wanted, where the others would cost time."""
        raise self.not_trained()

    def compare(self, first: Evaluation, second: Evaluation) -> list[Comparison]:
        """Is the second better than the first, or could it be luck?"""
        return []

    def check_plot(self, run: R) -> None:
        """NoAttention where this run has nothing that `plot` draws."""

    def plot(self, evaluations: Mapping[str, Evaluation]) -> Curves | Gates | Sheet:
        """A picture of evaluations, by the names of their runs. Only where `plotted` says what it shows."""
        raise RunError(f"there is no picture of how well a run can {self.verb}")

    def ticks(self, data: D) -> int | None:
        """How often `evaluate` calls `tick`, where that is known beforehand."""
        return None

    def trained_with(self, config: ModelConfig) -> frozenset[str]:
        """Of `trains_with`, what is for this model."""
        return self.trains_with

    def given_by(self, config: ModelConfig) -> Mapping[str, Metric]:
        """The metrics that a model of this configuration gives."""
        return self.metrics

    # -- asking

    @abstractmethod
    def ask(
        self,
        run: R,
        inputs: Iterable[Any],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Answer]:
        """The answers in the order of the inputs, each of which may have been read by `reader` before. `stream`
        gets the text of a single answer as it is written."""

    def writing(self, run: R, one: Any, options: Options) -> Writing | None:
        """The answer to one input, to be written together with others; None: it is not written token by token."""
        return None

    def beginning(self, run: R, one: Any, prefix: list[int], options: Options) -> Beginning:
        """The answer to one input that begins with these tokens, to be continued step by step."""
        raise BadInput(f"`{self.verb}` writes no tokens, so there are no steps to go through")

    def streams(self, run: R, options: Options) -> bool:
        """Can the answer to a single input be shown piece by piece while it is written?"""
        return False

    def takes(self, run: Run) -> bool:
        """Can this run be asked by this task's command? Tasks may share a kind of run."""
        return run.task is self

    def check(self, run: R, *, drawing: bool = False) -> None:
        """RunError where this run cannot be asked; `drawing`: or cannot show where it looked."""

    def check_options(
        self, output: Path | None, options: Options, given: Sequence[str], as_json: bool, source: Path | None = None
    ) -> None:
        """BadInput where options contradict each other or cannot be served, before anything is loaded. `given`:
        the inputs among the arguments; `source`: the file that has them instead."""

    def files(self, options: Options) -> Sequence[Path]:
        """Files beside the inputs that are read, so that no answer or picture may overwrite them."""
        return ()

    def reader(self, run: R, options: Options) -> Callable[[Any], Any]:
        """Reads one input as `ask` takes it, so that it is read only once. BadInput where it cannot be answered."""
        return lambda one: one

    def unanswered(self, run: R, options: Options, asked: str | None) -> str:
        """What is printed for an input that cannot be answered; as many lines as its answer would have."""
        return ""

    def writer(
        self, run: R, output: Path | None, options: Options, as_json: bool
    ) -> AbstractContextManager[Callable[[Answer], None]]:
        """Where answers go: lines on stdout, or in a file that appears only when it is complete. A Failed comes in
        place of the answer to an input that could not be read."""
        return write_answers(output, as_json)

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
        if not self.given_by(run.model.config):
            raise self.not_trained()
        settings = self.test_settings(run.folder, data, columns=columns, options=options)
        given = {name: value for name, value in (options or {}).items() if value is not None}
        with (
            nullcontext() if data is not None else files_of_recipe(settings.test_files),
            self.test_data(run, settings) as held,
            progress(self.ticks(held)) as tick,
        ):
            return self.evaluate(run, held, options=given, tick=tick)

    def test_settings(
        self, folder: Folder | None, data: str | None, *, columns: str = "", options: Options | None = None
    ) -> S:
        """The settings of test data: of a file, read as the run's recipe reads its data, else the recipe's own."""
        given = {name: value for name, value in (options or {}).items() if value is not None}
        check_options(self.evaluate_options, given)
        known = {option.name for option in self.evaluate_options}
        if unknown := sorted(given.keys() - known):
            raise RunError(f"`{self.verb}` is not evaluated with {', '.join(unknown)}; {_there_are(sorted(known))}")
        fields = self.Settings.__dataclass_fields__
        changes: dict[str, object] = {name: value for name, value in given.items() if name in fields}
        if columns:
            changes |= self.column_changes(columns)
        if folder is None or folder.recipe is None:
            if data is None:
                raise RunError(f"this run does not say what it was trained on; name data to evaluate on: {BY_NAME}")
            return self.with_columns(build(self.Settings, {**self.reads(data, None), **changes}, "data"), columns)
        table = folder.recipe.get("data", {})
        if not isinstance(table, dict):
            raise RunError(f"{folder.path}, recipe.toml: data must be a section [data], got {table!r:.80}")
        try:
            settings = build(self.Settings, table, "data")
        except RecipeError as error:
            raise RunError(f"{folder.path}, recipe.toml: {error}") from None
        if data is not None:
            changes = {**self.reads(data, settings), **changes}
        return self.with_columns(dataclasses.replace(settings, **changes), columns)

    def with_columns(self, settings: S, columns: str) -> S:
        """The settings; BadInput where columns are named of test data that has none."""
        if columns and not self.has_columns(settings):
            raise BadInput(f"columns {columns} are named, and {settings.test_name} has none; leave them out")
        return settings

    def has_columns(self, settings: S) -> bool:
        """Does the test data have columns that can be chosen?"""
        return bool(settings.test_files)

    def reads(self, data: str, settings: S | None) -> dict[str, object]:
        """The settings, or the changes of those of a recipe, that make a file the test data."""
        return self.Settings.of_test_file(data) if settings is None else settings.changes_to_test(data)

    def column_changes(self, columns: str) -> dict[str, str]:
        """--columns text,label -> {"text": "text", "label": "label"}: fields of the settings."""
        names = columns.split(",")
        for shape in self.columns:
            if len(shape) == len(names) and all(names):
                return {
                    **{key: "" for other in self.columns for key in other},
                    **dict(zip(shape, names, strict=True)),
                }
        wanted = " or ".join(",".join(shape).upper() for shape in self.columns)
        if not wanted:
            raise BadInput(f"columns are for data in columns, which `{self.verb}` does not read")
        raise BadInput(f"columns must be {wanted}, got {columns!r}")


def _there_are(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are no such options"


@contextmanager
def write_answers(output: Path | None, as_json: bool) -> Iterator[Callable[[Answer], None]]:
    with line_writer(output) as write:
        yield lambda one: write(json.dumps(one.to_dict(), ensure_ascii=False) if as_json else one.line())
