"""What runs that write their answers token by token share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from regard.decode.settings import Decoding
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
