"""Sites by their names: those of attention, those of gates, and what there is instead."""

from __future__ import annotations

from typing import Any

import pytest
import small_models
import torch
from torch import nn

from regard.attention.trace import trace
from regard.errors import NoAttention
from regard.layers.recurrent import GATES
from regard.tasks.shared.sites import sites_like

EXCITED = ["stages.0.0.excite", "stages.1.0.excite"]


@pytest.fixture
def gates() -> Any:
    return small_models.build("senet", depths=(1, 1), widths=(4, 8))


def test_the_sites_are_those_of_a_trace(gates: Any) -> None:
    assert sites_like(gates, (), kind="gate") == sites_like(gates, (), kind=None) == EXCITED
    assert sites_like(gates, ["stages.1.*"], kind="gate") == EXCITED[1:]
    assert sites_like(gates, ()) == []
    with torch.no_grad(), trace(gates, *sites_like(gates, (), kind="gate")) as seen:
        gates(small_models.images(gates))
        gates(small_models.images(gates)[:1])
    assert [tuple(seen[site, "gate"].shape) for site in seen.sites] == [(5, 4), (5, 8)]
    assert seen.having("gate") == EXCITED
    vit = small_models.build("vit")
    assert sites_like(vit, ()) == sites_like(vit, (), kind=None) == ["blocks.0.attend", "blocks.1.attend"]
    assert sites_like(vit, (), kind="gate") == []
    assert sites_like(nn.ModuleList([nn.MultiheadAttention(4, 2)]), ()) == ["0"]
    assert sites_like(torch.compile(vit, backend="eager"), ["blocks.0.*"]) == ["blocks.0.attend"]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        (
            "senet",
            "weights",
            f"no attention has a name like 'x.*'; there is none in this model; .* {', '.join(EXCITED)}",
        ),
        ("senet", "gate", f"no gate has a name like 'x.*'; there are {', '.join(EXCITED)}$"),
        ("senet", None, f"no site has a name like 'x.*'; there are {', '.join(EXCITED)}$"),
        ("vit", "weights", r"no attention has a name like 'x.*'; there are blocks.0.attend, blocks.1.attend$"),
        (
            "vit",
            "gate",
            r"no gate has a name like 'x.*'; there is none in this model; what it has is blocks.0.attend",
        ),
        ("vit", None, r"no attention has a name like 'x.*'; there are blocks.0.attend, blocks.1.attend$"),
        ("rnn", "weights", r"no attention has a name like 'x.*'; there is none in this model$"),
        (
            "seq2seq",
            "weights",
            r"no attention has a name like 'x.*'; there is none in .*; what it has is encoder.l0, decoder.l0$",
        ),
        ("bahdanau", "weights", r"no attention has a name like 'x.*'; there are attend$"),
        ("bahdanau", GATES, r"no gate has a name like 'x.*'; there are encoder.l0, encoder.l0_reverse, cell$"),
        (
            "bahdanau",
            None,
            r"no site has a name like 'x.*'; there are encoder.l0, encoder.l0_reverse, attend, cell$",
        ),
    ],
)
def test_what_there_is_is_said(name: str, kind: str | tuple[str, ...] | None, said: str, gates: Any) -> None:
    model = gates if name == "senet" else small_models.build(*("seq2seq", "rnn") if name == "rnn" else (name,))
    with pytest.raises(NoAttention, match=said):
        sites_like(model, ["x.*"], kind=kind)
