"""How long the sequences are that a machine is trained and tested with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.base.fields import setting
from regard.errors import BadInput
from regard.tasks.core.splits import Generated

if TYPE_CHECKING:
    from regard.data.made.sequences import Sequences, Size

KINDS = ("copy-bits", "repeat-copy", "associative-recall", "n-gram", "priority-sort")  # SEQUENCES, without torch
MOST = 1000  # of a length, and of copies
VALIDATED = 5  # sizes of the validation sequences, from the shortest to the longest


@dataclass(frozen=True)
class RecallSettings(Generated):
    """A recipe's [data]. All sequences are generated, and every training step has new ones. A length counts
    vectors, items or bits, see `data.made.sequences`; 0: as in the paper."""

    examples = "sequences"

    made: str = setting("copy-bits", choices=KINDS)  # which sequences, of the five tasks of Graves 2014
    bits: int = setting(0, at_least=0, at_most=MOST)  # bits of a vector; 0: as in the paper
    batch_size: int = setting(64, at_least=1)  # sequences of a training step
    # shortest training sequence, in vectors, items or bits; 0: as in the paper
    min_length: int = setting(0, at_least=0, at_most=MOST)
    max_length: int = setting(0, at_least=0, at_most=MOST)  # longest training sequence; 0: as in the paper
    # repeat-copy: fewest copies that are asked for; 0: as in the paper
    min_repeats: int = setting(0, at_least=0, at_most=MOST)
    # repeat-copy: most copies that are asked for; 0: as in the paper
    max_repeats: int = setting(0, at_least=0, at_most=MOST)
    # steps in which the longest length rises from min_length to max_length; 0: at once
    curriculum_steps: int = setting(0, at_least=0)
    valid_count: int = setting(250, at_least=VALIDATED)  # validation sequences
    test_count: int = setting(200, at_least=2)  # test sequences of each length
    # lengths of the test sequences, as in 20,40; none: max_length
    test_lengths: tuple[int, ...] | str = setting((), words="whole numbers, as in 20,40")
    # repeat-copy: copies that the test asks for; 0: max_repeats
    test_repeats: int = setting(0, at_least=0, at_most=MOST)

    def __post_init__(self) -> None:
        if self.made == "n-gram" and self.bits > 1:
            raise BadInput(f"n-gram predicts one bit at a time: bits must be 1, got {self.bits}")
        if isinstance(self.test_lengths, str):  # as the command line gives them
            object.__setattr__(self, "test_lengths", read_lengths(self.test_lengths))
        super().__post_init__()
        if wrong := [length for length in self.test_lengths if not 1 <= int(length) <= MOST]:
            raise BadInput(f"test_lengths must lie in [1, {MOST:,}], got {wrong[0]}")

    @property
    def test_name(self) -> str:
        lengths = ", ".join(map(str, self.test_lengths))
        which = f"each of the lengths {lengths}" if lengths else "the longest length of training"
        return f"{self.test_count:,} generated sequences ({self.made}) of {which}"

    @property
    def kind(self) -> Sequences:
        from regard.data.made.sequences import sequences_of

        return sequences_of(self.made, self.bits)

    def ranges(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Lengths and numbers of copies in training."""
        limits = ((self.min_length, self.max_length), (self.min_repeats, self.max_repeats))
        lengths, repeats = (
            (low or usual[0], high or max(low, usual[1]))
            for (low, high), usual in zip(limits, (self.kind.lengths, self.kind.repeats), strict=True)
        )
        for name, (low, high) in (("length", lengths), ("repeats", repeats)):
            if low > high:
                raise BadInput(f"max_{name} must be at least min_{name}, got {high} and {low}")
        self.kind.check(lengths[0], repeats[1])
        return lengths, repeats

    def test_sizes(self) -> list[Size]:
        from regard.data.made.sequences import Size

        lengths, repeats = self.ranges()
        sizes = [Size(int(length), self.test_repeats or repeats[1]) for length in self.test_lengths or lengths[1:]]
        for size in sizes:
            self.kind.check(*size)
        return list(dict.fromkeys(sizes))

    def valid_sizes(self) -> list[Size]:
        """Evenly spaced over the training ranges."""
        from regard.data.made.sequences import Size

        lengths, repeats = self.ranges()
        shares = [at / (VALIDATED - 1) for at in range(VALIDATED)]
        sizes = (Size(*(round(low + share * (high - low)) for low, high in (lengths, repeats))) for share in shares)
        return list(dict.fromkeys(sizes))


def read_lengths(text: str) -> tuple[int, ...]:
    """ "20,40" -> (20, 40)"""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise BadInput(f"lengths must be whole numbers with commas between them, as in 20,40,80; got {text!r:.40}")
    return tuple(map(int, parts))
