"""Sequences of bits to be remembered: the five tasks of Graves, Wayne & Danihelka 2014, "Neural Turing Machines".

Each kind of sequence says what comes in at every step and what is wanted, and can be drawn at any length or read
from a text. Random numbers come from a generator that the caller seeds, so that a batch is a function of its seed.

Letters: B sequences, T steps, I inputs, O outputs, W bits of a vector, L length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches.batch import Batch, TakenRows
from regard.errors import BadInput

EPOCH = 1000  # batches
SHAPES = 8  # numbers of steps that training batches are padded to at most, so that few shapes are captured
LONGEST = 1000  # of vectors, items or bits in a sequence, and of copies


class Size(NamedTuple):
    """How much a sequence holds: vectors of copy-bits, repeat-copy and priority-sort, items of associative-recall,
    bits of n-gram; and how many copies repeat-copy asks for."""

    length: int
    repeats: int = 1


@dataclass(frozen=True, repr=False)
class BitBatch(Batch):
    inputs: Tensor  # (B, T, I)
    targets: Tensor  # (B, T, O), 0 or 1
    mask: Tensor  # (B, T), True = an output is wanted; all False behind the end of a sequence

    def padded(self, steps: int) -> BitBatch:
        """The batch padded with zeros to `steps` steps."""
        return self.each(lambda x: F.pad(x, (*([0, 0] * (x.dim() - 2)), 0, steps - x.shape[1])))


def _batch(inputs: np.ndarray, targets: np.ndarray, wanted: slice) -> BitBatch:
    mask = torch.zeros(inputs.shape[:2], dtype=torch.bool)
    mask[:, wanted] = True
    return BitBatch(torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(targets.astype(np.float32)), mask)


class SequenceKind:
    """What the kinds of sequences share."""

    shortest: ClassVar[int] = 1
    repeats: ClassVar[tuple[int, int]] = (1, 1)  # the paper's, in training

    def check(self, length: int, repeats: int = 1) -> None:
        """BadInput unless there are sequences of this size."""
        if not self.shortest <= length <= LONGEST:
            raise BadInput(f"the length must lie in [{self.shortest}, {LONGEST:,}], got {length}")
        most = LONGEST if self.repeats[1] > 1 else 1
        if not 1 <= repeats <= most:
            allowed = f"must lie in [1, {most:,}]" if most > 1 else "are for repeat-copy alone"
            raise BadInput(f"repeats {allowed}, got {repeats}")


@dataclass(frozen=True)
class Copy(SequenceKind):
    """L vectors, then a delimiter on a channel of its own; wanted: the vectors again."""

    bits: int = 8
    lengths: ClassVar[tuple[int, int]] = (1, 20)  # the paper's, in training
    example: ClassVar[str] = '"01010101 11001100"'

    @property
    def inputs(self) -> int:
        return self.bits + 1

    @property
    def outputs(self) -> int:
        return self.bits

    def steps(self, size: Size) -> int:
        return 2 * size.length + 1

    def draw(self, random: np.random.Generator, count: int, size: Size) -> BitBatch:
        return self.compose(random.integers(0, 2, (count, size.length, self.bits)))

    def compose(self, vectors: np.ndarray) -> BitBatch:
        count, length, width = vectors.shape
        inputs, targets = _blank(self, count, Size(length))
        inputs[:, :length, :width] = vectors
        inputs[:, length, width] = 1
        targets[:, length + 1 :] = vectors
        return _batch(inputs, targets, slice(length + 1, None))

    def read(self, text: str) -> BitBatch:
        return self.compose(_vectors(text.split(), self.bits)[None])

    def write(self, sequence: BitBatch) -> str:
        """The sequence of a batch of one as the text that `read` takes."""
        inputs = sequence.inputs[0].numpy()
        end = int(inputs[:, self.bits].argmax())
        return _written(inputs[:end, : self.bits])


@dataclass(frozen=True)
class RepeatCopy(SequenceKind):
    """L vectors, then how often they are to be copied, beside a delimiter; wanted: the copies, then an end marker.

    The number is scaled to mean 0 and variance 1 over 1 to 10, the training range of the paper."""

    bits: int = 8
    lengths: ClassVar[tuple[int, int]] = (1, 10)
    repeats: ClassVar[tuple[int, int]] = (1, 10)
    example: ClassVar[str] = '"01010101 11001100 x3"'
    MEAN: ClassVar[float] = 5.5
    DEVIATION: ClassVar[float] = (99 / 12) ** 0.5

    @property
    def inputs(self) -> int:
        return self.bits + 2

    @property
    def outputs(self) -> int:
        return self.bits + 1

    def steps(self, size: Size) -> int:
        return size.length * (1 + size.repeats) + 2

    def draw(self, random: np.random.Generator, count: int, size: Size) -> BitBatch:
        return self.compose(random.integers(0, 2, (count, size.length, self.bits)), size.repeats)

    def compose(self, vectors: np.ndarray, repeats: int) -> BitBatch:
        count, length, width = vectors.shape
        inputs, targets = _blank(self, count, Size(length, repeats))
        inputs[:, :length, :width] = vectors
        inputs[:, length, width] = 1
        inputs[:, length, width + 1] = (repeats - self.MEAN) / self.DEVIATION
        targets[:, length + 1 : -1, :width] = np.tile(vectors, (1, repeats, 1))
        targets[:, -1, width] = 1
        return _batch(inputs, targets, slice(length + 1, None))

    def read(self, text: str) -> BitBatch:
        *vectors, times = text.split() or [""]
        if not (times.startswith("x") and times[1:].isdecimal() and 1 <= int(times[1:]) <= LONGEST):
            raise BadInput(f"end with the number of copies, 1 to {LONGEST}, as in x3; got {times!r:.40}")
        return self.compose(_vectors(vectors, self.bits)[None], int(times[1:]))

    def write(self, sequence: BitBatch) -> str:
        inputs = sequence.inputs[0].numpy()
        end = int(inputs[:, self.bits].argmax())
        repeats = round(float(inputs[end, self.bits + 1]) * self.DEVIATION + self.MEAN)
        return f"{_written(inputs[:end, : self.bits])} x{repeats}"


@dataclass(frozen=True)
class AssociativeRecall(SequenceKind):
    """L items of 3 vectors, each behind a delimiter; then one of them again, between two delimiters of another
    kind; wanted: the item that came after it."""

    bits: int = 6
    shortest: ClassVar[int] = 2
    lengths: ClassVar[tuple[int, int]] = (2, 6)
    example: ClassVar[str] = '"000000 000001 000011 / 111000 110000 100000 ? 000000 000001 000011"'
    ITEM: ClassVar[int] = 3  # vectors

    @property
    def inputs(self) -> int:
        return self.bits + 2

    @property
    def outputs(self) -> int:
        return self.bits

    def steps(self, size: Size) -> int:
        return (self.ITEM + 1) * size.length + 2 * self.ITEM + 2

    def draw(self, random: np.random.Generator, count: int, size: Size) -> BitBatch:
        items = random.integers(0, 2, (count, size.length, self.ITEM, self.bits))
        return self.compose(items, random.integers(0, size.length - 1, count))

    def compose(self, items: np.ndarray, shown_again: np.ndarray) -> BitBatch:
        """Items (B, L, 3, W), and which of them is shown again (B,)."""
        count, length, item, width = items.shape
        inputs, targets = _blank(self, count, Size(length))
        listed = inputs[:, : length * (item + 1)].reshape(count, length, item + 1, -1)  # a view
        listed[:, :, 0, width] = 1
        listed[:, :, 1:, :width] = items
        rows, query = np.arange(count), length * (item + 1)
        inputs[:, [query, query + item + 1], width + 1] = 1
        inputs[:, query + 1 : query + item + 1, :width] = items[rows, shown_again]
        targets[:, -item:] = items[rows, shown_again + 1]
        return _batch(inputs, targets, slice(-item, None))

    def read(self, text: str) -> BitBatch:
        listed, _, query = text.partition("?")
        items = [self._item(part) for part in listed.split("/")]
        shown = self._item(query)
        shown_again = [at for at, item in enumerate(items[:-1]) if (item == shown).all()]
        if not shown_again:
            raise BadInput("the item behind ? must be one of those before it, and not the last, which none follows")
        return self.compose(np.stack(items)[None], np.array(shown_again[-1:]))

    def _item(self, text: str) -> np.ndarray:
        if len(vectors := text.split()) != self.ITEM:
            raise BadInput(
                f"an item has {self.ITEM} vectors of {self.bits} bits, got {text.strip()!r:.40}; an example: "
                f"{self.example}"
            )
        return _vectors(vectors, self.bits)

    def write(self, sequence: BitBatch) -> str:
        inputs = sequence.inputs[0].numpy()
        query = int(inputs[:, self.bits + 1].argmax())
        starts = np.flatnonzero(inputs[:query, self.bits])
        listed = [_written(inputs[at + 1 : at + 1 + self.ITEM, : self.bits]) for at in starts]
        shown = _written(inputs[query + 1 : query + 1 + self.ITEM, : self.bits])
        return f"{' / '.join(listed)} ? {shown}"


@dataclass(frozen=True)
class NGrams(SequenceKind):
    """L bits, each with a probability that depends on the 5 bits before it; wanted at each step: the next bit.

    The 32 probabilities are drawn for each sequence from Beta(1/2, 1/2); what can be known of them is
    `metrics.bit_errors.estimate_ngrams`."""

    bits: int = 1
    shortest: ClassVar[int] = 6
    lengths: ClassVar[tuple[int, int]] = (200, 200)
    example: ClassVar[str] = '"0110100110010110"'
    CONTEXT: ClassVar[int] = 5

    def __post_init__(self) -> None:
        if self.bits != 1:
            raise ValueError(f"an n-gram predicts one bit at a time: bits must be 1, got {self.bits}")

    @property
    def inputs(self) -> int:
        return 1

    @property
    def outputs(self) -> int:
        return 1

    def steps(self, size: Size) -> int:
        return size.length - 1

    def draw(self, random: np.random.Generator, count: int, size: Size) -> BitBatch:
        chances = random.beta(0.5, 0.5, (count, 1 << self.CONTEXT))
        luck = random.random((count, size.length))
        bits, rows = (luck < 0.5).astype(np.int64), np.arange(count)
        context = np.zeros(count, np.int64)
        for at in range(size.length):
            if at >= self.CONTEXT:
                bits[:, at] = luck[:, at] < chances[rows, context]
            context = (2 * context + bits[:, at]) % (1 << self.CONTEXT)
        return self.compose(bits)

    def compose(self, bits: np.ndarray) -> BitBatch:
        return _batch(bits[:, :-1, None], bits[:, 1:, None], slice(self.CONTEXT - 1, None))

    def read(self, text: str) -> BitBatch:
        bits = _vectors(list("".join(text.split())), 1)
        if len(bits) <= self.CONTEXT:
            raise BadInput(f"give at least {self.CONTEXT + 1} bits, got {len(bits)}")
        return self.compose(bits[None, :, 0])

    def write(self, sequence: BitBatch) -> str:
        return _written(torch.cat([sequence.inputs[0], sequence.targets[0, -1:]]).T.numpy())


@dataclass(frozen=True)
class PrioritySort(SequenceKind):
    """L vectors, each with a priority in [-1, 1], then a delimiter; wanted: the 4 in 5 with the highest priority
    (16 of 20 in the paper), highest first."""

    bits: int = 8
    lengths: ClassVar[tuple[int, int]] = (20, 20)
    example: ClassVar[str] = '"01010101:0.5 11001100:-0.3"'

    @property
    def inputs(self) -> int:
        return self.bits + 2

    @property
    def outputs(self) -> int:
        return self.bits

    def answer_length(self, length: int) -> int:
        return max(1, 4 * length // 5)

    def steps(self, size: Size) -> int:
        return size.length + 1 + self.answer_length(size.length)

    def draw(self, random: np.random.Generator, count: int, size: Size) -> BitBatch:
        vectors = random.integers(0, 2, (count, size.length, self.bits))
        return self.compose(vectors, random.uniform(-1, 1, vectors.shape[:2]))

    def compose(self, vectors: np.ndarray, priorities: np.ndarray) -> BitBatch:
        count, length, width = vectors.shape
        inputs, targets = _blank(self, count, Size(length))
        inputs[:, :length, :width] = vectors
        inputs[:, :length, width + 1] = priorities
        inputs[:, length, width] = 1
        order = np.argsort(-priorities, 1, kind="stable")[:, : self.answer_length(length)]
        targets[:, length + 1 :] = np.take_along_axis(vectors, order[..., None], 1)
        return _batch(inputs, targets, slice(length + 1, None))

    def read(self, text: str) -> BitBatch:
        parts = [part.partition(":") for part in text.split()]
        try:
            priorities = np.array([float(number) for _, _, number in parts])
        except ValueError:
            priorities = np.array([np.nan])
        if not (np.abs(priorities) <= 1).all():
            raise BadInput(f"every vector needs a priority from -1 to 1: {self.example}; got {text!r:.60}")
        return self.compose(_vectors([bits for bits, _, _ in parts], self.bits)[None], priorities[None])

    def write(self, sequence: BitBatch) -> str:
        inputs = sequence.inputs[0].numpy()
        end, width = int(inputs[:, self.bits].argmax()), self.bits
        vectors = _written(inputs[:end, :width]).split()
        return " ".join(
            f"{bits}:{number:.3g}" for bits, number in zip(vectors, inputs[:end, width + 1], strict=True)
        )


def _blank(kind: Sequences, count: int, size: Size) -> tuple[np.ndarray, np.ndarray]:
    shape = (count, kind.steps(size))
    return np.zeros((*shape, kind.inputs), np.float32), np.zeros((*shape, kind.outputs), np.float32)


def _vectors(texts: list[str], bits: int) -> np.ndarray:
    """["0101", "1100"] -> (L, W)"""
    if not 1 <= len(texts) <= LONGEST:
        raise BadInput(f"give 1 to {LONGEST:,} vectors of {bits} bits, got {len(texts):,}")
    for text in texts:
        if len(text) != bits or set(text) - {"0", "1"}:
            raise BadInput(f"a vector must be {bits} of the digits 0 and 1, got {text!r:.40}")
    return np.array([[int(bit) for bit in text] for text in texts])


def _written(vectors: np.ndarray) -> str:
    return " ".join("".join(str(int(bit)) for bit in vector) for vector in vectors)


Sequences = Copy | RepeatCopy | AssociativeRecall | NGrams | PrioritySort
SEQUENCES: dict[str, type[Sequences]] = {
    "copy-bits": Copy,
    "repeat-copy": RepeatCopy,
    "associative-recall": AssociativeRecall,
    "n-gram": NGrams,
    "priority-sort": PrioritySort,
}


def sequences_of(name: str, bits: int = 0) -> Sequences:
    """The kind with this name and vectors of so many bits; 0: as many as in the paper."""
    return SEQUENCES[name](bits) if bits else SEQUENCES[name]()


# ---- training


class BitData(TakenRows):
    """New sequences in each batch, a function of (seed, epoch, index). All of a batch have the same size, drawn
    uniformly from the ranges; the end is padded, so that there are few shapes.

    In the first `curriculum_steps` batches the upper ends of the ranges rise from the lower ends."""

    def __init__(
        self,
        kind: Sequences,
        batch_size: int,
        seed: int,
        *,
        lengths: tuple[int, int],
        repeats: tuple[int, int],
        curriculum_steps: int = 0,
    ) -> None:
        self.kind, self.batch_size, self.seed = kind, batch_size, seed
        self.ranges, self.curriculum_steps = (lengths, repeats), curriculum_steps
        self.grid = -(-kind.steps(Size(lengths[1], repeats[1])) // SHAPES)

    def order(self, epoch: int) -> Iterator[tuple[int, int]]:
        return ((epoch, index) for index in range(EPOCH))

    def batch(self, item: tuple[int, int]) -> BitBatch:
        random, step = np.random.default_rng((self.seed, *item)), item[0] * EPOCH + item[1]
        share = min(1.0, (step + 1) / self.curriculum_steps) if self.curriculum_steps else 1.0
        size = Size(
            *(int(random.integers(low, low + round(share * (high - low)) + 1)) for low, high in self.ranges)
        )
        drawn = self.kind.draw(random, self.batch_size, size)
        return drawn.padded(-(-self.kind.steps(size) // self.grid) * self.grid)
