"""Greedy answers and beams of the shipped runs in half precision by graphs: those of the plain loop in float32. On
the CPU the steps run uncaptured."""

from __future__ import annotations

import io
from base64 import b64decode
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.decode import beams_ahead, graphs, rows_ahead
from regard.runs.examples import read_examples

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
ASKED: dict[str, tuple[str, Callable[[Any, list[Any]], Any]]] = {
    "dates": ("dates", lambda run, inputs: run.translate(inputs)),
    "de-en": ("de-en", lambda run, inputs: run.translate(inputs, beam=1)),
    "de-en, beam": ("de-en", lambda run, inputs: run.translate(inputs, beam=5)),
    "scenes": ("scenes", lambda run, inputs: run.caption(list(map(opened, inputs)))),
    "shakespeare": ("shakespeare", lambda run, inputs: run.generate(inputs, temperature=0, max_tokens=40)),
}


def opened(image: str) -> Any:
    return Image.open(io.BytesIO(b64decode(image.partition(",")[2])))


def answers(asked: str, run: Any) -> list[str]:
    inputs = list(read_examples(run.folder.contents).inputs)[:3]
    return [answer.text for answer in ASKED[asked][1](run, inputs)]


@cache
def plain(asked: str, dtype: torch.dtype) -> list[str]:
    """In float32, of weights that the dtype has."""
    run = regard.load(ASKED[asked][0], device="cpu")
    run.model.to(dtype).float()
    return answers(asked, run)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("cpu", torch.float16),
        pytest.param("cuda", torch.float16, marks=gpu),
        pytest.param("cuda", torch.bfloat16, marks=gpu),
    ],
)
def test_half_precision_writes_what_float32_does(
    device: str, dtype: torch.dtype, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = plain(asked, dtype)
    run = regard.load(ASKED[asked][0], device=device)
    run.model.to(dtype)
    for module in (rows_ahead, beams_ahead):
        monkeypatch.setattr(module, "WORTH", 1)
    if device == "cpu":
        monkeypatch.setattr(graphs, "on_gpu", lambda tensor: True)
        monkeypatch.setattr(graphs, "captured", lambda step: step)
    for _ in range(2):  # captured, and again by the graphs that are kept
        assert answers(asked, run) == wanted
    assert graphs.recordings[run.model], "graphs wrote them"
