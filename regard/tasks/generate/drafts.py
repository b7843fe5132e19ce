"""Several continuations while they are written."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.decode.hypothesis import Hypothesis
from regard.decode.search import Searching


class Drafts:
    """What has been written so far, so that it is kept where the rest does not come."""

    def __init__(self, count: int) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.done: dict[int, Hypothesis] = {}  # those that are complete

    def follow(self, search: Searching, rows: Sequence[int], *, whole: bool = True) -> Searching:
        """The same search, of which a note is taken at every step. `rows`: the numbers of its texts; `whole`: what
        it gives is all of them, and not the part that the model sees at once."""
        while True:
            try:
                step = next(search)
            except StopIteration as end:
                return end.value
            for row, token in step.pairs():
                self.tokens[rows[row]].append(token)
            if whole:
                self.done |= {rows[row]: answer for row, answer in step.answers.items()}
            yield step

    def hypotheses(self) -> list[Hypothesis]:
        """As far as anything has been written. The score of a text that is not complete is not known: NaN."""
        begun = [row for row, tokens in enumerate(self.tokens) if tokens or row in self.done]
        return [
            self.done.get(row, Hypothesis(self.tokens[row], math.nan, False))
            for row in range(max(begun, default=-1) + 1)
        ]
