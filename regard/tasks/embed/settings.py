"""Where the sentences come from that a bidirectional language model learns from."""

from __future__ import annotations

from dataclasses import dataclass

from regard.base.fields import setting
from regard.data.text.documents import READERS
from regard.tasks.shared.text_files import TextFiles


@dataclass(frozen=True)
class SentenceSettings(TextFiles):
    """A recipe's [data]. Sentences are found by `data.text.documents.read_sentences`; each is read by itself."""

    documents: str = setting("line", choices=tuple(READERS))
    # share of train's sentences, from its end, that is held out to validate on
    valid_fraction: float = setting(0.05, above=0, below=1)
    length: int = setting(64, at_least=2)  # words in a row; the rest of a longer sentence is another row
    batch_tokens: int = setting(4096, at_least=1)  # size of a batch in tokens, padding included
