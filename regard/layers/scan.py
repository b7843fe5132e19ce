"""Loops over time for `torch.export`: one step in the exported program, whatever the length.

A Python loop would be unrolled, and torch's own recurrent layers too: the program would take sequences of one length
alone. Models call this only while they are exported (`torch.compiler.is_exporting()`); it computes the same as their
loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.attention import Memory

Tensors = tuple[Tensor, ...]


def scan_steps(
    step: Callable[..., tuple[Tensors, Tensors]], state: Tensors, inputs: Tensors, *, reverse: bool = False
) -> tuple[Tensors, Tensors]:
    """state_t, outputs_t = step(state_{t-1}, *inputs_t) of inputs (T, ..): the state after the last step and all
    outputs (T, ..). reverse: from the last step to the first."""
    from torch._higher_order_ops.scan import scan  # it loads the compiler, which who exports has loaded

    def moved(before: Tensors, now: Tensors) -> tuple[Tensors, Tensors]:
        after, outputs = step(before, *now)
        # The loop takes no tensor that is returned twice, and a state like the one before it.
        return tuple(x.contiguous() for x in after), tuple(x.clone() for x in outputs)

    begin = tuple(x.clone(memory_format=torch.contiguous_format) for x in state)
    return scan(moved, begin, inputs, reverse=reverse)


def apart(memory: Memory) -> Memory:
    """A memory that a step looks at: the loop takes no tensor that comes twice, as keys that are values too."""
    return replace(memory, values=memory.values.clone())


def scan_layer(
    kind: str, x: Tensor, begin: Tensors, weights: list[Tensor], mask: Tensor | None, *, reverse: bool = False
) -> tuple[Tensor, Tensors]:
    """One direction of a layer of torch's over x (N, T, E), from the state `begin` (N, dim): the states (N, T, dim),
    0 at padding (mask False), and the state after the last real token; padding may be on either side."""
    run: Any = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}[kind]

    def step(before: Tensors, now: Tensor, *real: Tensor) -> tuple[Tensors, Tensors]:
        after = run(now, before, *weights) if kind == "lstm" else (run(now, before[0], *weights),)
        out = after[0]
        for is_real in real:
            after = tuple(new.where(is_real[:, None], old) for new, old in zip(after, before, strict=True))
            out = out * is_real[:, None]
        return after, (out,)

    sides = (x, *(() if mask is None else (mask,)))
    last, (out,) = scan_steps(step, begin, tuple(side.transpose(0, 1) for side in sides), reverse=reverse)
    return out.transpose(0, 1), last
