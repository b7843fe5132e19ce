r"""The bottleneck

Before attention a translator read the whole sentence into one vector, its last state, and wrote from that
alone. However long the sentence, the vector has the same size. Attention keeps all states and looks at them
for each word it writes.

$$\text{fixed vector:}\; c = h_n \qquad \text{attention:}\; c_t = \sum_i a_{ti} h_i$$

Two translators are trained now, one of each kind, equal in all else. Their task needs nothing but memory: to
copy 3 to 12 letters.

Try: Train longer, by `regard gallery bottleneck --set STEPS=2000` or in the notebook. The fixed vector gets
better on short texts. What happens at the long end?

In the package: The systems `seq2seq` (one vector) and `luong`, `bahdanau` (attention); `regard evaluate` tells
BLEU by length; `results/multi30k.md` has the same on real sentences, and `results/recurrence.md` the
measurements of the layers."""

from __future__ import annotations

import time
from functools import cache
from tempfile import TemporaryDirectory

import torch
from torch import nn

import regard
from regard.attention import Attend, LocalMonotonic, MultiHead, ScaledDot
from regard.data.made.pairs import copy
from regard.show import Curves, Table

STEPS = 500
LENGTHS, TESTED = range(3, 13), 500


@cache
def train(system: str) -> list[tuple[str, str]]:
    """Train one of them, and let it copy texts it has never seen: what it should have written, and what
    it wrote."""
    own = {"score": "additive", "bidirectional": True} if system == "luong" else {}
    recipe = {
        "data": {"made": "copy", "train_count": 20000, "valid_count": 50, "batch_tokens": 1024},
        "tokens": {"kind": "space"},
        "model": {"name": system, "cell": "gru", "embed": 32, "dim": 64, "dropout": 0.0, **own},
        "train": {"steps": STEPS, "eval_every": STEPS, "learning_rate": 8e-3, "warmup_steps": 50},
    }
    recipe["train"]["schedule"] = "cosine"
    with TemporaryDirectory() as folder:
        run = regard.train(recipe, out=f"{folder}/run")
    texts = [text for text, _ in copy("test", TESTED)]
    return list(zip(texts, [answer.text for answer in run.translate(texts)], strict=True))


def right_letters(system: str) -> list[tuple[int, int, bool]]:
    """For each letter: the length of its text, its place, and whether it was written."""
    found = []
    for text, answer in train(system):
        letters, written = text.split(), [*answer.split(), *[""] * 12]
        found += [(len(letters), at, letter == written[at]) for at, letter in enumerate(letters)]
    return found


def by_length() -> Curves:
    """The share of letters written right, by the length of the text. With attention the line is flat. Through
    one vector it falls from left to right: what fits for three letters does not fit for twelve."""
    series = {}
    for name, system in {"one fixed vector": "seq2seq", "attention": "luong"}.items():
        letters = right_letters(system)
        by = [[right for length, _, right in letters if length == wanted] for wanted in LENGTHS]
        series[name] = (list(LENGTHS), [sum(part) / len(part) for part in by])
    return Curves(series, "Right letters by length", "letters", "share", from_zero=True)


def which_part_is_lost() -> Curves:
    """Only texts of ten and more letters: the share of right letters at each place. The vector holds on to
    the beginning and loses the rest; one letter that is missed also misleads those after it."""
    series = {}
    for name, system in {"one fixed vector": "seq2seq", "attention": "luong"}.items():
        letters = [(at, right) for length, at, right in right_letters(system) if length >= 10]
        by = [[right for at, right in letters if at == wanted] for wanted in range(10)]
        series[name] = (list(range(1, 11)), [sum(part) / len(part) for part in by])
    return Curves(series, "Right letters by place", "place in the text", "share", from_zero=True)


def read(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What a layer makes of a text: attention looks at the text itself; recurrent layers also give
    their last state."""
    made = layer(x, x) if isinstance(layer, MultiHead) else layer(x)
    return made[0] if isinstance(made, tuple) else made


def gradient_by_distance() -> Curves:
    """Why recurrence forgets. How much does the last output change with an input $k$ steps before it? In untrained
    layers, the size of that gradient beside the one at distance 0, on a scale of powers of ten; what is below -12
    is drawn there. Through a recurrent layer it passes every step between and shrinks at each; attention reaches
    every place in one step."""
    torch.manual_seed(0)
    distances, dim = list(range(0, 65, 8)), 64
    layers = {kind.__name__: kind(dim, dim, batch_first=True) for kind in (nn.RNN, nn.LSTM, nn.GRU)}
    lines = {}
    for name, layer in {**layers, "self-attention": MultiHead(dim, 4)}.items():
        x = torch.randn(16, 65, dim, requires_grad=True)
        (slope,) = torch.autograd.grad(read(layer, x)[:, -1].square().sum(), x)
        sizes = slope.norm(dim=-1).mean(0).flip(0)[distances]
        lines[name] = (distances, (sizes / sizes[0]).log10().clamp_min(-12).tolist())
    return Curves(lines, "Gradient that reaches a token", "distance in tokens", "power of ten")


def milliseconds(layer: nn.Module, length: int, dim: int) -> float:
    """The fastest of three passes, forward and backward."""
    x = torch.randn(1, length, dim, requires_grad=True)
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        read(layer, x).sum().backward()
        taken.append(1000 * (time.perf_counter() - began))
    return min(taken)


def time_by_length() -> Curves:
    """Milliseconds of one forward and backward pass, measured on the machine that made this page, one text of
    so many tokens. The recurrent layer takes its steps one after the other; attention takes them at once, and
    its work grows with the square of the length."""
    lengths, dim = [64, 128, 256, 512], 64
    layers = {"GRU": nn.GRU(dim, dim, batch_first=True), "self-attention": MultiHead(dim, 4)}
    lines = {name: (lengths, [milliseconds(layer, n, dim) for n in lengths]) for name, layer in layers.items()}
    return Curves(lines, "Forward and backward", "tokens", "milliseconds", from_zero=True)


class Local(nn.Module):
    """Attention to a window of two places on either side."""

    def __init__(self, dim: int):
        super().__init__()
        self.attend = Attend(ScaledDot(dim, dim), LocalMonotonic(window=2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(x, self.attend.remember(x))


class Convolution(nn.Conv1d):
    """Each token sees itself and one neighbour on either side."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def tokens_seen(layer: nn.Module, length: int, dim: int) -> int:
    """How many tokens of a text the middle output depends on: those whose gradient is not 0."""
    x = torch.randn(1, length, dim, requires_grad=True)
    (slope,) = torch.autograd.grad(read(layer, x)[0, length // 2].sum(), x)
    return int((slope[0].abs().sum(-1) > 0).sum())


def one_table_of_layers() -> Table:
    """Four kinds of layers for 256 tokens of 64 numbers. Multiplications are computed from the formula, with
    $n$ tokens of $d$ numbers; steps are those that must wait for each other; the path is how many steps lie
    between the first token and the last. The last two columns are measured: how many tokens the middle output
    depends on, and milliseconds."""
    n, d = 256, 64
    layers = {
        "recurrent (GRU)": (nn.GRU(d, d, batch_first=True), 6 * n * d * d, "6 n d^2", n, n),
        "self-attention": (MultiHead(d, 4), 4 * n * d * d + 2 * n * n * d, "4 n d^2 + 2 n^2 d", 1, 1),
        "convolution of 3": (Convolution(d, d, 3, padding=1), 3 * n * d * d, "3 n d^2", 1, n),
        "local attention, 5 places": (Local(d), 2 * n * 5 * d, "2 n 5 d", 1, n // 2),
    }
    rows = []
    for name, (layer, work, formula, steps, path) in layers.items():
        row = {"layer": name, "multiplications": work, "formula": formula, "steps in a row": steps}
        row |= {"longest path": path, "tokens seen": tokens_seen(layer, n, d), "ms": milliseconds(layer, n, d)}
        rows.append(row)
    return Table(rows, digits=1)
