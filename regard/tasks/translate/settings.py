"""Where pairs of texts come from."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.base.fields import setting
from regard.base.files import find_aligned
from regard.data.made.pairs import MADE
from regard.data.text.pairs import read_pairs, read_references, read_tagged
from regard.data.text.special_tokens import tag_token
from regard.errors import DataError
from regard.tasks.core.splits import MadeSplits
from regard.tasks.shared.kept_tokens import KeptTokens

Pair = tuple[str, str]
Example = tuple[str, tuple[str, ...]]  # a source and its references

MOST_VALID = 2000  # sources held out of the training files; more would only make validation slow


@dataclass(frozen=True)
class PairSettings(MadeSplits[list[Pair]], KeptTokens):
    """A recipe's [data]: a generated set, or files (`data.text.pairs` describes their forms). Without a validation
    file, one source in twenty is held out of train."""

    form = "a file of pairs, one a line: source, tab, target"
    sets = tuple(MADE)

    distance: int = setting(10, at_least=2)  # of the generated set `recall`: steps from the letter to the question
    source: str = ""  # the column of the source: its name in CSV, JSONL and parquet, its number in TSV
    target: str = ""  # the column of the target
    # several kinds of targets, as languages: the column that says which (its number in a TSV); of aligned files,
    # where the target's word in the braces says it, any name
    target_tag: str = ""
    drop_longer: int = setting(0, at_least=0)  # drop training pairs with more tokens on a side; 0: keep all
    # drop training pairs of which one side is so many times as long as the other
    max_ratio: float = setting(0.0, at_least=1, or_zero="keep all")
    # MiB of training pairs held in memory; more are shuffled in blocks on disk
    memory_mib: int = setting(2048, at_least=1)
    # what answers are judged by, beside exact match and perplexity: bleu (BLEU and chrF), or rouge (of summaries)
    metrics: str = setting("bleu", choices=("bleu", "rouge"))
    eval_pairs: int = setting(200, at_least=1)  # validation pairs that are also translated at each validation
    batch_tokens: int = setting(4096, at_least=1)  # size of a batch in tokens of its longer side, padding included

    def make(self, split: str) -> list[Pair]:
        options = {"distance": self.distance} if self.made == "recall" else {}
        return MADE[self.made](split, self.count_of(split), **options)

    def groups(self, split: str) -> list[list[Path]]:
        return [group for name in self.files_of(split) for group in find_aligned(name)]

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of train, valid or test; files are read as they are asked for, never held whole."""
        if self.made:
            return iter(self.make(split))
        if self.is_part(split):
            return (pair for pair in self._read("train") if (pair[0] in self.held_out) == (split != "train"))
        return self._read(split)

    def examples(self, split: str) -> list[Example]:
        """The same to evaluate on: a source may have several references."""
        if self.made or self.source_of(split) == "train":
            return [(source, (target,)) for source, target in self.pairs(split)]
        files = self.files_of(split)
        if self.target_tag:
            return [(source, (target,)) for source, target in self._read(split)]
        rows = (row for file in files for row in read_references(file, source=self.source, target=self.target))
        return [(source, tuple(references)) for source, *references in rows]

    @cached_property
    def held_out(self) -> frozenset[str]:
        """One source in twenty, chosen by its text, so that another order of the file chooses the same."""
        chosen: dict[str, int] = {}  # sources and their ranks
        others = False
        for source, _ in self._read("train"):
            rank, remainder = divmod(zlib.crc32(source.encode()), 20)
            if remainder == 0:
                chosen[source] = rank
            others = others or remainder != 0
            if len(chosen) >= 2 * MOST_VALID:
                chosen = _lowest(chosen)
        if not chosen or not others:
            raise DataError(
                f"{', '.join(self.files_of('train'))} has too few pairs to hold some out for validation; "
                "set data.valid to a file of pairs"
            )
        return frozenset(_lowest(chosen))

    def _read(self, split: str) -> Iterator[Pair]:
        """With a tag, a target begins with the tag's token."""
        for file in self.files_of(split):
            if not self.target_tag:
                yield from read_pairs(file, source=self.source, target=self.target)
                continue
            rows = read_tagged(file, source=self.source, target=self.target, tag=self.target_tag)
            yield from ((source, tag_token(tag) + target) for source, target, tag in rows)

    @property
    def keeps_tokens(self) -> bool:
        """Targets with tags are not kept."""
        return not self.target_tag and super().keeps_tokens


def _lowest(ranks: dict[str, int]) -> dict[str, int]:
    return dict(sorted(ranks.items(), key=lambda item: (item[1], item[0]))[:MOST_VALID])
