"""How much a request may ask for. Everything here is checked before any work is done."""

from __future__ import annotations

from dataclasses import dataclass, replace

from regard.errors import BadInput


@dataclass(frozen=True)
class Limits:
    body: int = 8 << 20  # bytes of a request
    inputs: int = 64  # of a request
    characters: int = 20_000  # of a text
    long_characters: int = 1 << 16  # of a text for a model that is known to take so many tokens
    tokens: int = 1024  # that may be asked for: max_tokens, max_length, min_length
    beams: int = 16  # beam, n_best
    pixels: int = 25_000_000  # of an image
    work: int = 1 << 16  # tokens that a request may have written: inputs x beam x length
    requests: int = 128  # at once; more are told to come back later
    received: int = 256 << 20  # bytes of the requests that are being sent; of more, the latest come back later
    numbers: int = 2_000_000  # in one answer about attention
    rows: int = 64  # texts that one model writes at once, and inputs of one batch
    answers: int = 256  # of a model, whose attention can still be asked for
    kept: int = 64 << 20  # bytes of these answers
    seconds: float = 30.0  # to send a request

    def of_model(self, positions: int) -> Limits:
        """Those of a model that takes so many tokens: its texts may be longer."""
        longest = min(LETTERS * positions, self.long_characters)
        return replace(self, characters=max(self.characters, longest))


LETTERS = 8  # of a token and the space before it


class Refused(BadInput):
    """A request that is answered with this status."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
