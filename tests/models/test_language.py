"""Every language model in every variant through the same tests; `test_grid` has the translators."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import tasks
from regard.data.stream import TextBatch
from regard.data.text import Tokenizer
from regard.models import MODELS
from regard.tasks import folder
from regard.tasks.known import Known

WORDS, LONGEST = 11, 12
GPT2 = {"dim": 8, "layers": 2, "heads": 2, "longest": LONGEST}
GPT2 |= {"dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0}
RNNLM = {"embed": 6, "dim": 8, "dropout": 0.0}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "gpt2": {
        "plain": GPT2,
        "untied": GPT2 | {"tied": False},
        "narrow": GPT2 | {"ff": 5, "heads": 1, "layers": 3},
        "gelu": GPT2 | {"activation": "gelu"},
        "eps": GPT2 | {"eps": 1e-2},
    },
    "rnnlm": {
        "plain": RNNLM,
        "gru": RNNLM | {"cell": "gru", "layers": 1},
        "tied": RNNLM | {"embed": 8, "tied": True},
    },
}
GRID = [(model, variant) for model, variants in VARIANTS.items() for variant in variants]
LENGTHS = [7, 4, 9, 1]  # of the four texts


def each(*only: str) -> pytest.MarkDecorator:
    """The test runs for every variant, or for the named ones of each model."""
    rows = [row for row in GRID if not only or row[1] in only]
    return pytest.mark.parametrize(("name", "variant"), rows, ids=["-".join(row) for row in rows])


def build(name: str, variant: str, **changes: Any) -> Any:
    """Biases begin at 0 and GPT-2's weights near it: here they lie far enough off that each part matters."""
    torch.manual_seed(0)
    model = MODELS[name](MODELS[name].Config(vocabulary=WORDS, **VARIANTS[name][variant] | changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def texts() -> tuple[Tensor, Tensor]:
    """Texts (4, 9) with garbage where they are padded at the right, and their mask."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(2, WORDS, (4, max(LENGTHS)), generator=generator)
    return tokens, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def at_the_left(tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same texts, each moved to the end of its row."""
    gone = tokens.shape[1] - mask.sum(1, keepdim=True)
    places = (torch.arange(tokens.shape[1]) - gone) % tokens.shape[1]
    return tokens.gather(1, places), mask.gather(1, places)


def other(tokens: Tensor) -> Tensor:
    """In each place another word."""
    return 2 + (tokens - 1) % (WORDS - 2)


def batch() -> TextBatch:
    tokens, _ = texts()
    counted = torch.ones(4, max(LENGTHS) - 1, dtype=torch.bool)
    counted[1, :3] = counted[2, 5] = False
    return TextBatch(tokens, counted, None)


def near(ours: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


def test_every_language_model_is_in_the_grid() -> None:
    assert VARIANTS.keys() == {name for name, model in MODELS.items() if model.task == "generate"}


@each()
@torch.no_grad()
def test_padding_changes_nothing_on_either_side(name: str, variant: str) -> None:
    model = build(name, variant)
    tokens, mask = texts()
    logits = model(tokens, mask)
    assert logits.shape == (4, max(LENGTHS), WORDS)
    near(model(torch.where(mask, tokens, 5), mask)[mask], logits[mask])  # nor what stands in the padding
    left, left_mask = at_the_left(tokens, mask)
    near(model(left, left_mask)[left_mask], logits[mask])
    wider = [torch.cat([x.new_zeros(4, 5), x, x.new_zeros(4, 5)], 1) for x in (tokens, mask)]
    near(model(*wider)[wider[1]], logits[mask])  # with 19 places it is wider than GPT-2's 12 positions
    for padded in (logits, model(left, left_mask), model(*wider)):
        assert padded.isfinite().all()


@each()
@torch.no_grad()
def test_a_text_alone_is_as_in_a_batch(name: str, variant: str) -> None:
    model = build(name, variant)
    tokens, mask = texts()
    logits = model(tokens, mask)
    for row, length in enumerate(LENGTHS):
        near(model(tokens[row : row + 1, :length])[0], logits[row, :length])  # no mask: all is real


@each()
@torch.no_grad()
def test_changing_the_future_leaves_the_past_and_changing_the_past_does_not_leave_the_future(
    name: str, variant: str
) -> None:
    model = build(name, variant)
    tokens, _ = texts()
    logits = model(tokens)
    for place in (1, 4, 8):
        changed = tokens.clone()
        changed[:, place] = other(tokens[:, place])
        difference = (model(changed) - logits).abs().amax(-1)
        assert (difference[:, :place] < 1e-5).all()
        assert (difference[:, place:] > 1e-6).all()


@each()
@torch.no_grad()
def test_stepping_is_all_at_once(name: str, variant: str) -> None:
    """Behind prompts of several lengths, padded at the left, and behind none at all."""
    model = build(name, variant)
    tokens, mask = at_the_left(*texts())
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


@each()
@torch.no_grad()
def test_beams_go_apart(name: str, variant: str) -> None:
    """Three beams of each text with words of their own, swapped and thinned out on the way."""
    model = build(name, variant)
    tokens, mask = at_the_left(*(x[:, :7] for x in texts()))
    words = torch.stack([tokens[:, :4], tokens[:, 3:].flip(1), other(tokens[:, :4])], 1)  # (B, 3, 4)
    whole = [torch.cat([tokens, words[:, beam]], 1) for beam in range(3)]
    seen = torch.cat([mask, torch.ones_like(mask[:, :4])], 1)
    wanted = torch.stack([model(one, seen)[:, 7:] for one in whole], 1)  # (B, 3, 4, V)
    state = model.start(tokens, mask).spread(3)
    for time in range(2):
        logits, state = model.step(words[:, :, time].flatten(), state)
        near(logits.view(4, 3, WORDS), wanted[:, :, time])
    swap = torch.tensor([2, 0, 1])
    state = state.reorder((torch.arange(4)[:, None] * 3 + swap).flatten())
    branch = state.fork()
    for _ in range(2):  # going on in one branch leaves the other
        logits, branch = model.step(other(words[:, swap, 2]).flatten(), branch)
    logits, state = model.step(words[:, swap, 2].flatten(), state)
    near(logits.view(4, 3, WORDS), wanted[:, swap, 2])
    keep = torch.tensor([3, 1])
    logits, _ = model.step(words[keep][:, swap, 3].flatten(), state.drop(keep))
    near(logits.view(2, 3, WORDS), wanted[keep][:, swap, 3])


@each()
@torch.no_grad()
def test_the_loss_is_that_of_the_counted_logits(name: str, variant: str) -> None:
    model, rows = build(name, variant), batch()
    logits = model(rows.tokens[:, :-1]).log_softmax(-1)
    known = logits.gather(-1, rows.tokens[:, 1:, None]).squeeze(-1) * rows.counted
    loss = model.loss(rows)
    near(loss.total, -known.sum())
    near(loss.likelihood, known.sum(1))
    assert loss.tokens == 4 * 8 - 4
    smooth = model.loss(rows, smoothing=0.1)
    near(smooth.total, -(0.9 * known.sum() + 0.1 * (logits.mean(-1) * rows.counted).sum()))
    near(smooth.likelihood, loss.likelihood)


@each()
def test_every_parameter_gets_a_gradient(name: str, variant: str) -> None:
    model = build(name, variant).train()
    model.loss(batch()).total.backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{label} has no gradient"
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.any(), f"the gradient of {label} is 0"


@each("plain", "gru", "tied", "untied")
def test_overfits_one_batch(name: str, variant: str) -> None:
    model = build(name, variant, **({"dim": 24} if name == "gpt2" else {"dim": 24, "embed": 24})).train()
    tokens, _ = texts()
    tokens[:, 0] = torch.arange(2, 6)  # each text can be told from its first token
    rows = TextBatch(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), None)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(80):
        loss = model.loss(rows)
        optimiser.zero_grad()
        (loss.total / loss.tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    final = model.eval().loss(rows)
    assert final.total / final.tokens < 0.05


@each()
@torch.no_grad()
def test_saved_and_loaded_it_gives_the_same_logits(name: str, variant: str, tmp_path: Path) -> None:
    model = build(name, variant)
    tokenizer = Tokenizer.train(["abcdefghi"], kind="character", layout=model.layout)
    assert len(tokenizer) == WORDS
    folder.begin(tmp_path, model, Known(tokenizer), "")
    folder.save_weights(tmp_path, model)
    loaded: Any = tasks.load(tmp_path).model
    assert loaded.config == model.config
    assert not loaded.training
    assert (loaded.out.weight is loaded.embed.weight) == model.config.tied
    tokens, mask = (x.to(next(loaded.parameters()).device) for x in texts())
    assert torch.equal(loaded(tokens, mask), model.to(tokens.device)(tokens, mask))


@pytest.mark.parametrize(
    ("name", "place"),
    [("gpt2", "dropout"), ("gpt2", "embed_dropout"), ("gpt2", "attention_dropout"), ("rnnlm", "dropout")],
)
@torch.no_grad()
def test_dropout_acts_while_training_only(name: str, place: str) -> None:
    model = build(name, "plain", **{place: 0.5})
    tokens, mask = texts()
    assert torch.equal(model(tokens, mask), build(name, "plain")(tokens, mask))
    model.train()
    for options in ((tokens,), (tokens, mask)):
        assert not torch.equal(model(*options), model(*options))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_config_checks_itself(name: str) -> None:
    config: Any = MODELS[name].Config
    fields = vars(config(vocabulary=5))
    for key in (key for key, value in fields.items() if type(value) is int):
        least = 0 if key == "ff" else 1  # 0: four times dim
        with pytest.raises(ValueError, match=f"{key} must be at least {least}, got {least - 1}"):
            config(**{"vocabulary": 5, key: least - 1})
    for key in (key for key in fields if key.endswith("dropout")):
        for dropout in (-0.1, 1.0, float("nan")):
            with pytest.raises(ValueError, match=rf"{key} must lie in \[0, 1\)"):
                config(**{"vocabulary": 5, key: dropout})


# ---- what only one of them can do


@pytest.mark.parametrize("variant", VARIANTS["gpt2"])
@torch.no_grad()
def test_documents_of_a_row_are_as_if_alone(variant: str) -> None:
    """They neither see each other nor count each other's positions; so the loss is the sum of theirs, too."""
    model = build("gpt2", variant)
    tokens, _ = texts()
    cuts, first = [[0, 3, 8], [0, 1, 8]], tokens[:2]
    since = torch.tensor([[0, 0, 0, 3, 3, 3, 3, 3], [0, 1, 1, 1, 1, 1, 1, 1]])
    states = model.states(first[:, :-1], since=since)
    total, likelihood = torch.zeros(()), torch.zeros(2)
    for row, ends in enumerate(cuts):
        for begin, end in pairwise(ends):
            alone = first[row : row + 1, begin : end + 1]
            near(states[row, begin:end], model.states(alone[:, :-1])[0])
            loss = model.loss(TextBatch(alone, torch.ones_like(alone[:, 1:], dtype=torch.bool), None))
            total, likelihood[row] = total + loss.total, likelihood[row] + loss.likelihood[0]
    packed = model.loss(TextBatch(first, torch.ones_like(since, dtype=torch.bool), since))
    near(packed.total, total)
    near(packed.likelihood, likelihood)
    assert not torch.allclose(model.states(first[:, :-1]), states, atol=1e-3)


def test_a_recurrent_one_refuses_to_keep_documents_apart() -> None:
    rows = batch()
    apart = TextBatch(rows.tokens, rows.counted, torch.zeros_like(rows.tokens[:, 1:]))
    with pytest.raises(ValueError, match=r"cannot keep its documents apart; unset data\.apart"):
        build("rnnlm", "plain").loss(apart)


@torch.no_grad()
def test_gpt2_ends_with_its_positions_and_a_recurrent_one_does_not() -> None:
    long = torch.randint(2, WORDS, (1, LONGEST + 1))
    assert build("rnnlm", "plain")(long).isfinite().all()
    model = build("gpt2", "plain")
    state = model.start(long[:, :-1], torch.ones(1, LONGEST, dtype=torch.bool))
    for too_long in (lambda: model(long), lambda: model.step(long[:, -1], state)):
        with pytest.raises(ValueError, match=r"position 12 is beyond the last of the 12 .* shorten the text"):
            too_long()
