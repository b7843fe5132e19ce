"""Where the captions stand, in pixels of 1/96 inch: a heading for each grade, below it its images in rows, with the
caption, its score and references below each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.show.label_text import clean, text_width, trim, wrap_text
from regard.show.overlay.blending import resize
from regard.show.sheet.data import Entry, SheetData
from regard.show.sizes import EDGE, HEADING, NAME, NOTE

COLUMNS = 6
ROOM = 210  # width of a column
TALLEST = 210  # of an image
BETWEEN = 18
SMALL = 11  # font size of references
NARROW = 0.92  # widths are estimated for the widest fonts; text that is not bold is narrower
LINES = 4  # of the model's caption
REFERENCES, REFERENCE_LINES = 2, 2  # how many references, and lines of each
FINE = 2  # pixels of an image for each pixel of the layout, for high-resolution screens
KEY = "bold: the model's caption; grey: references"


@dataclass(frozen=True)
class Text:
    x: float
    y: float
    text: str
    size: float
    bold: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Card:
    image: np.ndarray
    box: tuple[float, float, float, float]  # left, top, width and height of the image
    texts: list[Text]
    entry: Entry
    bottom: float


@dataclass(frozen=True)
class SheetLayout:
    title: str
    caption: list[str]
    headings: list[Text]
    cards: list[Card]
    key: Text
    width: float
    height: float


def lay_out(data: SheetData) -> SheetLayout:
    title = trim(clean(data.title), 120)
    caption = [trim(clean(text), 160) for text in data.caption.split("\n") if text]
    y = EDGE + (1.6 * HEADING if title else 0) + 1.5 * NAME * len(caption) + (6 if title or caption else 0)
    headings: list[Text] = []
    cards: list[Card] = []
    for section in data.sections:
        headings.append(Text(EDGE, y + HEADING, section.grade, HEADING, bold=True))
        after = EDGE + text_width(section.grade) * HEADING + 8
        headings.append(Text(after, y + HEADING, section.note, NOTE, quiet=True))
        y += 1.8 * HEADING
        for first in range(0, len(section.entries), COLUMNS):
            row = section.entries[first : first + COLUMNS]
            cards += [_card(entry, EDGE + at * (ROOM + BETWEEN), y) for at, entry in enumerate(row)]
            y = max(card.bottom for card in cards[-len(row) :]) + BETWEEN
    rights = [card.texts[0].x + ROOM for card in cards]
    rights += [one.x + text_width(one.text) * one.size for one in headings]
    rights += [EDGE + text_width(title) * HEADING, *(EDGE + text_width(text) * NAME for text in caption)]
    key = Text(EDGE, y + NOTE, KEY, NOTE, quiet=True)
    return SheetLayout(title, caption, headings, cards, key, max(rights) + EDGE, y + 1.3 * NOTE + EDGE)


def _card(entry: Entry, x: float, y: float) -> Card:
    image, across, down = fitted(entry.image)
    box = (x, y, across, down)
    texts: list[Text] = []
    y += down + 0.4 * NAME
    for line in (part for whole in entry.lines for part in wrap_text(whole, ROOM, NAME, LINES)):
        y += 1.25 * NAME
        texts.append(Text(x, y, line, NAME, bold=True))
    y += 1.4 * SMALL
    texts.append(Text(x, y, entry.told, SMALL))
    more = len(entry.references) - REFERENCES
    for reference in entry.references[:REFERENCES]:
        y += 2
        for line in wrap_text(clean(reference), ROOM / NARROW, SMALL, REFERENCE_LINES):
            y += 1.25 * SMALL
            texts.append(Text(x, y, line, SMALL, quiet=True))
    if more > 0:
        y += 1.4 * SMALL
        texts.append(Text(x, y, f"and {more} more", SMALL, quiet=True))
    return Card(image, box, texts, entry, y)


def fitted(image: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The image, shrunk to FINE pixels for each pixel of the layout if it is larger; its width and height there."""
    high, wide = image.shape[:2]
    scale = min(ROOM / wide, TALLEST / high)
    across, down = max(1, round(scale * wide)), max(1, round(scale * high))
    return resize(image, min(wide, FINE * across), min(high, FINE * down)), across, down
