"""Recognise: the class of an image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from regard.tasks.core.inputs import Images
from regard.tasks.core.options import TOP
from regard.tasks.core.results import CLASS_METRICS, Evaluation
from regard.tasks.core.task import Options, Prepared, Task
from regard.tasks.core.ticks import Tick, no_tick

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.data.images.image_batches import ImageData
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.show import Gates
    from regard.tasks.core.settings import Job
    from regard.tasks.recognise.run import Recognised, Recogniser
    from regard.tasks.recognise.settings import ImageSettings
    from regard.tasks.shared.image_run import OpenedImage


class Recognise(Task["ImageSettings", "Recogniser", "ImageData"]):
    verb = "recognise"
    summary = "Tell what is in images, and where the model looked or which channels it opened."
    help = """
        regard recognise shapes image.png --show overlay.png

        regard recognise runs/mine photos --top 3 --output labels.tsv

    A line for each: file TAB label TAB probability. For a file that cannot be read these two are empty (see
    --strict). --show draws attention over the image: rolled out through all layers, or with --sites every head. Of
    a model that weighs channels, it draws how far each of them was opened in every block."""
    inputs = Images()
    shows_gates = True
    options = (replace(TOP, default=1),)
    in_words = False
    metrics: ClassVar = CLASS_METRICS
    validated = ("loss", "accuracy")
    unit = "images"
    plotted = "mean gates of each class, of models that weigh channels"
    plot_suffixes = (".svg", ".png", ".html")
    columns = (("image", "label"),)
    trains_with = frozenset({"label_smoothing", "capture"})

    @property
    def Settings(self) -> type[ImageSettings]:
        from regard.tasks.recognise.settings import ImageSettings

        return ImageSettings

    def survey(self, job: Job[ImageSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.recognise.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[ImageSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Recogniser, ImageData]:
        from regard.tasks.recognise.prepare import prepare

        return prepare(job, model, artifacts, out)

    def artifacts(self, folder: Folder) -> Artifacts:
        from regard.data.artifacts import Artifacts

        labels: tuple[str, ...] = getattr(folder.config, "labels", ())
        size = getattr(folder.config, "size", None)
        return Artifacts(labels=labels, pixels=folder.pixels(), image_size=size)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Recogniser:
        from regard.tasks.recognise.run import Recogniser

        assert artifacts.pixels is not None
        return Recogniser(model, artifacts.pixels)

    @contextmanager
    def test_data(self, run: Recogniser, settings: ImageSettings) -> Iterator[ImageData]:
        from regard.tasks.recognise.prepare import build_data

        yield build_data(settings, "test", run, device=run.device)

    def has_columns(self, settings: ImageSettings) -> bool:
        """A folder has none."""
        from regard.base.files import find_data

        return not settings.made and not any(find_data(name).is_dir() for name in self.test_files(settings))

    def evaluate(
        self,
        run: Recogniser,
        data: ImageData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.recognise.evaluate import evaluate

        return evaluate(run, data, only, tick)

    def check_plot(self, run: Recogniser) -> None:
        from regard.tasks.shared.search import need_gates

        need_gates(run.model)

    def plot(self, evaluations: Mapping[str, Evaluation]) -> Gates:
        from regard.tasks.recognise.evaluate import plot

        return plot(evaluations)

    def check(self, run: Recogniser, *, drawing: bool = False) -> None:
        run.check_model()
        if drawing:
            run.check_looks()

    def reader(self, run: Recogniser, options: Options) -> Callable[[Path], OpenedImage]:
        return run.open

    def unanswered(self, run: Recogniser, options: Options, asked: str | None) -> str:
        return f"{asked or ''}\t\t"  # the file, without label and probability

    def ask(
        self,
        run: Recogniser,
        inputs: Iterable[OpenedImage],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Recognised]:
        for one in run.answers(inputs, options.get("top") or 1):
            yield one
            tick()
