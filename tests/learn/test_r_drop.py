"""Two passes of a translator must agree (R-Drop): what `train.r_drop` adds, and trainings with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import built, fresh, small
from small_training import train
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches.batch import PairBatch, PairData
from regard.layers.loss import Loss
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.models import MODELS
from regard.models.protocols import Translator

WORDS = 12
TRANSLATORS = [name for name in MODELS if isinstance(built(name), Translator)]
HARD = [name for name in TRANSLATORS if hasattr(small(name), "weigh")]


def build(name: str, **changes: Any) -> nn.Module:
    return fresh(name, size=12, vocabulary=WORDS, max_positions=20, **changes).train()


def data(*, batch_tokens: int = 40) -> PairData:
    """Backwards: rows of 1 to 5 ids."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(4, WORDS, (1 + i % 5,), generator=generator).tolist() for i in range(32)]
    return PairData(rows, [row[::-1] for row in rows], batch_tokens=batch_tokens, seed=0)


def one_batch() -> PairBatch:
    whole = data(batch_tokens=10_000)
    batch = whole.batch(whole.order(0)[0])
    assert not batch.target_mask.all()
    assert not batch.source_mask.all()
    return batch


def loss_at(seed: int, model: nn.Module, batch: PairBatch, **options: float) -> Loss:
    torch.manual_seed(seed)
    return model.loss(batch, **options)  # type: ignore[operator]


def per_token(loss: Loss) -> Tensor:
    return loss.total / loss.tokens


def slopes(model: nn.Module, value: Tensor) -> dict[str, Tensor]:
    named = dict(model.named_parameters())
    found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    return {name: slope for name, slope in zip(named, found, strict=True) if slope is not None}


def alike(ours: dict[str, Tensor], theirs: dict[str, Tensor], *, atol: float) -> None:
    assert list(ours) == list(theirs)
    for key, slope in ours.items():
        assert torch.allclose(slope, theirs[key], rtol=1e-3, atol=atol), key


@pytest.mark.parametrize("name", TRANSLATORS)
def test_without_dropout_both_passes_are_the_same(name: str) -> None:
    model, batch = build(name, dropout=0.0), one_batch()
    plain = loss_at(1, model, batch, label_smoothing=0.1)
    double = loss_at(2, model, batch, label_smoothing=0.1, r_drop=5.0)
    assert double.tokens == 2 * plain.tokens
    torch.testing.assert_close(per_token(double), per_token(plain), rtol=1e-5, atol=0.0)
    torch.testing.assert_close(double.likelihood, plain.likelihood.repeat(2), rtol=1e-4, atol=1e-5)
    ours, theirs = slopes(model, per_token(double)), slopes(model, per_token(plain))
    alike(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_dropout_makes_them_differ_and_that_is_what_is_added(name: str) -> None:
    """Against the logits that the model gives for the batch and itself again, under the same draws of dropout."""
    model, batch = build(name, dropout=0.3), one_batch()
    twice = batch.twice()
    torch.manual_seed(3)
    logits = model(twice.source, twice.target[:, :-1], twice.source_mask)
    mask, target = twice.target_mask[:, 1:], twice.target[:, 1:]
    wanted = functional.cross_entropy(logits[mask], target[mask], label_smoothing=0.1, reduction="sum")
    p, q = logits.log_softmax(-1)[mask].chunk(2)
    for one, other in ((p, q), (q, p)):
        wanted = wanted + 2.0 / 2 * functional.kl_div(one, other, reduction="sum", log_target=True)
    loss = loss_at(3, model, batch, label_smoothing=0.1, r_drop=2.0)
    torch.testing.assert_close(loss.total, wanted, rtol=1e-5, atol=1e-4)
    ours, theirs = slopes(model, loss.total), slopes(model, wanted)
    alike(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_with_dropout_the_loss_is_larger_on_average(name: str) -> None:
    model, batch = build(name, dropout=0.3), one_batch()
    with torch.no_grad():
        # Otherwise too even at first for dropout to matter.
        model.out.weight.mul_(4)  # type: ignore[union-attr, operator]
        plain = torch.stack([per_token(loss_at(seed, model, batch)) for seed in range(8)])
        double = torch.stack([per_token(loss_at(seed, model, batch, r_drop=5.0)) for seed in range(8)])
        assert double.mean() > plain.mean() + 3 * (plain.var() / 8 + double.var() / 8).sqrt()
        model.eval()
        evaluated = per_token(loss_at(0, model, batch, r_drop=5.0))
        torch.testing.assert_close(evaluated, per_token(loss_at(0, model, batch)), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("name", HARD)
def test_hard_attention_draws_for_each_pass(name: str) -> None:
    """The places differ even without dropout; a reward is the likelihood of the row's own pass, and no more."""
    model, batch = build(name, weigh="hard", dropout=0.0), one_batch()
    rows = len(batch.source)
    loss = loss_at(0, model, batch, r_drop=1.0)
    found = loss.sampled
    assert found is not None
    assert len(found.log_probability) == len(found.entropy) == len(loss.likelihood) == 2 * rows
    assert not torch.equal(found.log_probability[:rows], found.log_probability[rows:])
    assert torch.equal(found.reward.sum(1), loss.likelihood)
    apart = loss.total + loss.likelihood.sum()  # unsmoothed, so that this is left
    assert apart > 1e-3
    other = loss_at(0, model, batch, r_drop=4.0)
    torch.testing.assert_close(other.total + other.likelihood.sum(), 4 * apart, rtol=1e-2, atol=1e-3)
    assert torch.equal(other.likelihood, loss.likelihood)
    learned = slopes(model, found.log_probability.sum())
    assert any(slope.any() for key, slope in learned.items() if key.startswith("attend"))


@pytest.mark.parametrize(("name", "straight_through"), list(zip(HARD, [False, True], strict=True)))
def test_hard_attention_learns_with_r_drop(tmp_path: Path, name: str, straight_through: bool) -> None:
    changes = {"weigh": "hard", "straight_through": straight_through, "dropout": 0.1}
    losses = Run(tmp_path, build(name, **changes)).fit().rows("loss")
    assert sum(losses[-4:]) < 0.95 * sum(losses[:4])


def test_a_step_weighs_each_batch_by_its_tokens() -> None:
    """accumulate_steps = 3 with dropout: loss and gradient are those of all tokens of both passes together."""
    model, pairs = build("transformer", dropout=0.3), data()
    batches = [pairs.batch(rows) for rows in pairs.order(0)[:3]]
    assert len({int(batch.target_mask.sum()) for batch in batches}) > 1
    settings = Training(
        steps=1,
        accumulate_steps=3,
        r_drop=2.0,
        label_smoothing=0.1,
        max_grad_norm=0.0,
        device="cpu",
        optimiser="sgd",
    )
    before = {key: value.clone() for key, value in model.state_dict().items()}
    seeds, plain_loss = [], model.loss

    def listening(batch: PairBatch, **options: float) -> Loss:
        seeds.append(torch.initial_seed())
        return plain_loss(batch, **options)  # type: ignore[operator]

    model.loss = listening  # type: ignore[assignment]
    numbers = Stepper(model, settings).step(1, iter(batches), rate=1e-3)
    ours = {key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None}
    model.loss = plain_loss
    model.load_state_dict(before)
    losses = [
        loss_at(seed, model, batch, label_smoothing=0.1, r_drop=2.0)
        for seed, batch in zip(seeds, batches, strict=True)
    ]
    count = sum(loss.tokens for loss in losses)
    wanted = sum(loss.total for loss in losses) / count
    assert numbers["tokens"] == count == 2 * sum(batch.target_mask[:, 1:].sum() for batch in batches)
    torch.testing.assert_close(numbers["loss"], wanted.detach(), rtol=1e-5, atol=0.0)  # type: ignore[union-attr]
    theirs = slopes(model, wanted)  # type: ignore[arg-type]
    alike(ours, theirs, atol=1e-6)


class Run:
    """A training on the tiny set."""

    def __init__(self, folder: Path, model: nn.Module, **changes: Any) -> None:
        self.folder, self.model = folder, model
        settings: dict[str, Any] = {
            "steps": 12,
            "eval_every": 6,
            "learning_rate": 0.04,
            "r_drop": 1.0,
            "seed": 5,
            "device": "cpu",
        }
        self.settings = Training(**settings | changes)

    def fit(self, *, resume: bool = False) -> Run:
        def validate(model: nn.Module) -> dict[str, float]:
            return {"valid_loss": per_token(loss_at(0, model, one_batch())).item()}

        train(self.model, data(), self.settings, self.folder, validate, resume=resume)
        return self

    def rows(self, key: str) -> list[float]:
        lines = map(json.loads, (self.folder / "log.jsonl").read_text().splitlines())
        return [row[key] for row in lines if key in row]


def same_weights(one: Run, other: Run) -> bool:
    left, right = one.model.state_dict(), other.model.state_dict()
    return list(left) == list(right) and all(torch.equal(left[key], right[key]) for key in left)


@pytest.mark.parametrize("name", ["seq2seq", "transformer"])  # what is added is tested above, of all of them
def test_twelve_steps_lower_the_loss(tmp_path: Path, name: str) -> None:
    run = Run(tmp_path, build(name, dropout=0.1), accumulate_steps=2, label_smoothing=0.1).fit()
    losses, valid = run.rows("loss"), run.rows("valid_loss")
    assert len(losses) == 12
    assert sum(losses[-4:]) < 0.95 * sum(losses[:4])
    assert valid[-1] < valid[0]


def test_without_dropout_accumulated_steps_are_those_without_r_drop(tmp_path: Path) -> None:
    plain, double = (
        Run(tmp_path / str(weight), build("luong", dropout=0.0), r_drop=weight, accumulate_steps=2, steps=6).fit()
        for weight in (0.0, 3.0)
    )
    assert double.rows("loss") == pytest.approx(plain.rows("loss"), rel=1e-4)
    assert double.rows("valid_loss") == pytest.approx(plain.rows("valid_loss"), rel=1e-4)


def test_the_weights_follow_from_the_seed(tmp_path: Path) -> None:
    runs = [
        Run(tmp_path / name, build("transformer", dropout=0.2), steps=2, **changes)
        for name, changes in (("a", {}), ("b", {}), ("c", {"seed": 6}), ("d", {"r_drop": 2.0}))
    ]
    for run in runs:
        torch.rand(7)  # what was drawn before has no part
        run.fit()
    first, again, *others = runs
    assert same_weights(first, again)
    assert first.rows("loss") == again.rows("loss")
    assert not any(same_weights(first, other) for other in others)


@pytest.mark.parametrize(
    ("name", "changes"), [("transformer", {}), ("bahdanau", {"weigh": "hard"})], ids=["transformer", "hard"]
)
def test_resumed_it_takes_the_steps_it_would_have(tmp_path: Path, name: str, changes: dict[str, Any]) -> None:
    straight = Run(tmp_path / "straight", build(name, dropout=0.2, **changes), accumulate_steps=2, steps=4).fit()
    Run(tmp_path / "halved", build(name, dropout=0.2, **changes), accumulate_steps=2, steps=2).fit()
    halved = Run(tmp_path / "halved", build(name, dropout=0.2, **changes), accumulate_steps=2, steps=4).fit(
        resume=True
    )
    assert same_weights(straight, halved)
    assert straight.rows("loss") == halved.rows("loss")
    assert len(halved.rows("loss")) == 4
