"""Embed: texts to vectors. Every encoder can be asked; a bidirectional language model is trained for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import BadInput
from regard.tasks.core.inputs import Texts
from regard.tasks.core.options import Option
from regard.tasks.core.results import Answer, Evaluation, Metric
from regard.tasks.core.task import Options, Prepared, Run
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.shared.reader_task import ReaderTask

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.data.text.sentence_data import SentenceData
    from regard.models.protocols import Model, ModelConfig
    from regard.tasks.core.settings import Job
    from regard.tasks.embed.answers import TokenVectors, Vector
    from regard.tasks.embed.run import Embedder
    from regard.tasks.embed.settings import SentenceSettings
    from regard.tasks.shared.text_reader import Encoded

POOLS = ("mean", "cls")  # as in run.py, which imports torch


class Embed(ReaderTask["SentenceSettings", "Embedder", "SentenceData"]):
    verb = "embed"
    summary = "Turn texts, or each of their tokens, into vectors."
    help = """
        regard embed runs/bert "a cat" "a kitten" --normalise

        regard embed runs/elmo "the bank of the river" --tokens --layer 2

        regard embed runs/bert --input sentences.txt --output vectors.npy

    A .npy file holds the vectors alone, the others the texts too; with --tokens a file has a row for each token,
    .jsonl still a line for each text. Texts longer than the model takes are truncated,
    and a message says how many. A line that cannot be read gets a row of NaN, in JSON its error (see --strict).
    Each text is read by itself: no model carries its state over from one text to the next."""
    openai = "embeddings"
    inputs = Texts()
    output = "Write the vectors to a file: .npy, .parquet or .jsonl. Without it, JSON lines go to stdout."
    options = (
        Option("pool", str, "The mean of all tokens' states, or the state of [CLS].", "mean", choices=POOLS),
        Option("tokens", bool, "A vector for each token of a text.", False, flags="--tokens"),
        Option(
            "layer",
            int,
            "The states of this layer; 0: the token embeddings. Without it the last layer, of an ELMo the mix.",
            min=0,
            metavar="N",
        ),
        Option("normalise", bool, "Give every vector the length 1.", False, flags="--normalise"),
    )
    metrics: ClassVar = {
        "perplexity": Metric("min"),
        "loss": Metric("min", 4),
        "forward_perplexity": Metric("min"),
        "backward_perplexity": Metric("min"),
    }
    validated = ("loss", "forward_perplexity", "backward_perplexity")
    unit = "words"
    columns = (("column",),)
    sections = ("tokens",)

    # -- training

    @property
    def Settings(self) -> type[SentenceSettings]:
        from regard.tasks.embed.settings import SentenceSettings

        return SentenceSettings

    def survey(self, job: Job[SentenceSettings], start: Artifacts | None) -> Artifacts:
        from regard.tasks.embed.prepare import survey

        return survey(job, start)

    def prepare(
        self, job: Job[SentenceSettings], model: Model, artifacts: Artifacts, out: Path
    ) -> Prepared[Embedder, SentenceData]:
        from regard.tasks.embed.prepare import prepare

        return prepare(job, model, artifacts)

    # -- evaluation

    def given_by(self, config: ModelConfig) -> Mapping[str, Metric]:
        """Only a model that predicts words has metrics; a BERT without a head, or an ELMo without its softmax,
        gives vectors alone."""
        return self.metrics if getattr(config, "predicts_words", False) else {}

    @contextmanager
    def test_data(self, run: Embedder, settings: SentenceSettings) -> Iterator[SentenceData]:
        from regard.tasks.embed.prepare import test_text

        yield test_text(settings, run)

    def has_columns(self, settings: SentenceSettings) -> bool:
        return settings.in_columns(self.test_files(settings))

    def evaluate(
        self,
        run: Embedder,
        data: SentenceData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        from regard.tasks.embed.evaluate import evaluate

        return evaluate(run, data, only, tick)

    # -- asking

    def takes(self, run: Run) -> bool:
        from regard.tasks.embed.run import Embedder

        return isinstance(run, Embedder)

    def check(self, run: Embedder, *, drawing: bool = False) -> None:
        if drawing:
            run.check_token_looks()

    def check_options(
        self, output: Path | None, options: Options, given: Sequence[str], as_json: bool, source: Path | None = None
    ) -> None:
        from regard.tasks.embed.writing import kind_of

        if kind_of(output) != ".jsonl" and as_json:
            raise BadInput(f"--json asks for JSON lines and {output} is another format; give one of them")
        if options.get("tokens") and options.get("pool") not in (None, "mean"):
            raise BadInput("--pool is for a vector of the whole text; leave it or --tokens out")

    def reader(self, run: Embedder, options: Options) -> Callable[[str], Encoded[str]]:
        run.check_pool(options.get("pool") or "mean")
        run.check_layer(options.get("layer"))
        return run.read

    def ask(
        self,
        run: Embedder,
        inputs: Iterable[Encoded[str]],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Vector | TokenVectors]:
        chosen: dict[str, Any] = {"layer": options.get("layer"), "normalise": bool(options.get("normalise"))}
        with run.telling_truncated() as truncated:
            found: Iterator[Vector | TokenVectors]
            if options.get("tokens"):
                found = run.token_vectors(inputs, cut=truncated, **chosen)
            else:
                found = run.vectors(inputs, pool=options.get("pool") or "mean", cut=truncated, **chosen)
            for one in found:
                yield one
                tick()

    def writer(
        self, run: Embedder, output: Path | None, options: Options, as_json: bool
    ) -> AbstractContextManager[Callable[[Answer], None]]:
        from regard.tasks.embed.writing import vector_writer

        tokens = bool(options.get("tokens"))
        return vector_writer(output, run.width, tokens=tokens)  # type: ignore[return-value] # of its own answers
