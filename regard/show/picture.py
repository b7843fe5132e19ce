"""What maps, heads and overlays have in common for their users: saving, and showing themselves in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from regard.show.saving import suffix_of, write_whole


class Picture(ABC):
    @abstractmethod
    def svg(self) -> str: ...

    @abstractmethod
    def html(self) -> str: ...

    @abstractmethod
    def _write_png(self, path: Path) -> None: ...

    def save(self, path: str | Path) -> None:
        """Write a .png, .svg or .html file, by the path's suffix."""
        suffix = suffix_of(path, (".png", ".svg", ".html"))
        if suffix == ".png":
            write_whole(path, self._write_png)
        else:
            text = self.svg() if suffix == ".svg" else self.html()
            write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'
