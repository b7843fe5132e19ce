"""Generate: continue a text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.tasks.core.inputs import Texts
from regard.tasks.core.options import GENERATE, Option
from regard.tasks.core.results import Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Task
from regard.tasks.core.ticks import Tick, no_tick

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.decode.settings import Decoding
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.tasks.core.settings import Job
    from regard.tasks.generate.continuation import Continuation
    from regard.tasks.generate.prepare import TestText
    from regard.tasks.generate.run import LanguageModel, Prompt
    from regard.tasks.generate.settings import TextSettings
    from regard.tasks.shared.stepping import Beginning
    from regard.tasks.shared.writing import Writing


class Prompts(Texts):
    metavar = "PROMPT"
    help = 'Texts to continue; without any, lines of stdin. "" begins a new text.'
    from_file = "A file with one prompt a line."
    tried = ("Once upon a time",)


class Generate(Task["TextSettings", "LanguageModel", "TestText"]):
    verb = "generate"
    summary = "Continue texts with a language model, and show where each token looked."
    help = """
        regard generate shakespeare "ROMEO:"

        regard generate runs/mine "Once upon a time" --temperature 0.7 --top-p 0.9 --max-tokens 100 --stop "The end"

    A prompt comes back with its continuation; in JSON they are apart. A GPT-2 folder of `transformers` is a run
    too. --temperature 0 takes the likeliest token each time."""
    writes = True
    shows_gates = True
    continues = True
    openai = "completions"
    inputs = Prompts()
    options = GENERATE
    metrics: ClassVar = {
        "perplexity": Metric("min", 4),
        "loss": Metric("min", 4),
        "word_perplexity": Metric("min", 4),
        "bits_per_character": Metric("min", 4),
    }
    validated = ("loss",)
    unit = "tokens"
    evaluate_options = (
        Option(
            "stride",
            int,
            "Language models: windows begin this many tokens apart. As the run's recipe says unless given.",
            min=1,
            metavar="N",
        ),
    )
    columns = (("column",),)
    sections = ("tokens", "decode")
    trains_with = frozenset({"label_smoothing", "capture"})

    @property
    def Settings(self) -> type[TextSettings]:
        from regard.tasks.generate.settings import TextSettings

        return TextSettings

    def survey(self, job: Job[TextSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.generate.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[TextSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[LanguageModel, TestText]:
        from regard.tasks.generate.prepare import prepare

        return prepare(job, model, artifacts, out)

    def artifacts(self, folder: Folder) -> Artifacts:
        from regard.data.artifacts import Artifacts

        return Artifacts(folder.tokenizer())

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> LanguageModel:
        from regard.tasks.generate.run import LanguageModel

        return LanguageModel(model, artifacts.own_tokenizer, folder.decoding())

    @contextmanager
    def test_data(self, run: LanguageModel, settings: TextSettings) -> Iterator[TestText]:
        from regard.tasks.generate.prepare import test_text

        with tempfile.TemporaryDirectory() as folder:
            yield test_text(settings, run, Path(folder))

    def has_columns(self, settings: TextSettings) -> bool:
        return settings.in_columns(self.test_files(settings))

    def evaluate(
        self,
        run: LanguageModel,
        data: TestText,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.generate.evaluate import evaluate

        return evaluate(run, data, only, tick)

    def check(self, run: LanguageModel, *, drawing: bool = False) -> None:
        from regard.attention.trace import sites_of

        if drawing and not sites_of(run.model):  # neither attention nor gates
            run.check_looks()

    def reader(self, run: LanguageModel, options: Options) -> Callable[[str], Prompt]:
        return partial(run.begin, decode=self.decoding(run, options))

    def unanswered(self, run: LanguageModel, options: Options, asked: str | None) -> str:
        return "\n" * (self.decoding(run, options).n_best - 1)

    def streams(self, run: LanguageModel, options: Options) -> bool:
        return self.decoding(run, options).n_best == 1

    def decoding(self, run: LanguageModel, options: Options) -> Decoding:
        asked = {option.name: options.get(option.name) for option in GENERATE}
        return run.decoding({**asked, "stop": asked["stop"] or None})

    def writing(self, run: LanguageModel, one: Any, options: Options) -> Writing | None:
        return run.writing(one, self.decoding(run, options))

    def beginning(self, run: LanguageModel, one: Any, prefix: list[int], options: Options) -> Beginning:
        return run.beginning(one, prefix, self.decoding(run, options))

    def ask(
        self,
        run: LanguageModel,
        inputs: Iterable[Prompt],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Continuation]:
        decode = self.decoding(run, options)
        for one in run.continuations(inputs, decode) if stream is None else streamed(run, inputs, decode, stream):
            yield one
            tick()


def streamed(
    run: LanguageModel, prompts: Iterable[Prompt], decode: Decoding, write: Callable[[str], None]
) -> Iterator[Continuation]:
    """Each prompt by itself, its text given to `write` piece by piece."""
    for prompt in prompts:
        pieces = run.stream(prompt, decode)
        try:
            while True:
                write(next(pieces))
        except StopIteration as end:
            yield end.value
