"""What a captioner does: trained, opened, evaluated, asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from regard.data.artifacts import Artifacts
from regard.errors import BadInput
from regard.models.protocols import Model
from regard.runs.folder import Folder
from regard.tasks.caption.evaluate import compare, evaluate, plot
from regard.tasks.caption.prepare import TestCaptions, prepare, survey, test_captions
from regard.tasks.caption.run import Caption, Captioner
from regard.tasks.caption.settings import CaptionSettings
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream
from regard.tasks.core.options import CAPTION
from regard.tasks.core.results import Tick, no_tick
from regard.tasks.shared.image_desk import ImageDesk
from regard.tasks.shared.image_run import OpenedImage
from regard.tasks.shared.writing_desk import WritingDesk


class CaptionDesk(
    WritingDesk[CaptionSettings, Captioner, TestCaptions], ImageDesk[CaptionSettings, Captioner, TestCaptions]
):
    kind = Captioner
    decodes_with = CAPTION
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)
    evaluate = staticmethod(evaluate)
    compare = staticmethod(compare)
    plot = staticmethod(plot)

    # -- a run

    def artifacts(self, folder: Folder) -> Artifacts:
        return replace(super().artifacts(folder), tokenizer=folder.tokenizer())

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Captioner:
        assert artifacts.pixels is not None
        return Captioner(model, artifacts.text, artifacts.pixels, folder.decoding())

    # -- evaluation

    @contextmanager
    def test_data(self, run: Captioner, settings: CaptionSettings) -> Iterator[TestCaptions]:
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

    def has_columns(self, settings: CaptionSettings) -> bool:
        return bool(settings.test_files)

    def held_out(self, run: Captioner, data: TestCaptions, count: int) -> list[Caption]:
        run.check_looks()
        return run.caption([data.subset.images.read(row) for row in range(min(count, len(data.subset)))])

    def ticks(self, data: TestCaptions) -> int:
        return len(data.subset)

    # -- asking

    def unanswered(self, run: Captioner, options: Options, text: str | None) -> str:
        """The file, without a caption."""
        count = options["decoding"].n_best
        line = f"{text or ''}\t"
        return line if count == 1 else "\n".join([f"{line}\t"] * count)

    def ask(
        self,
        run: Captioner,
        inputs: Iterable[OpenedImage],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Caption]:
        return run.answers(inputs, options["decoding"], tick=tick)
