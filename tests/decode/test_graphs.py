"""Beam search by a CUDA graph: it chooses the beams as the host would. On the CPU its step runs uncaptured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from searches import search
from small_models import WORDS, build, images

from regard.decode import beam as searching
from regard.decode import beams_ahead, graphs
from regard.decode.beams_ahead import until_half
from regard.decode.graphs import KEPT, recordings
from regard.decode.hypothesis import Hypothesis

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]
PENALTY = {"length_penalty": 2.0}
OPTIONS: list[dict[str, Any]] = [
    PENALTY,
    {"length_penalty": 0.0, "never": (0, 1)},
    PENALTY | {"min_length": 5},
    {"min_length": torch.arange(9) % 5, "never": (4,), "n_best": 1},
    PENALTY | {"beam": WORDS},  # more candidates than words
]


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def captions(model: Any, rows: int, device: str = "cpu", **options: Any) -> list[list[Hypothesis]]:
    """Of random images, each with a limit of its own; some captions end before it."""
    torch.manual_seed(rows)
    given = torch.randn(rows, *images(model).shape[1:]).to(device, next(model.parameters()).dtype)
    limits = 3 + torch.arange(rows, device=device) * 4 % 11
    mask = torch.ones(rows, 1, dtype=torch.bool, device=device)
    fixed: dict[str, Any] = {"start": 1, "end": 2, "max_length": limits, "beam": 3, "n_best": 3}
    return search(model, given, mask, **fixed | options)


def uneven(found: list[list[Hypothesis]]) -> bool:
    return len({len(some[0].tokens) for some in found}) > 3


def same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]], abs: float = 1e-5) -> bool:
    tokens = [[[one.tokens, one.finished] for some in answers for one in some] for answers in (found, wanted)]
    scores = [[one.score for some in answers for one in some] for answers in (found, wanted)]
    return tokens[0] == tokens[1] and scores[0] == pytest.approx(scores[1], abs=abs)


def search_ahead(monkeypatch: pytest.MonkeyPatch, device: str) -> list[int]:
    """Search as on a GPU; on the CPU the step is run instead of captured. -> the sentences of each step"""
    sizes: list[int] = []
    take = searching.Account.take

    def counted(self: Any, candidates: Any) -> bool:
        sizes.append(len(candidates.scores))
        return take(self, candidates)

    monkeypatch.setattr(searching.Account, "take", counted)
    monkeypatch.setattr(searching, "possible", lambda *asked: True)
    if device == "cpu":
        monkeypatch.setattr(graphs, "captured", lambda step: step)
    return sizes


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


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["show_and_tell", "show_attend_tell"])
def test_the_beams_are_chosen_as_by_the_host(
    name: str, device: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(name)
    wanted = captions(model, 9, **options)
    assert uneven(wanted) or options not in (PENALTY, OPTIONS[2])
    sizes = search_ahead(monkeypatch, device)
    monkeypatch.setattr(beams_ahead, "WORTH", 99)
    assert same(captions(model.to(device), 9, device, **options), wanted, 1e-5 if device == "cpu" else 1e-3)
    assert set(sizes) == {9}, "finished sentences stay, since halving the batch does not pay"


@pytest.mark.parametrize(
    ("device", "kind"),
    [("cpu", torch.float64), ("cpu", torch.bfloat16), pytest.param("cuda", torch.float64, marks=gpu)],
)
def test_finished_sentences_leave_by_halves(
    device: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("show_attend_tell").to(device, kind)
    with monkeypatch.context() as patched:
        patched.setattr(searching, "possible", lambda *asked: False)
        wanted = captions(model, 9, device, **PENALTY)
    sizes = search_ahead(monkeypatch, device)
    monkeypatch.setattr(beams_ahead, "WORTH", 1)
    for steps, fewer in ((1, {9, 4, 2}), (4, {9, 4})):  # a graph
        monkeypatch.setattr(beams_ahead, "STEPS", steps)
        sizes.clear()
        assert same(captions(model, 9, device, **PENALTY), wanted, 1e-5 if kind == torch.float64 else 0.1)
        assert set(sizes) >= fewer


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_without_a_next_token_is_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search_ahead(monkeypatch, device)
    model = build("show_and_tell").to(device)
    with torch.no_grad():
        model.out.bias[3] = float("nan")
    with pytest.raises(ValueError, match="no possible next token"):
        captions(model, 3, device)
    with pytest.raises(ValueError, match=r"never has token 99, but the model's tokens are 0 to"):
        captions(model, 3, device, never=(99,))


def test_a_step_is_launched_before_the_last_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, launched, step = search_ahead(monkeypatch, "cpu"), [], beams_ahead.advance
    monkeypatch.setattr(beams_ahead, "STEPS", 1)

    def counted(*given: Any) -> Any:
        launched.append(len(taken))
        return step(*given)

    monkeypatch.setattr(beams_ahead, "advance", counted)
    captions(build("show_and_tell"), 3, max_length=10, min_length=10)
    assert launched == [0, 0, *range(1, 9)]  # and no step after the last
    assert len(taken) == 10


def test_steps_of_a_graph_are_launched_before_the_last_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, launched, step = search_ahead(monkeypatch, "cpu"), [], beams_ahead.advance
    monkeypatch.setattr(beams_ahead, "advance", lambda *given: launched.append(len(taken)) or step(*given))
    captions(build("show_and_tell"), 3, max_length=10, min_length=10)
    assert launched == [0] * 8 + [4] * 4, "two steps more than are asked for, in the last graph"
    assert len(taken) == 10


@gpu
@pytest.mark.parametrize("weigh", [None, "soft", "hard"])
def test_a_graph_finds_the_same(weigh: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    model = (build("show_attend_tell", weigh=weigh) if weigh else build("show_and_tell")).cuda()
    with monkeypatch.context() as patched:
        patched.setattr(searching, "possible", lambda *asked: False)
        wanted = [captions(model, rows, "cuda", **PENALTY) for rows in (9, 9, 2)]
    assert uneven(wanted[0])
    assert {key[0] for key in recordings.get(model, {})} <= {"start"}
    for rows, right in zip((9, 9, 2), wanted, strict=True):
        assert same(captions(model, rows, "cuda", **PENALTY), right, 1e-4)
    assert recordings[model]


@gpu
@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.2},
        {"no_repeat_ngram": 2},
        {"renormalise": True},
        {"stop": lambda some: len(some) > 4},
    ],
)
def test_rules_about_what_is_written_are_kept_by_the_host(options: dict[str, Any]) -> None:
    model = build("show_and_tell")
    wanted = captions(model, 9, **options)
    assert same(captions(model.cuda(), 9, "cuda", **options), wanted, 1e-3)
    assert model not in recordings


@gpu
def test_tokens_that_are_never_written_stay_so_when_their_memory_could_be_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, never = build("show_and_tell").cuda(), (0, 1, 4)
    with monkeypatch.context() as patched:
        patched.setattr(searching, "possible", lambda *asked: False)
        wanted = captions(model, 5, "cuda", never=never)
    captions(model, 5, "cuda", never=never)
    others = [torch.full((3,), 3, device="cuda") for _ in range(1000)]
    assert same(captions(model, 5, "cuda", never=never), wanted, 1e-3)
    assert len(others) == 1000


@gpu
def test_new_weights_are_seen_and_graphs_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("show_and_tell").cuda()
    first = captions(model, 5, "cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # in place: the same graphs
    changed = captions(model, 5, "cuda")
    assert [one[0].score for one in changed] != [one[0].score for one in first]
    with monkeypatch.context() as patched:
        patched.setattr(searching, "possible", lambda *asked: False)
        assert [one[0].tokens for one in captions(model, 5, "cuda")] == [one[0].tokens for one in changed]
    model.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()}, assign=True)
    assert [one[0].tokens for one in captions(model, 5, "cuda")] == [one[0].tokens for one in changed]
    for rows in range(1, KEPT + 4):
        captions(model, rows, "cuda")
    assert len(recordings[model]) <= KEPT
