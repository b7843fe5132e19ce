"""Order comes from the convolutions: SNAIL's blocks with and without them, on a task that is bound to the order.

    python results/order.py

Sequences of 16 symbols; the answer is given at the last step. `first`: which of two symbols came first? `more`:
which of two symbols occurs more often, where the order does not matter? One look reads a set, so without
convolutions it can only guess which came first. Several looks above each other can tell without them: causal
attention lets a step see those before it alone, and a second look can read what they saw.

Prints a Markdown table: accuracy on 5,000 new sequences in percent, from the worst to the best of the seeds, and
the ends of their 95 % intervals. A minute on one core."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.metrics.accuracy import interval
from regard.models.snail.blocks import AttentionBlock, CausalBlock, CausalStack, TCBlock

LENGTH, SYMBOLS, DIM = 16, 8, 16  # symbols 0 and 1 are asked about, the others are fillers
TESTED = 5000
BODIES = {"TC, TC, look": "TTL", "look": "L", "look, look, look": "LLL"}


def first(count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """One 0 and one 1 among fillers, and which of them came first."""
    symbols = torch.randint(2, SYMBOLS, (count, LENGTH), generator=random)
    places = torch.rand(count, LENGTH - 1, generator=random).argsort(1)[:, :2]
    symbols.scatter_(1, places, torch.tensor([0, 1]).expand(count, 2))
    return symbols, (places[:, 1] < places[:, 0]).long()


def more(count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Fillers and an odd number of 0 and 1, and which of them is more frequent."""
    symbols = torch.randint(2, SYMBOLS, (count, LENGTH), generator=random)
    places = torch.rand(count, LENGTH - 1, generator=random).argsort(1)[:, :5]
    drawn = torch.randint(0, 2, (count, 5), generator=random)
    return symbols.scatter_(1, places, drawn), (drawn.sum(1) > 2).long()


TASKS = {"first": first, "more": more}


class Reader(nn.Module):
    """Symbols (N, T) -> logits (N, 2) at the last step"""

    def __init__(self, blocks: str):
        super().__init__()
        self.embed, width, made = nn.Embedding(SYMBOLS, DIM), DIM, list[CausalBlock]()
        for kind in blocks:
            made.append(TCBlock(width, LENGTH, DIM) if kind == "T" else AttentionBlock(width, DIM, DIM))
            width = made[-1].width
        self.blocks, self.out = CausalStack(made), nn.Linear(width, 2)

    def forward(self, symbols: Tensor) -> Tensor:
        return self.out(self.blocks.last(self.embed(symbols))[:, 0])  # type: ignore[no-any-return]


def measure(blocks: str, task: str, seed: int, steps: int) -> int:
    """How many of the test sequences are answered correctly after so many training steps."""
    torch.manual_seed(seed)
    random, model = torch.Generator().manual_seed(seed), Reader(blocks)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(steps):
        symbols, answers = TASKS[task](64, random)
        optimiser.zero_grad()
        F.cross_entropy(model(symbols), answers).backward()
        optimiser.step()
    symbols, answers = TASKS[task](TESTED, random)
    with torch.no_grad():
        return int((model(symbols).argmax(1) == answers).sum())


def words(right: list[int]) -> str:
    low, high = min(right), max(right)
    bounds = interval(low, TESTED)[0], interval(high, TESTED)[1]
    return f"{100 * low / TESTED:.1f} to {100 * high / TESTED:.1f} ({bounds[0]:.1f} to {bounds[1]:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    print(f"| blocks | {' | '.join(TASKS)} |\n|---|{'---|' * len(TASKS)}")
    for name, blocks in BODIES.items():
        accuracies = [
            [measure(blocks, task, seed, options.steps) for seed in range(options.seeds)] for task in TASKS
        ]
        print(f"| {name} | {' | '.join(map(words, accuracies))} |", flush=True)


if __name__ == "__main__":
    main()
