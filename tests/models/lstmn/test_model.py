"""Cheng 2016 against its equations, written out in float64; both heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.text.text_encoding import TokenBatch
from regard.data.text.windows import TextBatch
from regard.models import MODELS
from regard.models.lstmn.model import LSTMN, LSTMNConfig
from regard.models.lstmn.tape import TapeLSTM
from regard.tasks.core.recipe import read

WORDS, EMBED, DIM, ATTENTION = 9, 5, 6, 4
TEXT = torch.tensor([0, 5, 3, 7, 4])
LABELS = ("bad", "fair", "good")
VARIANTS: dict[str, dict[str, Any]] = {
    "two layers": {"layers": 2, "attention": 5},
    "tied": {"tied": True},
    "classify": {"head": "classify", "labels": LABELS, "layers": 2},
    "classify by the last state": {"head": "classify", "labels": LABELS, "pool": "last"},
    "classify with bigrams": {"head": "classify", "labels": LABELS, "bigrams": 7},
}
LEARNS = ("two layers", "classify")


def build(**changes: Any) -> LSTMN:
    torch.manual_seed(0)
    sizes = {"embed": EMBED, "dim": DIM, "attention": ATTENTION}
    return LSTMN(LSTMNConfig(WORDS, **{**sizes, **changes})).double().eval()


def equations(x: Tensor, layer: TapeLSTM) -> tuple[list[Tensor], list[Tensor]]:
    """The states h_t of inputs x (T, E), and the weights of each look back."""
    known = layer.state_dict()
    of_x, of_read = known["attend.score.query_weight.weight"].split((x.shape[1], DIM), 1)
    of_h, v = known["attend.score.key_weight.weight"], known["attend.score.v"]
    hidden, cells, looks = [], [], []
    read = torch.zeros(DIM, dtype=x.dtype)
    for now in x:
        scores = [v @ torch.tanh(of_h @ h + of_x @ now + of_read @ read) for h in hidden]
        look = torch.stack(scores).softmax(0) if scores else torch.zeros(0, dtype=x.dtype)
        read = sum((s * h for s, h in zip(look, hidden, strict=True)), torch.zeros_like(read))
        held = sum((s * c for s, c in zip(look, cells, strict=True)), torch.zeros_like(read))
        gates = known["cell.input.weight"] @ now + known["cell.input.bias"]
        gates = gates + known["cell.hidden.weight"] @ read + known["cell.hidden.bias"]
        i, f, new, o = gates.chunk(4)
        cells.append(f.sigmoid() * held + i.sigmoid() * new.tanh())
        hidden.append(o.sigmoid() * cells[-1].tanh())
        looks.append(look)
    return hidden, looks


@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_logits_are_those_of_the_paper(layers: int) -> None:
    model = build(layers=layers)
    x = model.embed.table.weight[TEXT]
    for layer in model.layers:
        x = torch.stack(equations(x, layer)[0])
    wanted = x @ model.out.weight.T + model.out.bias
    torch.testing.assert_close(model(TEXT[None])[0], wanted, rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_a_trace_shows_the_words_before_each_word() -> None:
    """One column fewer than there are words, since nobody looks at the last."""
    model = build(layers=2)
    with trace(model, "layers.*.attend", "layers.0.cell") as seen:
        found = model(TEXT[None])
    torch.testing.assert_close(found, model(TEXT[None]), rtol=1e-6, atol=1e-7)
    looks = equations(model.embed.table.weight[TEXT], model.layers[0])[1]
    assert seen["layers.0.attend"].shape == (1, 5, 4)
    for place, look in enumerate(looks):
        row = seen["layers.0.attend"][0, place]
        torch.testing.assert_close(row[:place], look, rtol=1e-6, atol=1e-7)
        assert not row[place:].any()
        assert seen["layers.0.attend", "mask"][0, place].tolist() == [other < place for other in range(4)]
    assert seen[model.alignment].shape == (1, 5, 4)
    assert seen["layers.0.cell", "forget"].shape == (1, 5, DIM)


@torch.no_grad()
def test_a_classifier_reads_the_mean_of_its_states() -> None:
    model = build(head="classify", labels=LABELS)
    tokens, mask = TEXT.repeat(2, 1), torch.ones(2, 5, dtype=torch.bool)
    mask[1, 3:] = False
    states = model.states(TEXT[None])[0]
    wanted = torch.stack([states.mean(0), states[:3].mean(0)]) @ model.classify.weight.T + model.classify.bias
    torch.testing.assert_close(model.class_logits(TokenBatch(tokens, mask)), wanted)
    nothing = model.class_logits(TokenBatch(tokens[:1, :1], mask[1:, 4:]))
    torch.testing.assert_close(nothing[0], model.classify.bias)


def test_a_classifier_begins_with_a_language_model() -> None:
    writer, reader = build(tied=True, embed=DIM), build(head="classify", labels=LABELS, embed=DIM)
    assert reader.adopt(writer) == ["classify.weight", "classify.bias"]
    assert torch.equal(reader.embed.table.weight, writer.embed.table.weight)
    assert torch.equal(reader.states(TEXT[None]), writer.states(TEXT[None]))


def test_each_head_says_what_it_is_for() -> None:
    one = TokenBatch(TEXT[None], torch.ones(1, 5, dtype=torch.bool), torch.zeros(1, dtype=torch.long))
    with pytest.raises(ValueError, match=r"this one has generate; train one with model\.head = 'classify'"):
        build().loss(one)
    reader = build(head="classify", labels=LABELS)
    with pytest.raises(ValueError, match=r"this one has classify; train one with model\.head = 'generate'"):
        reader.start(one.tokens, one.mask)
    with pytest.raises(ValueError, match="labels are for head = 'classify', and head is 'generate'"):
        build(labels=LABELS)


def test_it_refuses_to_separate_documents() -> None:
    tokens = TEXT.repeat(2, 1)
    rows = TextBatch(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), torch.zeros_like(tokens[:, 1:]))
    with pytest.raises(ValueError, match=r"cannot separate its documents; set data\.separate_documents = false"):
        build().loss(rows)


def test_the_recipe_has_as_many_parameters_as_that_of_the_lstm() -> None:
    """Of all widths that are multiples of 8, which GPUs want, the nearest."""

    def count(name: str, **changes: int) -> int:
        config = replace(read(f"wikitext2-{name}")[0].config, vocabulary=33278, **changes)
        with torch.device("meta"):
            return sum(weight.numel() for weight in MODELS[name](config).parameters())

    wanted, dim = count("rnnlm"), read("wikitext2-lstmn")[0].config.dim
    assert dim % 8 == 0
    assert min((dim - 8, dim, dim + 8), key=lambda one: abs(count("lstmn", dim=one, embed=one) - wanted)) == dim


def test_tied_embeddings_are_one_table() -> None:
    model = build(tied=True, embed=DIM)
    assert model.out.weight is model.embed.table.weight
    with pytest.raises(ValueError, match="tied embeddings need dim = embed, got 6 and 5"):
        build(tied=True)


def test_locked_dropout_of_a_classifier_drops_single_features() -> None:
    """What is pooled has no words: a mask for all of them would drop whole texts."""
    model = build(head="classify", labels=("a", "b"), dropout=0.5, locked=True, dim=32).train()
    torch.manual_seed(0)
    seen: list[Tensor] = []
    model.classify.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(torch.randint(3, 5, (16, 4)))
    share = (seen[0] != 0).float().mean(1)
    assert 0 < share.min() <= share.max() < 1
