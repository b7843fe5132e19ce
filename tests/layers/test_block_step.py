"""A decoding step on the CPU is the step that every other call takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import GrowingMemory, Memory
from regard.layers import block_step
from regard.layers.block import Block

DIM, HEADS, SIZE = 32, 4, 6


def made(**how: Any) -> Block:
    torch.manual_seed(0)
    block = Block(DIM, HEADS, 48, causal=True, **how).eval()
    for part in block.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    return block


def past_of(block: Block, rows: int, *, masked: bool) -> GrowingMemory:
    mask = torch.ones(rows, SIZE, dtype=torch.bool)
    mask[0, :3] = False
    states = torch.randn(rows, SIZE, DIM)
    return GrowingMemory().append(block.attend.remember(states, mask=mask if masked else None))


def source_of(block: Block, rows: int, *, masked: bool) -> Memory:
    assert block.cross is not None
    mask = torch.ones(rows, 5, dtype=torch.bool)
    mask[0, 3:] = False
    mask[1] = False  # a sentence without a word
    return block.cross.remember(torch.randn(rows, 5, DIM), mask=mask if masked else None)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("beams", [0, 1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_it_is_the_usual_step(norm: str, beams: int, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    block = made(norm=norm, cross=beams > 0)
    rows = 2 * max(1, beams)
    past = past_of(block, rows, masked=masked)
    source = source_of(block, 2, masked=masked) if beams else None
    x = torch.randn(rows, 1, DIM)

    def three(past: GrowingMemory) -> tuple[list[Tensor], GrowingMemory]:
        states = [x]
        for _ in range(3):
            assert block_step.fits(block, x, past, source) == fits
            after, past = block.step(states[-1], past, source=source)
            states.append(after)
        return states, past

    fits = True
    states, grown = three(past.change_rows(torch.clone))
    fits = False
    monkeypatch.setattr(block_step, "fits", lambda *_: False)
    usual, other = three(past.change_rows(torch.clone))
    torch.testing.assert_close(states, usual)
    torch.testing.assert_close(grown.memory.keys, other.memory.keys)
    torch.testing.assert_close(states[0], x)  # nothing that came in was overwritten


@torch.no_grad()
def test_what_it_cannot_see_it_leaves_alone() -> None:
    x = torch.randn(2, 1, DIM)
    block = made()
    past = past_of(block, 2, masked=False)
    assert block_step.fits(block, x, past, None)
    assert not block_step.fits(block.train(), x, past, None)
    block.eval()
    assert not block_step.fits(block, x.expand(2, 2, DIM), past, None)
    with torch.enable_grad():
        assert not block_step.fits(block, x, past, None)
    handle = block.attend.register_forward_hook(lambda *_: None)
    assert not block_step.fits(block, x, past, None)
    handle.remove()
    assert not block_step.fits(made(norm="batch"), x, past, None)
    assert not block_step.fits(made(residual=False), x, past, None)
    assert not block_step.fits(made(score="cosine"), x, past, None)
    assert not block_step.fits(block, x, replace(past_of(block, 2, masked=False)), Memory(x, x))


def test_the_look_of_a_memory_is_computed_once() -> None:
    memory = Memory(torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.tensor([[True, True, False]] * 2))
    assert memory.look is memory.look
    assert memory.look is not None
    assert memory.look[0].flatten(1).tolist() == [[0.0, 0.0, -torch.inf]] * 2
    assert memory.look[1] is None
