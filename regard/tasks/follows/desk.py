"""What a reader does that tells what follows: trained, evaluated, asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from regard.models.protocols import MaskedLanguageModel, need
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream
from regard.tasks.core.input_files import InputColumns
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.fill.desk import MaskedDesk
from regard.tasks.fill.prepare import TestText
from regard.tasks.shared.measuring import by_batch, device_of
from regard.tasks.shared.reader import Encoded, Reader
from regard.tasks.shared.reader_answers import Followed


class FollowsDesk(MaskedDesk):
    # -- evaluation

    def evaluate(
        self,
        run: Reader,
        data: TestText,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How often it is told rightly whether the second part of a row follows the first, with every word there.
        The text is split as in epoch 0, so that two models are asked the same; about half of the rows follow."""
        model, pairs = need(run.model, MaskedLanguageModel), data.data
        device = device_of(model)

        def told(item: Any) -> tuple[float, int, int]:
            batch = pairs.batch(item).to(device)
            assert batch.follows is not None
            logits = model.next_logits(model.states(batch.targets, batch.segments, batch.mask)).float()
            right = int((logits.argmax(-1) == batch.follows).sum())
            return float(F.cross_entropy(logits, batch.follows, reduction="sum")), right, len(logits)

        batches = torch.tensor(list(by_batch(model, pairs.order(0), told, tick=tick)), dtype=torch.float64)
        nats, right, rows = batches.sum(0).tolist()
        metrics = {"next_accuracy": 100 * right / rows, "loss": nats / rows}
        if only:
            return Evaluation({name: metrics[name] for name in only})
        return Evaluation(metrics, {"pairs": int(rows), "documents": data.documents})

    # -- asking

    def check(self, run: Reader, *, drawing: bool = False) -> None:
        run.check_follows()

    def input_columns(self, run: Reader, named: str = "") -> InputColumns:
        return replace(super().input_columns(run, named), leading=2)

    def reader(self, run: Reader, options: Options) -> Callable[[Any], Encoded[Any]]:
        return run.read_following

    def ask(
        self,
        run: Reader,
        inputs: Iterable[Encoded[Any]],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Followed]:
        return run.following(inputs, tick=tick)
