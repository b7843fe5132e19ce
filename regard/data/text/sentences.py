"""Split a text into sentences by simple rules, or at its line breaks."""

from __future__ import annotations

import re

WAYS = ("rules", "lines")

LINES = re.compile(r"[\n\r\u2028\u2029]|<br ?/?>", re.IGNORECASE)  # <br />: texts taken from web pages
# Where a sentence may end: at . ! ? … and closing quotes or brackets before a space; at 。！？ without one.
# Possessive, and never from within a run of marks: the time is linear in the text.
END = re.compile(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s)|[。！？]++[」』”’）]*+""")
INNER = re.compile(r"\w(?:\.\w)+")  # U.S., e.g., p.m., but for the last full stop
OPENING = "\"'“‘«([-–—"
TITLES = "mr mrs ms mx dr prof sr jr st mt rev gen col capt lt sgt gov sen rep hon messrs mme mlle"
SHORT = (
    "vs etc no nos vol fig figs pp ed eds cf ca al approx dept est inc ltd co corp "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
LONGEST = 40  # characters before a full stop in which its word is looked for
NEVER = frozenset(TITLES.split())  # a name follows
SELDOM = frozenset(SHORT.split())  # a sentence may end here, but not before a number or a small letter


def split_sentences(text: str, way: str = "rules") -> list[str]:
    """The sentences of a text in order, without the spaces between them; none of an empty text.

    "lines": every line is one sentence. "rules": a line break always ends a sentence; so do . ! ? before a space,
    but for the full stop of an abbreviation ("Mr. Smith", "e.g. this", "J. R. Smith", "No. 5"), and for three of
    them or a closing quote before a small letter ("well ... and", "'Stop!' he said"). Other small letters begin a
    sentence: many people write without capitals."""
    if way not in WAYS:
        raise ValueError(f"sentences are split by {' or '.join(WAYS)}, got {way!r}")
    lines = [line.strip() for line in LINES.split(text)]
    if way == "lines":
        return [line for line in lines if line]
    return [sentence for line in lines for sentence in _by_rules(line)]


def _by_rules(line: str) -> list[str]:
    sentences, begin = [], 0
    for end in END.finditer(line):
        if _ends(line, begin, end):
            sentences.append(line[begin : end.end()].strip())
            begin = end.end()
    sentences.append(line[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends(line: str, begin: int, end: re.Match[str]) -> bool:
    mark, after = end.group(), line[end.end() : end.end() + 20].lstrip().lstrip(OPENING)[:1]
    if mark != ".":  # ellipses, and what is said by someone: "Stop!" he said
        return not (after.islower() and (mark[-1] not in ".!?。！？" or mark.endswith(("..", "…"))))
    *_, word = "", *line[max(begin, end.start() - LONGEST) : end.start()].split()
    word = word.lstrip(OPENING)
    if word.lower() in NEVER or (len(word) == 1 and word.isupper() and word != "I"):
        return False
    if INNER.fullmatch(word):
        return after.isupper() and not word.isupper() and word.lower() not in ("e.g", "i.e")
    return not (word.lower() in SELDOM and (after.islower() or after.isdigit()))
