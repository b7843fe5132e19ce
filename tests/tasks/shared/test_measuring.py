"""The loss of all batches together, by models of either task."""

import pytest
import torch

from regard.data.batches.batch import PairBatch
from regard.data.text.windows import TextBatch
from regard.models.rnnlm import RNNLM, RNNLMConfig
from regard.models.seq2seq import Seq2seq, Seq2seqConfig
from regard.tasks.core.results import CLASS_METRICS
from regard.tasks.shared.measuring import evaluate_classes, total_loss

WORDS = 9


def language():
    torch.manual_seed(0)
    tokens = [torch.randint(WORDS, (rows, 6)) for rows in (3, 1)]
    batches = [TextBatch(x, torch.rand(len(x), 5) < 0.6, None) for x in tokens]
    return RNNLM(RNNLMConfig(WORDS, embed=4, dim=5, dropout=0.0)), batches


def translator():
    torch.manual_seed(0)
    batches = []
    for rows in (3, 1):
        source, target = (torch.randint(4, WORDS, (rows, 6)) for _ in range(2))
        real = torch.arange(6) < torch.randint(2, 7, (rows, 1))
        batches.append(PairBatch(source, real, target, real))
    return Seq2seq(Seq2seqConfig(WORDS, embed=4, dim=5, dropout=0.0)), batches


@pytest.mark.parametrize("made", [language, translator])
def test_tokens_count_alike_whatever_batch_they_are_in(made):
    model, batches = made()
    losses = [model.loss(batch) for batch in batches]
    total, tokens = total_loss(model, batches)
    assert tokens == sum(int(loss.tokens) for loss in losses)
    assert total == pytest.approx(-sum(loss.likelihood.sum().item() for loss in losses), rel=1e-5)
    assert (type(total), type(tokens)) == (float, int)
    assert losses[0].tokens != losses[1].tokens, "a mean of means would be another number"


def test_batches_may_be_a_stream_and_leave_no_gradient():
    model, batches = language()
    assert total_loss(model, iter(batches)) == total_loss(model, batches)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert total_loss(model, []) == (0.0, 0)


def test_two_classes_have_a_matthews_correlation_and_more_have_none():
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    found = evaluate_classes(logits, torch.tensor([0, 0, 1, 1]), ("no", "yes"))
    assert found.metrics["matthews"] == pytest.approx(2 / 12**0.5)
    assert set(found.metrics) == set(CLASS_METRICS)
    more = evaluate_classes(torch.eye(3), torch.arange(3), ("a", "b", "c"))
    assert set(more.metrics) == set(CLASS_METRICS) - {"matthews"}


def test_an_evaluation_says_what_was_counted():
    logits, truths = torch.eye(2), torch.arange(2)
    assert "on 2 texts, 1 truncated: " in repr(
        evaluate_classes(logits, truths, ("a", "b"), unit="texts", truncated=1)
    )
    found = evaluate_classes(logits, truths, ("a", "b"), unit="images", truncated=0)
    assert "on 2 images: " in repr(found)
    assert (found.to_dict()["images"], found.to_dict()["count"]) == (2, 2)
