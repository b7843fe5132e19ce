"""BLEU and chrF against numbers worked out by hand."""

import math

import pytest

from regard.metrics.bleu import bleu, chrf, tells, tokenised_bleu


def test_bleu_is_the_geometric_mean_of_four_precisions():
    """the cat sat on the mat / the cat sat on a mat: 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 fours;
    as long as the reference, so there is no penalty for brevity."""
    score, how = bleu(["the cat sat on the mat"], [["the cat sat on a mat"]])
    assert score == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, abs=1e-6)
    assert how.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.")


def test_bleu_punishes_brevity():
    """All that is said is right, but 4 words stand for 6: exp(1 - 6/4)."""
    score, _ = bleu(["the cat sat on"], [["the cat sat on the mat"]])
    assert score == pytest.approx(100 * math.exp(1 - 6 / 4), abs=1e-6)


def test_bleu_counts_over_the_whole_corpus():
    """Precisions are summed before the mean is taken: 10 of 11, 7 of 9, 5 of 7, 3 of 5."""
    answers = ["the cat sat on the mat", "a b c d e"]
    score, _ = bleu(answers, [["the cat sat on a mat"], ["a b c d e"]])
    assert score == pytest.approx(100 * (10 / 11 * 7 / 9 * 5 / 7 * 3 / 5) ** 0.25, abs=1e-6)


def test_bleu_looks_in_all_references():
    """ "the" stands twice in the answer and once in each reference: 5 of 6 words; all pairs, triples and fours
    are in one or the other."""
    two = ["the cat sat on a mat", "a cat sat on the mat"]
    score, how = bleu(["the cat sat on the mat"], [two])
    assert score == pytest.approx(100 * (5 / 6) ** 0.25, abs=1e-6)
    assert how.startswith("nrefs:2|")


def test_the_number_of_references_may_differ():
    """5 of 6 words and the rest as before, beside a sentence that has one reference and hits all of it."""
    two = ["the cat sat on a mat", "a cat sat on the mat"]
    answers = ["a b c d e", "the cat sat on the mat"]
    for references in ([["a b c d e"], two], [["a b c d e", "x", "y"], two]):
        score, how = bleu(answers, references)
        assert score == pytest.approx(100 * (10 / 11) ** 0.25, abs=1e-6)
        assert how.startswith("nrefs:var|")
    assert chrf(answers, [["a b c d e"], [*two, answers[1]]])[0] == pytest.approx(100)


def test_bleu_is_cased_and_splits_words_itself():
    """(e) is three words: 6 of 7, 5 of 6, 4 of 5, 3 of 4 once A does not match a."""
    score, _ = bleu(["a b c d (e)"], [["A b c d (e)"]])
    assert score == pytest.approx(100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25, abs=1e-6)


def test_tokenised_bleu_takes_text_as_it_stands_but_for_case():
    """(e) is one word, and not e: 4 of 5, 3 of 4, 2 of 3, 1 of 2."""
    score, how = tokenised_bleu(["a b c d (e)"], [["A B C D e"]])
    assert score == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, abs=1e-6)
    assert "case:lc" in how
    assert "tok:none" in how


def test_tokenised_bleu_does_not_warn_of_tokenised_text(capfd: pytest.CaptureFixture[str]):
    text = ["a man sleeps ."] * 200
    tokenised_bleu(text, [[one] for one in text])
    assert capfd.readouterr() == ("", "")


def test_chrf_is_the_mean_f2_over_character_orders():
    """abcd / abce: 3 of 4, 2 of 3, 1 of 2 and 0 of 1 n-grams agree, precision = recall = F at each order."""
    score, how = chrf(["abcd"], [["abce"]])
    assert score == pytest.approx(100 * (3 / 4 + 2 / 3 + 1 / 2 + 0) / 4, abs=1e-6)
    assert "nc:6|nw:0" in how


def test_chrf_weighs_recall_twice():
    """ab / abcd: orders 1 and 2 only. P = 1 and 1, R = 2/4 and 1/3; F2 of the mean P and mean R."""
    precision, recall = (1 + 1) / 2, (2 / 4 + 1 / 3) / 2
    wanted = 5 * precision * recall / (4 * precision + recall)
    assert chrf(["ab"], [["abcd"]])[0] == pytest.approx(100 * wanted, abs=1e-6)


@pytest.mark.parametrize("measure", [bleu, tokenised_bleu, chrf])
def test_what_is_equal_has_a_hundred_and_what_shares_nothing_near_nothing(measure):
    same = ["one two three four five", "six seven eight nine ten"]
    references = [[text] for text in same]
    assert measure(same, references)[0] == pytest.approx(100)
    assert measure(["zzzz zzz zz z"] * 2, references)[0] < 5


@pytest.mark.parametrize(
    ("references", "plain", "tokenised"),
    [
        ([("MCMXC",), ("XII",)] * 10, False, False),
        ([("1979-05-03",)] * 10, True, False),  # sacrebleu takes it apart
        ([("a b c",)] * 9 + [("a b c d",)], True, True),
        ([("a b c",)] * 10 + [("a b c d",)], False, False),  # one answer would decide
        ([("a", "a b c d")], True, True),
    ],
)
def test_bleu_says_nothing_of_short_targets(
    references: list[tuple[str, ...]], plain: bool, tokenised: bool
) -> None:
    assert (tells("bleu", references), tells("tokenised_bleu", references)) == (plain, tokenised)
    assert tells("chrf", references)
