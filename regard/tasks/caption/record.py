"""Caption: an image in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import BadInput
from regard.tasks.core.inputs import Images
from regard.tasks.core.options import BEAM, CAPTION, Option, change_decoding
from regard.tasks.core.results import Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Task
from regard.tasks.core.ticks import Tick, no_tick

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.metrics.bootstrap import Comparison
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.show import Sheet
    from regard.tasks.caption.prepare import TestCaptions
    from regard.tasks.caption.run import Caption, Captioner
    from regard.tasks.caption.settings import CaptionSettings
    from regard.tasks.core.settings import Job
    from regard.tasks.shared.image_run import OpenedImage
    from regard.tasks.shared.stepping import Beginning
    from regard.tasks.shared.writing import Writing


class CaptionTask(Task["CaptionSettings", "Captioner", "TestCaptions"]):
    verb = "caption"
    summary = "Say what is in images, and show where each word looked."
    help = """
        regard caption runs/mine photo.jpg --show looks.png

        regard caption runs/mine photos --beam 5 --output captions.tsv

        regard caption runs/mine --input list.txt --json

    A line for each: file TAB caption, and with --n-best lines file TAB score TAB caption, where the score is log p.
    For a file that cannot be read the caption is empty (see --strict). --show draws the image once for each word,
    with the attention over it and the word's gate. Without attention, or with --sites cell, it draws the gates of
    the LSTM; with --sites 'eye.*' how far each channel was opened in the network that reads the image."""
    writes = True
    shows_gates = True
    inputs = Images()
    options = CAPTION
    metrics: ClassVar = {
        "cider": Metric("max"),
        "exact_match": Metric("max"),
        "bleu1": Metric("max"),
        "bleu2": Metric("max"),
        "bleu3": Metric("max"),
        "bleu4": Metric("max"),
        "rouge_l": Metric("max"),
        "pointing": Metric("max"),  # where the objects in the images are known
        "pointing_near": Metric("max"),
        "perplexity": Metric("min", 4),
        "loss": Metric("min", 4),
    }
    validated = ("loss", "exact_match", "bleu4", "cider")
    unit = "tokens"
    evaluate_options = (
        BEAM,
        Option("images", str, "Captions: the folder or .zip that the images of --data are in.", metavar="PATH"),
    )
    plotted = "captions ranked by CIDEr"
    plot_suffixes = (".png", ".svg", ".html")
    columns = (("image", "caption"),)
    sections = ("tokens", "decode")
    trains_with = frozenset({"label_smoothing", "r_drop", "capture", "reinforce_reward", "reinforce_baseline"})

    @property
    def Settings(self) -> type[CaptionSettings]:
        from regard.tasks.caption.settings import CaptionSettings

        return CaptionSettings

    def survey(self, job: Job[CaptionSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.caption.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[CaptionSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Captioner, TestCaptions]:
        from regard.tasks.caption.prepare import prepare

        return prepare(job, model, artifacts, out)

    def artifacts(self, folder: Folder) -> Artifacts:
        from regard.data.artifacts import Artifacts

        size = getattr(folder.config, "size", None)
        return Artifacts(folder.tokenizer(), pixels=folder.pixels(), image_size=size)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Captioner:
        from regard.tasks.caption.run import Captioner

        assert artifacts.pixels is not None
        return Captioner(model, artifacts.text, artifacts.pixels, folder.decoding())

    @contextmanager
    def test_data(self, run: Captioner, settings: CaptionSettings) -> Iterator[TestCaptions]:
        from regard.tasks.caption.prepare import test_captions

        yield test_captions(settings, run)

    def test_settings(
        self, folder: Folder | None, data: str | None, *, columns: str = "", options: Options | None = None
    ) -> CaptionSettings:
        settings = super().test_settings(folder, data, columns=columns, options=options)
        if settings.made and settings.images:
            raise BadInput(
                f"images {settings.images} are named, and {settings.made} is generated; name captions too"
            )
        return settings

    def reads(self, data: str, settings: CaptionSettings | None) -> dict[str, object]:
        """Other captions have other images."""
        if settings is None:
            return super().reads(data, settings)
        return {**super().reads(data, settings), "test_names": "", "images": ""}

    def test_files(self, settings: CaptionSettings) -> tuple[str, ...]:
        if settings.made:
            return ()
        file, names = settings.file_of("test")
        return tuple(name for name in (file or settings.train, names) if name)

    def has_own_test(self, settings: CaptionSettings) -> bool:
        return bool(settings.made or settings.test or settings.test_names)

    def evaluate(
        self,
        run: Captioner,
        data: TestCaptions,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.caption.evaluate import evaluate

        beam = {"beam": (options or {}).get("beam")}
        return evaluate(run, data, only, change_decoding(run.decode, beam), tick)

    def compare(self, first: Evaluation, second: Evaluation) -> list[Comparison]:
        from regard.tasks.caption.evaluate import compare

        return compare(first, second)

    def plot(self, evaluations: Mapping[str, Evaluation]) -> Sheet:
        from regard.tasks.caption.evaluate import plot

        return plot(evaluations)

    def ticks(self, data: TestCaptions) -> int:
        return len(data.asked)

    def reader(self, run: Captioner, options: Options) -> Callable[[Path], OpenedImage]:
        return run.open

    def unanswered(self, run: Captioner, options: Options, asked: str | None) -> str:
        """The file, without a caption."""
        count = run.decoding(options).n_best
        line = f"{asked or ''}\t"
        return line if count == 1 else "\n".join([f"{line}\t"] * count)

    def writing(self, run: Captioner, one: Any, options: Options) -> Writing | None:
        return run.writing(one, run.decoding(options))

    def beginning(self, run: Captioner, one: Any, prefix: list[int], options: Options) -> Beginning:
        return run.beginning(one, prefix, run.decoding(options))

    def ask(
        self,
        run: Captioner,
        inputs: Iterable[OpenedImage],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Caption]:
        return run.answers(inputs, run.decoding(options), tick=tick)
