"""A shaded document in a terminal: the weight of each sentence before its lines, words on their shades."""

from __future__ import annotations

from regard.show.colours import DARK, shade
from regard.show.document.data import DocumentData
from regard.show.document.layout import Sentence, lines_of, wrap_sentences
from regard.show.label_text import clean, trim
from regard.show.scales import top_words
from regard.show.shaded.terminal import coloured_words, shaded_words
from regard.show.terminal import LIMITS, NARROWEST, RESET, scale_line, shade_characters, usable_width

MARGIN = 7  # cells: "0.25 █ "


def draw_terminal(data: DocumentData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    shown = data.sentence_weights is not None and width >= MARGIN + NARROWEST
    margin = MARGIN if shown else 0
    words, sentences = wrap_sentences(data, width - margin)
    lines = [trim(clean(data.title), width)] if data.title else []
    for number, sentence in enumerate(sentences):
        for place, line in enumerate(lines_of(words, sentence)):
            drawn = [coloured_words(data, line)] if colour else shaded_words(data, line)
            for row, text in enumerate(drawn):
                before = _margin(data, number, sentence, colour, first=place == row == 0) if shown else ""
                lines.append((before + text).rstrip())
    top = top_words(data.top, data.received.max())
    lines += [trim(f"weight {data.note}", width), scale_line(top, colour, width)]
    return "\n".join(lines) + "\n"


def _margin(data: DocumentData, number: int, sentence: Sentence, colour: bool, *, first: bool) -> str:
    """The weight before a sentence's first line, and its shade before all of them."""
    label = sentence.label if first else " " * len(sentence.label)
    if not colour:
        return f"{label} {shade_characters(data.sentence_levels[[number]], LIMITS)} "
    red, green, blue = shade(data.sentence_levels[number], DARK).tolist()
    return f"{label} \x1b[48;2;{red};{green};{blue}m {RESET} "
