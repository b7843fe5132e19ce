"""Where the text comes from that an encoder learns masked words by, and how words are masked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regard.base.fields import setting
from regard.data.text.documents import READERS, Document
from regard.tasks.core.splits import MadeSplits
from regard.tasks.shared.text_files import TextFiles


@dataclass(frozen=True)
class MaskedSettings(MadeSplits[list[str]], TextFiles):
    """A recipe's [data]."""

    form = "a file of text"
    sets = ("facts",)

    documents: str = setting("blank", choices=tuple(READERS))
    # share of train's documents, or of a single one's sentences, that is held out to validate on
    valid_fraction: float = setting(0.05, above=0, below=1)
    length: int = setting(128, at_least=8)  # tokens in a row, the special ones included
    mask_probability: float = setting(0.15, above=0, below=1)  # the share of tokens that are to be predicted
    whole_words: bool = False  # mask all pieces of a word together
    batch_tokens: int = setting(8192, at_least=1)  # tokens of a batch

    def make(self, split: str) -> list[str]:
        from regard.data.made.facts import paragraphs

        return paragraphs(split, self.count_of(split))

    def documents_of(self, split: str) -> Iterator[Document]:
        """The documents of a split, or of those that it is a part of."""
        if self.made:
            return (iter([text]) for text in self.make(split))
        return self.read(self.files_of(split))
