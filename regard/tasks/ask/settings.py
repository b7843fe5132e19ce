"""Where questions come from, and how long contexts are read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from regard.base.fields import setting
from regard.base.files import find_files
from regard.tasks.core.splits import MadeSplits

if TYPE_CHECKING:
    from regard.data.text.questions import Question


@dataclass(frozen=True)
class QuestionSettings(MadeSplits["list[Question]"]):
    """A recipe's [data] (`data.text.questions` describes the form of files). Without a validation file, the
    questions of one context in twenty are held out of train."""

    form = "a file of questions in the form of SQuAD (JSON)"
    sets = ("facts",)

    length: int = setting(384, at_least=16)  # tokens in a row: question, context and the special ones
    stride: int = setting(
        0, at_least=0
    )  # of a longer context, how far apart its windows begin; 0: a third of length
    longest_answer: int = setting(30, at_least=1)  # tokens
    batch_tokens: int = setting(4096, at_least=1)  # size of a batch in tokens, padding included

    def rows(self, split: str) -> list[Question]:
        """The questions of train, valid or test. What is held out of train is chosen by its contexts."""
        if self.source_of(split) == "train":
            return [row for row in self.all if not self.holds_out or _is_held_out(row) == (split != "train")]
        return self.make(split) if self.made else list(self._read(split))

    @cached_property
    def all(self) -> list[Question]:
        """All of train, made or read once."""
        return self.make("train") if self.made else list(self._read("train"))

    def make(self, split: str) -> list[Question]:
        from regard.data.made.facts import facts

        return facts(split, self.count_of(split))

    def _read(self, split: str) -> Iterator[Question]:
        from regard.data.text.questions import read_questions

        for name in self.files_of(split):
            for path in find_files(name):
                yield from read_questions(path)


def _is_held_out(question: Question) -> bool:
    return zlib.crc32(question.context.encode()) % 20 == 0
