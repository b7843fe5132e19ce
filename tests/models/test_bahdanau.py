"""Bahdanau 2015 against its equations, written out word by word in float64 with torch's own cells."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import SCORES, WAYS, trace
from regard.layers.recurrent import KINDS
from regard.models.bahdanau import Bahdanau, BahdanauConfig

WORDS, EMBED, ENCODER, DECODER, READOUT = 9, 5, 3, 7, 4
FITTING = {"encoder": 8, "decoder": 16}  # keys are twice as wide as the encoder: every score fits
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
VARIANTS: dict[str, dict[str, Any]] = {
    "rnn": {"cell": "rnn", "decoder_layers": 2},
    "lstm": {"cell": "lstm"},
    "deep gru": {"encoder_layers": 2, "decoder_layers": 2},
    "deep lstm": {"cell": "lstm", "encoder_layers": 2, "decoder_layers": 3},
    "tied": {"tied": True},
    "straight through": {"weigh": "hard", "straight_through": True},
    "two vocabularies": {"source_vocabulary": 13, "tied": True},
}
CROSSED: dict[str, dict[str, Any]] = {
    f"{score} {way}": FITTING | {"score": score, "weigh": way} for score in SCORES for way in WAYS
}
LEARNS = ("deep lstm", "tied", "dot soft", "location local-p", "additive hard")


def build(**changes: Any) -> Bahdanau:
    torch.manual_seed(0)
    sizes = {"embed": EMBED, "encoder": ENCODER, "decoder": DECODER, "readout": READOUT}
    return Bahdanau(BahdanauConfig(WORDS, **{**sizes, **changes})).double().eval()


def by_hand(model: Bahdanau, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (T, V) and weights (T, S) of one sentence."""
    known = dict(model.state_dict())
    lstm = model.config.cell == "lstm"
    cell = CELLS[model.config.cell](EMBED + 2 * ENCODER, DECODER).double()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([known["cell.input.weight"], known["context.weight"]], 1))
        cell.bias_ih.copy_(known["cell.input.bias"])
        cell.weight_hh.copy_(known["cell.hidden.weight"])
        cell.bias_hh.copy_(known["cell.hidden.bias"])
    states = model.encoder.rnn(known["source_embed.weight"][source][None])[0][0]  # (S, 2 encoder)
    backward_first = states[0, ENCODER:]
    hidden = (known["first.weight"] @ backward_first + known["first.bias"]).tanh()
    carried = torch.zeros(DECODER, dtype=torch.float64)
    w, u, v = (known[f"attend.score.{name}"] for name in ("query_weight.weight", "key_weight.weight", "v"))
    logits, weights = [], []
    for word in target:
        scores = torch.stack([v @ (w @ hidden + u @ state).tanh() for state in states])
        weight = scores.exp() / scores.exp().sum()
        read = sum(a * state for a, state in zip(weight, states, strict=True))
        embedded = known["target_embed.weight"][word]
        both = torch.cat([embedded, read])[None]
        if lstm:
            (hidden, carried) = (x[0] for x in cell(both, (hidden[None], carried[None])))
        else:
            hidden = cell(both, hidden[None])[0]
        deep = known["deep.weight"] @ torch.cat([hidden, embedded, read]) + known["deep.bias"]
        maxout = torch.stack([torch.maximum(deep[2 * i], deep[2 * i + 1]) for i in range(READOUT)])
        logits.append(known["out.weight"] @ maxout + known["out.bias"])
        weights.append(weight)
    return torch.stack(logits), torch.stack(weights)


@pytest.mark.parametrize("cell", KINDS)
@torch.no_grad()
def test_logits_and_weights_are_those_of_the_paper(cell: str) -> None:
    model = build(cell=cell)
    source, target = torch.tensor([5, 3, 8, 4, 2]), torch.tensor([1, 7, 6, 4])
    with trace(model, model.alignment) as seen:
        logits = model(source[None], target[None])
    wanted, weights = by_hand(model, source, target)
    torch.testing.assert_close(logits[0], wanted, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(seen[model.alignment][0].double(), weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_the_first_state_comes_from_the_backward_state_at_the_first_place(layers: int) -> None:
    """Of the top layer, and of each row's own sentence: the backward pass begins at its last real token."""
    model = build(encoder_layers=layers)
    source = torch.tensor([[5, 3, 8, 4, 2], [6, 7, 2, 0, 0]])
    mask = source != 0
    for row, length in enumerate([5, 3]):
        last = model.encoder.rnn(model.source_embed(source[row : row + 1, :length]))[1]  # (2 layers, 1, encoder)
        wanted = model.first(last[-1, 0]).tanh()
        torch.testing.assert_close(model.start(source, mask).rows[0][0][row], wanted)


@torch.no_grad()
def test_upper_layers_follow_the_one_that_looks() -> None:
    """With its input projected to nothing, a second layer must forget the first one's states."""
    model = build(decoder_layers=2)
    source = torch.tensor([[5, 3, 2]])
    assert model.upper is not None
    model.deep.weight[:, DECODER:] = 0  # no short cut round the states
    first, second = (model(source, torch.tensor([[1, word, 4]])) for word in (6, 7))
    assert not torch.allclose(first[0, 2], second[0, 2])
    model.upper.rnn.weight_ih_l0.zero_()
    first, second = (model(source, torch.tensor([[1, word, 4]])) for word in (6, 7))
    assert torch.equal(first[0, 2], second[0, 2])


def test_tied_embeddings_are_one_table() -> None:
    model = build(tied=True, readout=EMBED)
    assert model.source_embed.weight is model.target_embed.weight is model.out.weight
    with pytest.raises(ValueError, match="tied embeddings need readout = embed, got 4 and 5"):
        build(tied=True)


def test_a_score_that_does_not_fit_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="queries and keys of the same size, got 7 and 6; make them equal"):
        build(score="dot")
    with pytest.raises(ValueError, match=r"score must be one of 'dot', .*, got 'dots'"):
        build(score="dots")
    with pytest.raises(ValueError, match=r"weigh must be one of 'soft', .*, got 'softly'"):
        build(weigh="softly")
    with pytest.raises(ValueError, match="cell must be one of 'rnn', 'gru', 'lstm', got 'gnu'"):
        build(cell="gnu")


def test_hard_attention_draws_while_training_and_decides_when_running() -> None:
    torch.manual_seed(1)
    model = build(weigh="hard", soft_share=0.0, dropout=0.0)
    source, target = torch.randint(4, WORDS, (1, 12)), torch.tensor([[1, 5, 6, 7]])

    def places() -> tuple[int, ...]:
        with torch.no_grad(), trace(model, "attend") as seen:
            model(source, target)
        weights = seen["attend"][0]
        assert torch.equal(weights.sum(-1), torch.ones_like(weights[:, 0]))
        return tuple(weights.argmax(-1).tolist())

    assert len({places() for _ in range(5)}) == 1
    model.train()
    assert len({places() for _ in range(20)}) > 1
