"""The linear part of classifiers of texts, against its equation and beside their layers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.text.document_encoding import DocumentBatch
from regard.data.text.text_encoding import LabelledBatch, TokenBatch
from regard.layers.bigrams import SCALE, BigramClassifier
from regard.models import MODELS
from regard.models.bert import SHARES

WORDS, ROWS, CLASSES = 9, 50, 3
TOKENS = torch.tensor([[4, 5, 4, 5, 6], [5, 4, 7, 0, 0], [0, 0, 0, 0, 0]])
MASK = torch.arange(5) < torch.tensor([5, 3, 0])[:, None]
WORDY = {"embed": 5, "dim": 4}
KINDS: dict[str, dict[str, Any]] = {
    "pooling": WORDY,
    "han": WORDY,
    "lstmn": {**WORDY, "head": "classify"},
    "bert": {"dim": 4, "layers": 1, "heads": 2, "head": "classify"},
}


def build(dropout: float = 0.0) -> BigramClassifier:
    part = BigramClassifier(WORDS, ROWS, CLASSES, dropout=dropout).double()
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
        return LabelledBatch(TOKENS, torch.zeros_like(TOKENS), MASK)
    if kind != "han":
        return TokenBatch(TOKENS, MASK)
    return DocumentBatch(TOKENS, MASK, torch.tensor([[1, 0], [2, 0]]), torch.tensor([[True, True], [True, False]]))


@torch.no_grad()
def test_it_equals_its_equation() -> None:
    part = build()
    words, pairs = part.words.weight, part.pairs.weight
    found = part(TOKENS, MASK)
    for row, length in enumerate((5, 3, 0)):
        ids = [WORDS, *TOKENS[row, :length].tolist()]
        wanted = torch.zeros(CLASSES, dtype=torch.float64)
        for before, word in pairwise(ids):
            wanted += words[word] + pairs[(before * 1_640_531_527 + word * 805_306_457) % (2**31 - 1) % ROWS]
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


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_model_begins_as_the_one_without(kind: str) -> None:
    plain, wide = model(kind), model(kind, bigrams=ROWS)
    examples = batch(kind)
    own, linear = SHARES if kind == "bert" else (1, 1)
    assert torch.equal(own * plain.class_logits(examples), wide.class_logits(examples))
    wide.bigrams.load_state_dict(build().state_dict())
    found = (wide.class_logits(examples) - own * plain.class_logits(examples)) / linear
    torch.testing.assert_close(found, documents() if kind == "han" else wide.bigrams(TOKENS, MASK))


def documents() -> Tensor:
    """Of all words of a document; bigrams are those of a sentence."""
    part = build()
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
