r"""Reading with a memory that grows

"The FBI is chasing a criminal on the run ." An LSTM keeps all it has read in one state. An LSTMN keeps a
*tape*: the state of every word so far. At each word it looks back at the tape, at all words before and not at
the word itself, and goes on from what it reads.

$$a_{ti} = softmax_{i<t}(v \cdot tanh(W_h h_i + W_x x_t + W_s s_{t-1})), \quad s_t = \sum_{i<t} a_{ti} h_i$$

A small one is trained now, on sentences of this kind. It learns nothing about the FBI, only which word comes
next.

Try: Type "The police are looking for a cat in the park ." Which words look back far?

In the package: The system `lstmn`; `regard train lstmn-text` on a text of your own; `results/lstmn.md` has
the same sentence, read by a model trained on WikiText-2. The gates of any recurrent layer:
`answer.gates()`."""

from __future__ import annotations

import random
from functools import cache
from tempfile import TemporaryDirectory

import torch

import regard
from regard.attention import Trace, trace
from regard.show import Document, Heads, Map

SENTENCE = "The FBI is chasing a criminal on the run ."
WHO = ["The FBI is", "The police are", "A dog is", "My neighbours are", "The child is", "Two dogs are"]
WHAT = [
    "chasing a criminal on the run",
    "chasing a cat in the park",
    "looking for a criminal in the park",
    "looking for a cat on the roof",
]
STEPS = 150


@cache
def reader(system: str, cell: str = "lstm") -> regard.LanguageModel:
    """A language model of one layer, trained on sentences that are put together by chance."""
    draw = random.Random(0)
    lines = [f"{draw.choice(WHO)} {draw.choice(WHAT)} ." for _ in range(300)]
    own = {} if system == "lstmn" else {"cell": cell}
    recipe = {
        "data": {"train": "", "documents": "line", "batch_tokens": 512, "length": 12},
        "tokens": {"kind": "space"},
        "model": {"name": system, "embed": 32, "dim": 32, "layers": 1, "dropout": 0.0, **own},
        "train": {"steps": STEPS, "eval_every": STEPS, "learning_rate": 1e-2},
    }
    with TemporaryDirectory() as folder:
        return regard.train(recipe, out=f"{folder}/run", data={"train": lines, "valid": lines[:30]})


def read(run: regard.LanguageModel, text: str) -> Trace:
    """Read a text once, and keep where the layer looked, or how far its gates were open."""
    with trace(run.model) as seen, torch.no_grad():
        run.model(torch.tensor([run.tokenizer.encode(text)]))
    return seen


def looking_back(text: str = SENTENCE) -> Map:
    """A row for each word, and what it looked back at, so the upper right half is hidden and the first word
    has nothing to look at. Look at the row of `is`: which of the words before it tells that it is `is` and
    not `are`?"""
    words, run = text.split(), reader("lstmn")
    weights = read(run, text)[run.model.alignment]
    past = torch.ones(len(words), len(words)).tril(-1).bool()
    return Map(weights[0], words, words[:-1], mask=past[:, :-1])


def ten_lines(text: str = SENTENCE) -> Document:
    """The picture of the paper: a line for each word. The word that is read now stands in brackets, and the words
    before it are the darker, the more it looks at them. Read it from line to line, as the sentence is read from
    word to word."""
    words, weights = text.split(), looking_back(text).weights
    lines = [[*words[:at], f"[{word}]", *words[at + 1 :]] for at, word in enumerate(words)]
    shades = [[*weights[at, :at], *[0.0] * (len(words) - at)] for at in range(len(words))]
    return Document(lines, shades, scale=1)


def gates(cell: str, text: str) -> Heads:
    """Each gate as a table: six of its units, at every word."""
    seen = read(reader("rnnlm", cell), text)
    panels = {gate: seen[site, gate][0, :, :6].T[None] for site in seen.sites for gate in seen.kinds(site)}
    return Heads(panels, [f"u{unit}" for unit in range(6)], text.split(), scale=1, of="gate")


def gates_of_an_LSTM(text: str = SENTENCE) -> Heads:
    """The other way to hold on to something. An LSTM has three gates at every word: what of the state it
    keeps (the forget gate), what of the word it lets in, what it shows. Dark is open. A unit whose forget
    gate stays dark keeps what it has."""
    return gates("lstm", text)


def gates_of_a_GRU(text: str = SENTENCE) -> Heads:
    """A GRU has two. Where `update` is dark, a unit keeps what it had; where it is light, something new takes its
    place. `reset` says how much of the past is asked for that. Gates are attention over the state."""
    return gates("gru", text)
