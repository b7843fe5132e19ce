"""Where labelled texts come from."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from regard.base.fields import FILES, check, file_names, setting

Row = tuple[str, str, str]  # a text, the second one of a pair or "", and the label


def _reviews(split: str, count: int) -> list[Row]:
    from regard.data.made.reviews import reviews

    return [(text, "", label) for text, label, _ in reviews(split, count)]


MADE: dict[str, Callable[[str, int], list[Row]]] = {"reviews": _reviews}


@dataclass(frozen=True)
class LabelledSettings:
    """A recipe's [data] (`data.text.labelled_texts` describes the forms of files)."""

    made: str = ""  # a generated set: reviews
    train_count: int = setting(4000, at_least=1)  # how many of a generated set
    valid_count: int = setting(500, at_least=1)
    test_count: int = setting(1000, at_least=1)
    train: str | tuple[str, ...] = setting("", words=FILES)  # one or several, here or under $REGARD_DATA
    valid: str = ""  # without one, one text in twenty is held out of train
    test: str = ""  # without one, the validation texts are taken
    text: str = ""  # the column: its name in CSV, JSONL and TSV with a header, its number in other TSV
    second: str = ""  # the column of the second text, where pairs are labelled
    label: str = ""
    truncate: int = setting(128, at_least=8)  # tokens kept of a text, the special ones included
    batch_tokens: int = setting(2048, at_least=1)  # rows x longest of a batch
    vectors: str = ""  # a text file of word vectors that embeddings begin with (word2vec, GloVe, fastText)

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "train", file_names(self.train))
        if bool(self.made) == bool(self.train):
            raise ValueError(
                "set data.train to a file of labelled texts (text, tab, label), or data.made to a generated set "
                f"({', '.join(MADE)}), not both"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")

    @property
    def name(self) -> str:
        return self.made or ", ".join(file.rpartition("/")[2] for file in self.train)

    def read(self, files: Iterable[str], labels: Collection[str] = ()) -> Iterator[Row]:
        from regard.data.text.labelled_texts import read_labelled

        for file in files:
            yield from read_labelled(file, text=self.text, second=self.second, label=self.label, known=labels)

    def rows(self, split: str, labels: Collection[str] = ()) -> list[Row]:
        """The rows of train, valid or test. Without a file of its own, one text in twenty is held out, chosen by
        its content, so that another order of the file chooses the same. A file of its own must have no labels
        but these, if any are given."""
        if self.made:
            return MADE[self.made](split, getattr(self, f"{split}_count"))
        named = {"test": self.test or self.valid, "valid": self.valid}.get(split, "")
        if named:
            return list(self.read([named], labels))
        if self.valid:
            return self.all
        return [row for row in self.all if (zlib.crc32(row[0].encode()) % 20 == 0) == (split != "train")]

    @cached_property
    def all(self) -> list[Row]:
        """Every row of train, read once."""
        if self.made:
            return self.rows("train")
        from regard.learn.progress import counted

        return list(counted(self.read(self.train), "texts read"))
