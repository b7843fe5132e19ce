"""Mikolov 2010 and Zaremba 2014 against their equations, written out in float64 with torch's own cells."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.data.text.windows import TextBatch
from regard.layers.recurrent import KINDS
from regard.models.rnnlm import RNNLM, RNNLMConfig

WORDS, EMBED, DIM = 9, 5, 6
TEXT = torch.tensor([0, 5, 3, 7, 4])
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
VARIANTS: dict[str, dict[str, Any]] = {
    "rnn": {"cell": "rnn"},
    "gru": {"cell": "gru", "layers": 1},
    "tied": {"tied": True},
}
LEARNS = ("rnn", "gru", "tied")


def build(**changes: Any) -> RNNLM:
    torch.manual_seed(0)
    return RNNLM(RNNLMConfig(WORDS, **{"embed": EMBED, "dim": DIM, **changes})).double().eval()


@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_logits_are_those_of_the_papers(cell: str, layers: int) -> None:
    model = build(cell=cell, layers=layers)
    known, zero = model.state_dict(), torch.zeros(1, DIM, dtype=torch.float64)
    cells: list[Any] = []
    for layer in range(layers):
        one = CELLS[cell](EMBED if layer == 0 else DIM, DIM).double()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(one, name).copy_(known[f"stack.rnn.{name}_l{layer}"])
        cells.append(one)
    states: list[Any] = [(zero, zero) if cell == "lstm" else zero] * layers
    for place, word in enumerate(TEXT):
        x = known["embed.weight"][word][None]
        for layer, one in enumerate(cells):
            states[layer] = one(x, states[layer])
            x = states[layer][0] if cell == "lstm" else states[layer]
        wanted = known["out.weight"] @ x[0] + known["out.bias"]
        torch.testing.assert_close(model(TEXT[None])[0, place], wanted, rtol=1e-9, atol=1e-10)


def test_it_refuses_to_separate_documents() -> None:
    tokens = TEXT.repeat(2, 1)
    rows = TextBatch(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), torch.zeros_like(tokens[:, 1:]))
    with pytest.raises(ValueError, match=r"cannot separate its documents; set data\.separate_documents = false"):
        build().loss(rows)


@torch.no_grad()
def test_a_text_may_be_longer_than_its_positions() -> None:
    assert build(max_positions=4)(TEXT[None]).isfinite().all()


def test_tied_embeddings_are_one_table() -> None:
    model = build(tied=True, embed=DIM)
    assert model.out.weight is model.embed.weight
    with pytest.raises(ValueError, match="tied embeddings need dim = embed, got 6 and 5"):
        build(tied=True)


def test_with_locked_dropout_padding_may_be_skipped() -> None:
    """Step by step it drops what it drops over whole rows."""
    model, tokens = (
        build(dropout=0.5, locked=True, word_dropout=0.2, layers=1).train(),
        torch.tensor([[3, 4, 5], [5, 4, 3]]),
    )
    found = []
    for mask in (None, torch.ones_like(tokens, dtype=torch.bool)):
        torch.manual_seed(0)
        found.append(model(tokens, mask))
    torch.testing.assert_close(*found)
