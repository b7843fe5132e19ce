"""Whether an HTML file is whole and needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "path", "rect", "use", "circle", "image", "link", "input"}


class Checker(HTMLParser):
    """Elements are closed in order, ids stand once, and nothing comes from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        own = dict(attributes)
        assert len(own) == len(attributes), f"<{tag}> has an attribute twice: {attributes}"
        assert tag not in ("script", "iframe", "link", "object")
        self.ids += [own["id"]] if own.get("id") else []  # type: ignore[list-item]
        for attribute in ("href", "src", "xlink:href"):
            address = own.get(attribute) or "#"
            assert address.startswith(("#", "data:")) or address.endswith((".html", ".ipynb")), address
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check_page(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    assert not checker.open
    assert len(set(checker.ids)) == len(checker.ids), sorted(checker.ids)
    assert not re.search(r"url\((?!#|&quot;#|'#|\"#)", text)
    return checker
