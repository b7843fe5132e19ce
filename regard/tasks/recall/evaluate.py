"""How many bits are remembered wrongly, by the length of the sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.made.sequences import BitBatch, NGrams, Sequences, Size
from regard.metrics.bit_errors import BitErrors, bit_errors, estimate_ngrams, together
from regard.metrics.bootstrap import Comparison, bootstrap_means
from regard.show import Curves
from regard.tasks.core.card import Options
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.recall.run import Recaller
from regard.tasks.shared.measuring import aligned, by_batch

AT_ONCE = 250  # sequences
VALID, TEST = 1 << 40, 2 << 40  # seeds of the two sets; training seeds are smaller


@dataclass(frozen=True)
class HeldSequences:
    """Test or validation sequences: `count` of each size, always the same."""

    kind: Sequences
    sizes: tuple[Size, ...]
    count: int
    part: int  # VALID or TEST

    def batches(self, size: Size) -> Iterator[BitBatch]:
        random = np.random.default_rng((self.part, *size))
        for first in range(0, self.count, AT_ONCE):
            yield self.kind.draw(random, min(AT_ONCE, self.count - first), size)

    def __len__(self) -> int:
        return len(self.sizes) * -(-self.count // AT_ONCE)


@dataclass(frozen=True)
class Measured:
    """The errors of a run, by the size of the sequences."""

    data: HeldSequences
    by_size: Mapping[Size, BitErrors]


def evaluate(
    run: Recaller,
    data: HeldSequences,
    *,
    only: Sequence[str] = (),
    options: Options | None = None,
    tick: Tick = no_tick,
) -> Evaluation:
    context = data.kind.CONTEXT if not only and isinstance(data.kind, NGrams) else None

    def measure(piece: tuple[Size, BitBatch]) -> tuple[Size, BitErrors, BitErrors | None]:
        size, batch = piece
        errors = bit_errors(run.logits(batch), batch.targets.numpy(), batch.mask.numpy())
        return size, errors, None if context is None else best_possible(batch, context)

    parts: dict[Size, list[BitErrors]] = {size: [] for size in data.sizes}
    optimal: dict[Size, list[BitErrors]] = {size: [] for size in data.sizes}
    pieces = ((size, batch) for size in data.sizes for batch in data.batches(size))
    for size, errors, least in by_batch(run.model, pieces, measure, tick=tick):
        parts[size].append(errors)
        optimal[size] += [] if least is None else [least]
    by_size = {size: together(errors) for size, errors in parts.items()}
    best = {size: together(errors) for size, errors in optimal.items() if errors}
    metrics = measures(together(list(by_size.values())))
    if only:
        return Evaluation({name: metrics[name] for name in only})
    return Evaluation(
        metrics,
        {"sequences": data.count * len(data.sizes)},
        {"lengths": [row(size, by_size[size], best.get(size)) for size in data.sizes]},
        {"optimal_cost": together(list(best.values())).cost} if best else {},
        (table(by_size, best),),
        Measured(data, by_size),
    )


def measures(bits: BitErrors) -> dict[str, float]:
    return {"bit_errors": bits.errors, "wrong_bits": bits.share, "cost_in_bits": bits.cost, "loss": bits.loss}


def row(size: Size, bits: BitErrors, best: BitErrors | None) -> dict[str, object]:
    """As plain data."""
    optimal = {} if best is None else {"optimal_cost": best.cost}
    return {**size._asdict(), "sequences": len(bits.bits), **measures(bits), **optimal}


def best_possible(batch: BitBatch, context: int) -> BitErrors:
    """The errors of an observer who knows how the bits were drawn, but not the probabilities."""
    bits = np.concatenate([batch.inputs[..., 0].numpy(), batch.targets[:, -1:, 0].numpy()], 1).astype(np.int64)
    p = estimate_ngrams(bits, context)
    logits = np.zeros(batch.targets.shape)
    logits[:, context - 1 :, 0] = np.log(p / (1 - p))
    return bit_errors(logits, batch.targets.numpy(), batch.mask.numpy())


def table(by_size: Mapping[Size, BitErrors], best: Mapping[Size, BitErrors]) -> str:
    repeated = any(size.repeats > 1 for size in by_size)
    head = ["length", *(["repeats"] if repeated else []), "bit errors", "wrong %", "cost in bits"]
    rows = [
        [
            str(size.length),
            *([str(size.repeats)] if repeated else []),
            *(f"{value:.2f}" for value in (bits.errors, bits.share, bits.cost)),
            *([f"{best[size].cost:.2f}"] if best else []),
        ]
        for size, bits in by_size.items()
    ]
    return aligned([[*head, *(["optimal"] if best else [])], *rows])


def compare(first: Evaluation, second: Evaluation) -> list[Comparison]:
    """Compare two runs that were tested with the same sequences."""
    before, after = first.compared, second.compared
    assert isinstance(before, Measured)
    assert isinstance(after, Measured)
    if before.data != after.data:
        return []
    wrong = [together(list(measured.by_size.values())).wrong.tolist() for measured in (before, after)]
    return [bootstrap_means(*wrong, metric="bit_errors")]


def plot(evaluations: Mapping[str, Evaluation]) -> Curves:
    """Wrong bits by length, a line for each run."""
    series = {}
    for name, evaluation in evaluations.items():
        assert isinstance(evaluation.compared, Measured)
        points = sorted(evaluation.compared.by_size.items())
        series[name] = ([size.length for size, _ in points], [bits.share for _, bits in points])
    return Curves(series, "Wrong bits by length", "length", "wrong bits (%)", from_zero=True)
