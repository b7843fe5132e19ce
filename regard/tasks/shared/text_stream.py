"""Text as it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

CONTEXT, AGAIN = 8, 16  # tokens


class Stream:
    """Turns tokens into text as soon as it is certain, and gives nothing of a stop string."""

    def __init__(self, speak: Callable[[list[int]], str], stops: tuple[str, ...]):
        self.speak, self.stops = speak, stops
        self.tokens: list[int] = []
        self.settled, self.before, self.context = 0, "", ""  # tokens, their text, the text of the last few of them
        self.told = 0  # characters so far
        self.waiting = max((len(stop) - 1 for stop in stops), default=0)  # they may begin a stop string

    def add(self, tokens: Sequence[int]) -> str:
        """The text that is certain with these tokens; "" while there is none."""
        self.tokens += tokens
        text = self._text()
        before = cut(text, self.stops)
        whole = text[:-3] + text[-3:].rstrip("\ufffd")  # half a character is given once it is complete
        return self.rest(before if before != text else whole[: max(0, len(whole) - self.waiting)])

    def _text(self) -> str:
        """speak(tokens). Of a long text only the end is spoken anew, behind a few tokens that it may depend on."""
        spoken = self.speak(self.tokens[max(0, self.settled - CONTEXT) :])
        whole = spoken.startswith(self.context)
        text = self.before + spoken[len(self.context) :] if whole else self.speak(self.tokens)
        if len(self.tokens) - self.settled >= AGAIN and not text.endswith("\ufffd"):
            self.settled, self.before = len(self.tokens), text
            self.context = self.speak(self.tokens[-CONTEXT:])
        return text

    def rest(self, text: str) -> str:
        """The new part of a text that is certain."""
        new = text[self.told :]
        self.told += len(new)
        return new


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]
