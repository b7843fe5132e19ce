"""Few-shot: the class of an image, from a few examples of each class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from regard.errors import BadInput
from regard.tasks.core.inputs import Queries
from regard.tasks.core.options import TOP, Option
from regard.tasks.core.results import Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Task
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.shared.received import SUPPORT as RECEIVED_SUPPORT

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.data.images.episodes import EpisodeData
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.tasks.core.settings import Job
    from regard.tasks.fewshot.run import FewShot, Told
    from regard.tasks.fewshot.settings import EpisodeSettings
    from regard.tasks.shared.image_run import OpenedImage

SUPPORT = Option(
    "support",
    str,
    "The examples: a folder with a folder of images for each class, an .npz or .parquet file; or CLASS=FILE, once "
    "for each image.",
    metavar="DIR",
    many=True,
    received=RECEIVED_SUPPORT,
)


class FewShotTask(Task["EpisodeSettings", "FewShot", "EpisodeData"]):
    verb = "fewshot"
    summary = "Tell the class of images from a few examples, and which of these the model looked at."
    help = """
        regard fewshot runs/mine --support examples --query image.png --show looks.png

        regard fewshot runs/mine --support examples --query images --top 3 --output labels.tsv

        regard fewshot runs/mine --support cat=a.png --support dog=b.png image.png

    A line for each: file TAB label TAB probability. For a file that cannot be read these two are empty (see
    --strict). --show draws the image beside the examples with the share of attention that each had, in the first
    look; with --sites in others."""
    inputs = Queries()
    options = (SUPPORT, replace(TOP, default=1))
    in_words = False
    metrics: ClassVar = {"accuracy": Metric("max"), "loss": Metric("min", 4)}
    validated = ("loss", "accuracy")
    unit = "queries"
    evaluate_options = (
        Option("test_episodes", int, "How many episodes to draw.", min=1, metavar="N", flags="--episodes"),
    )
    columns = (("image", "label"),)
    trains_with = frozenset({"label_smoothing", "capture"})

    @property
    def Settings(self) -> type[EpisodeSettings]:
        from regard.tasks.fewshot.settings import EpisodeSettings

        return EpisodeSettings

    def survey(self, job: Job[EpisodeSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.fewshot.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[EpisodeSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[FewShot, EpisodeData]:
        from regard.tasks.fewshot.prepare import prepare

        return prepare(job, model, artifacts, out)

    def artifacts(self, folder: Folder) -> Artifacts:
        from regard.data.artifacts import Artifacts

        return Artifacts(pixels=folder.pixels(), image_size=getattr(folder.config, "size", None))

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> FewShot:
        from regard.tasks.fewshot.run import FewShot

        assert artifacts.pixels is not None
        return FewShot(model, artifacts.pixels)

    @contextmanager
    def test_data(self, run: FewShot, settings: EpisodeSettings) -> Iterator[EpisodeData]:
        from regard.tasks.fewshot.prepare import test_data

        yield test_data(settings, run)

    def reads(self, data: str, settings: EpisodeSettings | None) -> dict[str, object]:
        """The lists of classes are those of the recipe's own files."""
        changes = super().reads(data, settings)
        return changes if settings is None else {**changes, "test_classes": ""}

    def test_files(self, settings: EpisodeSettings) -> tuple[str, ...]:
        if settings.made:
            return ()
        return (settings.test or (settings.train if settings.test_classes else settings.valid) or settings.train,)

    def has_own_test(self, settings: EpisodeSettings) -> bool:
        return bool(settings.made or settings.test or settings.test_classes)

    def test_name(self, settings: EpisodeSettings) -> str:
        if settings.made:
            return f"episodes from {settings.test_count:,} classes of {settings.made}"
        return super().test_name(settings) + (f" ({settings.test_classes})" if settings.test_classes else "")

    def has_columns(self, settings: EpisodeSettings) -> bool:
        """A folder has none."""
        from regard.base.files import find_data

        return not settings.made and not any(find_data(name).is_dir() for name in self.test_files(settings))

    def evaluate(
        self,
        run: FewShot,
        data: EpisodeData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.fewshot.evaluate import evaluate

        return evaluate(run, data, only, tick)

    def ticks(self, data: EpisodeData) -> int | None:
        return len(data.order(0))

    def check_options(
        self, output: Path | None, options: Options, given: Sequence[str], as_json: bool, source: Path | None = None
    ) -> None:
        if not options.get("support"):
            raise BadInput("give examples of each class with --support: a folder with a folder for each class")

    def files(self, options: Options) -> Sequence[Path]:
        named = [Path(one.partition("=")[2] or one) for one in options["support"]]
        return [file for one in named for file in (one.rglob("*") if one.is_dir() else [one])]

    def reader(self, run: FewShot, options: Options) -> Callable[[Path], OpenedImage]:
        return run.open

    def unanswered(self, run: FewShot, options: Options, asked: str | None) -> str:
        return f"{asked or ''}\t\t"  # the file, without label and probability

    def ask(
        self,
        run: FewShot,
        inputs: Iterable[OpenedImage],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Told]:
        for one in run.answers(inputs, run.learn(options["support"]), options.get("top") or 1):
            yield one
            tick()
