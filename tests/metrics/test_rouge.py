"""ROUGE against numbers worked by hand, and the package rouge-score where it is."""

from __future__ import annotations

import random

import pytest

from regard.metrics.rouge import ROUGE, rouge, rouge_scores

REFERENCE = "police killed the gunman"


@pytest.mark.parametrize(
    ("answer", "one", "two", "longest"),
    [
        # Lin 2004, section 3: of 4 words 3 are common; 1 of 3 pairs; "police the gunman" in this order
        ("police kill the gunman", 3 / 4, 1 / 3, 3 / 4),
        ("the gunman kill police", 3 / 4, 1 / 3, 2 / 4),
        # 3 of the answer's 6 words and of the reference's 4: 2 * 3 / 10; "the gunman": 2 * 1 / (5 + 3)
        ("the gunman and the police ran", 6 / 10, 2 / 8, 4 / 10),
        ("Police KILLED the gunman.", 1.0, 1.0, 1.0),
        ("the the the the", 2 / 8, 0.0, 2 / 8),  # "the" is counted once
        ("nobody", 0.0, 0.0, 0.0),
        ("", 0.0, 0.0, 0.0),
    ],
)
def test_worked_by_hand(answer: str, one: float, two: float, longest: float) -> None:
    found = [rouge(name, [answer], [[REFERENCE]]) for name in ROUGE]
    assert found == pytest.approx([100 * one, 100 * two, 100 * longest])


def test_the_best_reference_counts_and_answers_are_averaged() -> None:
    answers, references = ["a b", "c"], [["x y", "a b"], ["c d e"]]
    assert rouge_scores("rouge1", answers, references) == pytest.approx([100.0, 50.0])
    assert rouge("rouge1", answers, references) == pytest.approx(75.0)


def test_letters_of_every_script_are_words() -> None:
    assert rouge("rougeL", ["die Straße"], [["DIE Straße"]]) == 100.0
    assert rouge("rouge1", ["новый день"], [["новый год"]]) == 50.0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="metric must be one of rouge1, rouge2, rougeL, got 'rouge3'"):
        rouge("rouge3", ["a"], [["a"]])
    with pytest.raises(ValueError, match="each answer needs its references"):
        rouge("rouge1", ["a"], [])


def test_it_is_that_of_rouge_score() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(list(ROUGE))
    draw = random.Random(0)
    for _ in range(50):
        answer, reference = (" ".join(draw.choices("abcdef", k=draw.randint(1, 12))) for _ in range(2))
        wanted = scorer.score(reference, answer)
        for name in ROUGE:
            assert rouge(name, [answer], [[reference]]) == pytest.approx(100 * wanted[name].fmeasure)
