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

import torch

import regard
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


def the_shifted_target() -> Table:
    """One pair as it is given in training. Read the columns downwards: at place 1 the decoder has seen START
    and is to say `De`, at place 2 it has seen START and `De` and is to say `nada`, then END. PAD only fills
    up, so that sentences of several lengths fit into one table; nobody looks at it, and what is said there
    does not count."""
    lines = {
        "encoder reads": ["You", "are", "welcome", "PAD"],
        "decoder is given": ["START", "De", "nada", "PAD"],
        "decoder is to say": ["De", "nada", "END", "(not counted)"],
    }
    return Table(
        [{"": name, **{f"place {at}": word for at, word in enumerate(words, 1)}} for name, words in lines.items()]
    )


def the_mask() -> Map:
    """What each place of the decoder may look at, here with equal weights: itself and what is before it. The
    upper right is hidden, or the second row could read off its answer, `nada`, from the third."""
    words = ["START", "De", "nada"]
    past = torch.ones(3, 3).tril().bool()
    return Map(past / past.sum(1, keepdim=True), words, words, mask=past, scale=1)


@cache
def translator() -> regard.Translator:
    """Trained on the ten pairs: two layers of encoder and decoder, two heads, 32 numbers a word."""
    recipe = {
        "data": {"train": "", "batch_tokens": 256},
        "tokens": {"kind": "space"},
        "model": {
            "name": "transformer",
            "dim": 32,
            "layers": 2,
            "heads": 2,
            "ff": 64,
            "dropout": 0.0,
            "max_positions": 32,
        },
        "train": {"steps": STEPS, "eval_every": STEPS, "learning_rate": 5e-3},
    }
    with TemporaryDirectory() as folder:
        return regard.train(recipe, out=f"{folder}/run", data={"train": PAIRS, "valid": PAIRS})


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
    special, tokens = run.tokenizer.special, run.tokenizer
    source = torch.tensor([[*tokens.encode(text), special.end]])
    given, rows = [special.start], []
    while len(given) < 8:
        with torch.no_grad():
            likely = run.model(source, torch.tensor([given]))[0, -1].softmax(-1)
        best = int(likely.argmax())
        word = "END" if best == special.end else tokens.decode([best]).strip()
        before = " ".join(["START", tokens.decode(given[1:]).strip()]).strip()
        rows.append({"step": len(given), "so far": before, "next word": word, "probability": likely[best].item()})
        if best == special.end:
            break
        given.append(best)
    return Table(rows)


def where_it_looked(text: str = "You are welcome") -> Map:
    """The cross-attention: rows are the words it wrote, columns those it read. With ten phrases learned by
    heart one word of the phrase may be enough to know it; on real text these rows become alignments, as on
    the page *Alignment*."""
    return translator().translate(text).attention


@cache
def decoder_alone() -> regard.LanguageModel:
    """A decoder without an encoder: there is one text, prompt and response behind each other, and it learns
    to continue."""
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
