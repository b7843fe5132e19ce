r"""Training and running a Transformer

"You are welcome" becomes "De nada". To train, the decoder is given the right answer, moved one place to the
right behind a START token, and at each place has to say the next word. All places are trained at once; a mask
keeps each from seeing what it is to say. To run, there is no right answer: the model's own words are fed back
to it, one after the other, until it says END.

$$p(y_t) = softmax(W\, decoder(y_{<t},\; encoder(x)))_{y_t}$$

A small Transformer is trained now, on ten pairs of phrases, which it learns by heart.

Try: Ask for "I am welcome", which it has never seen. Which words does it mix?

In the package: `regard train transformer-pairs` for pairs of your own, `regard translate`; the system
`transformer`. With decoder blocks alone: `gpt2` and `regard generate`."""

from __future__ import annotations

from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import torch

import regard
from regard.attention import look
from regard.data.batches.batch import PairData
from regard.show import Map, Table

PAIRS = [
    ("You are welcome", "De nada"),
    ("Thank you", "Gracias"),
    ("Good morning", "Buenos días"),
    ("Good night", "Buenas noches"),
    ("How are you", "Cómo estás"),
    ("See you tomorrow", "Hasta mañana"),
    ("Let's go", "Vamos"),
    ("I am hungry", "Tengo hambre"),
    ("I am tired", "Estoy cansado"),
    ("Where are you", "Dónde estás"),
]
STEPS = 150


@cache
def translator() -> regard.Translator:
    """Trained on the ten pairs: two layers of encoder and decoder, two heads, 32 numbers a word."""
    recipe = {
        "data": {"train": "", "batch_tokens": 256},
        "tokens": {"kind": "space"},
        "model": {"name": "transformer", "dim": 32, "layers": 2, "heads": 2, "ff": 64, "dropout": 0.0},
        "train": {"steps": STEPS, "eval_every": STEPS, "learning_rate": 5e-3},
    }
    with TemporaryDirectory() as folder:
        return regard.train(recipe, out=f"{folder}/run", data={"train": PAIRS, "valid": PAIRS})


def words_of(ids: torch.Tensor, real: torch.Tensor) -> list[str]:
    """A row of token numbers as words; what is not real is PAD."""
    tokens = translator().tokenizer
    names = {tokens.special.start: "START", tokens.special.end: "END"}
    words = [names.get(token) or tokens.decode([token]).strip() for token in ids.tolist()]
    return [word if is_real else "PAD" for word, is_real in zip(words, real, strict=True)]


def the_shifted_target() -> Table:
    """Two pairs as they are given in training, side by side in one batch. Read a pair's columns downwards: at place
    1 the decoder has seen START and is to say `De`, at place 2 it has seen START and `De` and is to say `nada`,
    then END. PAD only fills up, so that sentences of several lengths fit into one table; nobody looks at it, and
    what is said there does not count."""
    tokens = translator().tokenizer
    pairs = [[tokens.encode(text) for text in side] for side in zip(*PAIRS[:2], strict=True)]
    batch = PairData(*pairs, batch_tokens=64, seed=0, special=tokens.special).batch(np.arange(2))
    lines = {
        "encoder reads": (batch.source, batch.source_mask),
        "decoder is given": (batch.target[:, :-1], batch.target_mask[:, :-1]),
        "decoder is to say": (batch.target[:, 1:], batch.target_mask[:, 1:]),
    }
    rows = []
    for pair in (0, 1):
        for name, (ids, real) in lines.items():
            words = [*words_of(ids[pair], real[pair]), ""][:4]
            rows.append({"": f"{pair + 1}. {name}", **{f"place {at}": word for at, word in enumerate(words, 1)}})
    return Table(rows)


def the_mask() -> Map:
    """What each place of the decoder may look at, here with equal weights: itself and what is before it. The
    upper right is hidden, or the second row could read off its answer, `nada`, from the third."""
    words = ["START", "De", "nada"]
    nothing = torch.zeros(1, 3, 8)  # prefers no place
    past = torch.ones(3, 3).tril().bool()
    return Map(look(nothing, nothing, causal=True).weights[0], words, words, mask=past, scale=1)


def all_places_at_once() -> Table:
    """The trained model, as in training: one pass over the right answer gives the next word at every place.
    The last column is the probability of the word it was to say."""
    run = translator()
    special, tokens = run.tokenizer.special, run.tokenizer
    source = torch.tensor([[*tokens.encode("You are welcome"), special.end]])
    answer = [*tokens.encode("De nada"), special.end]
    given = torch.tensor([[special.start, *answer[:-1]]])
    with torch.no_grad():
        likely = run.model(source, given)[0].softmax(-1)
    seen, said = ["START", "De", "nada"], ["De", "nada", "END"]
    rows = zip(seen, said, answer, likely, strict=True)
    return Table([{"given": a, "to say": b, "probability": share[token].item()} for a, b, token, share in rows])


def one_word_at_a_time(text: str = "You are welcome") -> Table:
    """The same model, running. It begins with START alone; its likeliest word is appended, and it is asked
    again. The loop ends when END is the likeliest."""
    run = translator()
    special = run.tokenizer.special
    source = torch.tensor([[*run.tokenizer.encode(text), special.end]])
    given, rows = torch.tensor([special.start]), []
    while given[-1] != special.end and len(given) < 8:
        with torch.no_grad():
            chance, best = run.model(source, given[None])[0, -1].softmax(-1).max(-1)
        *before, word = words_of(torch.cat([given, best[None]]), torch.ones(len(given) + 1))
        rows.append(
            {"step": len(given), "so far": " ".join(before), "next word": word, "probability": chance.item()}
        )
        given = torch.cat([given, best[None]])
    return Table(rows)


def where_it_looked(text: str = "You are welcome") -> Map:
    """The cross-attention: rows are the words it wrote, columns those it read. With ten phrases learned by
    heart one word of the phrase may be enough to know it; on real text these rows become alignments, as on
    the page *Alignment*."""
    return translator().translate(text).attention


@cache
def decoder_alone() -> regard.LanguageModel:
    """A decoder without an encoder: there is one text, the prompt and then the response, and it learns to
    continue."""
    lines = [f"{english} = {spanish} ." for english, spanish in PAIRS]
    recipe = {
        "data": {"train": "", "documents": "line", "batch_tokens": 256},
        "tokens": {"kind": "space"},
        "model": {"name": "gpt2", "dim": 32, "layers": 2, "heads": 2, "max_positions": 32, "dropout": 0.0},
        "train": {"steps": STEPS, "eval_every": STEPS, "learning_rate": 5e-3},
    }
    with TemporaryDirectory() as folder:
        return regard.train(recipe, out=f"{folder}/run", data={"train": lines * 4, "valid": lines})


def prompt_and_response(prompt: str = "Let's go =") -> Map:
    """The prompt `Let's go =` is read at once, then the response is written one word at a time. Each row is a
    word it wrote, and the columns are all words before it, prompt and own words alike: one kind of attention
    does the work of two."""
    return decoder_alone().generate(prompt, max_tokens=2, temperature=0.0).attention
