"""Which training data is tokenised once and kept, for the tasks that read text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.base.fields import setting
from regard.base.files import find_files, names_many
from regard.base.memory_rows import MemoryRows
from regard.base.patterns import form_by_name
from regard.data.shards.cache import Kept, kept_shards
from regard.data.shards.token_files import Shard
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError
from regard.learn.progress import say
from regard.tasks.core.splits import Splits

AUTO, ALWAYS, NEVER = "auto", "always", "never"


@dataclass(frozen=True)
class KeptTokens(Splits):
    """Data in files whose tokens may be kept."""

    # whether the training data is tokenised once, in parallel, and kept for the next start: auto, where train is a
    # pattern or parquet; its order is then computed and takes no memory
    token_cache: str = setting(AUTO, choices=(AUTO, ALWAYS, NEVER))

    @property
    def needs_valid(self) -> bool:
        """Whether nothing can be held out of kept tokens, as texts are needed to validate on."""
        return True

    @property
    def keeps_tokens(self) -> bool:
        """Are the tokens of train kept? They are for files alone, not for folders, pipes or rows in memory."""
        names = self.files_of("train")
        if self.token_cache == NEVER or not names or any(isinstance(name, MemoryRows) for name in names):
            return False
        by_name = any(names_many(name) or form_by_name(Path(name)) == "parquet" for name in names)
        lacks_valid = self.needs_valid and self.holds_out
        if self.token_cache == AUTO and (lacks_valid or not by_name):
            return False
        if lacks_valid:
            raise DataError(
                'with token_cache = "always" nothing can be held out of the training data; set data.valid'
            )
        return all(path.is_file() for group in self.groups("train") for path in group)

    def groups(self, split: str) -> list[list[Path]]:
        """The files of a split, those together whose lines belong together."""
        return [[path] for name in self.files_of(split) for path in find_files(name)]

    def kept(self, kind: str, options: Mapping[str, Any], *tokenizers: Tokenizer) -> list[Shard]:
        """The tokens of train, made where they are not there yet."""
        return kept_shards(self.groups("train"), Kept(kind, options, tokenizers), say)
