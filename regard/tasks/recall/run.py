"""A machine that remembers sequences of bits, and what it gave back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack, overload

import numpy as np
import torch

from regard.attention import trace
from regard.base.divided import dividing
from regard.base.short_repr import short_repr
from regard.data.made.sequences import BitBatch, NGrams, Sequences, Size
from regard.errors import BadInput, RunError
from regard.layers.onednn import without_onednn
from regard.metrics.bit_errors import bit_errors
from regard.models.protocols import Model, SequenceMachine, need
from regard.show import Tape
from regard.tasks.core.inputs import check_text, read_all
from regard.tasks.core.options import checks_keywords, either, is_number
from regard.tasks.core.results import Evaluation, Shown
from regard.tasks.core.run import Data, Run
from regard.tasks.recall.card import DRAWN
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.sites import sites_like


class DrawnOptions(TypedDict, total=False):
    """Which sequence is drawn where none is given."""

    length: int | None
    repeats: int | None
    seed: int


@dataclass(frozen=True)
class Recalled(Shown):
    """What a machine made of one sequence, and where its heads were meanwhile."""

    sequence: str  # as it is written: "01010101 11001100"
    output: str  # the bits that it gave where some were wanted
    target: str  # those that were wanted
    wrong: int  # bits that differ
    probabilities: np.ndarray = field(repr=False, compare=False)  # (T, O), of a 1
    batch: BitBatch = field(repr=False, compare=False)  # the sequence alone
    _run: Recaller = field(repr=False, compare=False)

    __repr__ = short_repr

    @property
    def input(self) -> str:
        return self.sequence

    @property
    def bits(self) -> int:
        """That were wanted."""
        return self.target.count("0") + self.target.count("1")

    def looks(self) -> dict[str, np.ndarray]:
        """The weights of every head over the places of the memory, at each step: {"read 0": (T, places)}; none of a
        machine without a memory."""
        return self._run.looks(self.batch)[0]

    def memory(self) -> np.ndarray | None:
        """(T, places, width): the memory after each step."""
        return self._run.looks(self.batch)[1]

    def picture(self, sites: Sequence[str] = ()) -> Tape:
        """Input, output, target, the weights of all heads and the memory, over the steps; of named sites the heads
        alone."""
        title = f"{self.wrong} of {self.bits} bits wrong"
        if sites:
            sites_like(self._run.model, sites)  # refuses sites of gates; there is one of attention
            return Tape({name: weights.T for name, weights in self.looks().items()}, title=title)
        weights, memory = self._run.looks(self.batch)
        wanted = self.batch.mask[0].numpy()
        bits = {
            "input": self.batch.inputs[0].numpy(),
            "output": self.probabilities,
            "target": self.batch.targets[0],
        }
        panels = {name: np.asarray(rows).T for name, rows in (bits | weights).items()}
        shown = {"output": wanted, "target": wanted}
        return Tape(panels, shown=shown, memory=memory, title=title)

    def to_dict(self) -> dict[str, object]:
        """As plain data. `heads`: for each head and step, the place of the memory that it was at most, and the
        weight of that place."""
        heads = {
            name: [
                {"place": place, "weight": weight}
                for place, weight in zip(weights.argmax(1).tolist(), weights.max(1).tolist(), strict=True)
            ]
            for name, weights in self.looks().items()
        }
        texts = {**self.of_input(), "output": self.output, "target": self.target, "wrong": self.wrong}
        return {**texts, "bits": self.bits, "heads": heads}

    def line(self) -> str:
        """The sequence, what it gave, what was wanted, and how many bits are wrong."""
        return f"{self.sequence}\t{self.output}\t{self.target}\t{self.wrong}"


class Recaller(Run):
    """A run that remembers sequences of bits, as `regard.load` gives it."""

    def __init__(self, model: Model, kind: Sequences | None) -> None:
        self.model, self._kind = model, kind
        self.machine = need(model, SequenceMachine)
        read = (model.config.inputs, model.config.outputs)
        if kind is not None and read != (kind.inputs, kind.outputs):
            raise RunError(
                f"sequences of the recipe have {kind.inputs} inputs and {kind.outputs} outputs at each step, the "
                f"model has {read[0]} and {read[1]}; the recipe.toml in its folder is not its own"
            )

    @property
    def kind(self) -> Sequences:
        """The sequences that it was trained with."""
        if self._kind is None:
            raise RunError("this run has no recipe that says which sequences it was trained with")
        return self._kind

    @property
    def at_once(self) -> int:
        """Each is answered by itself; only processes that meet after every turn take some together."""
        return 16 if dividing() else 1

    @overload
    def recall(self, sequence: str = DRAWN, **options: Unpack[DrawnOptions]) -> Recalled: ...
    @overload
    def recall(self, sequence: list[str], **options: Unpack[DrawnOptions]) -> list[Recalled]: ...
    @checks_keywords
    def recall(
        self, sequence: str | list[str] = DRAWN, **options: Unpack[DrawnOptions]
    ) -> Recalled | list[Recalled]:
        """Read a sequence, as in "01010101 11001100", or each of a list. Without a text, a sequence of this length
        is drawn, by default the longest of the paper's; `repeats`: the copies that repeat-copy asks for."""
        is_drawn = isinstance(sequence, str) and sequence == DRAWN
        for name, value in options.items():
            if value is not None and (name, value) != ("seed", 0) and not is_drawn:
                raise BadInput(f"{name} is for a sequence that is drawn; give it or sequences, not both")
        if isinstance(sequence, list):
            return list(self.answers(read_all(sequence, self.read, "sequences")))
        read = self.drawn(**options) if is_drawn else self.read(sequence)
        return next(self.answers([read]))

    @checks_keywords
    def evaluate(
        self,
        data: Data | None = None,
        *,
        columns: str = "",
        test_count: int | None = None,
        lengths: Sequence[int] | str | None = None,
        repeats: int | None = None,
        test_lengths: Sequence[int] | str | None = None,
        test_repeats: int | None = None,
    ) -> Evaluation:
        """Wrong bits in `test_count` sequences of each of the `lengths` (once `test_lengths`), as in [20, 40];
        repeat-copy asks for `repeats` copies (once `test_repeats`). They are generated, so no data can be named."""
        options = {
            "test_count": test_count,
            "test_lengths": either("lengths", lengths, "test_lengths", test_lengths),
            "test_repeats": either("repeats", repeats, "test_repeats", test_repeats),
        }
        return self._evaluate(data, columns, **options)

    def read(self, sequence: str) -> BitBatch:
        """BadInput unless it is a sequence of the run's kind."""
        return self.kind.read(check_text(sequence, "a sequence"))

    def drawn(self, length: int | None = None, repeats: int | None = None, seed: int = 0) -> BitBatch:
        """A sequence that follows from the seed."""
        kind = self.kind
        size = Size(kind.lengths[1] if length is None else length, kind.repeats[1] if repeats is None else repeats)
        for name, value in {**size._asdict(), "seed": seed}.items():
            if not is_number(value, int) or value < 0:
                raise BadInput(f"{name} must be a whole number of at least 0, got {value!r:.40}")
        kind.check(*size)
        return kind.draw(np.random.default_rng(seed), 1, size)

    def answers(self, sequences: Iterable[BitBatch]) -> Iterator[Recalled]:
        """One after another: a sequence may have any length."""
        kind = self.kind
        for sequence in sequences:
            logits = self.logits(sequence)
            wrong = int(bit_errors(logits, sequence.targets.numpy(), sequence.mask.numpy()).wrong[0])
            wanted, targets = sequence.mask[0].numpy(), sequence.targets[0].numpy()
            between = "" if isinstance(kind, NGrams) else " "
            output, target = (
                between.join("".join("01"[int(bit)] for bit in row) for row in rows[wanted])
                for rows in (logits[0] > 0, targets > 0.5)
            )
            probabilities = 1 / (1 + np.exp(-logits[0].astype(np.float64)))
            yield Recalled(kind.write(sequence), output, target, wrong, probabilities, sequence, self)

    def logits(self, batch: BitBatch) -> np.ndarray:
        """(B, T, O)"""
        with torch.inference_mode(), without_onednn(self.model):
            return self.machine(batch.inputs.to(device_of(self.model))).float().cpu().numpy()

    def looks(self, batch: BitBatch) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        """Of one sequence: the weights of every head (T, places) by its name, and the memory (T, places, width)."""
        if not (site := self.model.alignment):
            return {}, None
        with torch.inference_mode(), without_onednn(self.model), trace(self.model, site) as seen:
            self.machine(batch.inputs.to(device_of(self.model)))
        weights, memory = (seen[site, kind][0].float().cpu().numpy() for kind in ("weights", "memory"))
        heads = len(weights) // 2  # read heads first
        order = [*range(heads, 2 * heads), *range(heads)]
        return {f"{'read' if at < heads else 'write'} {at % heads}": weights[at] for at in order}, memory
