"""Where pairs of texts come from."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from regard.base.fields import FILES, check, file_names, setting
from regard.data.made.pairs import MADE
from regard.data.text.pairs import Columns, read_pairs, read_rows
from regard.errors import DataError

Pair = tuple[str, str]
Example = tuple[str, tuple[str, ...]]  # a source and its references

MOST_VALID = 2000  # sources held out of the training files; more would only make validation slow


@dataclass(frozen=True)
class PairSettings:
    """A recipe's [data]: a generated set, or files (`data.text.pairs` describes their forms)."""

    made: str = ""  # dates, copy, reverse, sort or recall
    distance: int = setting(10, at_least=2)  # recall: steps from the letter to the question
    train_count: int = setting(20000, at_least=1)  # how many pairs of a generated set
    valid_count: int = setting(1000, at_least=1)
    test_count: int = setting(1000, at_least=1)
    train: str | tuple[str, ...] = setting("", words=FILES)  # one or several, here or under $REGARD_DATA
    valid: str = ""  # without one, one source in twenty is held out of train
    test: str = ""  # without one, the validation pairs are taken
    source: str = ""  # the column: its name in CSV and JSONL, its number in TSV
    target: str = ""
    drop_longer: int = setting(0, at_least=0)  # drop training pairs with more tokens on a side; 0: keep all
    max_ratio: float = setting(0.0, at_least=1, or_zero="keep all")  # drop pairs of more uneven lengths
    memory_mib: int = setting(
        2048, at_least=1
    )  # held in memory; more training pairs are shuffled in blocks on disk
    eval_pairs: int = setting(200, at_least=1)  # validation pairs that are also translated at each validation
    batch_tokens: int = setting(4096, at_least=1)  # rows x longest side of a batch

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "train", file_names(self.train))
        if bool(self.made) == bool(self.train):
            raise ValueError(
                f"set either data.made to a generated set ({', '.join(MADE)}) or data.train to a file of pairs, "
                "one a line: source, tab, target"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")

    @property
    def name(self) -> str:
        return self.made or ", ".join(file.rpartition("/")[2] for file in self.train)

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of train, valid or test; files are read as they are asked for, never held whole."""
        if self.made:
            own = {"distance": self.distance} if self.made == "recall" else {}
            return iter(MADE[self.made](split, getattr(self, f"{split}_count"), **own))
        if split == "test" and not self.test:
            split = "valid"
        if split != "train" and getattr(self, split):
            return read_pairs(getattr(self, split), self._columns)
        if self.valid:
            return self._all()
        return (pair for pair in self._all() if (pair[0] in self.held_out) == (split == "valid"))

    def examples(self, split: str) -> list[Example]:
        """The same to evaluate on: a source may have several references."""
        named = "" if self.made else (self.test if split == "test" else "") or self.valid
        if named and split != "train":
            return [(row[0], row[1:]) for row in read_rows(named, self._columns)]
        return [(source, (target,)) for source, target in self.pairs(split)]

    @cached_property
    def held_out(self) -> frozenset[str]:
        """One source in twenty, chosen by its text, so that another order of the file chooses the same."""
        found: dict[str, int] = {}
        rest = False
        for source, _ in self._all():
            share, chosen = divmod(zlib.crc32(source.encode()), 20)
            if chosen == 0:
                found[source] = share
            rest = rest or chosen != 0
            if len(found) >= 2 * MOST_VALID:
                found = _smallest(found)
        found = _smallest(found)
        if not found or not rest:
            raise DataError(
                f"{', '.join(self.train)} has too few pairs to hold some out for validation; "
                "set data.valid to a file of pairs"
            )
        return frozenset(found)

    @property
    def _columns(self) -> Columns:
        return Columns(self.source, self.target)

    def _all(self) -> Iterator[Pair]:
        return chain.from_iterable(read_pairs(file, self._columns) for file in self.train)


def _smallest(found: dict[str, int]) -> dict[str, int]:
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0]))[:MOST_VALID])
