"""Hard attention against soft when a captioner runs: time and memory by the size of the grid.

    python benchmarks/hard_attention.py [SECONDS]          # prints a Markdown table

`show_attend_tell` in eval mode, in float32, with the sizes of `captions.py` and memories made at random: one look,
and one step of the whole decoder (look, LSTM and output layer), for all the beams of a batch. `times`: soft divided
by hard. `extra`: the most memory a look holds beside its inputs; `held`: keys and values of all places, which both
kinds need. Both score every place; soft attention then sums all the values, hard attention fetches one.
Additive scores cost a tanh for each number of a key, general ones a product.

CPU: one thread; the CPU time of the fastest call counts. GPU: medians. With SECONDS no measurement begins after so
many. On a shared machine only the ratio is meaningful."""

from __future__ import annotations

import sys
import time

import torch
from captions import BEAM, DIM, EYE, IMAGES, START, ours
from measuring import DEVICE, FOREVER, GPU, Call, machine, timed
from torch import Tensor

GRIDS, SCORES = (4, 8, 16, 32), ("additive", "general")


def extra_memory(call: Call) -> float:
    """The most MiB that a call holds beside what it was given."""
    if GPU:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most / 2**20


def calls(weigh: str, score: str, side: int) -> tuple[Call, Call, float]:
    """A look, a step, and the MiB of their memory."""
    from regard.attention import Question
    from regard.layers.state import State

    torch.manual_seed(0)
    model = ours("show_attend_tell", weigh=weigh, score=score).to(DEVICE).eval()
    memory = model.attend.remember(torch.randn(IMAGES, side * side, EYE["widths"][-1], device=DEVICE))
    rows = tuple(torch.randn(IMAGES * BEAM, DIM, device=DEVICE) for _ in range(2))
    question = Question(rows[0].unflatten(0, (IMAGES, BEAM)))
    tokens = torch.full((IMAGES * BEAM,), START, device=DEVICE)

    def look() -> Tensor:
        return model.attend.look(question, memory).read

    def step() -> Tensor:
        return model.step(tokens, State(memory, rows, BEAM))[0]

    return look, step, (memory.keys.nbytes + memory.values.nbytes) / 2**20


def times(*made: Call) -> list[float]:
    """Milliseconds of each call, the best of five turns, so that a slow moment affects all of them."""
    turns = [[1000 * timed(call, 0.2)["seconds"] for call in made] for _ in range(5)]
    return [min(milliseconds) for milliseconds in zip(*turns, strict=True)]


@torch.inference_mode()
def compare(score: str, side: int) -> list[str]:
    """The cells of one grid."""
    look, step, stored = calls("soft", score, side)
    hard_look, hard_step, _ = calls("hard", score, side)
    cells = []
    for soft, hard in (times(look, hard_look), times(step, hard_step)):
        cells += [f"{soft:.2f}", f"{hard:.2f}", f"{soft / hard:.2f}"]
    return [*cells, *(f"{extra_memory(call):,.1f}" for call in (look, hard_look)), f"{stored:,.1f}"]


def main(seconds: float) -> None:
    end = time.time() + seconds if seconds else FOREVER
    torch.set_num_threads(1)
    command = " ".join(["python benchmarks/hard_attention.py", *sys.argv[1:]])
    where = torch.cuda.get_device_name() if GPU else "CPU, CPU time of one thread"
    print(f"{where}, float32, {machine()}, {IMAGES} images with {BEAM} beams each, seed 0, `{command}`\n")
    names = ["look soft, ms", "hard", "times", "step soft, ms", "hard", "times", "extra soft, MiB", "hard", "held"]
    print(f"| score | grid | {' | '.join(names)} |\n|{'---|' * (2 + len(names))}", flush=True)
    for score in SCORES:
        for side in GRIDS:
            if time.time() < end:
                print(f"| {score} | {side} x {side} | {' | '.join(compare(score, side))} |", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
