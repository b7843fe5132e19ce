"""The shaded document as users hold it."""

from __future__ import annotations

from regard.show.document.data import DocumentData
from regard.show.picture import Drawn, counted, titled


class Document(DocumentData, Drawn):
    __doc__ = DocumentData.__doc__
    package = __package__
    kind = "document"

    def __repr__(self) -> str:
        words = counted(len(self.received), "word")
        return f"<Document: {counted(len(self.sentences), 'sentence')}, {words}{titled(self.title)}>"
