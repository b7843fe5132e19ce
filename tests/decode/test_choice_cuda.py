"""The kernel of the greedy choice against the plain one: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
import torch
from searches import parted
from torch import Tensor

from regard.decode import rows as rows_module
from regard.decode.rows import Rows, take_step
from regard.decode.rules import read_rules
from regard.layers.state import State

INTERPRETED = rows_module.choice_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]
RULES: list[dict[str, Any]] = [{}, {"never": (0, 1)}, {"min_length": torch.arange(5) % 3}]
pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")  # of the interpreter


class Says:
    """A generator that says these logits."""

    def __init__(self, logits: Tensor):
        self.logits = logits

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self.logits, state


def compare(logits: Tensor, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    device = logits.device
    settings = parted({"start": 1, "end": 2, "max_length": 9} | options)
    rules = read_rules(*settings, len(logits), device)
    rows = Rows.begin(State((), ()), rules)
    rows = replace(rows, totals=-torch.rand(len(logits), device=device))
    kernel = rows_module.choice_cuda
    assert kernel is not None
    with monkeypatch.context() as patched:
        patched.setattr(rows_module, "choice_cuda", None)
        wanted, after = take_step(Says(logits.clone()), rows)  # type: ignore[arg-type]
    outcome, tokens, totals, least = kernel.choose(logits, rows.totals, rows.least, rules, early=rows.minimum > 0)
    possible = wanted[2] > 0
    assert outcome[2].tolist() == wanted[2].tolist()
    assert outcome[0][possible].tolist() == wanted[0][possible].tolist()
    torch.testing.assert_close(outcome[1][possible], wanted[1][possible], rtol=0, atol=2e-5)
    torch.testing.assert_close(totals[possible], after.totals[possible], rtol=0, atol=2e-5)
    assert tokens[possible].tolist() == after.tokens[possible].tolist()
    assert least.tolist() == after.least.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", RULES, ids=str)
@pytest.mark.parametrize("words", [3, 37, 4096, 50257])
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_tokens_are_chosen(
    device: str, words: int, options: dict[str, Any], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In half precision many words are equal, and the first is taken."""
    torch.manual_seed(words)
    logits = 3 * torch.randn(5, words)
    logits[:, 2] += 4
    compare(logits.to(device, dtype), monkeypatch, **options)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_without_a_possible_token_are_told(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(5, 5000, device=device)
    logits[0, 4900] = float("nan")
    logits[1, 7] = float("inf")
    logits[2] = -torch.inf
    logits[3, 1:] = -torch.inf
    compare(logits, monkeypatch)
    compare(logits, monkeypatch, never=(0,))
