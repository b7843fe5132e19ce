"""What runs that write their answers token by token share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import BadInput
from regard.tasks.core.options import change_decoding
from regard.tasks.core.run import Run
from regard.tasks.shared.stepping import Beginning
from regard.tasks.shared.writing import Writing


class WritingRun(Run):
    decode: Decoding  # as the run's recipe says

    def decoding(self, options: Mapping[str, Any], decode: Decoding | None = None) -> Decoding:
        """How to search: as the settings say, else the run's recipe, changed by the options that are given."""
        return change_decoding(self.decode if decode is None else decode, options)

    @abstractmethod
    def writing(self, item: Any, decode: Decoding | None = None) -> Writing | None:
        """The answer to an input, to be written together with others; None: it is not written token by token."""

    @abstractmethod
    def beginning(self, item: Any, prefix: list[int], decode: Decoding | None = None) -> Beginning:
        """An answer that begins with these tokens, to be continued step by step."""


def never_written(special: Special, never: Collection[int] = ()) -> tuple[int, ...]:
    """The tokens that no answer has: padding, the start token unless it also ends texts, and these."""
    return tuple({special.pad, special.start, *never} - {special.end})


def check_search(decode: Decoding, most: int, what: str) -> None:
    """BadInput where an answer, `what`, of a model that ends it itself and writes at most so many tokens cannot be
    searched for."""
    if decode.stop:
        raise BadInput(f"stop strings are for language models; {what} ends by itself, or by max_length")
    if decode.min_length >= most:
        raise BadInput(
            f"min_length must be below {most:,}, the most tokens of an answer of this model, got "
            f"{decode.min_length:,}"
        )
