r"""One word, two sentences, two vectors

A table of word vectors has one vector for `bank`. A reader of the whole sentence can have two: one beside the
river, one with the money. ELMo reads by letters, with a language model in each direction, and gives every
word the states of all its layers.

$$ELMo_k = \gamma \sum_j softmax(s)_j\, h_{kj}$$

Each task mixes the layers with weights of its own, $s$. A very small ELMo is trained now on six sentences
about banks; a real one reads millions.

Try: Ask for "he owes the bank some money" in *Two vectors*. Which of the two is it near?

In the package: The system `elmo`; `regard train elmo-text`, `regard embed`, `run.neighbours(...)`; the
published networks open too."""

from __future__ import annotations

import random
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np

import regard
from regard.show import Table

MONEY = ["people ask the bank for money", "she asked the bank for a loan", "he owes the bank some money"]
RIVER = [
    "boats lie at the bank of the river",
    "trees grow on the bank of a stream",
    "we sat on the bank by the river",
]
STEPS = 300
FOLDER = TemporaryDirectory()  # for the trained models


@cache
def language_model() -> regard.Reader:
    """Letters to words, then two LSTM layers in each direction, trained to tell the next word and the word
    before."""
    draw = random.Random(0)
    lines = [draw.choice(MONEY + RIVER) for _ in range(400)]
    model = {"name": "elmo", "widths": [1, 2, 3], "filters": [8, 8, 16], "dim": 32, "cell": 64, "dropout": 0.0}
    recipe = {
        "data": {"train": "", "documents": "line", "batch_tokens": 512},
        "tokens": {"kind": "word", "size": 100},
        "model": model,
        "train": {"steps": STEPS, "eval_every": STEPS, "learning_rate": 1e-2, "schedule": "cosine"},
    }
    out = f"{FOLDER.name}/language"
    return regard.train(recipe, out=out, data={"train": lines, "valid": lines[:40]}, overwrite=True)


def bank_in(sentence: str, layer: int) -> np.ndarray:
    """The vector of `bank` in a sentence, of length 1."""
    found = language_model().embed_tokens(sentence, layer=layer)
    vector = found.vectors[found.tokens.index("bank")]
    return vector / np.linalg.norm(vector)


def two_vectors(text: str = "people ask the bank for money") -> Table:
    """How near `bank` of this sentence is to `bank` of others, as a cosine: 1 is the same. Layer 0 knows the
    letters alone, so all banks are the same there. In the layers above, a bank with money is nearer to
    another with money than to that of the river."""
    if "bank" not in text.split():
        text = f"{text} bank"
    rows = []
    for layer, name in enumerate(("0, letters", "1", "2")):
        here = bank_in(text, layer)
        row = {"layer": name, "she asked the bank for a loan": float(here @ bank_in(MONEY[1], layer))}
        rows.append(row | {"boats lie at the bank of the river": float(here @ bank_in(RIVER[0], layer))})
    return Table(rows, digits=2)


@cache
def classifier(task: str) -> regard.TextReader:
    """A task that reads the mix of the layers: which bank it is ("sense"), or whether the sentence has the
    word "the" twice ("word"). The language model stays as it is."""
    ask = {"sense": lambda text: text in MONEY, "word": lambda text: text.split().count("the") > 1}[task]
    rows = [(text, str(ask(text))) for text in MONEY + RIVER]
    language_model()
    changes = {"model.reader": 8, "model.word_dim": 0, "model.bigrams": 0, "model.dropout": 0.0}
    changes |= {"train.warmup_steps": 0, "train.label_smoothing": 0.0, "data.batch_tokens": 1024}
    changes |= {"train.steps": STEPS, "train.eval_every": STEPS, "train.learning_rate": 5e-2}
    data, start, out = {"train": rows * 20, "valid": rows}, f"{FOLDER.name}/language", f"{FOLDER.name}/{task}"
    return regard.train("elmo-labelled", set=changes, start=start, data=data, out=out, overwrite=True)


def weights_of_the_layers() -> Table:
    """The weights that two tasks give the layers, after training: softmax of $s$. They begin equal, at 0.33,
    and each task moves them its own way. The task `sense`, which asks which bank it is, gives least to layer
    0, where all banks are the same."""
    rows = []
    for task in ("sense", "word"):
        run = classifier(task)
        weights = run.model.mix.weights.tolist()
        rows.append({"task": task, **{f"layer {layer}": weight for layer, weight in enumerate(weights)}})
    return Table(rows)
