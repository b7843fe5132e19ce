r"""Alignment

A translator with attention looks, for each word it writes, at the words of the source. Nobody tells it where:
it learns from pairs of sentences alone. Its weights, drawn as a table, show which word came from which.

$$a_{ti} = softmax_i(score(s_t, h_i)), \quad c_t = \sum_i a_{ti} h_i$$

Here $s_t$ is the state of the decoder when it writes word $t$, and $h_i$ is what the encoder made of source
word $i$.

Try: Write another date, as "the 2nd of July 1999" or "2.7.99": where does the month come from?

In the package: `run.translate(text).attention` is this picture; `regard translate dates "3 May 1979" --show
-` draws it in the terminal, `regard align` writes word alignments; systems `bahdanau`, `luong` (global,
local-m, local-p), `transformer`."""

from __future__ import annotations

from functools import cache
from tempfile import TemporaryDirectory

import regard
from regard.attention import Hard
from regard.data.made.pairs import dates
from regard.show import Heads, Map, Table

STEPS = 250


def a_sentence(text: str = "Ich habe meinen Schlüssel im Auto vergessen.") -> Map:
    """A German sentence and what a small Transformer makes of it. Each row is a word it wrote, each column a
    word it read. Look at the row `keys`: its darkest cell is `Schlüssel`. Then at `forgot`: it looks at
    `habe`, and at `vergessen` at the far end, for German says it in two words. Where the order of the two
    languages differs, the dark cells leave the diagonal."""
    return regard.load("de-en").translate(text).attention


def a_date(text: str = "3 May 1979") -> Map:
    """The same by letters: the first part of the answer, 1979, looks at the *end* of what was read. The
    letters of the month become 05; the last digit looks at the 3 at the beginning."""
    return regard.load("dates").translate(text).attention


def hard_against_soft(text: str = "3 May 1979") -> Heads:
    """The same translator twice. Soft attention reads a blend of places. Hard attention takes the one place
    with the largest weight and reads nothing else: one cell in each row, and this date is still right."""
    soft, hard = regard.load("dates"), regard.load("dates")
    hard.model.attend.weigh = Hard().eval()
    looks = {name: run.translate(text).attention for name, run in (("soft", soft), ("hard", hard))}
    rows = {name: look.rows for name, look in looks.items()}
    columns = {name: look.columns for name, look in looks.items()}
    return Heads({name: look.weights[None] for name, look in looks.items()}, rows, columns, scale=1)


def how_often_right() -> Table:
    """Not every date survives it, as this model was trained softly. Two hundred dates it has never seen,
    exactly right, in percent. (A model can be trained to look hard, by sampling places and rewarding good
    ones: `weigh = "hard"`.)"""
    texts, answers = zip(*dates("test", 200), strict=True)
    soft, hard = regard.load("dates"), regard.load("dates")
    hard.model.attend.weigh = Hard().eval()
    rows = []
    for name, run in (("soft", soft), ("hard", hard)):
        written = [answer.text for answer in run.translate(list(texts))]
        rows.append({"looks": name, "exactly right": 100 * sum(map(str.__eq__, written, answers)) / len(texts)})
    return Table(rows, digits=1)


@cache
def local_translator() -> regard.Translator:
    """Local attention, trained now: it learns to write letters backwards. At each step it first says where it
    wants to look, $p_t$, and then looks at a window of two places on either side."""
    model = {"name": "luong", "cell": "gru", "score": "additive", "weigh": "local-p", "window": 2}
    model |= {"embed": 32, "dim": 64, "bidirectional": True, "dropout": 0.0}
    train = {"steps": STEPS, "eval_every": STEPS, "learning_rate": 8e-3, "schedule": "cosine", "warmup_steps": 50}
    data = {"made": "reverse", "train_count": 20000, "valid_count": 50, "batch_tokens": 1024}
    recipe = {"data": data, "tokens": {"kind": "space"}, "model": model, "train": train}
    with TemporaryDirectory() as folder:
        return regard.train(recipe, out=f"{folder}/run")


def local_windows(text: str = "k o a l a b e r") -> Map:
    """Where it looks. The outline is the window, the dot its centre $p_t$. The dots run down from right to
    left: to write backwards, the model has learned to begin at the end. Outside the windows nothing was even
    compared."""
    return local_translator().translate(text).attention
