"""References are checked by every measure that takes them."""

import pytest

from regard.metrics.bleu import bleu, chrf, tokenised_bleu
from regard.metrics.captions import caption_bleu, caption_bleu_each, cider, rouge_l
from regard.metrics.exact_match import exact_match

MEASURES = [bleu, tokenised_bleu, chrf, exact_match, caption_bleu, caption_bleu_each, rouge_l, cider]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("answers", "references", "message"),
    [
        ([], [], "each answer needs its references, got 0 answers, references for 0"),
        (["a"], [], "got 1 answers, references for 0"),
        (["a"], [["a"], ["b"]], "got 1 answers, references for 2"),
        (["a", "b"], [["a"], []], "answer 2 has no reference"),
        (["a", "b"], ["a", "b"], "the references of answer 1 must be a list, got 'a'"),
    ],
)
def test_each_answer_needs_its_references(measure, answers, references, message):
    with pytest.raises(ValueError, match=message):
        measure(answers, references)
