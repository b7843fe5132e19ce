"""Texts that are longer than a model sees at once: window by window."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Stop
from regard.decode.settings import Decoding

LENGTH = 200  # tokens, by default


@dataclass(frozen=True)
class Window:
    """The part of a text that the model sees, and what may be written behind it."""

    seen: list[int]
    text: list[int]  # all of it, to look for repetitions in
    limit: int  # tokens, the end token included
    min_length: int
    seed: int
    stop: Stop | None


Windows = Generator[Window, Hypothesis, Hypothesis]


def windows(
    prompt: list[int], decode: Decoding, longest: int, stop_after: Callable[[Sequence[int]], Stop | None]
) -> Windows:
    """One text: yields what is seen of it, gets what is written behind that, and returns all that was written. When
    a window is full, the next one begins with its last half. `stop_after(tokens)` gives the rule to stop by, for a
    window before which these were written."""
    wanted = decode.max_length or max(LENGTH, decode.min_length + 1)
    whole, turn, stop = Hypothesis([], 0.0, False), 0, stop_after(())
    while True:
        text, done = [*prompt, *whole.tokens], len(whole.tokens)
        seen = text[-max(1, longest // 2) :] if turn else text
        limit = min(wanted - done, longest - len(seen) + 1)
        least = min(max(0, decode.min_length - done), limit)
        seed = (decode.seed + turn) % (1 << 63)
        part = yield Window(seen, text, limit, least, seed, stop_after(whole.tokens))
        whole = Hypothesis(whole.tokens + part.tokens, whole.score + part.score, part.finished)
        turn += 1
        if part.finished or not done + limit == len(whole.tokens) < wanted or (stop and stop(whole.tokens)):
            return whole
