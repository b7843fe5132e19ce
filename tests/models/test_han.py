"""Yang 2016 against its equations, written out in float64 word by word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import trace
from regard.data.text.document_encoding import DocumentBatch, DocumentEncoding
from regard.data.text.special_tokens import REGARD
from regard.models import han
from regard.models.han import HAN, HANConfig

LABELS = ("bad", "fair", "good")
VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {"pool": "mean"},
    "max": {"pool": "max"},
    "lstm": {"cell": "lstm", "attention": 5},
    "two layers": {"layers": 2},
    "bigrams": {"bigrams": 7},
}
LEARNS = ("mean", "max", "bigrams")
DOCUMENTS = [[[4, 5, 6], [7, 8]], [[9]], [], [[4, 4, 4, 9, 10], [5], [6, 7]]]  # ids of sentences
ENCODING = DocumentEncoding(max_sentences=9, max_words=9)


def build(**changes: Any) -> HAN:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocabulary": 12, "labels": LABELS, "embed": 6, "dim": 4, "dropout": 0.3}
    model = HAN(HANConfig(**sizes | changes)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch_of(documents: list[list[list[int]]]) -> DocumentBatch:
    return ENCODING.batch([ENCODING.row(document, 100)[0] for document in documents], REGARD)


def gru(cell: nn.GRU, x: list[Tensor], suffix: str) -> list[Tensor]:
    """h' = (1 - z) n + z h, step by step"""
    w, u, b, c = (getattr(cell, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    h, found = torch.zeros(u.shape[1], dtype=torch.float64), []
    for one in x:
        (r1, z1, n1), (r2, z2, n2) = (w @ one + b).chunk(3), (u @ h + c).chunk(3)
        r, z = torch.sigmoid(r1 + r2), torch.sigmoid(z1 + z2)
        h = (1 - z) * torch.tanh(n1 + r * n2) + z * h
        found.append(h)
    return found


def level(part: Any, x: list[Tensor], pool: str) -> tuple[Tensor, list[float]]:
    """What is read of a row of vectors, and the weights."""
    size = part.dim
    if not x:
        return torch.zeros(size, dtype=torch.float64), []
    forward = gru(part.encoder.rnn, x, "")
    backward = gru(part.encoder.rnn, x[::-1], "_reverse")[::-1]
    states = [torch.cat(both) for both in zip(forward, backward, strict=True)]
    if pool == "max":
        return torch.stack(states).amax(0), []
    scores = [0.0] * len(states)
    if pool == "attention":
        weight, context = part.pool.attend.score.weight, part.pool.context
        scores = [float(torch.tanh(weight.weight @ h + weight.bias) @ context) for h in states]
    shares = [np.exp(score) / sum(np.exp(scores)) for score in scores]
    return sum(share * h for share, h in zip(shares, states, strict=True)), shares  # type: ignore[return-value]


@pytest.mark.parametrize("pool", ["attention", "mean", "max"])
@torch.no_grad()
def test_equals_its_equations(pool: str) -> None:
    model, batch = build(pool=pool), batch_of(DOCUMENTS)
    wanted, words, sentences = [], [], []
    for document in DOCUMENTS:
        read = [level(model.words, [model.embed.table.weight[i] for i in ids], pool) for ids in document]
        whole, shares = level(model.sentences, [vector for vector, _ in read], pool)
        words += [own for _, own in read]
        sentences.append(shares)
        wanted.append(model.classify.weight @ whole + model.classify.bias)
    found = model.class_logits(batch)
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-10, atol=1e-10)
    if pool != "attention":
        assert model.levels == ()
        return
    with trace(model, *model.levels) as seen:
        assert torch.equal(found, model.class_logits(batch))
    assert seen.sites == list(model.levels) == ["words.pool.attend", "sentences.pool.attend"]
    order = batch.sentences[batch.document_mask]
    for own, row in zip(words, seen["words.pool.attend"][order, 0], strict=True):
        np.testing.assert_allclose(row[: len(own)], own, atol=1e-12)
        assert not row[len(own) :].any()
        assert sum(own) == pytest.approx(1)
    for own, row in zip(sentences, seen["sentences.pool.attend"][:, 0], strict=True):
        np.testing.assert_allclose(row[: len(own)], own, atol=1e-12)


def test_groups_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = build(), batch_of(DOCUMENTS)
    whole, with_trace = [], []
    for cost in (10_000, 0):
        monkeypatch.setattr(han, "row_groups", lambda mask, cost=cost: groups(mask, cost))
        assert len(groups(batch.mask, cost)) == (1 if cost else 4)
        model.zero_grad()
        with trace(model, *model.levels) as seen:
            found = model.class_logits(batch)
        found.sum().backward()
        whole.append([found.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
        with_trace.append([seen[site] for site in seen.sites])
    for one, other in zip(*whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    for one, other in zip(*with_trace, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def groups(mask: Tensor, cost: int) -> list[tuple[int, int, int]]:
    lengths = mask.sum(1).tolist()
    return [(first, last, lengths[first]) for first, last in han.cut_rows(lengths, cost)]


def test_documents_without_words_have_a_class_and_no_gradient_of_nan() -> None:
    for documents in ([[]], [[], []], [[], [[4]]]):
        model = build()
        logits = model.class_logits(batch_of(documents))
        torch.testing.assert_close(logits[0], model.classify.bias)
        logits.sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_equal_scores_are_the_mean() -> None:
    model, other = build(), build(pool="mean")
    with torch.no_grad():
        model.words.pool.context.zero_()
        model.sentences.pool.context.zero_()
    other.load_state_dict({name: x for name, x in model.state_dict().items() if ".pool." not in name})
    batch = batch_of(DOCUMENTS)
    torch.testing.assert_close(model.class_logits(batch), other.class_logits(batch))


def test_loss_is_the_cross_entropy() -> None:
    model, labels = build(), torch.tensor([2, 0, 1, 2])
    batch = batch_of(DOCUMENTS)
    loss = model.loss(DocumentBatch(batch.tokens, batch.mask, batch.sentences, batch.document_mask, labels))
    wanted = F.cross_entropy(model(batch).float(), labels, reduction="sum")
    torch.testing.assert_close(loss.total, wanted, check_dtype=False)
    assert loss.tokens == 4


def test_adopts_all_but_a_head_for_other_classes() -> None:
    ours, theirs = build(labels=("a", "b")), build()
    assert ours.adopt(theirs) == ["classify.weight", "classify.bias"]
    assert torch.equal(ours.embed.table.weight, theirs.embed.table.weight)
    with pytest.raises(ValueError, match="han can only start from another han, got Linear"):
        ours.adopt(nn.Linear(1, 1))  # type: ignore[arg-type]


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="labels must name two classes or more, got 'a' alone"):
        HANConfig(vocabulary=3, labels=("a",))
