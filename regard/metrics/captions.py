"""BLEU-1 to BLEU-4, ROUGE-L and CIDEr of captions against several references, as the COCO evaluation has them.

The scores are those of pycocoevalcap, which published figures come from. Its tokenizer is a Java program;
`caption_words` finds the same words in all but 26 of Flickr8k's 40,460 captions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from regard.metrics.references import check_references

ORDERS = (1, 2, 3, 4)  # n-grams
DROPPED = frozenset("'\"`.?!,:;-()[]{}\u2013\u2014\u2026\u2018\u201c\u201d")
# "isn't" is is + n't, "man's" is man + 's; t-shirt, 1/2, 2.5 and 1,000 are one word; any other mark is its own word
WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\w+(?:[-/]\w+|(?<=\d)[.,](?=\d)\w+)*|[^\w\s]")
# The CIDEr from which on a caption deserves the grade, by Flickr8k's expert judgements: results/captions.md
GRADES = {"right": 25.0, "minor errors": 10.0, "related": 5.0, "unrelated": 0.0}

Words = list[str]
Grams = Counter[tuple[str, ...]]
Vector = dict[tuple[str, ...], float]


def caption_words(caption: str) -> Words:
    """Lower-cased words as in the Penn Treebank, without quotes, brackets, dashes and . ? ! , : ; marks."""
    return [word for word in WORD.findall(caption.lower().replace("\u2019", "'")) if word not in DROPPED]


def caption_bleu(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, float, float, float]:
    """BLEU-1 to BLEU-4 of the corpus, in percent   (Papineni 2002)

    BLEU-n = brevity * (p_1 ... p_n)^(1/n), brevity = exp(min(0, 1 - r / c)). p_k is the share of the answers'
    k-grams that occur in a reference, each at most as often as in the reference that has it most often. c is the
    number of words, r that of the references closest in length (of two, the shorter)."""
    counts = [_matches(answer, targets) for answer, targets in _words(answers, references)]
    return _bleu([sum(column) for column in zip(*counts, strict=True)])


def caption_bleu_each(
    answers: Sequence[str], references: Sequence[Sequence[str]]
) -> list[tuple[float, float, float, float]]:
    """BLEU-1 to BLEU-4 of each caption by itself, in percent.

    As in the COCO evaluation, no match counts as 1e-15 matches: captions without a common 4-gram, which are most,
    have a BLEU-4 near zero but are still ranked by their shorter n-grams."""
    return [_bleu(_matches(answer, targets)) for answer, targets in _words(answers, references)]


def rouge_l(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, list[float]]:
    """ROUGE-L in percent: the mean, and each caption's   (Lin 2004)

    (1 + b^2) P R / (R + b^2 P) with b = 1.2. P and R are the longest common subsequence's share of the answer's and
    of a reference's words; the largest P and the largest R count, even if from different references."""
    scores = []
    for answer, targets in _words(answers, references):
        common = [_common_subsequence(answer, target) for target in targets]
        precision = max(common) / max(len(answer), 1)
        recall = max(length / max(len(target), 1) for length, target in zip(common, targets, strict=True))
        below = recall + 1.2**2 * precision
        scores.append(100 * (1 + 1.2**2) * precision * recall / below if below else 0.0)
    return sum(scores) / len(scores), scores


def cider(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, list[float]]:
    """CIDEr-D, 0 to 1,000: the mean, and each caption's   (Vedantam 2015)

    1,000 times the cosine of the n-gram counts of answer and reference, mean over references and n = 1 to 4. A
    count is weighted by log(images / images with the n-gram in a reference), so an n-gram of every image's
    references weighs nothing: with a single image all scores are 0. Counts of the answer are clipped to the
    reference's; a factor exp(-difference in length^2 / 72) punishes another length. Words are not stemmed.

    Papers report this number (about 120 for a good model on COCO) or a hundredth of it, as pycocoevalcap does."""
    rows = _words(answers, references)
    grams = [set().union(*map(_grams, targets)) for _, targets in rows]  # of each image
    frequencies = Counter(gram for image in grams for gram in image)
    scores = []
    for answer, targets in rows:
        own = _vectors(answer, frequencies, len(rows))
        each = [
            _cosine(own, _vectors(target, frequencies, len(rows)))
            * math.exp(-((len(answer) - len(target)) ** 2) / 72)
            for target in targets
        ]
        scores.append(1000 * sum(each) / len(each))
    return sum(scores) / len(scores), scores


def caption_grade(score: float) -> str:
    """The grade of a caption with this CIDEr: "right", "minor errors", "related" or "unrelated".

    An estimate: on Flickr8k it is the experts' median grade for 58 % of the pairs, at most one away for 89 %."""
    return next((grade for grade, least in GRADES.items() if score >= least), "unrelated")


def _words(answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[Words, list[Words]]]:
    check_references(answers, references)
    return [
        (caption_words(answer), [caption_words(text) for text in targets])
        for answer, targets in zip(answers, references, strict=True)
    ]


def _grams(words: Words, orders: Sequence[int] = ORDERS) -> Grams:
    return Counter(tuple(words[at : at + n]) for n in orders for at in range(len(words) - n + 1))


def _matches(answer: Words, targets: list[Words]) -> list[int]:
    """The numbers of words and of the closest reference's words; then matches of each order, n-grams of each."""
    allowed: Grams = Counter()
    for target in targets:
        allowed |= _grams(target)
    matched = Counter[int]()
    for gram, count in (_grams(answer) & allowed).items():
        matched[len(gram)] += count
    closest = min((abs(len(target) - len(answer)), len(target)) for target in targets)[1]
    possible = [max(len(answer) - n + 1, 0) for n in ORDERS]
    return [len(answer), closest, *(matched[n] for n in ORDERS), *possible]


def _bleu(counts: Sequence[int]) -> tuple[float, float, float, float]:
    words, closest, *grams = counts
    brevity = math.exp(min(0.0, 1 - closest / words)) if words else 0.0
    product, scores = 1.0, []
    for n, matched, possible in zip(ORDERS, grams[:4], grams[4:], strict=True):
        product *= max(matched, 1e-15) / max(possible, 1e-9)
        scores.append(100 * brevity * product ** (1 / n))
    first, second, third, fourth = scores
    return first, second, third, fourth


def _common_subsequence(first: Words, second: Words) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        before = row
        row = [0]
        for at, other in enumerate(second, 1):
            row.append(before[at - 1] + 1 if word == other else max(before[at], row[-1]))
    return row[-1]


def _vectors(words: Words, frequencies: Grams, images: int) -> list[Vector]:
    """The weighted counts of each order; an n-gram in no reference weighs as if it were in a single image's."""
    return [
        {gram: count * math.log(images / max(frequencies[gram], 1)) for gram, count in _grams(words, (n,)).items()}
        for n in ORDERS
    ]


def _cosine(answer: list[Vector], reference: list[Vector]) -> float:
    """The mean over the orders."""
    total = 0.0
    for own, other in zip(answer, reference, strict=True):
        norms = math.hypot(*own.values()) * math.hypot(*other.values())
        if norms:
            common = [gram for gram in own if gram in other]  # in the order of the words: a set has any
            total += sum(min(own[gram], other[gram]) * other[gram] for gram in common) / norms
    return total / len(answer)
