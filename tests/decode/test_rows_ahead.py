"""Greedy decoding and sampling by a CUDA graph write what the plain loop writes. On the CPU the step runs
uncaptured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from joined_texts import WAYS, Running, alone, check_joining, collate_for, passages_of
from searches import search
from small_models import build, each, special, writes

from regard.attention import trace
from regard.decode import beams_ahead, graphs, rows_ahead
from regard.decode.graphs import bucket, capacity_for, recordings
from regard.layers.state import State, copy_all
from regard.models.protocols import Generator, LanguageModel

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]


@pytest.fixture(params=DEVICES)
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Steps are graphs, however few; on the CPU they are run instead of captured. -> the device"""
    for module, least in ((rows_ahead, 0), (beams_ahead, 1)):
        monkeypatch.setattr(module, "WORTH", least)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    if request.param == "cpu":
        monkeypatch.setattr(graphs, "on_gpu", lambda tensor: True)
        monkeypatch.setattr(graphs, "captured", lambda step: step)
    return str(request.param)


def batch(model: Any, device: str = "cpu") -> tuple[list[Any], dict[str, Any]]:
    """Sources of different lengths, with a limit for each."""
    passages = passages_of(model)
    source, mask = collate_for(model)([passage.source for passage in passages])
    starts = torch.tensor([passage.target.start for passage in passages], device=device)
    limits = torch.tensor([6, 4, 7, 1][: len(passages)], device=device)
    target = {"start": starts, "end": special(model).end, "max_length": limits}
    return [source.to(device), mask.to(device)], target


@each(Generator, only=writes)
def test_the_same_is_written_by_graphs(
    name: str, variant: str, ahead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How a token is chosen does not depend on the model: the variants take turns in the ways."""
    model = build(name, variant).to(ahead)
    given, target = batch(model, ahead)
    way = [*WAYS][sum(map(ord, variant)) % len(WAYS)]
    options = {**WAYS[way], **target, "min_length": 2}
    with monkeypatch.context() as patched:
        patched.setattr(graphs, "on_gpu", lambda tensor: False)
        wanted = search(model, *given, **options)
    taken = []
    launch = rows_ahead.RowsAhead.take
    monkeypatch.setattr(rows_ahead.RowsAhead, "take", lambda self, left: taken.append(left) or launch(self, left))
    for _ in range(2):  # captured, and again by the graphs that are kept
        written = search(model, *given, **options)
        for (mine,), (right,) in zip(written, wanted, strict=True):
            assert (mine.tokens, mine.finished) == (right.tokens, right.finished)
            assert mine.score == pytest.approx(right.score, abs=1e-4)
    assert taken
    assert any(key[0] == "start" for key in recordings[model]), "sources are read by graphs too"


@each(Generator, only=writes, learns=True)
def test_the_same_beams_are_found_by_graphs(
    name: str, variant: str, ahead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(name, variant).to(ahead)
    given, target = batch(model, ahead)
    options = {**target, "beam": 3, "n_best": 2, "min_length": 2}
    with monkeypatch.context() as patched:
        patched.setattr(graphs, "on_gpu", lambda tensor: False)
        wanted = search(model, *given, **options)
    for mine, right in zip(search(model, *given, **options), wanted, strict=True):
        assert [one.tokens for one in mine] == [one.tokens for one in right]
        assert [one.score for one in mine] == pytest.approx([one.score for one in right], abs=1e-4)
    assert recordings[model]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["gpt2", "lstmn", "transformer", "luong"])
def test_texts_join_and_leave_what_is_written_ahead(name: str, way: str, ahead: str) -> None:
    if ahead == "cuda":
        pytest.skip("the texts of `Running` are on the CPU")
    model = build(name)
    check_joining(model, passages_of(model, **WAYS[way]))
    running = Running(model)
    passages = passages_of(model, **WAYS[way])
    running.join(passages)
    running.step()
    running.loop.leave([1])
    running.finish()
    assert sorted(running.answers) == [place for place in range(len(passages)) if place != 1]
    for place, answer in running.answers.items():
        assert answer.tokens == alone(model, passages[place]).tokens


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["transformer", "luong", "gpt2"])
def test_what_a_graph_held_before_is_no_matter(name: str, beam: int, ahead: str) -> None:
    """The rows beyond a batch, and what an earlier search has written behind the places of this one."""
    model = build(name).to(ahead)
    (source, mask), target = batch(model, ahead)
    options = {name: value[:3] if isinstance(value, torch.Tensor) else value for name, value in target.items()}
    options["beam"] = beam
    wanted = search(model, source[:3], mask[:3], **options)
    for rows in (4, 3, 3):
        few = {name: target[name][:rows] for name in ("start", "max_length")}
        found = search(model, source[:rows], mask[:rows], **options | few)
        with torch.inference_mode():
            for key, recording in recordings[model].items():
                for tensor in recording.input.tensors():
                    spoilt = torch.nan if tensor.is_floating_point() else 10**6 * (tensor.dtype == torch.long)
                    tensor.fill_(1 if key[0] == "start" else spoilt)
    for mine, right in zip(found, wanted, strict=True):
        assert [one.tokens for one in mine] == [one.tokens for one in right]
        assert [one.score for one in mine] == pytest.approx([one.score for one in right], abs=1e-4)


def test_a_source_that_was_read_is_kept_when_its_graph_is_used_again(
    ahead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU what a graph returns is overwritten by the next, as on a GPU."""
    if ahead == "cuda":
        pytest.skip("the texts of `Running` are on the CPU")

    def captured(work: Any) -> Any:
        static = work()

        def launch() -> Any:
            new = work()
            if not isinstance(static, State):
                return new
            copy_all(zip(static.tensors(), new.tensors(), strict=True))
            return static

        return launch

    monkeypatch.setattr(graphs, "captured", captured)
    model = build("luong")
    first, second, *_ = passages_of(model)
    second = replace(second, source=second.source + first.source[len(second.source) :])
    for least in (0, 50):  # by graphs of steps, and by steps
        monkeypatch.setattr(rows_ahead, "WORTH", least)
        for _ in range(2):
            both = Running(model), Running(model)
            for running, passage in zip(both, (first, second), strict=True):
                running.join([passage])
            for running, passage in zip(both, (first, second), strict=True):
                assert [answer.tokens for answer in running.finish()] == [alone(model, passage).tokens]


def test_rows_that_leave_a_graph_keep_their_own_minimum(ahead: str) -> None:
    """Not that of the rows for which it was captured."""
    if ahead == "cuda":
        pytest.skip("the texts of `Running` are on the CPU")
    model = build("rnnlm")
    with torch.no_grad():
        model.out.bias[special(model).end] = 9  # texts end as soon as they may
    first, *_ = passages_of(model)
    for least, limit in ((1, 40), (30, 40)):
        running, target = Running(model), replace(first.target, min_length=least, max_length=limit)
        running.join([replace(first, target=target)])
        running.step()
        running.join([first])
        assert len(running.finish()[0].tokens) == least


def test_a_past_that_fills_its_buffers_goes_on(ahead: str) -> None:
    """A text whose past is nearly as long as the model can have, beside one that goes on when it has left."""
    if ahead == "cuda":
        pytest.skip("the texts of `Running` are on the CPU")
    model = build("gpt2")
    first, second, *_ = passages_of(model)
    long = replace(first, source=[5] * (model.max_target_positions - 3))
    long = replace(long, target=replace(first.target, max_length=3, min_length=3))
    short = replace(second, source=[5], target=replace(second.target, max_length=9, min_length=9))
    running = Running(model)
    running.join([long, short])
    running.finish()
    assert [len(running.answers[place].tokens) for place in (0, 1)] == [3, 9]
    for place, passage in enumerate((long, short)):
        assert running.answers[place].tokens == alone(model, passage).tokens


def test_traced_steps_and_steps_that_do_not_pay_are_plain(ahead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("gpt2").to(ahead)
    given, target = batch(model, ahead)
    with trace(model, "blocks.*.attend"):
        search(model, *given, **target)
    monkeypatch.setattr(rows_ahead, "WORTH", 50)
    search(model, *given, **target)
    assert model not in recordings


def test_a_step_that_cannot_be_a_graph_is_plain(ahead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("rnnlm").to(ahead)
    given, target = batch(model, ahead)
    wanted = [one.tokens for (one,) in search(model, *given, **target)]
    recordings.pop(model)

    def fails(step: Any) -> Any:
        step()
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs, "captured", fails)
    said: list[str] = []
    monkeypatch.setattr(graphs.log, "debug", lambda text, *parts: said.append(text % parts))
    assert [one.tokens for (one,) in search(model, *given, **target)] == wanted
    assert said[0].startswith("without graphs: RuntimeError: operation not permitted")
    graphs.refused.pop(model)
    assert search(model, *given, **target, beam=2), "beams neither"
    assert "operation not permitted" in graphs.refused[model]


def test_a_source_that_cannot_be_read_by_a_graph_is_read_plainly(
    ahead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("transformer").to(ahead)
    given, target = batch(model, ahead)
    search(model, *given, **target)  # makes the table of positions
    wanted = [one.tokens for (one,) in search(model, *given, **target)]
    graphs.recordings.pop(model)

    def fails(step: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs, "captured", fails)
    assert [one.tokens for (one,) in search(model, *given, **target)] == wanted
    assert "not permitted" in graphs.refused[model]


def test_few_sizes_occur() -> None:
    assert [bucket(rows) for rows in (1, 3, 8, 17, 64, 65, 129)] == [1, 4, 8, 24, 64, 96, 256]
    assert capacity_for(30, 1 << 62) == 64
    assert capacity_for(200, 1 << 62) == 256
    assert capacity_for(200, 200) == 200


def test_graphs_of_many_sizes_are_not_all_kept(ahead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("rnnlm").to(ahead)
    monkeypatch.setattr(graphs, "KEPT", 2)
    (source, mask), target = batch(model, ahead)
    for rows in (1, 2, 4):
        few = {name: value[:rows] if isinstance(value, torch.Tensor) else value for name, value in target.items()}
        search(model, source[:rows], mask[:rows], **few)
    assert len(recordings[model]) == 2
    count, size = graphs.graph_memory(model)
    assert (count, size) == (2, graphs.kept_bytes(model))
    assert size > 0
    monkeypatch.setattr(graphs, "_memory", lambda device: 1)
    search(model, source, mask, **target)
    assert graphs.graph_memory(model)[0] == 1, "the oldest leave"
    assert isinstance(model, LanguageModel)
