"""Xu 2015 against its equations, written out word by word in float64 with torch's LSTMCell."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import trace
from regard.attention.weigh import Hard
from regard.data.images.caption_batches import CaptionBatch
from regard.learn.reinforce import objective
from regard.learn.settings import Training
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig

WORDS, EMBED, DECODER = 9, 5, 7
VARIANTS: dict[str, dict[str, Any]] = {
    "hard": {"weigh": "hard"},
    "straight through": {"weigh": "hard", "straight_through": True},
    "general": {"score": "general", "gate": False, "tied": True, "reduction": 2},
    "finer grid": {"stage": 0, "penalty": 1.0},
}
LEARNS = ("hard", "straight through")


def build(**changes: Any) -> ShowAttendTell:
    """In float64 and eval mode; a 5 x 3 image has a 3 x 2 grid."""
    torch.manual_seed(0)
    eye = {"depths": (1, 1), "widths": (4, 6), "reduction": 2, "image_size": 5, "image_width": 3}
    sizes = {"embed": EMBED, "decoder": DECODER, "dropout": 0.0}
    model = ShowAttendTell(ShowAttendTellConfig(WORDS, **{**eye, **sizes, **changes})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def some_images(count: int = 1, height: int = 5, width: int = 3) -> Tensor:
    dice = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, height, width, generator=dice, dtype=torch.float64)


def by_hand(
    model: ShowAttendTell, image: Tensor, target: Tensor, chosen: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits (T, V), the softmax over places (T, L) and beta (T,) of one caption; with `chosen`, what is read is
    these places alone."""
    known = dict(model.named_parameters())

    def linear(name: str, x: Tensor) -> Tensor:
        found = known[f"{name}.weight"] @ x
        return found + known[f"{name}.bias"] if f"{name}.bias" in known else found

    places = model.eye.features(image[None])[0].flatten(1).T  # (L, D)
    cell = nn.LSTMCell(EMBED + places.shape[1], DECODER).double()
    into = torch.cat([known["cell.input.weight"], known["context.weight"]], 1)
    weights = dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), (into, *cell_rest(known)), strict=True))
    hidden, carried = (linear(f"first_{name}", places.mean(0)).tanh() for name in ("hidden", "cell"))
    w, u, v = (known[f"attend.score.{name}"] for name in ("query_weight.weight", "key_weight.weight", "v"))
    logits, looks, gates = [], [], []
    for time, word in enumerate(target.tolist()):
        scores = torch.stack([v @ (w @ hidden + u @ place).tanh() for place in places])
        look = scores.exp() / scores.exp().sum()
        beta = 1 / (1 + torch.exp(-linear("beta.out", hidden)))
        read = beta * (places[chosen[time]] if chosen else (look[:, None] * places).sum(0))
        embedded = known["target_embed.weight"][word]
        both = torch.cat([embedded, read])[None]
        state = torch.func.functional_call(cell, weights, (both, (hidden[None], carried[None])))
        hidden, carried = state[0][0], state[1][0]
        deep = embedded + linear("out_hidden", hidden) + linear("out_read", read)
        logits.append(linear("out", deep))
        looks.append(look)
        gates.append(beta[0])
    return torch.stack(logits), torch.stack(looks), torch.stack(gates)


def cell_rest(known: dict[str, nn.Parameter]) -> tuple[Tensor, Tensor, Tensor]:
    return known["cell.hidden.weight"], known["cell.input.bias"], known["cell.hidden.bias"]


CAPTION = torch.tensor([1, 7, 6, 4])


@torch.no_grad()
def test_soft_attention_is_that_of_the_paper() -> None:
    model = build()
    images = some_images(2)
    with trace(model) as seen:
        logits = model(images, CAPTION.expand(2, -1))
    assert model.grid(images) == (3, 2)
    assert seen["beta", "gate"].shape == (2, 4, 1)
    for row in range(2):
        wanted, looks, gates = by_hand(model, images[row], CAPTION)
        torch.testing.assert_close(logits[row], wanted, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(seen["attend"][row].double(), looks, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(seen["beta", "gate"][row, :, 0].double(), gates, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_hard_attention_reads_the_likeliest_place_alone() -> None:
    model = build(weigh="hard")
    image, chosen = some_images(), ()
    for _ in CAPTION:  # the likeliest place of each step, given those before
        _, looks, _ = by_hand(model, image[0], CAPTION[: len(chosen) + 1], (*chosen, 0))
        chosen = (*chosen, int(looks[-1].argmax()))
    with trace(model, "attend") as seen:
        logits = model(image, CAPTION[None])
    torch.testing.assert_close(logits[0], by_hand(model, image[0], CAPTION, chosen)[0], rtol=1e-5, atol=1e-6)
    assert seen["attend"][0].argmax(-1).tolist() == list(chosen)
    assert ((seen["attend"] == 0) | (seen["attend"] == 1)).all()


@torch.no_grad()
def test_in_eval_mode_hard_attention_reads_no_other_place() -> None:
    """What is not chosen may be anything: it is gathered, not multiplied by 0."""
    model = build(weigh="hard")
    memory, state = model.encode(some_images())
    wanted, looks = model.decode(CAPTION[None], memory, state)
    places = {int(look.chosen) for look in looks}
    assert len(places) < memory.size
    spoiled = memory.values.clone()
    spoiled[:, [place for place in range(memory.size) if place not in places]] = torch.nan
    found, _ = model.decode(CAPTION[None], type(memory)(memory.keys, spoiled), state)
    assert torch.equal(found, wanted)


def batch(images: Tensor, *captions: list[int]) -> CaptionBatch:
    longest = max(map(len, captions))
    target = torch.tensor([caption + [0] * (longest - len(caption)) for caption in captions])
    return CaptionBatch(images, target, torch.arange(longest) < torch.tensor([[len(one)] for one in captions]))


def test_the_penalty_is_on_places_that_a_caption_looks_at_too_much_or_too_little() -> None:
    """lambda sum_i (1 - sum_t w_ti)^2, where t are the words that are predicted and not padding."""
    model = build(penalty=0.7)
    given = batch(some_images(2), [1, 7, 6, 2], [1, 5, 2])
    wanted = model.loss(given)  # in eval mode: the likelihood alone
    sums = [
        by_hand(model, image, torch.tensor(words))[1].sum(0)
        for image, words in zip(given.images, ([1, 7, 6], [1, 5]), strict=True)
    ]
    model.eye.requires_grad_(False)
    model.train()
    model.eye.eval()  # batch statistics would be others
    loss = model.loss(given)
    assert loss.penalty is not None
    exact = 0.7 * sum(((1 - one) ** 2).sum() for one in sums)
    torch.testing.assert_close(loss.penalty.double(), exact, rtol=1e-5, atol=1e-5)
    assert torch.equal(loss.total, wanted.total)
    assert torch.equal(loss.likelihood, wanted.likelihood)
    assert wanted.penalty is None
    torch.testing.assert_close(objective(loss, Training(steps=1)), (loss.total + loss.penalty) / 5)


class Forced(Hard):
    """Hard attention whose samples are told beforehand."""

    def __init__(self, places: tuple[int, ...]) -> None:
        super().__init__(soft_share=0)
        self.told = list(places)

    def choose(self, soft: Tensor) -> Tensor:
        return torch.full(soft.shape[:-1], self.told.pop(0))


def hard_and_tiny() -> tuple[ShowAttendTell, CaptionBatch]:
    """Four places, a caption of one word and the end: 16 ways to look at it."""
    model = build(weigh="hard", depths=(1,), widths=(4,), image_size=2, image_width=2, soft_share=0.0)
    model.eye.requires_grad_(False)
    model.train()
    model.eye.eval()
    return model, batch(some_images(1, 2, 2), [1, 7, 2])


def test_reinforce_is_the_gradient_of_the_expected_likelihood() -> None:
    """Over all ways to look, p(s) times the gradient of REINFORCE = the gradient of sum_s p(s) log p(y | s), which
    is enumerated by hand. With the whole row's reward, whatever the baseline is."""
    model, given = hard_and_tiny()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    settings = Training(steps=1, reinforce_reward="row", reinforce_baseline="moving", entropy_weight=0)
    words, targets = given.target[0, :-1], given.target[0, 1:]
    exact = torch.zeros((), dtype=torch.float64)
    seen = {name: torch.zeros_like(p) for name, p in learned.items()}
    for places in product(range(4), repeat=2):
        logits, looks, _ = by_hand(model, given.images[0], words, places)
        chance = torch.stack([look[place] for look, place in zip(looks, places, strict=True)]).prod()
        exact = exact + chance * logits.log_softmax(-1)[range(2), targets].sum()
        model.attend.weigh = Forced(places)
        value = 2 * objective(model.loss(given), settings, torch.tensor(-4.2))
        for name, part in zip(learned, torch.autograd.grad(value, list(learned.values())), strict=True):
            seen[name] += chance.detach() * part
    for name, wanted in zip(learned, torch.autograd.grad(exact, list(learned.values())), strict=True):
        torch.testing.assert_close(
            -seen[name], wanted, rtol=1e-3, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}"
        )


def test_half_of_the_images_are_looked_at_softly_from_the_first_word_to_the_last() -> None:
    model = build(weigh="hard")
    model.train()
    memory, state = model.encode(some_images(64))
    torch.manual_seed(0)
    _, looks = model.decode(CAPTION.expand(64, -1), memory, state)
    soft = torch.cat([look.weights for look in looks], 1).amax(-1) < 1  # (B, T)
    assert torch.equal(soft.any(1), soft.all(1))
    assert 16 < soft.all(1).sum() < 48
    chances = torch.cat([look.log_probability for look in looks if look.log_probability is not None], 1)
    assert torch.equal(chances == 0, soft)


def test_straight_through_samples_one_place_and_has_a_gradient() -> None:
    model = build(weigh="hard", straight_through=True, soft_share=0.0).train()
    loss = model.loss(batch(some_images(2), [1, 7, 6, 2], [1, 5, 2]))
    assert loss.sampled is None
    loss.total.backward()
    assert model.attend.score.v.grad.any()  # type: ignore[union-attr, operator]


def test_hard_attention_learns_by_the_papers_reward_and_baseline() -> None:
    torch.manual_seed(0)
    eye = {"depths": (1, 1), "widths": (8, 16), "image_size": 4, "frozen": True}
    config = ShowAttendTellConfig(WORDS, embed=16, decoder=24, weigh="hard", dropout=0.0, **eye)
    model, given = ShowAttendTell(config).train(), batch(some_images(2, 4, 4).float(), [1, 7, 2], [1, 5, 2])
    training, average = Training(steps=1, reinforce_reward="row", reinforce_baseline="moving"), torch.zeros(())
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        objective(model.loss(given), training, average).backward()
        optimiser.step()
    assert -0.3 < average < 0
    final = model.eval().loss(given)
    assert final.total < 0.05 * final.tokens
