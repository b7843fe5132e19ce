"""What can go wrong and is not a bug of ours. Every package may import this; it imports nothing."""

from __future__ import annotations


class BadInput(ValueError):
    """What the user gave cannot be used: the message says what came, what is allowed and what to do.

    The command line exits with 2 for these, and with 1 for every other failure."""


class WrongArgument(BadInput, TypeError):
    """In Python: an argument is missing, unknown or of the wrong type. The message says which."""


class DataError(BadInput):
    """A data file is missing or does not hold what it should."""


class RunError(BadInput):
    """A run folder is missing, incomplete or not what it claims to be."""


class NoTokenizer(RunError):
    """Text was asked of a run whose folder holds no tokenizer."""


class RecipeError(BadInput):
    """A recipe is missing or asks for something that does not exist."""


class NoAttention(BadInput):
    """Asked where a model looked that has no attention, or none of that name."""


class Unanswered(ValueError):
    """Some of many inputs could not be answered; the others were."""


class Unrepresentable(ValueError):
    """A model folder of another library asks for something that our model cannot do, or the other way round."""


class DownloadError(ValueError):
    """A model could not be downloaded: there is no network, or the server failed."""


class OutOfMemory(MemoryError):
    """More memory was needed than there is: the message says for what, and what to lower."""


class Diverged(ValueError):
    """The loss or the gradient is no longer finite."""


class PeerLost(RuntimeError):
    """Another process of this program has ended or hangs: the message says which, by rank and host."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM: the training was saved; the message says where, and how to go on."""

    def __init__(self, message: str, signal: int = 2, *, best: bool = True) -> None:
        super().__init__(message)
        self.signal = signal  # its number; 2 is Ctrl-C
        self.best = best  # False: no validation has chosen the best weights yet
