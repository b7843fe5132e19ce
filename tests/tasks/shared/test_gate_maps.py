"""Gates of recurrent translators over the words that they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.attention import trace
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.errors import BadInput, NoAttention
from regard.models import MODELS
from regard.tasks.shared.gate_maps import UNITS
from regard.tasks.translate.run import Translator
from regard.tasks.translate.translation import Translation

DIM = 16
MODELS_WITH_GATES: dict[str, dict[str, Any]] = {
    "seq2seq": {"dim": DIM, "layers": 2},
    "luong": {"dim": DIM, "bidirectional": True},
    "bahdanau": {"encoder": 8, "decoder": DIM, "decoder_layers": 2},
}
SITES = {
    "seq2seq": ["encoder.l0", "encoder.l1", "decoder.l0", "decoder.l1"],
    "luong": ["encoder.l0", "encoder.l0_reverse", "cells.0"],
    "bahdanau": ["encoder.l0", "encoder.l0_reverse", "cell", "upper.l0"],
}


def build(name: str, **changes: Any) -> Translator:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(["the cats sat on the mat"], kind="bpe", size=264)
    sizes = {"embed": 8, "cell": "lstm", **MODELS_WITH_GATES.get(name, {}), **changes}
    model = MODELS[name](MODELS[name].Config(vocabulary=len(tokenizer), **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return Translator(model, tokenizer, Decoding(max_length=6))


def ask(run: Translator) -> Translation:
    return run.translate("the cats sat on", max_length=6, min_length=3)


@pytest.mark.parametrize("name", MODELS_WITH_GATES)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_every_gate_of_every_layer_over_the_words_that_it_read(name: str, cell: str) -> None:
    run = build(name, cell=cell)
    answer = ask(run)
    found = answer.gates(units=4)
    gates = {"gru": ("reset", "update"), "lstm": ("input", "forget", "output")}[cell]
    assert list(found.panels) == [f"{site}, {gate}" for site in sorted(SITES[name], key=order) for gate in gates]
    for panel, values in found.panels.items():
        rows, columns = found.tokens(panel)
        assert values.shape == (1, 1 + 4, len(columns))
        assert rows[0] == "mean"
        if panel.startswith("encoder"):
            assert columns == ("the", "cats", "sat", "on", "</s>")
        else:
            assert columns[0] == "<s>"
        means = values[0, 1:].mean(-1)
        assert (np.diff(found.pieces.panels[panel][0, 1:].mean(-1)) <= 1e-6).all(), f"from open to closed, {means}"
    assert found.top(next(iter(found.panels)), 0) == 1


def order(site: str) -> int:
    """Encoders read first."""
    return 0 if site.startswith("encoder") else 1


def test_words_are_the_means_of_their_pieces_and_rows_are_units() -> None:
    run = build("seq2seq")
    source = run.read("the cats sat on")
    found = run.gates(source.ids, [5, 6], ["encoder.l0"], DIM)
    with torch.inference_mode(), trace(run.model, "encoder.l0") as seen:
        run.model.start(torch.tensor([source.ids]), torch.ones(1, len(source.ids), dtype=torch.bool))
    gates = seen["encoder.l0", "forget"][0].numpy()  # (T, D)
    rows, columns = found.tokens("encoder.l0, forget")
    values = found.panels["encoder.l0, forget"][0]
    assert rows[0] == "mean"
    assert sorted(map(int, rows[1:])) == list(range(DIM))
    for place, word in enumerate(columns):
        own = [at for at, number in enumerate([*source.words[:-1], len(columns) - 1]) if number == place]
        np.testing.assert_allclose(values[0, place], gates[own].mean(), atol=1e-6, err_msg=word)
        np.testing.assert_allclose(values[1, place], gates[own, int(rows[1])].mean(), atol=1e-6)
    assert len(found.pieces.tokens("encoder.l0, forget")[1]) == len(source.ids)


def test_a_reversed_source_stands_in_its_own_order() -> None:
    run = build("seq2seq", reverse=True)
    found = ask(run).gates("encoder.*", units=0)
    assert found.tokens("encoder.l0, forget")[1] == ("the", "cats", "sat", "on", "</s>")
    assert found.panels["encoder.l0, forget"].shape[1] == 1, "the mean alone"
    source = torch.tensor([run.read("the cats sat on").ids])
    with torch.inference_mode(), trace(run.model, "encoder.l0") as seen:
        run.model.start(source, torch.ones_like(source, dtype=torch.bool))
    *words, end = seen["encoder.l0", "forget"][0].mean(-1).tolist()
    np.testing.assert_allclose(found.pieces.panels["encoder.l0, forget"][0, 0], [*words[::-1], end], atol=1e-6)


def test_a_picture_shows_attention_where_there_is_some_and_gates_where_they_are_named() -> None:
    answer = ask(build("bahdanau"))
    assert answer.picture([]) is answer.attention
    drawn: Any = answer.picture(["attend"])
    assert (list(drawn.panels), drawn.of) == (["attend"], "weight")
    drawn = answer.picture(["cell", "upper.*"])
    assert (next(iter(drawn.panels)), drawn.of) == ("cell, input", "gate")
    assert drawn.panels["cell, input"].shape[1] == 1 + UNITS
    assert "1  gate" in drawn.svg()
    assert "gate: 0 " in drawn.terminal(colour=False)
    assert (drawn.data()["of"], answer.heads("attend").data()["of"]) == ("gate", "weight")
    with pytest.raises(NoAttention, match=r"no gate has a name like 'attend'; there are encoder.l0, .*, upper.l0"):
        answer.picture(["attend", "cell"])
    drawn = ask(build("seq2seq")).picture([])
    assert drawn.of == "gate"
    for plain in (ask(build("seq2seq", cell="rnn")), ask(build("luong", cell="rnn"))):
        with pytest.raises(NoAttention, match="this model has no gates: only GRU and LSTM cells do"):
            plain.gates()


def test_what_cannot_be_drawn_says_so() -> None:
    run = build("seq2seq")
    with pytest.raises(BadInput, match=r"units must be 0 .* or more, got -1"):
        ask(run).gates(units=-1)
    with pytest.raises(ValueError, match="the empty text was not translated"):
        run.translate([""])[0].gates()
    assert run.translate([""])[0].picture([]) is None
