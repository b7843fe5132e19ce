"""Sutskever 2014 and Cho 2014 against their equations, written out in float64 with torch's own cells."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.layers.recurrent import KINDS
from regard.models.seq2seq import SUMMARIES, Seq2seq, Seq2seqConfig, reverse

WORDS, EMBED, DIM = 9, 5, 6
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
VARIANTS: dict[str, dict[str, Any]] = {
    "rnn": {"cell": "rnn"},
    "gru": {"cell": "gru"},
    "mean": {"summary": "mean", "layers": 2, "remind": True},
    "deep": {"layers": 2},
    "reverse": {"reverse": True},
    "remind": {"remind": True},
    "reverse and remind": {"remind": True, "reverse": True, "cell": "gru", "layers": 2},
    "tied": {"tied": True},
    "two vocabularies": {"source_vocabulary": 13},
}
LEARNS = ("rnn", "deep", "mean", "tied", "reverse and remind")
SOURCE, TARGET = torch.tensor([5, 3, 8, 4, 2]), torch.tensor([1, 7, 6, 4])


def build(**changes: Any) -> Seq2seq:
    torch.manual_seed(0)
    return Seq2seq(Seq2seqConfig(WORDS, **{"embed": EMBED, "dim": DIM, **changes})).double().eval()


def cells(known: dict[str, Tensor], part: str, kind: str, layers: int) -> list[Any]:
    """The layers of an encoder or decoder as single cells with the same weights."""
    found = []
    for layer in range(layers):
        weight = known[f"{part}.rnn.weight_ih_l{layer}"]
        cell = CELLS[kind](weight.shape[1], DIM).double()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(cell, name).data.copy_(known[f"{part}.rnn.{name}_l{layer}"])
        found.append(cell)
    return found


def walk(layers: list[Any], state: list[Any], x: Tensor) -> Tensor:
    """One step through all layers, whose states are changed; the top one's."""
    for number, cell in enumerate(layers):
        after = cell(x[None], state[number])
        state[number] = after
        x = (after[0] if isinstance(after, tuple) else after)[0]
    return x


def by_hand(model: Seq2seq, source: Tensor, target: Tensor) -> Tensor:
    config, known = model.config, dict(model.state_dict())
    zero = torch.zeros(1, DIM, dtype=torch.float64)
    state: list[Any] = [(zero, zero) if config.cell == "lstm" else zero for _ in range(config.layers)]
    if config.reverse:
        source = torch.cat([source[:-1].flip(0), source[-1:]])
    encoder = cells(known, "encoder", config.cell, config.layers)
    decoder = cells(known, "decoder", config.cell, config.layers)
    vectors = [walk(encoder, state, known["source_embed.weight"][word]) for word in source]
    vector = vectors[-1]
    if config.summary == "mean":
        vector = torch.stack(vectors).mean(0)
        first = (known["first.weight"] @ vector + known["first.bias"]).tanh()
        for layer, part in enumerate(first.chunk(config.layers)):
            state[layer] = (part[None], zero) if config.cell == "lstm" else part[None]
    logits = []
    for word in target:
        embedded = known["target_embed.weight"][word]
        if config.remind:
            hidden = walk(decoder, state, torch.cat([embedded, vector]))
            both = torch.cat([hidden, embedded, vector])
            hidden = (known["combine.weight"] @ both + known["combine.bias"]).tanh()
        else:
            hidden = walk(decoder, state, embedded)
        logits.append(known["out.weight"] @ hidden + known["out.bias"])
    return torch.stack(logits)


@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("remind", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("summary", SUMMARIES)
@torch.no_grad()
def test_logits_are_those_of_the_papers(
    cell: str, layers: int, remind: bool, backwards: bool, summary: str
) -> None:
    model = build(cell=cell, layers=layers, remind=remind, reverse=backwards, summary=summary)
    wanted = by_hand(model, SOURCE, TARGET)
    torch.testing.assert_close(model(SOURCE[None], TARGET[None])[0], wanted, rtol=1e-9, atol=1e-10)


def test_words_are_turned_round_and_the_end_and_padding_are_not() -> None:
    source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0], [2, 0, 0, 0]])
    mask = source != 0
    assert reverse(source, mask).tolist() == [[7, 6, 5, 2], [8, 2, 0, 0], [2, 0, 0, 0]]


@torch.no_grad()
def test_all_that_is_known_of_the_source_is_its_last_state() -> None:
    """Two sources that leave the encoder in one state cannot be told apart, whatever the target."""
    model = build()
    model.encoder.rnn.weight_ih_l0.zero_()
    other = torch.tensor([3, 3, 3, 3, 2])
    assert torch.equal(model(SOURCE[None], TARGET[None]), model(other[None], TARGET[None]))
