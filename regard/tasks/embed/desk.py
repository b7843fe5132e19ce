"""What an embedder does: trained as a bidirectional language model, evaluated, asked for vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch

from regard.data.text.sentence_data import SentenceData
from regard.layers.onednn import without_onednn
from regard.models.protocols import BidirectionalLanguageModel, ModelConfig, need
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream
from regard.tasks.core.results import Answer, Evaluation, Metric, Tick, no_tick
from regard.tasks.embed.answers import TokenVectors, Vector
from regard.tasks.embed.prepare import prepare, survey, test_text
from regard.tasks.embed.run import Embedder
from regard.tasks.embed.settings import SentenceSettings
from regard.tasks.embed.writing import vector_writer
from regard.tasks.shared.measuring import device_of
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

    @torch.no_grad()
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
        nats, predictions = torch.zeros(2, dtype=torch.float64), 0
        with without_onednn(model):
            for item in data.order(0):
                batch = data.batch(item)
                predictions += int(batch.mask[:, 1:].sum())
                nats -= model.likelihoods(batch.to(device)).double().sum(0).cpu()
                tick()
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

    def check(self, run: Embedder, *, drawing: bool = False) -> None:
        if drawing:
            run.check_token_looks()

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

    def writer(
        self, run: Embedder, output: Path | None, options: Options, as_json: bool
    ) -> AbstractContextManager[Callable[[Answer], None]]:
        tokens = bool(options.get("tokens"))
        return vector_writer(output, run.width, tokens=tokens)  # type: ignore[return-value] # of its own answers
