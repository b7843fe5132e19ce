"""Where a language model's text comes from, and how it is cut into windows."""

from __future__ import annotations

from dataclasses import dataclass

from regard.base.fields import setting
from regard.data.text.documents import READERS
from regard.tasks.shared.text_files import TextFiles

PAIRS = "pairs"


@dataclass(frozen=True)
class TextSettings(TextFiles):
    """A recipe's [data]."""

    # what is one document of plain text: a file, a line, what stands between blank lines, or under a "= heading =";
    # pairs: each line is a prompt, a tab and a response, of which only the response is learned
    documents: str = setting("file", choices=(*READERS, PAIRS))
    # documents = pairs: the column of the prompt: its name in CSV, JSONL, parquet, its number in TSV
    prompt: str = ""
    response: str = ""  # documents = pairs: the column of the response
    # share of train, from its end, that is held out to validate on
    valid_fraction: float = setting(0.1, above=0, below=1)
    separate_documents: bool = False  # attention does not cross documents in a window; false: as in GPT-2
    length: int = setting(0, at_least=2, or_zero="as many as the model has positions")  # tokens in a window
    stride: int = setting(0, at_least=0)  # tokens between the starts of windows in evaluation; 0: as length
    memory_mib: int = setting(2048, at_least=1)  # MiB of training tokens held in memory; more are read from a file
    batch_tokens: int = setting(16384, at_least=1)  # tokens of a batch

    @property
    def needs_valid(self) -> bool:
        """The end of the tokens is held out."""
        return False

    @property
    def in_pairs(self) -> bool:
        """Are documents pairs of prompt and response?"""
        return self.documents == PAIRS
