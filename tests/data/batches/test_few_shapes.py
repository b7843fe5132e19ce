from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from small_models import each, fresh, special

from regard.base.ladder import LONGEST
from regard.data.batches.batch import PairData
from regard.data.batches.few_shapes import FewShapes
from regard.data.text.labelled_texts import LabelledData
from regard.data.text.special_tokens import REGARD
from regard.layers.replay import syncing_never
from regard.learn.reinforce import objective
from regard.learn.settings import Training
from regard.models.protocols import Translator

ROWS = 3000


def data_of(
    count: int, tokens: int, longest: int = 45, words: int = 11, most: int = LONGEST
) -> tuple[PairData, FewShapes]:
    """`most`: tokens that a model reads, and writes."""
    dice = np.random.default_rng(0)
    sides = [[dice.integers(4, words, n).tolist() for n in dice.integers(3, longest, count)] for _ in range(2)]
    plain = PairData(*sides, batch_tokens=tokens, seed=1)
    return plain, FewShapes(plain, tokens, REGARD, most, most)


def test_an_epoch_has_few_shapes_and_the_same_pairs() -> None:
    plain, few = data_of(ROWS, 1024)
    shapes, grown = {}, []
    for item, same in zip(plain.order(3), few.order(3), strict=True):
        assert np.array_equal(item, same)
        one, other = plain.batch(item), few.batch(item)
        (rows, source), target = one.source.shape, one.target.shape[1]
        assert torch.equal(other.source[:rows, :source], one.source)
        assert torch.equal(other.target[:rows, :target], one.target)
        assert int(other.target_mask.sum()) == int(one.target_mask.sum())
        assert int(other.source_mask.sum()) == int(one.source_mask.sum()) + len(other.source) - rows
        assert other.source.shape == other.target.shape
        shapes[other.source.shape] = shapes.get(other.source.shape, 0) + 1
        grown.append((other.source.numel() + other.target.numel()) / (one.source.numel() + one.target.numel()))
    often = [count for count in shapes.values() if count > 3]
    assert len(often) <= 16
    assert sum(often) > 0.9 * sum(shapes.values())
    assert np.mean(grown) < 1.35


def test_it_goes_on_where_it_stopped() -> None:
    _, few = data_of(100, 128)
    whole = list(few.order(2))
    first, items = few.order_from(2, 3, few.bookmark(whole[2]))
    rest = [item for place, item in enumerate(items, first) if place >= 3]
    assert all(np.array_equal(a, b) for a, b in zip(rest, whole[3:], strict=True))


@pytest.mark.parametrize("name", ["bahdanau", "luong", "seq2seq", "transformer"])
def test_no_side_is_rounded_up_beyond_what_the_model_takes(name: str) -> None:
    """12 tokens of source and of target, the end token included, and the start token."""
    model = fresh(name, max_positions=12, **({"positions": "learned"} if name == "transformer" else {}))
    dice = np.random.default_rng(0)
    for source, target in ((11, 11), (11, 3), (3, 11)):
        sides = [[dice.integers(4, 11, n).tolist() for n in (3, longest)] for longest in (source, target)]
        plain = PairData(*sides, batch_tokens=64, seed=1)
        few = FewShapes(plain, 64, REGARD, model.max_source_positions, model.max_target_positions)
        item = max(few.order(0), key=len)
        assert len(item) == 2
        batch = few.batch(item)
        length = 14 if target == 11 else 12
        assert batch.source.shape[1] == 12
        assert batch.target.shape[1] == min(length, model.max_target_positions + 1)
        assert model.loss(batch).total.isfinite()


def test_what_is_too_long_stays_as_it_is() -> None:
    plain = PairData([[5] * 20], [[5] * 30], batch_tokens=64, seed=1)
    one, other = (data.batch(plain.order(0)[0]) for data in (plain, FewShapes(plain, 64, REGARD, 12, 12)))
    assert (other.source.shape[1], other.target.shape[1]) == (one.source.shape[1], one.target.shape[1])


@each(Translator)
def test_more_padding_and_empty_rows_change_neither_loss_nor_gradient(name: str, variant: str) -> None:
    """What samples draws other numbers where there is more padding: it reads the likeliest place here."""
    model = fresh(name, variant, max_positions=40).double()
    plain, few = data_of(9, 64, 7)
    items, found = plain.order(0), []
    settings = Training(steps=1)
    for data in (plain, few):
        model.zero_grad()
        model.train(getattr(model.config, "weigh", "") != "hard")
        batch = data.batch(items[0])
        if data is few:
            with syncing_never():
                loss = model.loss(batch, label_smoothing=0.1)
        else:
            loss = model.loss(batch, label_smoothing=0.1)
        objective(loss, settings).backward()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        found.append([loss.total, loss.likelihood[: len(items[0])], loss.tokens, *gradients])
    torch.testing.assert_close(found[1], found[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("longest", [1, 3, 60])
def test_it_keeps_the_types_and_the_end_tokens(longest: int) -> None:
    _, few = data_of(5, 256, longest + 3)
    batch = few.batch(few.order(0)[0])
    for field in dataclasses.fields(batch):
        assert getattr(batch, field.name).dtype == (torch.bool if "mask" in field.name else torch.long)
    assert (batch.source[batch.source_mask.sum(1) == 1, 0] == REGARD.end).all()
    assert batch.source_mask.any(1).all()


def test_a_classifier_of_pairs_learns_the_same_from_rounded_batches() -> None:
    model, dice = fresh("bert", "classify", max_positions=64).double().train(), np.random.default_rng(0)
    rows = []
    for number in range(30):
        length = int(dice.integers(5, 40))
        parts = [0] * (length // 2) + [1] * (length - length // 2)
        rows.append(((dice.integers(5, 11, length).tolist(), parts), False, number % 3))
    options = {"encoding": model.encoding, "special": special(model), "batch_tokens": 128, "seed": 1}
    plain, few = (LabelledData(rows, **options, few_shapes=on) for on in (False, True))
    for item in plain.order(0)[:3]:
        found = []
        for data in (plain, few):
            model.zero_grad()
            with syncing_never():
                loss = model.loss(data.batch(item), label_smoothing=0.1)
            loss.total.backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            found.append([loss.total, loss.likelihood[: len(item)], loss.tokens, *gradients])
        torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)
    assert len({few.batch(item).tokens.shape for item in few.order(0)}) <= 12
