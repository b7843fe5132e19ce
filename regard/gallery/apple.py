r"""The green apple

"She is eating a green apple": to say what `apple` means here, look at the words before it. Each of them has a
vector (a *value*) and gets a weight. What `apple` reads is their weighted sum:

$$read = 0.1\, v_{she} + 0.1\, v_{is} + 0.5\, v_{eating} + 0.1\, v_a + 0.2\, v_{green}$$

The word `eating` counts half of all, since it tells most about an apple in this sentence; `green` counts a
fifth.

Try: Change `WEIGHTS` in the notebook to (0, 0, 1, 0, 0). What is read is then the vector of `eating` itself:
a look-up.

In the package: `regard.attention.attention` reads as here; `Attend(..., causal=True, strict=True)` lets every
word look at the words before it and not at itself, as the system `lstmn` does."""

from __future__ import annotations

import torch

from regard.attention import look
from regard.show import Map, Table

WORDS = ["she", "is", "eating", "a", "green"]
WEIGHTS = torch.tensor([0.1, 0.1, 0.5, 0.1, 0.2])
VALUES = torch.tensor([[0.0, 1, 2, 0], [1, 0, 0, 1], [4, 2, 0, 1], [0, 0, 1, 0], [1, 3, 0, 5]])


def rounded(vectors: torch.Tensor) -> list:
    """Numbers with one digit, to print."""
    return (
        [[round(x, 1) for x in row] for row in vectors.tolist()] if vectors.dim() > 1 else rounded(vectors[None])[0]
    )


def weights() -> Map:
    """Where `apple` looks: one row, one weight for each word before it. Together they are 1. The darkest cell
    is `eating`, with 0.5."""
    return Map(WEIGHTS[None], ["apple"], WORDS, scale=1)


def the_sum() -> Table:
    """The sum itself, with a small vector for each word. Every row is a weight times a vector, and the last
    row adds them up. Look at its first number: 0.5 times 4 of `eating` gives 2.0 of the 2.3."""
    parts = WEIGHTS[:, None] * VALUES
    rows = [
        {"word": word, "weight": weight, "value": f"{value}", "weight times value": f"{part}"}
        for word, weight, value, part in zip(WORDS, WEIGHTS.tolist(), rounded(VALUES), rounded(parts), strict=True)
    ]
    total = {"word": "apple reads", "weight": 1.0, "value": "", "weight times value": f"{rounded(parts.sum(0))}"}
    return Table([*rows, total], digits=1)


def by_attention() -> Table:
    """The same by a look. Weights come from scores by a softmax, so scores that are the logarithms of these
    weights give them back, and the look reads the same sum."""
    nothing = torch.zeros(1, 1, 4)  # a query that prefers no word: the scores are the bias alone
    seen = look(nothing, VALUES[None], bias=WEIGHTS.log()[None, None])
    rows = [{"": "scores", **dict(zip(WORDS, WEIGHTS.log().tolist(), strict=True))}]
    rows += [{"": "weights", **dict(zip(WORDS, seen.weights[0, 0].tolist(), strict=True))}]
    return Table(rows, notes=f"read: {rounded(seen.read[0, 0])}")
