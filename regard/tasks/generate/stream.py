"""Text as it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Stream:
    """Turns tokens into text as soon as it is certain, and gives nothing of a stop string."""

    def __init__(self, speak: Callable[[list[int]], str], stops: tuple[str, ...]):
        self.speak, self.stops = speak, stops
        self.tokens: list[int] = []
        self.given = 0  # characters so far
        self.held = max((len(one) - 1 for one in stops), default=0)  # the last characters may begin a stop string

    def add(self, tokens: Sequence[int]) -> str:
        """The text that is certain with these tokens; "" while there is none."""
        self.tokens += tokens
        text = self.speak(self.tokens)
        before = cut(text, self.stops)
        whole = text[:-3] + text[-3:].rstrip("\ufffd")  # half a character is given once it is complete
        return self.rest(before if before != text else whole[: max(0, len(whole) - self.held)])

    def rest(self, text: str) -> str:
        """The new part of a text that is certain."""
        new = text[self.given :]
        self.given += len(new)
        return new


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((text.find(one) for one in stops if one in text), default=len(text))]
