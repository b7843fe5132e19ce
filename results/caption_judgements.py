"""Do the metrics of captions rank them as people do? Flickr8k's expert judgements.

    REGARD_DATA=DATA python results/caption_judgements.py        # reads DATA/flickr8k; half a minute

Three experts graded 5,822 pairs of an image and a caption, mostly another image's, from 1 (unrelated) to 4 (right).
Protocol of the published figures (Anderson 2016, as told by Hessel 2021): the references are the image's own five
captions, the 158 pairs whose caption is one of them are left out, and each expert's grade is a row of its own:
3 x 5,664 rows, Kendall's tau-c. Document frequencies of CIDEr are those of the judged pairs.

Second table: CIDEr by the median grade, and the cuts that best tell a grade and the better ones from the worse."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import numpy as np
from rank_correlation import tau_b, tau_c

from regard.base.files import find_data
from regard.base.lines import open_lines
from regard.metrics.captions import GRADES, caption_bleu_each, caption_grade, cider, rouge_l

# Hessel et al. 2021 (CLIPScore), table 1; BLEU-2 and BLEU-3 are not in it
PUBLISHED = {"BLEU-1": 32.3, "BLEU-4": 30.8, "ROUGE-L": 32.3, "CIDEr": 43.9}


class Judged(NamedTuple):
    caption: str
    references: list[str]
    grades: tuple[int, ...]  # of the three experts


def rows(name: str) -> Iterator[list[str]]:
    for _, line in open_lines(find_data(f"flickr8k/{name}")):
        yield line.split("\t")


def judged() -> list[Judged]:
    captions = dict(rows("Flickr8k.token.txt.gz"))
    own: dict[str, list[str]] = {}
    for name, caption in captions.items():
        own.setdefault(name.partition("#")[0], []).append(caption)
    rated = []
    for image, name, *grades in rows("ExpertAnnotations.txt.gz"):
        if captions[name] not in own[image]:
            rated.append(Judged(captions[name], own[image], tuple(map(int, grades))))
    return rated


def scores_of(pairs: list[Judged]) -> dict[str, list[float]]:
    answers, references = [pair.caption for pair in pairs], [pair.references for pair in pairs]
    bleu = zip(*caption_bleu_each(answers, references), strict=True)
    return {
        **{f"BLEU-{n}": list(each) for n, each in enumerate(bleu, 1)},
        "ROUGE-L": rouge_l(answers, references)[1],
        "CIDEr": cider(answers, references)[1],
    }


def correlations(pairs: list[Judged], scores: dict[str, list[float]]) -> None:
    grades = [grade for pair in pairs for grade in pair.grades]
    print("| metric | tau-c | published | tau-b |\n|---|---|---|---|")
    for name, each in scores.items():
        three = [score for score in each for _ in range(3)]
        taus = f"{100 * tau_c(three, grades):.1f} | {PUBLISHED.get(name, '')} | {100 * tau_b(three, grades):.1f}"
        print(f"| {name} | {taus} |")
    others = [(sum(pair.grades) - grade) / 2 for pair in pairs for grade in pair.grades]
    print(
        f"| the other two experts' mean | {100 * tau_c(others, grades):.1f} | | {100 * tau_b(others, grades):.1f} |"
    )


def best_cut(scores: np.ndarray, better: np.ndarray) -> tuple[float, float]:
    """The score from which on a caption is called better, and the accuracy, each of the two sides counted alike."""
    cuts = np.unique(scores)
    below = np.searchsorted(np.sort(scores[better]), cuts), np.searchsorted(np.sort(scores[~better]), cuts)
    accuracy = (1 - below[0] / better.sum() + below[1] / (~better).sum()) / 2
    return float(cuts[accuracy.argmax()]), 100 * float(accuracy.max())


def by_grade(pairs: list[Judged], scores: np.ndarray) -> None:
    grades = np.array([median(pair.grades) for pair in pairs])
    print("| median grade | pairs | mean CIDEr | quartiles | lower cut | accuracy of the cut |")
    print(f"|{'---|' * 6}")
    for grade, word in zip((4, 3, 2, 1), GRADES, strict=True):
        chosen = scores[grades == grade]
        low, middle, high = np.percentile(chosen, (25, 50, 75))
        cells = [f"{grade}, {word}", f"{len(chosen):,}", f"{chosen.mean():.0f}"]
        cells.append(f"{low:.0f}, {middle:.0f}, {high:.0f}")
        if grade > 1:
            cut, accuracy = best_cut(scores, grades >= grade)
            cells += [f"{cut:.0f}", f"{accuracy:.0f} %"]
        print(f"| {' | '.join(cells)} |")
    words = list(GRADES)
    off = np.abs(grades - [4 - words.index(caption_grade(score)) for score in scores])
    same, beside = 100 * (off == 0).mean(), 100 * (off <= 1).mean()
    print(f"\ncaption_grade is the median grade for {same:.0f} % of the pairs, at most one away for {beside:.0f} %")


if __name__ == "__main__":
    pairs = judged()
    scores = scores_of(pairs)
    print(f"{len(pairs):,} pairs, {3 * len(pairs):,} grades\n")
    correlations(pairs, scores)
    print()
    by_grade(pairs, np.array(scores["CIDEr"]))
