"""A memory that is written as well as read (Graves, Wayne & Danihelka 2014, section 3).

A head asks with a key k, a strength beta, a gate g, a shift s and a sharpness gamma, and weighs all places of the
memory (`address.py`); a write head brings e and a too:

    M_t(i) = M_{t-1}(i) prod_h (1 - w_h(i) e_h) + sum_h w_h(i) a_h       for the write heads h
    r_t = sum_i w_t(i) M_t(i)                                            for each read head

All heads look for their content in M_{t-1}, so that they are addressed together; reading comes after writing.

Letters: B rows, D controller, H heads of each kind, K places, W width of a place, T steps."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Attend, Cosine, record
from regard.attention.record import Trace, watching
from regard.models.ntm.address import Address, HeadQuestion
from regard.models.ntm.step import AddressInputs, turn

EMPTY = 1e-6  # what a memory holds at first
SPREAD = 3.0  # of the heads' initial weights, times torch's; with torch's, copying was learned far more slowly
FIRST = 6.0  # the initial logit of place 0, against 0 of the others


class MemoryState(NamedTuple):
    """Between two steps: the memory (B, K, W), and the weights of all heads (B, 2 H, K), read heads first."""

    matrix: Tensor
    weights: Tensor


class Heads(Attend):
    """The queries of a step are its heads. A trace finds their weights (B, 2 H, T, K), and the memory after each
    step (B, T, K, W). `look` is the addressing by itself; `turn` computes the same, writes and reads."""

    traced = ("weights", "mask", "memory")

    def __init__(self, width: int):
        super().__init__(Cosine(width, width, beta=1.0), Address())

    def turn(
        self, question: HeadQuestion, matrix: Tensor, erase: Tensor, add: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """What the read heads read (B, H, W) after the write heads have written, and the state after that."""
        beta, gate, gamma = (x[..., None] for x in (question.beta, question.gate, question.gamma))
        inputs = AddressInputs(question.query, beta, question.previous, gate, question.shift, gamma)
        weights, after, reads = turn(matrix, inputs, erase, add)
        record(self, "memory", after[:, None], axis=1)
        for seen in watching(self):
            if seen.take(self, 1):
                seen.keep(self, "weights", (weights if seen.heads is None else weights[:, seen.heads])[:, :, None])
                seen.keep(self, "mask", torch.ones_like(weights[:, :1], dtype=torch.bool))
                if seen.beside:
                    self._keep_question(seen, question, matrix)
        return reads, MemoryState(after, weights)

    def _keep_question(self, seen: Trace, question: HeadQuestion, matrix: Tensor) -> None:
        """What one step's weights are computed from; the keys are the memory before the step."""
        keys = self.score.keys(matrix)
        queries = self.score.keys(question.query) * question.beta[..., None]
        told = {
            "gate": question.gate[..., None],
            "gamma": question.gamma[..., None],
            "beta": question.beta[..., None],
        }
        for kind, x in {**told, "previous": question.previous, "shift": question.shift}.items():
            seen.keep(self, kind, seen.of_heads(x[:, :, None]))
        sides = {
            "queries": lambda: seen.of_heads(queries[:, :, None]),
            "scores": lambda: seen.of_heads((queries @ keys.mT)[:, :, None]),
            "keys": lambda: keys,
            "values": lambda: matrix,
        }
        seen.keep_beside(self, sides)


class TuringMemory(nn.Module):
    """`heads` read heads and as many write heads at a memory of `places` x `width`; a step moves by up to `shift`
    places.

    The memory begins with a small constant in all places: with it, training converges faster and more often than
    with a learned or a random memory (Collier & Beel 2018). The initial weights are learned, as in the paper. At
    first all heads are at place 0: with weights that are equal in a memory of equal places, all places would stay
    equal for ever, and from random weights copying is learned later."""

    def __init__(self, dim: int, *, places: int, width: int, heads: int, shift: int):
        super().__init__()
        self.places, self.width, self.heads, self.shift = places, width, heads, shift
        both, wide = 2 * heads, heads * width
        self.sizes = (2 * wide + wide, wide + both, 2 * both, both * (2 * shift + 1))
        self.numbers = nn.Linear(dim, sum(self.sizes))
        bound = SPREAD * dim**-0.5
        nn.init.uniform_(self.numbers.weight, -bound, bound)
        self.start = nn.Parameter(torch.zeros(both, places))  # logits of the initial weights
        nn.init.constant_(self.start[:, 0], FIRST)
        self.attend = Heads(width)

    def begin(self, rows: int) -> MemoryState:
        matrix = self.start.new_full((rows, self.places, self.width), EMPTY)
        return MemoryState(matrix, self.start.softmax(-1).expand(rows, -1, -1))

    def ask(self, hidden: Tensor, before: MemoryState) -> tuple[HeadQuestion, Tensor, Tensor]:
        """What all heads ask, and what the write heads erase and add (B, H, W)."""
        bent, opened, positive, moves = self.numbers(hidden).split(self.sizes, -1)
        both, shape = 2 * self.heads, (-1, self.width)
        keys, add = bent.tanh().unflatten(-1, shape).split((both, self.heads), 1)
        erase, gate = opened.sigmoid().split((self.heads * self.width, both), -1)
        beta, sharper = F.softplus(positive).chunk(2, -1)
        shift = moves.unflatten(-1, (both, -1)).softmax(-1)
        question = HeadQuestion(keys, beta=beta, previous=before.weights, gate=gate, shift=shift, gamma=1 + sharper)
        return question, erase.unflatten(-1, shape), add

    def forward(self, hidden: Tensor, before: MemoryState) -> tuple[Tensor, MemoryState]:
        """The controller's state (B, D) -> what the read heads read (B, H W), and what the next step needs"""
        question, erase, add = self.ask(hidden, before)
        reads, after = self.attend.turn(question, before.matrix, erase, add)
        return reads.flatten(1), after
