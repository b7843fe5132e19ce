r"""Six scores, and why one is divided

A score says how well a key matches a query. There are six in common use. All give one number for each key;
the softmax turns these into weights. The most used of them is the scaled dot product:

$$e_i = \frac{q \cdot k_i}{\sqrt{d}}, \quad a = softmax(e)$$

The division by $\sqrt{d}$ looks like a detail. It decides whether a layer learns: a sum of $d$ products grows
with $\sqrt{d}$, and a softmax over large numbers is almost a choice of one, through which hardly any gradient
passes.

Try: Move the slider of *One softmax* to 4 and to 512. From which $d$ on does the undivided row have one dark
cell only?

In the package: `regard.attention.SCORES` holds the six; `model.score` chooses one in the systems `bahdanau`,
`luong` and `transformer`, and `results/dates.md` compares them on a task."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import regard
from regard.attention import SCORES, Attend, Dot, MultiHead, ScaledDot, build_score, look
from regard.show import Curves, Map, Table

KEYS = [
    "k1, the same direction",
    "k2, nearly, twice as long",
    "k3, at a right angle",
    "k4, nearly opposite",
    "k5, short",
]
MEMORY = torch.tensor([[[1.0, 1, 0, 0], [2, 1, 1, 0], [1, -1, 0, 0], [-1, -1, 1, 0], [0.2, 0.2, 0, 0]]])
QUERY = torch.tensor([[[1.0, 1, 0, 0]]])
FORMULAS = {
    "dot": "q . k",
    "scaled_dot": "q . k / sqrt(d)",
    "general": "q^T W k",
    "additive": "v . tanh(W q + U k)",
}
FORMULAS |= {"cosine": "beta cos(q, k)", "location": "W q, the keys are not used"}
SLIDERS = {"dim": (1, 512)}
STEPS = 200


def six_looks() -> dict:
    """Each score looks once at the same memory with the same query. Three have nothing to learn; the weights
    of the others are random here."""
    torch.manual_seed(4)
    made = {name: Attend(build_score(name, 4, 4, max_positions=5)) for name in SCORES}
    return {name: attend.look(QUERY, attend.remember(MEMORY)) for name, attend in made.items()}


def the_scores() -> Table:
    """The numbers before the softmax. The dot product likes `k2` most, as it is long; the cosine likes `k1`
    and `k5`, as only their direction counts. Dividing by $\\sqrt{4}$ halves every dot product."""
    rows = [
        {"score": name, "formula": FORMULAS[name], **dict(zip(KEYS, seen.scores[0, 0].tolist(), strict=True))}
        for name, seen in six_looks().items()
    ]
    return Table(rows, digits=2)


def the_weights() -> Map:
    """The same after the softmax: each row sums to 1. Compare the first two rows: both like `k2` most, and
    the undivided one likes it more."""
    looks = six_looks()
    return Map(
        torch.cat([seen.weights[0] for seen in looks.values()]).detach(), list(looks), [key[:2] for key in KEYS]
    )


def one_softmax(dim: int = 256) -> Map:
    """A random query of `dim` numbers looks at eight random keys. Undivided, the scores differ so much that
    one key has nearly all the weight, although no key was meant. Divided, all keys keep some."""
    random = torch.Generator().manual_seed(0)
    query, keys = torch.randn(1, 1, dim, generator=random), torch.randn(1, 8, dim, generator=random)
    rows = {"divided": look(query, keys, score="scaled_dot"), "undivided": look(query, keys, score="dot")}
    names = [f"k{number}" for number in range(1, 9)]
    return Map(torch.cat([seen.weights[0] for seen in rows.values()]), list(rows), names, f"d={dim}", scale=1)


def largest_weight_by_dimension() -> Curves:
    """The largest of eight weights, the mean over 300 random queries. Divided, it stays below 0.4 whatever $d$
    is. Undivided, it goes to 1: attention becomes a choice."""
    torch.manual_seed(0)
    dims = [1, 4, 16, 64, 256, 1024]
    lines: dict[str, list[float]] = {"dot": [], "scaled_dot": []}
    for dim in dims:
        query, keys = torch.randn(300, 1, dim), torch.randn(300, 8, dim)
        for name, line in lines.items():
            line.append(look(query, keys, score=name).weights.amax(-1).mean().item())
    series = {"undivided": lines["dot"], "divided by sqrt(d)": lines["scaled_dot"]}
    places = list(range(len(dims)))
    ticks = {float(at): str(dim) for at, dim in enumerate(dims)}
    return Curves(
        {name: (places, line) for name, line in series.items()}, "Largest weight", "d", "weight", ticks=ticks
    )


def train(score: type[Dot], dim: int = 64, length: int = 10, symbols: int = 20) -> list[float]:
    """One layer of self-attention learns to write a sequence backwards; the share of right symbols every ten
    steps."""
    torch.manual_seed(0)
    embed, positions = nn.Embedding(symbols, dim), nn.Embedding(length, dim)
    attend, out = MultiHead(dim, 1, score=score(dim, dim)), nn.Linear(dim, symbols)
    model = nn.ModuleList([embed, positions, attend, out])
    optimiser, right = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for _ in range(STEPS):
        text = torch.randint(symbols, (32, length))
        x = embed(text) + positions(torch.arange(length))
        logits = out(attend(x, x))
        optimiser.zero_grad()
        cross_entropy(logits.flatten(0, 1), text.flip(1).flatten()).backward()
        optimiser.step()
        right.append((logits.argmax(-1) == text.flip(1)).float().mean().item())
    return [sum(right[at : at + 10]) / 10 for at in range(0, STEPS, 10)]


def trained_with_and_without() -> Curves:
    """Both are trained now, from the same random weights on the same sequences. With the division the layer
    soon writes every symbol right. Without it one position stays wrong for long: its softmax has chosen a
    wrong place, and little gradient comes through to change that."""
    steps = list(range(10, STEPS + 1, 10))
    lines = {"divided by sqrt(d)": train(ScaledDot), "undivided": train(Dot)}
    return Curves(
        {name: (steps, right) for name, right in lines.items()}, "Right symbols", "training step", "share"
    )


def train_transformer(score: str) -> list[float]:
    """A whole Transformer, encoder and decoder of one layer and one head with 128 numbers, learns to write letters
    backwards; the loss, the mean of every ten steps."""
    model = {"name": "transformer", "score": score, "dim": 128, "layers": 1, "heads": 1, "ff": 128}
    model |= {"dropout": 0.0, "max_positions": 32}
    train = {"steps": STEPS, "eval_every": STEPS, "learning_rate": 1e-3, "warmup_steps": 20}
    data = {"made": "reverse", "train_count": 20000, "valid_count": 20, "batch_tokens": 1024}
    recipe = {"data": data, "tokens": {"kind": "space"}, "model": model, "train": train}
    with TemporaryDirectory() as folder:
        regard.train(recipe, out=f"{folder}/run")
        log = [json.loads(line) for line in Path(folder, "run", "log.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in log if "loss" in row]
    return [sum(losses[at : at + 10]) / 10 for at in range(0, STEPS, 10)]


def a_transformer_with_and_without() -> Curves:
    """The same for a Transformer, trained now, twice: `model.score` is all that differs. Divided, the loss falls
    and goes on falling. Undivided, it soon stays far behind: three kinds of attention, each of which chooses too
    early."""
    steps = list(range(10, STEPS + 1, 10))
    lines = {"divided by sqrt(d)": train_transformer("scaled_dot"), "undivided": train_transformer("dot")}
    series = {name: (steps, losses) for name, losses in lines.items()}
    return Curves(series, "A Transformer that learns to reverse", "training step", "loss", from_zero=True)
