"""Word alignments: Pharaoh format, the alignment error rate, and links from attention weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

Links = frozenset[tuple[int, int]]  # (source word, target word), counted from 0

LINK = re.compile(r"([0-9]+)([-p?])([0-9]+)")


@dataclass(frozen=True)
class AlignmentScores:
    """In percent; `links` is the number of links in the answers."""

    aer: float
    precision: float
    recall: float
    links: int


def parse_links(line: str, *, base: int = 0, swap: bool = False) -> tuple[Links, Links]:
    """The sure links of a line, and the possible ones, which include the sure ones.

    "i-j" is sure, "ipj" and "i?j" are possible. `base` is the number of the first word in the file; `swap` is for
    files with the target word first."""
    sure, possible = set(), set()
    for token in line.split():
        match = LINK.fullmatch(token)
        if not match:
            raise ValueError(f"a link must look like 3-4 (sure), 3p4 or 3?4 (possible), got {token[:40]!r}")
        source, target = int(match[1]) - base, int(match[3]) - base
        if source < 0 or target < 0:
            raise ValueError(f"link {token} names a word before the first, which has number {base}; check the base")
        link = (target, source) if swap else (source, target)
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)


def read_links(lines: Iterable[str], *, base: int = 0, swap: bool = False) -> list[tuple[Links, Links]]:
    """`parse_links` of each line; an empty line is a sentence without links."""
    links = []
    for number, line in enumerate(lines, 1):
        try:
            links.append(parse_links(line, base=base, swap=swap))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return links


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """ "0-0 1-2": source word, target word, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def aer(answers: Sequence[Links], gold: Sequence[tuple[Links, Links]]) -> float:
    """1 - (|A & S| + |A & P|) / (|A| + |S|) over all sentences, in percent   (Och and Ney 2003)."""
    return alignment_scores(answers, gold).aer


def alignment_scores(answers: Sequence[Links], gold: Sequence[tuple[Links, Links]]) -> AlignmentScores:
    """The error rate; precision |A & P| / |A|, 0 without any links; recall |A & S| / |S|."""
    if len(answers) != len(gold):
        raise ValueError(f"each sentence needs its gold links, got {len(answers)} sentences, gold for {len(gold)}")
    said = sum(len(links) for links in answers)
    sure = sum(len(must) for must, _ in gold)
    if not sure:
        raise ValueError("the gold alignment has no sure links, so recall is undefined; write sure links as 3-4")
    hits = sum(len(links & must) for links, (must, _) in zip(answers, gold, strict=True))
    allowed = sum(len(links & may) for links, (_, may) in zip(answers, gold, strict=True))
    return AlignmentScores(
        aer=100 * (1 - (hits + allowed) / (said + sure)),
        precision=100 * allowed / said if said else 0.0,
        recall=100 * hits / sure,
        links=said,
    )


def links_from(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Each target word with the source word of largest weight.

    `weights` (T, S) are weights of tokens; `source_words` and `target_words` give the word of each token, -1 for
    none (the end token). The columns of a word are summed and its rows averaged. A target word has no link if no
    source word has any weight, or if the columns without a word together outweigh every word."""
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (len(target_words), len(source_words)):
        raise ValueError(
            f"weights must have a row for each of {len(target_words)} target tokens and a column for each of "
            f"{len(source_words)} source tokens, got shape {weights.shape}"
        )
    if np.isnan(weights).any():
        raise ValueError("weights must be numbers, got NaN")
    columns = np.asarray(source_words, dtype=np.int64)
    rows = np.asarray(target_words, dtype=np.int64)
    words = weights @ (columns[:, None] == np.arange(columns.max(initial=-1) + 1))  # (T, source words)
    nothing = weights[:, columns < 0].sum(1)  # (T,)
    links = set()
    for target in set(rows[rows >= 0].tolist()):
        own = rows == target
        looked = words[own].mean(0)
        heaviest = looked.max(initial=0.0)
        if heaviest > 0 and heaviest >= nothing[own].mean():
            links.add((int(looked.argmax()), target))
    return frozenset(links)
