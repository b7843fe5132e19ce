"""What a translator reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A text as the model reads it."""

    text: str
    ids: list[int]  # closing with the end token
    words: list[int]  # the word each is part of; -1: none
    unknown: tuple[str, ...] = ()  # what the vocabulary does not have

    @property
    def blank(self) -> bool:
        return not self.text.strip()


def looks_across(site: str) -> bool:
    """From target to source, and not at the own side."""
    return site.endswith("cross") or not site.startswith(("encoder", "decoder"))
