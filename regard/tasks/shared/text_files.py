"""Where plain text comes from, for the tasks that learn from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regard.base.fields import FILES, check, file_names, setting
from regard.base.files import find_files
from regard.base.records import form_of
from regard.data.text.documents import READERS, Document, read_documents


@dataclass(frozen=True)
class TextFiles:
    """The first fields of a recipe's [data] (`data.text.documents` describes the forms of files)."""

    train: str | tuple[str, ...] = setting("", words=FILES)  # one or several, here or under $REGARD_DATA
    valid: str = ""  # without one, the end of train is held out
    test: str = ""  # without one, the validation text is taken
    documents: str = setting("file", choices=tuple(READERS))  # what is one document of plain text
    column: str = "text"  # of CSV and JSONL, where each row is a document

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "train", file_names(self.train))
        if not self.train:
            raise ValueError("set data.train to a file of text")

    @property
    def name(self) -> str:
        return ", ".join(file.rpartition("/")[2] for file in self.train)

    def in_columns(self, names: Iterable[str]) -> bool:
        """Are these files CSV or JSONL, whose rows have columns?"""
        return all(form_of(path) in ("csv", "jsonl") for name in names for path in find_files(name))

    def read(self, files: Iterable[str]) -> Iterator[Document]:
        for file in files:
            yield from read_documents(file, documents=self.documents, column=self.column)
