"""Luong 2015 against its equations, written out word by word in float64 with torch's own cells."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import SCORES, WAYS, trace
from regard.layers.recurrent import KINDS
from regard.models.luong import Luong, LuongConfig

WORDS, EMBED, DIM = 9, 5, 6
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
VARIANTS: dict[str, dict[str, Any]] = {
    "rnn": {"cell": "rnn", "layers": 2},
    "gru": {"cell": "gru"},
    "deep": {"layers": 2},
    "two directions": {"layers": 2, "cell": "gru", "bidirectional": True},
    "not fed": {"feeding": False, "layers": 2},
    "not fed, local": {"feeding": False, "weigh": "local-p"},
    "not fed, hard": {"feeding": False, "weigh": "hard"},
    "tied": {"tied": True},
    "two vocabularies": {"source_vocabulary": 13},
    "plain read-out": {"readout": "plain"},
    "context fed": {"fed": "context", "cell": "gru"},
    "plain, context fed, tied": {"readout": "plain", "fed": "context", "tied": True, "embed": 16},
    "plain, not fed": {"readout": "plain", "feeding": False},
    "straight through": {"weigh": "hard", "straight_through": True},
}
CROSSED: dict[str, dict[str, Any]] = {
    f"{score} {way}": {"score": score, "weigh": way} for score in SCORES for way in WAYS
}
LEARNS = ("deep", "tied", "dot soft", "location local-p", "additive hard", "not fed")
SOURCE, TARGET = torch.tensor([5, 3, 8, 4, 6, 7, 2]), torch.tensor([1, 7, 6, 4])


def build(**changes: Any) -> Luong:
    torch.manual_seed(0)
    return Luong(LuongConfig(WORDS, **{"embed": EMBED, "dim": DIM, **changes})).double().eval()


def weigh(model: Luong, known: dict[str, Tensor], state: Tensor, states: Tensor, time: int) -> Tensor:
    """The weights (S,) of one step."""
    config, size = model.config, len(states)
    score = {
        "dot": lambda h: state @ h,
        "general": lambda h: state @ (known["attend.score.weight.weight"] @ h),
        "additive": lambda h: (
            known["attend.score.v"]
            @ (
                known["attend.score.query_weight.weight"] @ state + known["attend.score.key_weight.weight"] @ h
            ).tanh()
        ),
    }
    if config.score == "location":
        scores = (known["attend.score.weight.weight"] @ state)[:size]
    else:
        scores = torch.stack([score[config.score](h) for h in states])
    place = torch.arange(size, dtype=torch.float64)
    centre = torch.tensor(float(time), dtype=torch.float64)
    if config.weigh == "local-p":
        inner = (
            known["attend.weigh.hidden.weight"] @ state / DIM**0.5
        ).tanh()  # both are kept sqrt(D) times as large
        centre = size * (known["attend.weigh.out.weight"][0] @ inner / DIM**0.5).sigmoid()
    if config.weigh == "soft":
        return scores.exp() / scores.exp().sum()
    inside = (place - centre.round()).abs() <= config.window
    weights = torch.where(inside, scores.exp(), 0)
    weights = weights / weights.sum() if inside.any() else weights
    if config.weigh == "local-p":
        weights = weights * torch.exp(-((place - centre) ** 2) / (2 * (config.window / 2) ** 2))
    return weights


def by_hand(model: Luong, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (T, V) and weights (T, S) of one sentence, one layer, with input feeding."""
    known, config = dict(model.state_dict()), model.config
    lstm, plain, words = config.cell == "lstm", config.readout == "plain", config.words
    width = DIM if config.fed == "context" or not plain else 2 * DIM
    cell = CELLS[config.cell](EMBED * words + width, DIM).double()
    into = [known["cells.0.input.weight"], *([known["feed.weight"]] if words else [])]
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat(into, 1))
        cell.bias_ih.copy_(known["cells.0.input.bias"])
        cell.weight_hh.copy_(known["cells.0.hidden.weight"])
        cell.bias_hh.copy_(known["cells.0.hidden.bias"])
    states, last = model.encoder.rnn(known["source_embed.weight"][source][None])
    states, last = states[0], last if lstm else (last,)
    # The encoder's last states, both directions side by side, are the decoder's first.
    state = tuple(part.flatten()[None] for part in last)
    fed = torch.zeros(width, dtype=torch.float64)
    logits, weights = [], []
    for time, word in enumerate(target):
        both = torch.cat([*([known["target_embed.weight"][word]] if words else []), fed])[None]
        state = cell(both, state) if lstm else (cell(both, state[0]),)
        hidden = state[0][0]
        weight = weigh(model, known, hidden, states, time)
        read = sum(a * h for a, h in zip(weight, states, strict=True))
        z = torch.cat([read, hidden])
        z = z if plain else (known["combine.weight"] @ z + known["combine.bias"]).tanh()
        fed = read if config.fed == "context" else z
        logits.append(known["out.weight"] @ z + known["out.bias"])
        weights.append(weight)
    return torch.stack(logits), torch.stack(weights)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("score", ["dot", "general", "additive", "location"])
@pytest.mark.parametrize(
    ("way", "window"), [("soft", 2), ("local-m", 2), ("local-p", 2), ("local-m", 3), ("local-p", 9)]
)
@torch.no_grad()
def test_logits_and_weights_are_those_of_the_paper(
    score: str, way: str, window: int, cell: str, bidirectional: bool
) -> None:
    """Windows narrower than the source and wider ones: the second are read whole."""
    model = build(cell=cell, score=score, weigh=way, window=window, bidirectional=bidirectional)
    with trace(model, model.alignment) as seen:
        logits = model(SOURCE[None], TARGET[None])
    wanted, weights = by_hand(model, SOURCE, TARGET)
    torch.testing.assert_close(logits[0], wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(seen[model.alignment][0].double(), weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("fed", ["attentional", "context"])
@pytest.mark.parametrize("readout", ["tanh", "plain"])
@torch.no_grad()
def test_other_forms_are_those_that_lectures_draw(readout: str, fed: str, words: bool) -> None:
    model = build(readout=readout, fed=fed, words=words)
    wanted, _ = by_hand(model, SOURCE, TARGET)
    logits = model(SOURCE[None], TARGET[None])
    torch.testing.assert_close(logits[0], wanted, rtol=1e-5, atol=1e-6)
    state = model.start(SOURCE[None], torch.ones(1, len(SOURCE), dtype=torch.bool))
    for place, token in enumerate(TARGET):
        step, state = model.step(token[None], state)
        torch.testing.assert_close(step, logits[:, place], rtol=1e-5, atol=1e-6)


def test_without_words_the_target_changes_nothing_and_every_weight_learns() -> None:
    model = build(words=False).train()
    logits = model(SOURCE[None], TARGET[None])
    torch.testing.assert_close(model.eval()(SOURCE[None], TARGET.flip(0)[None]), model(SOURCE[None], TARGET[None]))
    logits.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in model.parameters())
    assert not [name for name in model.state_dict() if name.startswith("target_embed")]
    assert "target_embed.weight" in build(words=False, tied=True, embed=DIM).state_dict()


@torch.no_grad()
def test_without_feeding_the_cells_do_not_know_what_was_read() -> None:
    """The same weights with W_feed = 0 give the same logits, though all steps run at once."""
    fed, plain = build(layers=2), build(layers=2, feeding=False)
    known = dict(fed.state_dict())
    known["feed.weight"].zero_()
    fed.load_state_dict(known)
    names = {
        "input.weight": "weight_ih",
        "input.bias": "bias_ih",
        "hidden.weight": "weight_hh",
        "hidden.bias": "bias_hh",
    }
    for layer in range(2):
        for ours, theirs in names.items():
            known[f"decoder.rnn.{theirs}_l{layer}"] = known.pop(f"cells.{layer}.{ours}")
    del known["feed.weight"]
    plain.load_state_dict(known)
    torch.testing.assert_close(plain(SOURCE[None], TARGET[None]), fed(SOURCE[None], TARGET[None]))


@torch.no_grad()
def test_what_was_read_is_fed_to_the_next_step() -> None:
    model = build()
    before = model(SOURCE[None], TARGET[None])
    model.feed.weight.zero_()
    after = model(SOURCE[None], TARGET[None])
    torch.testing.assert_close(after[:, 0], before[:, 0])  # nothing was read before the first
    assert (after[:, 1:] - before[:, 1:]).abs().amax(-1).min() > 1e-4


@torch.no_grad()
def test_local_attention_tells_its_centres() -> None:
    model = build(weigh="local-p", window=2)
    with trace(model, "attend") as seen:
        model(SOURCE[None], TARGET[None])
    centres = seen["attend", "centre"]
    assert centres.shape == (1, len(TARGET))
    assert ((centres > 0) & (centres < len(SOURCE))).all()
    model = build(weigh="local-m", window=2, feeding=False)
    with trace(model, "attend") as seen:
        model(SOURCE[None], TARGET[None])
    assert seen["attend", "centre"].tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_settings_that_do_not_go_together_are_refused() -> None:
    for changes in ({"words": False}, {"fed": "context"}):
        with pytest.raises(ValueError, match="fed and words are about input feeding, and feeding is false"):
            LuongConfig(WORDS, feeding=False, **changes)
    with pytest.raises(ValueError, match="need embed = 2 dim with readout = plain, got 8 and dim 8"):
        LuongConfig(WORDS, dim=8, embed=8, tied=True, readout="plain")
    with pytest.raises(ValueError, match="fed must be one of 'attentional', 'context', got 'states'"):
        LuongConfig(WORDS, fed="states")


def test_two_directions_share_an_even_width() -> None:
    with pytest.raises(ValueError, match=r"dim must be even with bidirectional = true .*, got 7"):
        LuongConfig(WORDS, dim=7, bidirectional=True)
    assert LuongConfig(WORDS, dim=7).dim == 7
