"""Beams by a CUDA graph: finished sentences stay in its batch for a while, and change nothing."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from small_models import build, images

from regard.decode.beam import beam
from regard.decode.hypothesis import Hypothesis
from regard.decode.steps import KEPT, Steps, recordings, until_half

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def captions(model: Any, rows: int, device: str = "cpu") -> list[list[Hypothesis]]:
    """Of random images, each with a limit of its own; some captions end before it."""
    torch.manual_seed(rows)
    given = torch.randn(rows, *images(model).shape[1:], device=device)
    limits = 3 + torch.arange(rows, device=device) * 4 % 11
    mask = torch.ones(rows, 1, dtype=torch.bool, device=device)
    return beam(model, given, mask, start=1, end=2, max_length=limits, width=3, n_best=3, length_penalty=2.0)


def uneven(found: list[list[Hypothesis]]) -> bool:
    return len({len(some[0].tokens) for some in found}) > 3


@pytest.mark.parametrize(
    ("done", "stay"),
    [
        ([0, 0, 1, 0], [0, 1, 2, 3]),
        ([1, 0, 1, 0], [1, 3]),
        ([1, 1, 1, 0], [0, 3]),
        ([1, 1, 0, 1, 0], [2, 4]),
        ([1, 0], [1]),
        ([0], [0]),
    ],
)
def test_the_batch_is_halved_when_half_is_done(done: list[int], stay: list[int]) -> None:
    assert until_half(np.array(done, bool)).tolist() == stay


@pytest.mark.parametrize("name", ["show_and_tell", "show_attend_tell"])
def test_finished_sentences_in_the_batch_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(name)
    wanted = captions(model, 9)
    assert uneven(wanted)
    sizes = []

    def going_on(self: Steps, done: np.ndarray) -> np.ndarray:
        sizes.append((len(done), int(done.sum())))
        return until_half(done)

    monkeypatch.setattr(Steps, "going_on", going_on)
    found = captions(model, 9)
    assert any(finished for _, finished in sizes), "no finished sentence ever stayed"
    for some, right in zip(found, wanted, strict=True):
        assert [one.tokens for one in some] == [one.tokens for one in right]
        assert [one.score for one in some] == pytest.approx([one.score for one in right], abs=1e-5)


@gpu
@pytest.mark.parametrize("weigh", [None, "soft", "hard"])
def test_a_graph_finds_the_same(weigh: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    model = (build("show_attend_tell", weigh=weigh) if weigh else build("show_and_tell")).cuda()
    with monkeypatch.context() as patched:
        patched.setattr(type(model), "fixed_state", False)
        wanted = [captions(model, rows, "cuda") for rows in (9, 9, 2)]
    assert uneven(wanted[0])
    assert model not in recordings
    found = [captions(model, rows, "cuda") for rows in (9, 9, 2)]
    assert recordings[model]
    for some, right in zip(chain(*found), chain(*wanted), strict=True):
        assert [one.tokens for one in some] == [one.tokens for one in right]
        assert [one.score for one in some] == pytest.approx([one.score for one in right], abs=1e-4)


@gpu
def test_new_weights_are_seen_and_graphs_are_few() -> None:
    model = build("show_and_tell").cuda()
    first = captions(model, 5, "cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # in place: the same graphs
    changed = captions(model, 5, "cuda")
    assert [one[0].score for one in changed] != [one[0].score for one in first]
    model.fixed_state = False
    assert [one[0].tokens for one in captions(model, 5, "cuda")] == [one[0].tokens for one in changed]
    del model.fixed_state
    model.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()}, assign=True)
    assert [one[0].tokens for one in captions(model, 5, "cuda")] == [one[0].tokens for one in changed]
    for rows in range(1, KEPT + 4):
        captions(model, rows, "cuda")
    assert len(recordings[model]) <= KEPT
