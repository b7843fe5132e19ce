"""Where labelled texts come from."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.base.digests import Source, known_as
from regard.base.fields import file_names, setting
from regard.errors import DataError
from regard.tasks.core.splits import MadeSplits
from regard.tasks.shared.kept_tokens import KeptTokens

LabelledText = tuple[str, str, str]  # a text, the second text of a pair or "", and the label


@dataclass(frozen=True)
class LabelledSettings(MadeSplits[list[LabelledText]], KeptTokens):
    """A recipe's [data] (`data.text.labelled_texts` describes the forms of files). Without a validation file, one
    text in twenty is held out of train."""

    form = "a file of labelled texts (text, tab, label)"
    sets = ("reviews",)

    train_count: int = setting(4000, at_least=1)
    valid_count: int = setting(500, at_least=1)
    # the column of the text: its name in CSV, JSONL, parquet and TSV with a header, its number in other TSV
    text: str = ""
    second: str = ""  # the column of the second text, where pairs are labelled
    label: str = ""  # the column of the label
    truncate: int = setting(128, at_least=8)  # tokens kept of a text, the special ones included
    batch_tokens: int = setting(2048, at_least=1)  # size of a batch in tokens, padding included
    vectors: str = ""  # a text file of word vectors that embeddings begin with (word2vec, GloVe, fastText)

    def named(self, split: str) -> tuple[str, ...]:
        return (*super().named(split), *file_names(self.vectors)) if split == "train" else super().named(split)

    def find(self, name: str) -> list[Path]:
        """A training that goes on needs no vectors."""
        try:
            return super().find(name)
        except DataError:
            if name != self.vectors:
                raise
            return [Path(name)]

    def files_in(self, folder: Path) -> dict[str, Source]:
        from regard.data.text.labelled_texts import text_folders

        return {known_as(each): files for each, files in text_folders(folder).items()}

    def make(self, split: str) -> list[LabelledText]:
        from regard.data.made.reviews import reviews

        return [(text, "", label) for text, label, _ in reviews(split, self.count_of(split))]

    def read(self, files: Iterable[str], labels: Collection[str] = ()) -> Iterator[LabelledText]:
        from regard.data.text.labelled_texts import read_labelled

        for file in files:
            yield from read_labelled(file, **self.columns, labels=labels)

    def stream(self) -> Iterator[LabelledText]:
        """All of train once more, never held whole where its tokens are kept."""
        from regard.learn.progress import counted

        if not self.keeps_tokens:
            return iter(self.all)
        return counted(self.read(self.files_of("train")), "texts read")

    @property
    def columns(self) -> dict[str, str]:
        return {"text": self.text, "second": self.second, "label": self.label}

    def rows(self, split: str, labels: Collection[str] = ()) -> list[LabelledText]:
        """The texts of train, valid or test. What is held out of train is chosen by its content, so that another
        order of the file chooses the same. A file of its own must have no labels but these, if any are given."""
        source = self.source_of(split)
        if source == "train":
            rows = self.all
            return [row for row in rows if _is_held_out(row) == (split != "train")] if self.holds_out else rows
        return self.make(source) if self.made else list(self.read(self.files_of(split), labels))

    @cached_property
    def all(self) -> list[LabelledText]:
        """All of train, made or read once."""
        if self.made:
            return self.make("train")
        from regard.learn.progress import counted

        return list(counted(self.read(self.files_of("train")), "texts read"))


def _is_held_out(row: LabelledText) -> bool:
    return zlib.crc32(row[0].encode()) % 20 == 0
