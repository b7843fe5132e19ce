"""Every translator in every variant through the same tests; `test_language` has the language models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import tasks
from regard.attention import SCORES, WAYS
from regard.data.batch import PairBatch
from regard.data.text import REGARD, Special, Tokenizer
from regard.layers.positions import POSITIONS
from regard.learn.optimise import Training
from regard.learn.reinforce import Baseline, objective
from regard.models import MODELS
from regard.tasks import folder
from regard.tasks.known import Known

# Keys are twice the encoder wide, so with decoder = 2 encoder every score fits.
SMALL = {"embed": 6, "encoder": 4, "decoder": 8, "readout": 6, "dropout": 0.0, "window": 2, "longest": 12}
LUONG = {"embed": 6, "dim": 8, "dropout": 0.0, "window": 2, "longest": 12}
SEQ2SEQ = {"embed": 6, "dim": 8, "dropout": 0.0, "longest": 12}
TRANSFORMER = {"dim": 8, "layers": 2, "heads": 2, "ff": 12, "dropout": 0.0, "longest": 12}
UNEQUAL = {"layers": 1, "decoder_layers": 3, "heads": 4, "decoder_heads": 2, "ff": 10, "decoder_ff": 14}
WORDS = 11
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "bahdanau": {
        "plain": SMALL,
        "lstm": SMALL | {"cell": "lstm"},
        "deep gru": SMALL | {"encoder_layers": 2, "decoder_layers": 2},
        "deep lstm": SMALL | {"cell": "lstm", "encoder_layers": 2, "decoder_layers": 3},
        "tied": SMALL | {"tied": True},
        "straight through": SMALL | {"weigh": "hard", "straight_through": True},
        "two vocabularies": SMALL | {"source_vocabulary": WORDS + 2, "tied": True},
        **{f"{score} {way}": SMALL | {"score": score, "weigh": way} for score in SCORES for way in WAYS},
    },
    "luong": {
        "plain": LUONG,
        "gru": LUONG | {"cell": "gru"},
        "deep": LUONG | {"layers": 2},
        "two directions": LUONG | {"layers": 2, "cell": "gru", "bidirectional": True},
        "not fed": LUONG | {"feeding": False, "layers": 2},
        "not fed, local": LUONG | {"feeding": False, "weigh": "local-p"},
        "not fed, hard": LUONG | {"feeding": False, "weigh": "hard"},
        "tied": LUONG | {"tied": True, "embed": 8},
        "two vocabularies": LUONG | {"source_vocabulary": WORDS + 2},
        "straight through": LUONG | {"weigh": "hard", "straight_through": True},
        **{f"{score} {way}": LUONG | {"score": score, "weigh": way} for score in SCORES for way in WAYS},
    },
    "seq2seq": {
        "plain": SEQ2SEQ,
        "gru": SEQ2SEQ | {"cell": "gru"},
        "deep": SEQ2SEQ | {"layers": 2},
        "reverse": SEQ2SEQ | {"reverse": True},
        "remind": SEQ2SEQ | {"remind": True},
        "reverse and remind": SEQ2SEQ | {"remind": True, "reverse": True, "cell": "gru", "layers": 2},
        "tied": SEQ2SEQ | {"tied": True, "embed": 8},
        "two vocabularies": SEQ2SEQ | {"source_vocabulary": WORDS + 2},
    },
    "transformer": {
        "plain": TRANSFORMER,
        "pre": TRANSFORMER | {"norm": "pre"},
        "untied": TRANSFORMER | {"tied": False},
        "two vocabularies": TRANSFORMER | {"source_vocabulary": WORDS + 2},
        "two vocabularies, untied": TRANSFORMER | {"source_vocabulary": WORDS + 2, "tied": False},
        "unequal": TRANSFORMER | UNEQUAL,
        "unequal pre": TRANSFORMER | UNEQUAL | {"norm": "pre", "positions": "learned", "tied": False},
        "gelu": TRANSFORMER | {"activation": "gelu"},
        "unscaled": TRANSFORMER | {"scaled": False},
        **{f"{kind} positions": TRANSFORMER | {"positions": kind} for kind in POSITIONS if kind != "sinusoidal"},
    },
}
SPECIAL = {"regard": REGARD, "marian": Special(pad=WORDS - 1, start=WORDS - 1, end=0, unknown=1)}
GRID = [(model, variant) for model, variants in VARIANTS.items() for variant in variants]
LENGTHS, TARGETS = [7, 4, 9, 1], [6, 8, 3, 5]  # of the four sentences


def each(*only: str) -> pytest.MarkDecorator:
    """The test runs for every variant, or for the named ones of each model."""
    rows = [row for row in GRID if not only or row[1] in only]
    return pytest.mark.parametrize(("name", "variant"), rows, ids=["-".join(row).replace(" ", "_") for row in rows])


def build(name: str, variant: str, **changes: Any) -> Any:
    torch.manual_seed(0)
    model = MODELS[name](MODELS[name].Config(vocabulary=WORDS, **VARIANTS[name][variant] | changes))
    with torch.no_grad():
        for label, parameter in model.named_parameters():
            if name != "transformer":
                parameter.mul_(2)  # far enough from 0 that each part matters
            elif label.endswith("bias"):  # they begin at 0
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def special(name: str) -> Special:
    return SPECIAL[MODELS[name].layout]


def sentences(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Sources (4, 9) with garbage where they are padded, their mask, and targets (4, 8) shifted right."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, WORDS - 1, (4, max(LENGTHS)), generator=generator)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    target = torch.randint(4, WORDS - 1, (4, max(TARGETS)), generator=generator)
    target[:, 0] = special(name).start
    return source, mask, target


def other(tokens: Tensor) -> Tensor:
    """In each place another word."""
    return 4 + (tokens - 3) % (WORDS - 5)


def batch(name: str) -> PairBatch:
    source, mask, target = sentences(name)
    pad, end = special(name).pad, special(name).end
    real = torch.arange(max(TARGETS)) < torch.tensor(TARGETS)[:, None]
    ends = torch.arange(max(TARGETS)) == torch.tensor(TARGETS)[:, None] - 1
    return PairBatch(
        source.masked_fill(~mask, pad), mask, target.masked_fill(ends, end).masked_fill(~real, pad), real
    )


def near(ours: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


def test_every_model_is_in_the_grid() -> None:
    assert VARIANTS.keys() == {name for name, model in MODELS.items() if model.task == "translate"}


@each()
@torch.no_grad()
def test_more_padding_changes_nothing(name: str, variant: str) -> None:
    model = build(name, variant)
    source, mask, target = sentences(name)
    logits = model(source, target, mask)
    assert logits.shape == (4, max(TARGETS), WORDS)
    wider, more = (torch.cat([x, x.new_ones(4, 3)], 1) for x in (source, mask))
    more[:, -3:] = False
    near(model(wider, target, more), logits)
    filled = torch.where(mask, source, 5)  # what stands in the padding is of no matter
    near(model(filled, target, mask), logits)


@each()
@torch.no_grad()
def test_every_source_token_matters_to_some_logit(name: str, variant: str) -> None:
    """The other side of the padding test: a mask that hid too much would pass that one."""
    model = build(name, variant)
    source, mask, target = sentences(name)
    logits = model(source, target, mask)
    for place in range(LENGTHS[0]):
        changed = source.clone()
        changed[0, place] = other(source[0, place])
        difference = (model(changed, target, mask) - logits).abs().amax((1, 2))
        assert difference[0] > 1e-6
        assert not difference[1:].any()


@each()
@torch.no_grad()
def test_changing_the_future_leaves_the_past(name: str, variant: str) -> None:
    model = build(name, variant)
    source, mask, target = sentences(name)
    logits = model(source, target, mask)
    for place in (1, 4, 7):
        changed = target.clone()
        changed[:, place:] = other(target[:, place:])
        found = model(source, changed, mask)
        near(found[:, :place], logits[:, :place])
        assert ((found - logits)[:, place].abs().amax(-1) > 1e-4).all(), "a token must matter to the next one"


@each()
@torch.no_grad()
def test_a_sentence_alone_is_as_in_a_batch(name: str, variant: str) -> None:
    model = build(name, variant)
    source, mask, target = sentences(name)
    logits = model(source, target, mask)
    for row, (length, steps) in enumerate(zip(LENGTHS, TARGETS, strict=True)):
        alone = model(source[row : row + 1, :length], target[row : row + 1, :steps])  # no mask: all is real
        near(alone[0], logits[row, :steps])


@each()
@torch.no_grad()
def test_stepping_is_all_at_once(name: str, variant: str) -> None:
    model = build(name, variant)
    source, mask, target = sentences(name)
    state, steps = model.start(source, mask), []
    for tokens in target.unbind(1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    near(torch.stack(steps, 1), model(source, target, mask))


@each()
@torch.no_grad()
def test_beams_go_apart_over_one_memory(name: str, variant: str) -> None:
    """Three beams of each sentence with targets of their own, swapped and thinned out on the way."""
    model = build(name, variant)
    source, mask, target = sentences(name)
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
    logits, _ = model.step(targets[:, swap, 3].flatten(), state.fork())
    near(logits.view(4, 3, WORDS), wanted[:, swap, 3])
    keep = torch.tensor([3, 1])
    logits, _ = model.step(targets[keep][:, swap, 3].flatten(), state.drop(keep))
    near(logits.view(2, 3, WORDS), wanted[keep][:, swap, 3])


@each()
@torch.no_grad()
def test_the_loss_is_that_of_the_logits(name: str, variant: str) -> None:
    model, rows = build(name, variant), batch(name)
    logits = model(rows.source, rows.target[:, :-1], rows.source_mask).log_softmax(-1)
    mask = rows.target_mask[:, 1:]
    known = logits.gather(-1, rows.target[:, 1:, None]).squeeze(-1) * mask
    loss = model.loss(rows)
    near(loss.total, -known.sum())
    near(loss.likelihood, known.sum(1))
    assert loss.tokens == mask.sum() == sum(TARGETS) - 4
    smooth = model.loss(rows, smoothing=0.1)
    near(smooth.total, -(0.9 * known.sum() + 0.1 * (logits.mean(-1) * mask).sum()))
    near(smooth.likelihood, loss.likelihood)


@each()
def test_every_parameter_gets_a_gradient(name: str, variant: str) -> None:
    """Hard attention learns where to look from the reward alone."""
    model = build(name, variant).train()
    objective(model.loss(batch(name)), Baseline(-20.0), Training(steps=1)).backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{label} has no gradient"
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.any(), f"the gradient of {label} is 0"


LARGER = {
    "bahdanau": {"embed": 16, "encoder": 12, "decoder": 24, "readout": 16},
    "luong": {"embed": 24, "dim": 24},
    "seq2seq": {"embed": 24, "dim": 24},
    "transformer": {"dim": 24, "ff": 48},
}


@each(
    *("deep", "deep lstm", "tied", "dot soft", "location local-p", "additive hard", "not fed"),
    *("reverse and remind", "pre", "unequal", "learned positions"),
)
def test_overfits_one_batch(name: str, variant: str) -> None:
    model, rows = build(name, variant, **LARGER[name]).train(), batch(name)
    rate = 0.01 if name == "transformer" else 0.02  # without a warm-up, post-norm bears no more
    optimiser, baseline = torch.optim.AdamW(model.parameters(), lr=rate), Baseline()
    for _ in range(80):
        loss = model.loss(rows)
        optimiser.zero_grad()
        objective(loss, baseline, Training(steps=1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    final = model.eval().loss(rows)
    assert final.total / final.tokens < 0.05


def tokenizer(layout: str, size: int) -> Tokenizer:
    """One of just that size."""
    letters = "abcdefghijkl"[: size - (4 if layout == "regard" else 3)]
    found = Tokenizer.train([letters], kind="character", layout=layout)
    assert len(found) == size
    return found


def filled(config: Any) -> dict[str, Any]:
    """The settings with those that are 0, and so follow another, as it is."""
    table = asdict(config)
    return {key: value or table.get(key.removeprefix("decoder_"), value) for key, value in table.items()}


@each()
@torch.no_grad()
def test_saved_and_loaded_it_gives_the_same_logits(name: str, variant: str, tmp_path: Path) -> None:
    model = build(name, variant)
    sizes = model.config.source_vocabulary
    two = tokenizer(model.layout, sizes) if sizes else None
    folder.begin(tmp_path, model, Known(tokenizer(model.layout, WORDS), two), "")
    folder.save_weights(tmp_path, model)
    loaded: Any = tasks.load(tmp_path).model
    assert filled(loaded.config) == filled(model.config)
    assert not loaded.training
    source, mask, target = (x.to(next(loaded.parameters()).device) for x in sentences(name))
    model.to(source.device)
    assert torch.equal(loaded(source, target, mask), model(source, target, mask))
    assert (loaded.out.weight is loaded.target_embed.weight) == model.config.tied
    assert (loaded.source_embed is loaded.target_embed) == (model.config.tied and not sizes)


@each("plain", "location soft")
def test_a_source_that_is_too_long_is_refused(name: str, variant: str) -> None:
    model = build(name, variant)
    target = torch.full((1, 2), 5)
    model(torch.full((1, 12), 5), target)
    with pytest.raises(ValueError, match=r"a source of 13 tokens is longer than the 12 this model takes; shorten"):
        model(torch.full((1, 13), 5), target)
    with pytest.raises(ValueError, match="longer than the 12"):
        model.start(torch.full((1, 13), 5), torch.ones(1, 13, dtype=torch.bool))


@each("plain")
def test_dropout_acts_while_training_only(name: str, variant: str) -> None:
    model = build(name, variant, dropout=0.5)
    source, mask, target = sentences(name)
    with torch.no_grad():
        assert torch.equal(model(source, target, mask), model(source, target, mask))
        model.train()
        assert not torch.equal(model(source, target, mask), model(source, target, mask))


MAY_BE_0 = {"transformer": {"decoder_layers", "decoder_heads", "decoder_ff"}}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_config_checks_itself(name: str) -> None:
    config: Any = MODELS[name].Config
    numbers = {key for key, value in vars(config(vocabulary=5)).items() if type(value) is int}
    may_be_0 = {"source_vocabulary"} | MAY_BE_0.get(name, set())
    for key in numbers - may_be_0:
        with pytest.raises(ValueError, match=f"{key} must be at least 1, got 0"):
            config(**{"vocabulary": 5, key: 0})
    for key in may_be_0:
        with pytest.raises(ValueError, match=f"{key} must be at least 0, got -1"):
            config(**{"vocabulary": 5, key: -1})
    for key in (key for key in vars(config(vocabulary=5)) if key.endswith("dropout")):
        for dropout in (-0.1, 1.0, float("nan")):
            with pytest.raises(ValueError, match=rf"{key} must lie in \[0, 1\)"):
                config(**{"vocabulary": 5, key: dropout})
