"""The little Markdown that examples are written in, as plain data: paragraphs, lists and equations in lines
of their own, with `code`, *stress* and $equations$ in the text. Notebooks show the same text as it is."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from regard.show.equation import equation

SPAN = re.compile(r"`(?P<code>[^`]+)`|\$(?P<math>[^$]+)\$|\*(?P<stress>[^*\s][^*]*)\*")
HTML = {"text": "{}", "code": "<code>{}</code>", "stress": "<em>{}</em>"}

Span = tuple[str, str]  # its kind (text, code, stress, math) and its words
Block = dict[str, Any]  # {"kind": "text" | "math" | "list", ...}


def blocks(text: str) -> list[Block]:
    """Paragraphs are parted by empty lines; a list has a line for each entry, which begins with "- "."""
    return [_block(part.strip()) for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


def _block(part: str) -> Block:
    if part.startswith("$$"):
        return {"kind": "math", "tex": " ".join(part.strip("$").split())}
    if part.startswith("- "):
        entries = re.split(r"^- ", part, flags=re.MULTILINE)[1:]
        return {"kind": "list", "entries": [spans(entry) for entry in entries]}
    return {"kind": "text", "spans": spans(part)}


def spans(text: str) -> list[Span]:
    """A text in pieces of one kind each."""
    text = " ".join(text.split())
    found: list[Span] = []
    at = 0
    for match in SPAN.finditer(text):
        found.append(("text", text[at : match.start()]))
        found.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return [span for span in (*found, ("text", text[at:])) if span[1]]


def html(text: str) -> str:
    """The same as HTML."""
    return "\n".join(map(_html, blocks(text)))


def _html(block: Block) -> str:
    if block["kind"] == "math":
        return equation(block["tex"], display=True)
    if block["kind"] == "list":
        return f"<ul>{''.join(f'<li>{inline(entry)}</li>' for entry in block['entries'])}</ul>"
    return f"<p>{inline(block['spans'])}</p>"


def inline(pieces: list[Span]) -> str:
    """Spans as HTML."""
    return "".join(
        equation(words) if kind == "math" else HTML[kind].format(escape(words)) for kind, words in pieces
    )
