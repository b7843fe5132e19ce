"""The kernels that choose beams against the plain choice: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from searches import parted, search
from small_models import build, images
from torch import Tensor

from regard.decode import beam as searching
from regard.decode import beams_ahead, graphs
from regard.decode.rules import Rules, read_rules

INTERPRETED = beams_ahead.beams_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]
# B, beams before, W, V
SMALL = [(3, 5, 5, 40), (3, 1, 5, 40), (2, 3, 3, 7), (2, 1, 7, 5), (1, 8, 8, 64), (4, 2, 2, 33)]
LARGE = [(256, 5, 5, 10000), (256, 1, 5, 10000), (33, 8, 8, 32768), (7, 4, 4, 30001)]
RULES: list[dict[str, Any]] = [{}, {"never": (0, 1)}, {"min_length": 4}]
pytestmark = pytest.mark.filterwarnings("ignore:invalid value")  # of the interpreter, where logits are NaN


def given(sizes: tuple[int, ...], device: str, **options: Any) -> tuple[Any, ...]:
    """Logits, tokens, scores, limits, rules and W."""
    sentences, before, width, words = sizes
    torch.manual_seed(0)
    logits = 3 * torch.randn(sentences * before, words)
    logits[:, 2] += 4  # some end
    limits = torch.stack([torch.arange(sentences) % 2, 1 + torch.arange(sentences) % 3], 1)
    scores = -torch.rand(sentences * before) * 3
    tokens = torch.ones(sentences * before, dtype=torch.long)
    settings = parted({"start": 1, "end": 2, "max_length": 9} | options)
    rules: Rules = read_rules(*settings, sentences, torch.device(device))
    return *(x.to(device) for x in (logits, tokens, scores, limits)), rules, width


def run(choose: Any, asked: tuple[Any, ...]) -> list[Tensor]:
    """All that it finds, and the limits."""
    own = [x.clone() if isinstance(x, Tensor) else x for x in asked]
    return [*choose(*own), own[3]]


def compare(asked: tuple[Any, ...]) -> None:
    assert beams_ahead.beams_cuda is not None
    found, wanted = run(beams_ahead.beams_cuda.choose, asked), run(beams_ahead.choose, asked)
    for one, other in zip(found, wanted, strict=True):
        alive = torch.ones_like(other, dtype=torch.bool)
        if other.dim() == 3:
            alive &= other[:1] > -torch.inf
        elif other.shape == wanted[3].shape:
            alive &= wanted[3] > -torch.inf
        torch.testing.assert_close(one[alive], other[alive], rtol=1e-5, atol=1e-5)
        assert one.shape == other.shape
    for one, other in ((found[3], wanted[3]), (found[0][0], wanted[0][0])):
        assert torch.equal(one == -torch.inf, other == -torch.inf)


@pytest.mark.parametrize("options", RULES, ids=str)
@pytest.mark.parametrize("sizes", SMALL)
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_beams(sizes: tuple[int, ...], device: str, options: dict[str, Any]) -> None:
    compare(given(sizes, device, **options))


@pytest.mark.parametrize("sizes", LARGE)
@pytest.mark.parametrize("device", DEVICES[1:])
def test_the_same_beams_of_many_words(sizes: tuple[int, ...], device: str) -> None:
    compare(given(sizes, device, never=(0, 1)))


@pytest.mark.parametrize("device", DEVICES)
def test_dead_beams_are_not_chosen(device: str) -> None:
    asked = given(SMALL[0], device)
    asked[2][1::2] = -torch.inf
    compare(asked)


@pytest.mark.parametrize("device", DEVICES)
def test_equal_scores(device: str) -> None:
    """Many words are as likely as others; each is a candidate once."""
    logits, *rest = given(SMALL[0], device)
    found = run(beams_ahead.beams_cuda.choose, (logits.round().bfloat16(), *rest))
    wanted = run(beams_ahead.choose, (logits.round(), *rest))
    torch.testing.assert_close(found[0][0], wanted[0][0], rtol=1e-5, atol=1e-5)
    pairs = (found[0][1] * 100 + found[0][2]).sort(1).values
    assert (pairs.diff(dim=1) > 0).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_not_a_number_comes_first(value: float, device: str) -> None:
    asked = given(SMALL[0], device)
    asked[0][6] = value  # a row of the second sentence
    found, order, tokens, *_ = run(beams_ahead.beams_cuda.choose, asked)
    assert found[0, :, 0].isnan().tolist() == [False, True, False]
    assert ((tokens >= 0) & (tokens < 40)).all()
    assert (order // 5 == torch.arange(15, device=device) // 5).all()


@pytest.mark.thorough
@pytest.mark.parametrize("device", DEVICES[:1])
def test_a_search_by_the_kernels(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("show_attend_tell")
    asked: dict[str, Any] = {"start": 1, "end": 2, "beam": 3, "n_best": 3, "length_penalty": 2.0, "never": (0,)}
    asked |= {"max_length": 3 + torch.arange(5) * 4 % 11, "min_length": torch.arange(5) % 3}
    source, mask = torch.randn(5, *images(model).shape[1:]), torch.ones(5, 1, dtype=torch.bool)
    wanted = search(model, source, mask, **asked)
    monkeypatch.setattr(searching, "possible", lambda *asked: True)
    monkeypatch.setattr(graphs, "captured", lambda step: step)
    monkeypatch.setattr(beams_ahead, "_fused", lambda *asked: True)
    for some, others in zip(search(model, source, mask, **asked), wanted, strict=True):
        assert [one.tokens for one in some] == [one.tokens for one in others]
        assert [one.score for one in some] == pytest.approx([one.score for one in others], abs=1e-4)
