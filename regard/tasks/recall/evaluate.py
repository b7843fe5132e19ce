"""How many bits are remembered wrongly, by the length of the sequences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from regard.data.made.sequences import BitBatch, NGrams, Sequences, Size
from regard.metrics.bit_errors import BitErrors, bit_errors, estimate_ngrams, together
from regard.metrics.bootstrap import Comparison, bootstrap_means
from regard.show import Curves
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.recall.run import Recaller
from regard.tasks.shared.measuring import aligned

AT_ONCE = 250  # sequences
VALID, TEST = 1 << 40, 2 << 40  # seeds of the two sets; a training has smaller ones


@dataclass(frozen=True)
class HeldSequences:
    """Test or validation sequences: `count` of each size, always the same ones."""

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
    """What a run did on some sequences, by their size."""

    data: HeldSequences
    found: Mapping[Size, BitErrors]


def evaluate(run: Recaller, data: HeldSequences, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    found, best = {}, {}
    for size in data.sizes:
        parts, optimal = [], []
        for batch in data.batches(size):
            parts.append(bit_errors(run.logits(batch), batch.targets.numpy(), batch.mask.numpy()))
            if not only and isinstance(data.kind, NGrams):
                optimal.append(best_possible(batch, data.kind.CONTEXT))
            tick()
        found[size] = together(parts)
        if optimal:
            best[size] = together(optimal)
    metrics = measures(together(list(found.values())))
    if only:
        return Evaluation({name: metrics[name] for name in only})
    return Evaluation(
        metrics,
        {"sequences": data.count * len(data.sizes)},
        {"lengths": [row(size, found[size], best.get(size)) for size in data.sizes]},
        {"optimal_cost": together(list(best.values())).cost} if best else {},
        (table(found, best),),
        Measured(data, found),
    )


def measures(found: BitErrors) -> dict[str, float]:
    return {"bit_errors": found.errors, "wrong_bits": found.share, "cost_in_bits": found.cost, "loss": found.loss}


def row(size: Size, found: BitErrors, best: BitErrors | None) -> dict[str, object]:
    """As plain data."""
    optimal = {} if best is None else {"optimal_cost": best.cost}
    return {**size._asdict(), "sequences": len(found.bits), **measures(found), **optimal}


def best_possible(batch: BitBatch, context: int) -> BitErrors:
    """Of one who knows how the bits were drawn, but not the probabilities."""
    bits = np.concatenate([batch.inputs[..., 0].numpy(), batch.targets[:, -1:, 0].numpy()], 1).astype(np.int64)
    p = estimate_ngrams(bits, context)
    logits = np.zeros(batch.targets.shape)
    logits[:, context - 1 :, 0] = np.log(p / (1 - p))
    return bit_errors(logits, batch.targets.numpy(), batch.mask.numpy())


def table(found: Mapping[Size, BitErrors], best: Mapping[Size, BitErrors]) -> str:
    repeated = any(size.repeats > 1 for size in found)
    head = ["length", *(["repeats"] if repeated else []), "bit errors", "wrong %", "cost in bits"]
    rows = [
        [
            str(size.length),
            *([str(size.repeats)] if repeated else []),
            *(f"{value:.2f}" for value in (one.errors, one.share, one.cost)),
            *([f"{best[size].cost:.2f}"] if best else []),
        ]
        for size, one in found.items()
    ]
    return aligned([[*head, *(["optimal"] if best else [])], *rows])


def compare(first: Evaluation, second: Evaluation) -> list[Comparison]:
    """Of two runs that were tested with the same sequences."""
    one, other = first.compared, second.compared
    assert isinstance(one, Measured)
    assert isinstance(other, Measured)
    if one.data != other.data:
        return []
    wrong = [together(list(each.found.values())).wrong.tolist() for each in (one, other)]
    return [bootstrap_means(*wrong, metric="bit_errors")]


def curves(evaluations: Mapping[str, Evaluation]) -> Curves:
    """Wrong bits by length, a line for each run."""
    series = {}
    for name, one in evaluations.items():
        assert isinstance(one.compared, Measured)
        found = sorted(one.compared.found.items())
        series[name] = ([size.length for size, _ in found], [errors.share for _, errors in found])
    return Curves(series, "Wrong bits by length", "length", "wrong bits (%)", from_zero=True)
