"""The linear part of classifiers of texts, against its equation and beside their layers."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.batches.batch import pad
from regard.data.text.characters import CharacterBatch, character_batch
from regard.data.text.document_encoding import DocumentBatch
from regard.data.text.text_encoding import LabelledBatch, TokenBatch
from regard.layers.bigrams import SCALE, BigramClassifier
from regard.layers.loss import label_loss
from regard.models import MODELS

WORDS, ROWS, CLASSES = 9, 50, 3
TOKENS = torch.tensor([[4, 5, 4, 5, 6], [5, 4, 7, 0, 0], [0, 0, 0, 0, 0]])
MASK = torch.arange(5) < torch.tensor([5, 3, 0])[:, None]
LABELS = torch.tensor([1, 0, 2])
WORDY = {"embed": 5, "dim": 4}
KINDS: dict[str, dict[str, Any]] = {
    "pooling": WORDY,
    "han": WORDY,
    "lstmn": {**WORDY, "head": "classify"},
    "bert": {"dim": 4, "layers": 1, "heads": 2, "head": "classify"},
    "elmo": {"dim": 4, "layers": 1, "widths": (1,), "filters": (4,), "cell": 8, "reader": 4, "head": "classify"},
}


def build(dropout: float = 0.0, scale: float = 1.0) -> BigramClassifier:
    part = BigramClassifier(WORDS, ROWS, CLASSES, dropout=dropout, scale=scale).double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    return part


def model(kind: str, labels: tuple[str, ...] = ("a", "b", "c"), **changes: Any) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocabulary": WORDS, "labels": labels, **KINDS[kind]}
    return MODELS[kind](MODELS[kind].Config(**sizes | changes)).double().eval()


def batch(kind: str) -> Any:
    if kind == "bert":
        return LabelledBatch(TOKENS, torch.zeros_like(TOKENS), MASK, LABELS)
    if kind == "elmo":
        return spelled()
    if kind != "han":
        return TokenBatch(TOKENS, MASK, LABELS)
    sentences = torch.tensor([[1, 0], [2, 0]]), torch.tensor([[True, True], [True, False]])
    return DocumentBatch(TOKENS, MASK, *sentences, LABELS[:2])


def spelled() -> CharacterBatch:
    """The words of TOKENS, each of one character, between <s> and </s>."""
    rows = [row[:length] for row, length in zip(TOKENS.tolist(), MASK.sum(1).tolist(), strict=True)]
    letters = character_batch([[(8 + word,) for word in row] for row in rows], widest=1)
    ids, _ = pad([[1, *row, 2] for row in rows], 0)
    return replace(letters, words=ids, labels=LABELS)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@torch.no_grad()
def test_it_equals_its_equation(scale: float) -> None:
    part = build(scale=scale)
    words, pairs = part.words.weight, part.pairs.weight
    found = part(TOKENS, MASK)
    for row, length in enumerate((5, 3, 0)):
        ids = [WORDS, *TOKENS[row, :length].tolist()]
        wanted = torch.zeros(CLASSES, dtype=torch.float64)
        for before, word in pairwise(ids):
            pair = (before * 1_640_531_527 + word * 805_306_457) % (2**31 - 1) % ROWS
            wanted += words[word] + scale * pairs[pair]
        torch.testing.assert_close(found[row], wanted * SCALE / math.sqrt(max(length, 1)))


def test_rows_are_those_of_a_bigram_in_its_order() -> None:
    rows = build().hashed(TOKENS)
    assert rows[0, 1] == rows[0, 3]  # 4 5
    assert len({int(rows[0, 1]), int(rows[0, 2]), int(rows[0, 0])}) == 3  # 4 5, 5 4, 4 at the beginning
    assert rows.min() >= 0
    assert rows.max() < ROWS


@pytest.mark.parametrize("rows", [1000, 1024])
def test_rows_are_shared_by_chance_alone(rows: int) -> None:
    """As many bigrams as rows leave 1 / e of them empty, if each takes any row."""
    part = BigramClassifier(100_000, rows, 1, dropout=0)
    for words in (
        torch.arange(rows),
        torch.randperm(100_000, generator=torch.Generator().manual_seed(0))[:rows],
        torch.arange(rows) // 2 * 2,
    ):
        taken = part.hashed(words[None]).unique().numel() / rows
        assert taken > 0.5


def test_words_are_dropped_while_training_only() -> None:
    part = build(dropout=0.5)
    assert not torch.equal(part(TOKENS, MASK), part(TOKENS, MASK))
    part.eval()
    torch.testing.assert_close(part(TOKENS, MASK), build()(TOKENS, MASK))


def trained(kind: str, **changes: Any) -> Any:
    """Its linear part knows something."""
    wide = model(kind, bigrams=ROWS, **changes)
    wide.bigrams.load_state_dict(build().state_dict())
    return wide


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_model_begins_as_the_one_without(kind: str) -> None:
    """But for the share of its own logits."""
    plain, wide = model(kind), model(kind, bigrams=ROWS)
    share, _ = wide.config.bigram_shares
    assert torch.equal(share * plain.class_logits(batch(kind)), wide.class_logits(batch(kind)))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_answer_is_the_product_of_both_probabilities_each_to_a_power(kind: str) -> None:
    others: dict[str, Any] = {"bigram_shares": (0.25, 3.0), "bigram_scale": 0.5}
    for changes in ({}, others):
        wide, part = trained(kind, **changes), build(scale=changes.get("bigram_scale", 1.0))
        own, beside = wide.config.bigram_shares
        linear = documents(part) if kind == "han" else part(TOKENS, MASK)
        wanted = model(kind).class_logits(batch(kind)).softmax(-1) ** own * linear.softmax(-1) ** beside
        found = wide.class_logits(batch(kind)).softmax(-1)
        torch.testing.assert_close(found, wanted / wanted.sum(-1, keepdim=True))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_both_parts_learn_by_a_loss_of_their_own(kind: str, label_smoothing: float) -> None:
    """So the gradients of a model's own layers are half of those without the linear part, whatever that says."""
    plain, wide, examples = model(kind), trained(kind), batch(kind)
    alone, loss = (each.loss(examples, label_smoothing=label_smoothing) for each in (plain, wide))
    part = build()
    linear = label_loss(
        documents(part) if kind == "han" else part(TOKENS, MASK), examples.labels, label_smoothing=label_smoothing
    )
    torch.testing.assert_close(loss.total, (alone.total + linear.total) / 2)
    for each in (alone, linear, loss):
        each.total.backward()
    wanted = {**dict(plain.named_parameters()), **{f"bigrams.{name}": p for name, p in part.named_parameters()}}
    for name, weight in wide.named_parameters():
        if wanted[name].grad is not None:
            torch.testing.assert_close(weight.grad, wanted[name].grad / 2)
    assert wide.bigrams.words.weight.grad.any()
    answers = label_loss(wide.class_logits(examples), examples.labels)
    torch.testing.assert_close(loss.likelihood, answers.likelihood)
    assert (loss.tokens, loss.likelihood.requires_grad) == (len(examples.labels), False)


def documents(part: BigramClassifier | None = None) -> Tensor:
    """Of all words of a document; bigrams are those of a sentence."""
    part = part or build()
    both = math.sqrt(3) * part(TOKENS[1:2], MASK[1:2]) + math.sqrt(5) * part(TOKENS[:1], MASK[:1])
    return torch.cat([both / math.sqrt(8), torch.zeros_like(both)])


@pytest.mark.parametrize("kind", KINDS)
def test_it_belongs_to_the_head(kind: str) -> None:
    """It is copied for the same classes only."""
    other = model(kind, bigrams=ROWS)
    other.bigrams.load_state_dict(build().state_dict())
    head = {"classify.weight", "classify.bias", "bigrams.words.weight", "bigrams.pairs.weight"}
    same, new, without = model(kind, bigrams=ROWS), model(kind, ("x", "y", "z"), bigrams=ROWS), model(kind)
    assert same.adopt(other) == []
    assert torch.equal(same.bigrams.words.weight, other.bigrams.words.weight)
    assert set(new.adopt(other)) == head
    assert not new.bigrams.words.weight.any()
    assert without.adopt(other) == []
    assert set(other.adopt(without)) == {name for name in head if name.startswith("bigrams")}
