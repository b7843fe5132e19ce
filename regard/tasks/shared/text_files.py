"""Where plain text comes from, for the tasks that learn from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regard.base.fields import setting
from regard.base.files import find_files
from regard.base.patterns import COLUMNED, form_by_name
from regard.data.text.documents import READERS, Document, read_documents
from regard.tasks.shared.kept_tokens import KeptTokens


@dataclass(frozen=True)
class TextFiles(KeptTokens):
    """The first fields of a recipe's [data] (`data.text.documents` describes the forms of files). Without a
    validation file, the end of train is held out."""

    form = "a file of text"

    # what is one document of plain text: a file, a line, what stands between blank lines, or under a "= heading ="
    documents: str = setting("file", choices=tuple(READERS))
    column: str = "text"  # CSV, JSONL and parquet: the column with the text; each row is a document

    def in_columns(self, names: Iterable[str]) -> bool:
        """Are these files CSV, JSONL or parquet, whose rows have columns?"""
        return all(form_by_name(path) in COLUMNED for name in names for path in find_files(name))

    def read(self, files: Iterable[str]) -> Iterator[Document]:
        for file in files:
            yield from read_documents(file, documents=self.documents, column=self.column)
