"""What every translator is asked beside the grid: stepping, beams, its loss, and which source tokens it reads."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import pytest
import torch
from small_models import LENGTHS, SIZES, TARGETS, WORDS, batch, built, each, fresh, near, other, rows
from torch import Tensor

from regard.attention import SCORES, WAYS
from regard.layers.encoder_decoder import NO_LIMIT
from regard.layers.recurrent import KINDS
from regard.layers.replay import syncing_never
from regard.models.protocols import Translator


def sentences(model: Translator) -> tuple[Tensor, Tensor, Tensor]:
    """Sources (4, 6), their mask, and targets (4, 5) shifted right."""
    inputs = rows(model).inputs
    return inputs["source"], inputs["source_mask"], inputs["target"]


@each(Translator)
@torch.no_grad()
def test_every_source_token_matters_to_some_logit(name: str, variant: str) -> None:
    """The other side of the padding test: a mask that hid too much would pass that one."""
    model = built(name, variant)
    source, mask, target = sentences(model)
    assert model(source, target, mask).shape == (4, max(TARGETS), WORDS)
    copies = LENGTHS[0]  # of the batch; in each another token of the first source is changed
    sources, masks, targets = (x.repeat(copies, 1) for x in (source, mask, target))
    changed = sources.clone()
    for place in range(copies):
        changed[4 * place, place] = other(source[0, place])
    difference = (
        (model(changed, targets, masks) - model(sources, targets, masks)).abs().amax((1, 2)).view(copies, 4)
    )
    assert (difference[:, 0] > 1e-6).all()
    assert not difference[:, 1:].any()


@each(Translator)
@torch.no_grad()
def test_stepping_is_all_at_once(name: str, variant: str) -> None:
    model = built(name, variant)
    source, mask, target = sentences(model)
    state, steps = model.start(source, mask), []
    for tokens in target.unbind(1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    near(torch.stack(steps, 1), model(source, target, mask))


@each(Translator)
@torch.no_grad()
def test_beams_go_apart_over_one_memory(name: str, variant: str) -> None:
    """Three beams of each sentence with targets of their own, reordered and with sentences dropped on the way."""
    model = built(name, variant)
    source, mask, target = sentences(model)
    begun = model.start(source, mask)
    state = begun.spread(3)
    targets = torch.stack([target, target.flip(1), target.roll(3, 1)], 1)  # (B, 3, T)
    wanted = torch.stack([model(source, targets[:, beam], mask) for beam in range(3)], 1)  # (B, 3, T, V)
    for time in range(3):
        logits, state = model.step(targets[:, :, time].flatten(), state)
        near(logits.view(4, 3, WORDS), wanted[:, :, time])
        assert state.memory is begun.memory, "the memory must not be copied"
    swap = torch.tensor([2, 0, 1])
    state = state.reorder((torch.arange(4)[:, None] * 3 + swap).flatten())
    assert state.memory is begun.memory
    logits, _ = model.step(targets[:, swap, 3].flatten(), state.reorder(torch.arange(12)))
    near(logits.view(4, 3, WORDS), wanted[:, swap, 3])
    keep = torch.tensor([3, 1])
    logits, _ = model.step(targets[keep][:, swap, 3].flatten(), state.drop(keep))
    near(logits.view(2, 3, WORDS), wanted[keep][:, swap, 3])


@each(Translator)
@torch.no_grad()
def test_the_loss_is_that_of_the_logits(name: str, variant: str) -> None:
    model = built(name, variant)
    given = batch(model)
    logits = model(given.source, given.target[:, :-1], given.source_mask).log_softmax(-1)
    mask = given.target_mask[:, 1:]
    known = logits.gather(-1, given.target[:, 1:, None]).squeeze(-1) * mask
    loss = model.loss(given)
    near(loss.total, -known.sum())
    near(loss.likelihood, known.sum(1))
    assert loss.tokens == mask.sum() == sum(TARGETS) - 4
    smooth = model.loss(given, label_smoothing=0.1)
    near(smooth.total, -(0.9 * known.sum() + 0.1 * (logits.mean(-1) * mask).sum()))
    near(smooth.likelihood, loss.likelihood)


@each(Translator)
def test_a_source_that_is_too_long_is_refused(name: str, variant: str) -> None:
    model, most = built(name, variant), SIZES["max_positions"]
    target = torch.full((1, 2), 5)
    model(torch.full((1, most), 5), target)
    if model.max_source_positions >= NO_LIMIT:  # positions without an end
        assert model(torch.full((1, 5 * most), 5), target).isfinite().all()
        return
    with pytest.raises(ValueError, match=r"a source of 13 tokens is longer than the 12 this model takes; shorten"):
        model(torch.full((1, most + 1), 5), target)
    with pytest.raises(ValueError, match="longer than the 12"):
        model.start(torch.full((1, most + 1), 5), torch.ones(1, most + 1, dtype=torch.bool))


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("name", ["bahdanau", "luong", "seq2seq"])
def test_under_autocast_every_cell_and_look_learns(name: str, cell: str, captured: bool) -> None:
    """torch's layers, a cell's state and its gates may have several types there, which not all operations mix."""
    looks = {
        "bahdanau": [*product(WAYS, ["additive"]), *product(["soft"], ["general", "location"])],
        "luong": [*product(WAYS, ["general"]), *product(["soft"], SCORES)],
        "seq2seq": [None],
    }[name]
    for look in looks:
        model = fresh(name, cell=cell, **(dict(zip(("weigh", "score"), look, strict=True)) if look else {}))
        given = batch(model)
        with torch.autocast("cpu", torch.bfloat16), syncing_never() if captured else nullcontext():
            loss = model.loss(given).total
        loss.backward()
        exact = model.eval().loss(given).total
        assert loss.item() == pytest.approx(exact.item(), rel=0.1), look
        assert all(part.grad is None or part.grad.isfinite().all() for part in model.parameters()), look
