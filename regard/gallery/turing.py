r"""A machine that writes and reads

A Neural Turing machine has a memory, a table of numbers, beside its controller. A *write head* changes it and
a *read head* reads from it, both by attention: a head looks for a content, or moves on from where it looked
before. It is trained on examples of a task, and nobody tells it how.

$$r_t = \sum_i w_t(i)\, M_t(i), \quad M_t(i) = M_{t-1}(i) (1 - w_t(i)\, e_t) + w_t(i)\, a_t$$

Two such machines come with the package. One copies sequences, and needs only to move on. The other recalls what
came after something it is shown again, and has to *look for* it.

Try: Move `length` of *The tape* to 40, twice what it was trained on: are the slopes still straight? Then `seed`
of *Recall*: is the dark path always one column behind the item that was shown?

In the package: The system `ntm`; `regard recall copy --show -` and `regard recall associative-recall --show -` draw
these tapes in the terminal; `regard train associative-recall-ntm`. `results/ntm.md` has the other tasks, and the
LSTM beside it."""

from __future__ import annotations

import regard
from regard.show import Map, Table, Tape

ORDER = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
SLIDERS = {"length": (1, 60), "items": (2, 8), "seed": (0, 30)}


def the_tape(length: int = 20) -> Tape:
    """To copy. First the bits come in, then they are to be given back, and what comes out is what came in. Look
    at the heads: while it reads in, the write head moves on one place a step, a straight slope. Then the read
    head goes along the same slope, from the same place on: it has learned to use the memory as a tape."""
    return regard.load("copy").recall(length=length).picture()


def longer_than_trained() -> Table:
    """It was trained on up to 20 steps. Five sequences of each length, and the share of right bits in percent. By
    chance it would be 50."""
    told = regard.load("copy").evaluate(lengths=(5, 10, 20, 40, 60, 80), test_count=5)
    rows = [{"steps": row["length"], "right bits": 100 - row["wrong_bits"]} for row in told.details["lengths"]]
    return Table(rows, digits=2)


def recall(items: int = 6, seed: int = 1) -> Map:
    """To recall. Several items of three steps come in, one after the other. Then one of them is shown `again`, and
    the machine is to give the `next`, the item that came after it. A row for each of these last steps tells where
    the read head was: in the places that hold the first item, the second, and so on. While the item is shown, the
    head finds by its *content* where that item lies. Then it *moves* on along the tape, and reads the item behind.
    Both ways of addressing work together."""
    answer = regard.load("associative-recall").recall(length=items, seed=seed)
    looks = answer.looks()
    # Each step is written one step later: an item, which is a delimiter and three vectors, has four places.
    places = looks["write 0"].argmax(1)[1 : 4 * items + 1].reshape(items, 4)
    weights = looks["read 0"][-8:][:, places].sum(-1)  # (last steps, items)
    listed, _, shown = answer.sequence.partition(" ? ")
    steps = ["again", *shown.split(), "next", *answer.output.split()]
    title = f"the {ORDER[listed.split(' / ').index(shown)]} again; {answer.wrong} of {answer.bits} bits wrong"
    return Map(weights, steps, ORDER[:items], title, scale=1)


def its_tape(items: int = 6, seed: int = 1) -> Tape:
    """The whole of it. The write head leaves every step on the tape, also what is shown again. The read head waits,
    and in the last steps jumps to one place and goes along the slope that was written there."""
    return regard.load("associative-recall").recall(length=items, seed=seed).picture()


def more_items_than_trained() -> Table:
    """It was trained on up to 6 items. Twenty sequences of each number of items; by chance 50 % would be right."""
    told = regard.load("associative-recall").evaluate(lengths=(2, 4, 6, 8, 12, 16), test_count=20)
    rows = [{"items": row["length"], "right bits": 100 - row["wrong_bits"]} for row in told.details["lengths"]]
    return Table(rows, digits=2)
