"""What an embedder does: trained as a bidirectional language model, evaluated, asked for vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.base.line_writer import line_writer
from regard.data.text.sentence_data import SentenceData
from regard.models.protocols import BidirectionalLanguageModel, ModelConfig, need
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream, as_text
from regard.tasks.core.results import Answer, Evaluation, Metric, Tick, no_tick
from regard.tasks.embed.answers import TokenVectors, Vector
from regard.tasks.embed.card import suffix_of
from regard.tasks.embed.prepare import prepare, survey, test_text
from regard.tasks.embed.run import Embedder
from regard.tasks.embed.settings import SentenceSettings
from regard.tasks.embed.writing import VectorRows, vector_rows, vector_writer
from regard.tasks.shared.measuring import by_batch, device_of
from regard.tasks.shared.reader_desk import ReaderDesk
from regard.tasks.shared.text_reader import Encoded


class EmbedDesk(ReaderDesk[SentenceSettings, Embedder, SentenceData]):
    kind = Embedder
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    def metrics_of(self, config: ModelConfig) -> Mapping[str, Metric]:
        """Only a model that predicts words has metrics; a BERT without a head, or an ELMo without its softmax,
        gives vectors alone."""
        return self.card.metrics if getattr(config, "predicts_words", False) else {}

    # -- evaluation

    @contextmanager
    def test_data(self, run: Embedder, settings: SentenceSettings) -> Iterator[SentenceData]:
        yield test_text(settings, run)

    def has_columns(self, settings: SentenceSettings) -> bool:
        return settings.in_columns(settings.test_files)

    def evaluate(
        self,
        run: Embedder,
        data: SentenceData,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How well words are predicted, from those before and from those after. Perplexities are per word; forward,
        the end of a sentence counts as a word, backward its beginning. That of both is the geometric mean."""
        model = need(run.model, BidirectionalLanguageModel)
        device = device_of(model)

        def measure(item: Any) -> tuple[Tensor, int]:
            batch = data.batch(item)
            return model.likelihoods(batch.to(device)).double().sum(0).cpu(), int(batch.mask[:, 1:].sum())

        nats, predictions = torch.zeros(2, dtype=torch.float64), 0
        for likelihoods, count in by_batch(model, data.order(0), measure, tick=tick):
            nats, predictions = nats - likelihoods, predictions + count
        losses = nats / predictions
        forward, backward = losses.exp().tolist()
        metrics = {
            "loss": float(losses.mean()),
            "perplexity": float(losses.mean().exp()),
            "forward_perplexity": forward,
            "backward_perplexity": backward,
        }
        if only:
            return Evaluation({name: metrics[name] for name in only})
        return Evaluation(metrics, {"sentences": len(data), "words": data.words})

    def ticks(self, data: SentenceData) -> int:
        return len(data.order(0))

    # -- asking

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
        stream: Stream | None = None,
    ) -> Iterator[Vector | TokenVectors]:
        chosen: dict[str, Any] = {"layer": options.get("layer"), "normalise": bool(options.get("normalise"))}
        if options.get("tokens"):
            return run.token_vectors(inputs, tick=tick, **chosen)
        return run.vectors(inputs, pool=options.get("pool") or "mean", tick=tick, **chosen)

    def written(
        self, run: Embedder, answer: Answer, output: Path | None, options: Options, as_json: bool
    ) -> str | VectorRows:
        if suffix_of(output) == ".jsonl":
            return as_text(answer, as_json=True)
        return vector_rows(answer, run.width, tokens=bool(options.get("tokens")))

    def writer(
        self, run: Embedder, output: Path | None, options: Options
    ) -> AbstractContextManager[Callable[[Any], None]]:
        if suffix_of(output) == ".jsonl":
            return line_writer(output)
        assert output is not None
        return vector_writer(output, run.width, tokens=bool(options.get("tokens")))
