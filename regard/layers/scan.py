"""Loops over time for `torch.export`: one step in the exported program, whatever the length.

A Python loop would be unrolled, and torch's own recurrent layers too: the program would take sequences of one
length alone. Models call this only while they are exported (`exporting()`); it computes the same as their loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.attention import Memory

Tensors = tuple[Tensor, ...]


def scan_steps(
    step: Callable[..., tuple[Tensors, Tensors]], state: Tensors, inputs: Tensors
) -> tuple[Tensors, Tensors]:
    """state_t, outputs_t = step(state_{t-1}, *inputs_t) of inputs (T, ..): the state after the last step and all
    outputs (T, ..)."""
    from torch._higher_order_ops.scan import scan  # it loads the compiler, which who exports has loaded

    def moved(before: Tensors, now: Tensors) -> tuple[Tensors, Tensors]:
        after, outputs = step(before, *now)
        # The loop takes no tensor that is returned twice, and a state like the one before it.
        return tuple(x.contiguous() for x in after), tuple(x.clone() for x in outputs)

    begin = tuple(x.clone(memory_format=torch.contiguous_format) for x in state)
    return scan(moved, begin, inputs)


def apart(memory: Memory) -> Memory:
    """A memory that a step looks at: the loop takes no tensor that comes twice, as keys that are values too."""
    return replace(memory, values=memory.values.clone())


def scan_layer(
    kind: str, x: Tensor, begin: list[Tensors], weights: list[list[Tensor]], mask: Tensor | None
) -> tuple[Tensor, list[Tensors]]:
    """A layer of torch's over x (N, T, E), forward and, if there are two states and lists of weights, backward.

    From the states `begin` (N, dim): the states (N, T, D), 0 at padding (mask False), which may be on either side,
    and those after the last step of each direction. Both are one loop, in which the second reads from the end."""
    run: Any = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}[kind]
    parts, given = len(begin[0]), 1 if mask is None else 2  # tensors of a state, and of an input

    def step(before: Tensors, *now: Tensor) -> tuple[Tensors, Tensors]:
        states: list[Tensor] = []
        outputs: list[Tensor] = []
        for number, own in enumerate(weights):
            old = before[number * parts : (number + 1) * parts]
            x, *real = now[number * given : (number + 1) * given]
            new = run(x, old, *own) if kind == "lstm" else (run(x, old[0], *own),)
            if real:
                outputs.append(new[0] * real[0][:, None])
                new = tuple(torch.where(real[0][:, None], *both) for both in zip(new, old, strict=True))
            else:
                outputs.append(new[0])
            states += new
        return tuple(states), tuple(outputs)

    forward = tuple(side.transpose(0, 1) for side in (x, mask) if side is not None)  # (T, N, ..)
    backward = tuple(side.flip(0) for side in forward) if len(weights) == 2 else ()
    last, outputs = scan_steps(step, sum(begin, ()), forward + backward)
    states = torch.cat([outputs[0], *(out.flip(0) for out in outputs[1:])], -1).transpose(0, 1)
    return states, [last[first : first + parts] for first in range(0, len(last), parts)]
