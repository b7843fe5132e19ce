r"""A machine that writes and reads

A Neural Turing machine has a memory, a table of numbers, beside its controller. A *write head* changes it and
a *read head* reads from it, both by attention: a head looks for a content, or moves on from where it looked
before. It is trained to copy a sequence of bits, and nobody tells it how.

$$r_t = \sum_i w_t(i)\, M_t(i), \quad M_t(i) = M_{t-1}(i) (1 - w_t(i)\, e_t) + w_t(i)\, a_t$$

The machine shown here comes with the package. It was trained on sequences of up to 20 steps.

Try: Move `length` to 40, twice of what it was trained on. Are the slopes still straight?

In the package: The system `ntm`; `regard recall copy --show -` draws this tape in the terminal.
`results/ntm.md` has the other tasks, and the LSTM beside it."""

from __future__ import annotations

from functools import cache

import regard
from regard.show import Table, Tape

SLIDERS = {"length": (1, 60)}


def the_tape(length: int = 20) -> Tape:
    """Time goes from left to right. First the bits come in, then they are to be given back, and the two rows
    of bits are the same. Look at the heads below: while it reads in, the write head moves on one place a
    step, a straight slope. Then the read head goes along the same slope, from the same place on: it has
    learned to use the memory as a tape."""
    return regard.load("copy").recall(length=length).picture()


@cache
def longer_than_trained() -> Table:
    """Five sequences of each length, and the share of right bits in percent. By chance it would be 50."""
    run = regard.load("copy")
    rows = []
    for length in (5, 10, 20, 40, 60, 80):
        told = [run.recall(length=length, seed=seed) for seed in range(5)]
        wrong = sum(answer.wrong for answer in told)
        rows.append({"steps": length, "right bits": 100 * (1 - wrong / sum(answer.bits for answer in told))})
    return Table(rows, digits=2)
