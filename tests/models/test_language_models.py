"""What every language model is asked beside the grid: padding at the left, stepping, beams, its loss."""

from __future__ import annotations

import torch
from small_models import LENGTHS, WORDS, batch, built, each, near, other, rows, writes
from torch import Tensor

from regard.models.protocols import LanguageModel


def texts(model: LanguageModel) -> tuple[Tensor, Tensor]:
    """Texts (4, 6), padded at the right, and their mask."""
    inputs = rows(model).inputs
    return inputs["tokens"], inputs["mask"]


def at_the_left(tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same texts, each moved to the end of its row."""
    gone = tokens.shape[1] - mask.sum(1, keepdim=True)
    places = (torch.arange(tokens.shape[1]) - gone) % tokens.shape[1]
    return tokens.gather(1, places), mask.gather(1, places)


@each(LanguageModel, only=writes)
@torch.no_grad()
def test_padding_may_be_on_either_side(name: str, variant: str) -> None:
    model = built(name, variant)
    tokens, mask = texts(model)
    logits = model(tokens, mask)
    assert logits.shape == (4, max(LENGTHS), WORDS)
    left, left_mask = at_the_left(tokens, mask)
    near(model(left, left_mask)[left_mask], logits[mask])
    wider = [torch.cat([x.new_zeros(4, 5), x, x.new_zeros(4, 5)], 1) for x in (tokens, mask)]
    near(model(*wider)[wider[1]], logits[mask])  # 16 tokens with padding: more than the 12 positions there are
    for padded in (logits, model(left, left_mask), model(*wider)):
        assert padded.isfinite().all()


@each(LanguageModel, only=writes)
@torch.no_grad()
def test_a_token_matters_to_all_that_follow(name: str, variant: str) -> None:
    model = built(name, variant)
    tokens, _ = texts(model)
    logits = model(tokens)
    for place in (1, 3, 5):
        changed = tokens.clone()
        changed[:, place] = other(tokens[:, place])
        difference = (model(changed) - logits).abs().amax(-1)
        assert (difference[:, :place] < 1e-5).all()
        assert (difference[:, place:] > 1e-6).all()


@each(LanguageModel, only=writes)
@torch.no_grad()
def test_stepping_is_all_at_once(name: str, variant: str) -> None:
    """Behind prompts of several lengths, padded at the left, and behind none at all."""
    model = built(name, variant)
    tokens, mask = at_the_left(*texts(model))
    more = other(tokens)[:, :3]
    whole = model(torch.cat([tokens, more], 1), torch.cat([mask, torch.ones_like(mask[:, :3])], 1))
    state = model.start(tokens, mask)
    for step, now in enumerate(more.unbind(1)):
        logits, state = model.step(now, state)
        near(logits, whole[:, len(mask[0]) + step])
    state = model.start(tokens[:, :0], mask[:, :0])
    whole = model(tokens)
    for step, now in enumerate(tokens.unbind(1)):
        logits, state = model.step(now, state)
        near(logits, whole[:, step])


@each(LanguageModel, only=writes)
@torch.no_grad()
def test_beams_go_apart(name: str, variant: str) -> None:
    """Three beams of each text with words of their own, reordered and with texts dropped on the way."""
    model = built(name, variant)
    tokens, mask = at_the_left(*(x[:, :5] for x in texts(model)))
    words = torch.stack([tokens[:, :4], tokens[:, 1:].flip(1), other(tokens[:, :4])], 1)  # (B, 3, 4)
    whole = [torch.cat([tokens, words[:, beam]], 1) for beam in range(3)]
    seen = torch.cat([mask, torch.ones_like(mask[:, :4])], 1)
    wanted = torch.stack([model(text, seen)[:, 5:] for text in whole], 1)  # (B, 3, 4, V)
    state = model.start(tokens, mask).spread(3)
    for time in range(2):
        logits, state = model.step(words[:, :, time].flatten(), state)
        near(logits.view(4, 3, WORDS), wanted[:, :, time])
    swap = torch.tensor([2, 0, 1])
    state = state.reorder((torch.arange(4)[:, None] * 3 + swap).flatten())
    branch = state.reorder(torch.arange(12))
    for _ in range(2):  # going on in one branch leaves the other as it is
        logits, branch = model.step(other(words[:, swap, 2]).flatten(), branch)
    logits, state = model.step(words[:, swap, 2].flatten(), state)
    near(logits.view(4, 3, WORDS), wanted[:, swap, 2])
    keep = torch.tensor([3, 1])
    logits, _ = model.step(words[keep][:, swap, 3].flatten(), state.drop(keep))
    near(logits.view(2, 3, WORDS), wanted[keep][:, swap, 3])


@each(LanguageModel, only=writes)
@torch.no_grad()
def test_the_loss_is_that_of_the_counted_logits(name: str, variant: str) -> None:
    model = built(name, variant)
    given = batch(model)
    logits = model(given.tokens[:, :-1]).log_softmax(-1)
    known = logits.gather(-1, given.tokens[:, 1:, None]).squeeze(-1) * given.counted
    loss = model.loss(given)
    near(loss.total, -known.sum())
    near(loss.likelihood, known.sum(1))
    assert loss.tokens == 4 * 5 - 3
    smooth = model.loss(given, label_smoothing=0.1)
    near(smooth.total, -(0.9 * known.sum() + 0.1 * (logits.mean(-1) * given.counted).sum()))
    near(smooth.likelihood, loss.likelihood)
