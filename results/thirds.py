"""Which part of a sentence does a translator lose? The share of reference words that a translation has, by third of
the reference: its first, middle and last words.

    regard translate RUN --input source.txt --output answers.txt
    python results/thirds.py REFERENCES answers.txt [MORE]        # also .gz; prints a Markdown table

A word counts as often as it is in both, wherever it stands in the translation. Thirds differ in how easy their
words are; compare translators by column."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from regard.base.lines import open_lines

THIRDS = 3


def found_by_third(references: list[list[str]], answers: list[list[str]]) -> list[float]:
    """Percent of the words of each third that the answers have."""
    hits, words = [0] * THIRDS, [0] * THIRDS
    for reference, answer in zip(references, answers, strict=True):
        left = Counter(answer)
        for place, word in enumerate(reference):
            third = THIRDS * place // len(reference)
            words[third] += 1
            hits[third] += left[word] > 0
            left[word] -= 1
    return [100 * hit / count for hit, count in zip(hits, words, strict=True)]


def main(references: str, *answers: str) -> None:
    expected = words_of(references)
    print("| translations | first third | middle | last third |\n|---|---|---|---|")
    for name in answers:
        shares = found_by_third(expected, words_of(name))
        print(f"| {Path(name).stem} | {' | '.join(f'{share:.1f}' for share in shares)} |")


def words_of(name: str) -> list[list[str]]:
    return [line.split() for _, line in open_lines(name)]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
