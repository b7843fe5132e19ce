"""Hard attention against soft when a captioner runs, by the size of the grid.

`show_attend_tell` in eval mode, in float32, with the sizes of `captions.py` and memories made at random: one look,
and one step of the whole decoder (look, LSTM and output layer), for all the beams of a batch. Both score every
place; soft attention then sums all the values, hard attention fetches one. Additive scores cost a tanh for each
number of a key, general ones a product. Here soft attention is the peer. `held MiB`: keys and values of all places,
which both kinds need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.captions import BEAM, DIM, EYE, START, ours
from benchmarks.frame import Call, Case, bench, row
from regard.attention import Question
from regard.layers.state import State


def call_of(weigh: str, score: str, side: int, work: str) -> Call:
    images = bench.pick(1, 16, 256)
    model = ours("show_attend_tell", weigh=weigh, score=score).to(bench.device).eval()
    memory = model.attend.remember(torch.randn(images, side * side, EYE["widths"][-1], device=bench.device))
    rows = tuple(torch.randn(images * BEAM, DIM, device=bench.device) for _ in range(2))
    question = Question(rows[0].unflatten(0, (images, BEAM)))
    tokens = torch.full((images * BEAM,), START, device=bench.device)

    @torch.inference_mode()
    def call() -> Tensor:
        if work == "look":
            return model.attend.look(question, memory).read
        return model.step(tokens, State(memory, rows, BEAM))[0]

    return call


@row("hard-attention", "A look and a step of a captioner, hard and soft", unit="images", threads=1, memory=True)
def hard_attention() -> Iterator[Case]:
    count = bench.pick(1, 16, 256)
    for score in ("additive", "general"):
        for side in bench.pick((2,), (4, 8, 16, 32)):
            for work in ("look", "step"):
                contenders = {
                    "regard, hard": partial(call_of, "hard", score, side, work),
                    "soft": partial(call_of, "soft", score, side, work),
                }
                held = {"held MiB": count * side**2 * (DIM + EYE["widths"][-1]) * 4 / 2**20}
                facts = dict.fromkeys(contenders, held)
                yield Case(f"{work}, {score}, {side} x {side}", count, contenders, facts=facts)
