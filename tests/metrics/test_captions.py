"""Scores of captions against numbers worked by hand, and against pycocoevalcap's."""

import gzip
import math
import os
import re
from pathlib import Path

import pytest

from regard.metrics.captions import (
    _cosine,
    caption_bleu,
    caption_bleu_each,
    caption_grade,
    caption_words,
    cider,
    rouge_l,
)


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A little Girl, in a pink dress.", "a little girl in a pink dress"),
        ("The man's dog isn't on the dogs' lawn!", "the man 's dog is n't on the dogs lawn"),
        ("The man\u2019s T-shirt says \u201chello\u201d \u2026", "the man 's t-shirt says hello"),
        ("black-and-white photo -- 2.5 of 1,000 (or 1/2); end.", "black-and-white photo 2.5 of 1,000 or 1/2 end"),
        ("# 7 runs & jumps", "# 7 runs & jumps"),
        ("red,green;blue", "red green blue"),
        ("sant klaus", "sant klaus"),  # ends on nt, but without an apostrophe
        ("Über Äpfel – ça va", "über äpfel ça va"),
        (" ... ", ""),
        ("", ""),
    ],
)
def test_words_are_lower_case_without_punctuation(caption, words):
    assert caption_words(caption) == words.split()


def test_bleu_by_hand():
    answers, references = ["The the the cat sat."], [["the cat sat on the mat", "a cat"]]
    # 5 words, the closest reference has 6: exp(1 - 6/5). Of the words the (2 of 3), cat and sat match, of the pairs
    # "the cat" and "cat sat", of the triples "the cat sat", of the two 4-grams none.
    short = math.exp(-0.2)
    found = caption_bleu(answers, references)
    right = (80 * short, 100 * short * (4 / 5 * 2 / 4) ** (1 / 2), 100 * short * (4 / 5 * 2 / 4 * 1 / 3) ** (1 / 3))
    assert found[:3] == pytest.approx(right)
    assert found[3] == pytest.approx(100 * short * (4 / 5 * 2 / 4 * 1 / 3 * 1e-15 / 2) ** (1 / 4))
    assert found[3] < 0.02
    assert caption_bleu_each(answers, references) == [found]


def test_corpus_bleu_sums_the_counts():
    answers, references = ["a b c d e", "a b x y"], [["a b c d e"], ["a b c d", "u v"]]
    found = caption_bleu(answers, references)  # 7 of 9 words, 5 of 7 pairs, 3 of 5 triples, 2 of 3 4-grams
    right = [7 / 9, 7 / 9 * 5 / 7, 7 / 9 * 5 / 7 * 3 / 5, 7 / 9 * 5 / 7 * 3 / 5 * 2 / 3]
    assert found == pytest.approx([100 * value ** (1 / n) for n, value in enumerate(right, 1)])
    first, second = caption_bleu_each(answers, references)
    assert first == pytest.approx((100, 100, 100, 100))
    assert second[:2] == pytest.approx((50, 100 * (1 / 2 * 1 / 3) ** (1 / 2)))


def test_the_closest_length_counts_and_of_two_the_shorter():
    # 4 words; references of 3 and 5 are as close: the shorter punishes nothing. With 5 and 9 it is exp(1 - 5/4).
    assert caption_bleu(["a b c d"], [["a b c d e", "a b c"]])[0] == pytest.approx(100)
    assert caption_bleu(["a b c d"], [["a b c d e", "a b c d e f g h i"]])[0] == pytest.approx(
        100 * math.exp(-0.25)
    )


def test_rouge_by_hand():
    """ "a dog runs on grass" and "a brown dog on the grass": a dog on grass, 4 of 5 and of 6 words."""
    mean, each = rouge_l(["A dog runs on grass.", "x"], [["a brown dog on the grass"], ["y"]])
    score = 100 * 2.44 * (4 / 5) * (4 / 6) / (4 / 6 + 1.44 * 4 / 5)
    assert each == pytest.approx([score, 0])
    assert mean == pytest.approx(score / 2)


def test_rouge_takes_the_best_precision_and_the_best_recall():
    _, [score] = rouge_l(["a b c d"], [["a b c x y z u v"]])
    assert score == pytest.approx(100 * 2.44 * (3 / 4) * (3 / 8) / (3 / 8 + 1.44 * 3 / 4))
    _, [both] = rouge_l(["a b c d"], [["a b c x y z u v", "a b"]])  # recall 1 from the second reference
    assert both == pytest.approx(100 * 2.44 * (3 / 4) * 1 / (1 + 1.44 * 3 / 4))


def test_cider_by_hand():
    """Two images: "a" occurs at both and weighs log(2/2) = 0, everything else log(2/1)."""
    mean, each = cider(["a cat", "a dog"], [["a cat"], ["a bird", "a dog dog"]])
    # First: words and pairs agree, there are no longer n-grams: 1/2 of 1,000.
    # Second, against "a bird": nothing. Against "a dog dog": words (0, 1) and (0, 2) with the cosine
    # min(1, 2) * 2 / (1 * 2) = 1; pairs (a dog) and (a dog, dog dog) 1 / sqrt(2); one word longer: exp(-1 / 72).
    second = 1000 * (1 + 1 / math.sqrt(2)) / 4 * math.exp(-1 / 72) / 2
    assert each == pytest.approx([500, second])
    assert mean == pytest.approx((500 + second) / 2)


def test_cider_is_the_same_in_every_process():
    """N-grams are summed in the order of the words: a set of them has another order in each process, and captions
    of nearly one score were ranked by it."""
    weights = {("large",): 1e8} | {(str(number),): 1.0 for number in range(20)}  # 1e16 + 1 = 1e16
    assert _cosine([weights], [weights]) == 1e16 / math.hypot(*weights.values()) ** 2


def test_cider_clips_what_is_repeated():
    references = [["a dog runs"], ["cats sleep"]]
    _, (right, _) = cider(["a dog runs", "x"], references)
    _, (longer, _) = cider(["a dog dog dog runs", "x"], references)
    assert right == pytest.approx(750)  # no 4-grams
    # Words (1, 3, 1) and (1, 1, 1); pairs (1, 2, 1) and (1, 0, 1); no common triple; two words longer.
    words, pairs = 3 / math.sqrt(11 * 3), 2 / math.sqrt(6 * 2)
    assert longer == pytest.approx(1000 * (words + pairs) / 4 * math.exp(-4 / 72))


def test_cider_of_a_single_image_is_zero():
    assert cider(["a dog"], [["a dog"]]) == (0, [0])


def test_grades_by_cider():
    found = [caption_grade(score) for score in (130.0, 25.0, 24.9, 10.0, 9.9, 5.0, 4.9, 0.0)]
    words = ["right", "minor errors", "related", "unrelated"]
    assert found == [word for word in words for _ in range(2)]


def test_captions_without_words_score_nothing():
    answers, references = ["...", "a dog on grass"], [["a dog"], ["!"]]
    assert caption_bleu_each(answers, references)[0] == (0, 0, 0, 0)
    assert caption_bleu(["", ""], [["a"], [""]]) == (0, 0, 0, 0)
    assert rouge_l(answers, references) == (0, [0, 0])
    assert cider(answers, references) == (0, [0, 0])


def test_case_and_punctuation_change_nothing():
    plain, marked = ["a dog runs on the grass"] * 2, ["A dog runs, on the Grass .", "A dog; runs (on) the grass!"]
    references = [["A brown dog runs on green grass.", "the dog runs"], ["a cat on the roof."]]
    for score in (caption_bleu, caption_bleu_each, rouge_l, cider):
        assert score(plain, references) == score(marked, references)


# pycocoevalcap 1.2 with Stanford's PTB tokenizer on the same captions, times 100
COCO_BLEU = (63.64127012682705, 44.57777185666552, 30.549035362497285, 20.945675889555993)
COCO_ROUGE, COCO_CIDER = 48.75475010364561, 78.85967975248741


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="set REGARD_DATA to a folder with flickr8k")
def test_scores_of_people_are_those_of_pycocoevalcap():
    """The first caption of each of Flickr8k's 1,000 test images against the other four."""
    folder = Path(os.environ["REGARD_DATA"]) / "flickr8k"
    listed, names = (
        gzip.decompress((folder / name).read_bytes()).decode().splitlines()
        for name in ("Flickr8k.token.txt.gz", "Flickr_8k.testImages.txt.gz")
    )
    captions: dict[str, list[str]] = {}
    for line in listed:
        name, caption = re.split("#[0-4]\t", line)
        captions.setdefault(name, []).append(caption)
    rows = [captions[name] for name in names]
    answers, references = [row[0] for row in rows], [row[1:] for row in rows]
    assert caption_bleu(answers, references) == pytest.approx(COCO_BLEU, rel=1e-9)
    assert rouge_l(answers, references)[0] == pytest.approx(COCO_ROUGE, rel=1e-9)
    assert cider(answers, references)[0] == pytest.approx(COCO_CIDER, abs=0.002)  # a few words differ
