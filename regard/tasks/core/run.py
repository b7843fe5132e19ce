"""A trained model with all it needs to answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from regard.base.arguments import check_argument, checked
from regard.base.memory_rows import rows_of
from regard.base.short_repr import printable
from regard.errors import NoAttention, RunError
from regard.tasks.core.card import Card
from regard.tasks.core.options import checks_keywords
from regard.tasks.core.results import Evaluation

if TYPE_CHECKING:
    from regard.learn.loop import Report
    from regard.models.protocols import Model
    from regard.runs.folder import Folder

Data = str | Path | Iterable[Any]  # a file, or rows in memory: dicts or tuples, a data frame, a dataset
CLASSES = 10  # that `about` names


class Run:
    """A trained model with all it needs to answer, as `regard.load` gives it. Each task has its own kind."""

    model: Model
    task: Card[Any] | None = None  # None: it was built by hand, not opened
    folder: Folder | None = None
    report: Report | None = None  # how its training ended, if `regard.train` opened it

    @property
    def at_once(self) -> int:
        """How many inputs are read before they are answered: a file is divided among processes by so many."""
        return 1

    @checked
    def to(self, device: str) -> Self:
        """Move the model to a device, by torch's name for it (cpu, cuda, cuda:1, mps); auto: a GPU if there is one.
        Returns the run itself."""
        from regard.base.device import choose_device

        self.model.to(choose_device(device))
        return self

    @checked
    def save(self, folder: str | Path) -> None:
        """Write the run with the weights it has now to a new folder, which `regard.load` opens."""
        from regard.runs.writing import save

        _, own = self._opened("save")
        save(own, Path(folder), self.model)

    @checked
    def export(self, folder: str | Path, *, dtype: str = "float32", format: str = "library") -> None:
        """Write a new folder of `transformers` or `timm` with the weights the run has now, as `regard export` does;
        with `format` "ctranslate2" one of CTranslate2, with "onnx" a graph for onnxruntime. `dtype`: float32,
        bfloat16, float16, and int8 for CTranslate2; a graph has float32."""
        from regard.runs.formats import Export, export

        task, own = self._opened("export")
        what = Export(own, task.desk.artifacts(own), "decode" in task.sections, dtype, self.model)
        export(what, Path(folder), format)

    def _opened(self, verb: str) -> tuple[Card[Any], Folder]:
        if self.task is None or self.folder is None:
            raise RunError(f"this object was built by hand; open a run with regard.load to {verb} it")
        return self.task, self.folder

    @checks_keywords
    def evaluate(self, data: Data | None = None, *, columns: str = "") -> Evaluation:
        """How good the run is on data it has not seen, as `regard evaluate` says: a file or rows in memory, without
        either the test data of its recipe. `columns`: as in "text,label"."""
        return self._evaluate(data, columns)

    def _evaluate(self, data: Data | None, columns: str, **options: object) -> Evaluation:
        task, _ = self._opened("evaluate")
        if isinstance(data, str | Path):
            check_argument("data", data, str | Path)
            file: str | None = str(data)
        else:
            file = None if data is None else rows_of(data, "data")
        evaluation: Evaluation = task.desk.evaluate_on(self, file, columns=columns, options=options)
        return evaluation

    def look_over(self, text: str, sites: Sequence[str] = ()) -> Any:
        """Where the model looks while it reads a text, in one pass: every head of the named sites (none: all), with
        a row for each token that looks."""
        verb = self.task.verb if self.task else "ask"
        raise NoAttention(
            f"this run is not looked at while it reads a text; `regard {verb} RUN ... --show FILE` draws"
        )

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        where = f" from {printable(str(self.folder.path))}" if self.folder else ""
        return f"<{type(self).__name__}: {self._system}, {count:,} parameters{where}>"

    @property
    def _system(self) -> str:
        """The class of the model; of one of transformers, its class there."""
        name: str = getattr(self.model.config, "architecture", type(self.model).__name__)
        return name

    def _repr_html_(self) -> str:
        from regard.show.html_table import html_table

        return html_table(list(self.about().items()), title=type(self).__name__)

    @checked
    def about(self) -> dict[str, str]:
        """The run in a few lines: its model and paper, how large it is, what it is for, what it reads."""
        count = sum(parameter.numel() for parameter in self.model.parameters())
        lines = {"model": self._system, "paper": self.model.paper, "parameters": f"{count:,}"}
        if self.task:
            lines["task"] = f"{self.task.verb}: {self.task.summary}"
        if size := getattr(self.model.config, "vocabulary", 0):
            lines["vocabulary"] = f"{size:,} tokens"
        if labels := getattr(self.model.config, "labels", ()):
            more = ", ..." if len(labels) > CLASSES else ""
            lines["classes"] = f"{len(labels):,}: {', '.join(labels[:CLASSES])}{more}"
        if self.folder:
            lines["folder"] = str(self.folder.path)
        return lines
