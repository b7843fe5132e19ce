r"""Masking

Some places must not be looked at: the future, when a text is written word by word; and padding, which only
fills a batch up. Their scores become minus infinity *before* the softmax. As $e^{-\infty} = 0$, their weight
is exactly 0, and the others still sum to 1.

$$a = softmax(e + m), \quad m_i = 0 \; or \; -\infty$$

Try: Type a longer sentence. What does its first word look at, and why can it be nothing else?

In the package: `mask=` (padding), `causal=True` and `strict=True` of `regard.attention.Attend`; masks are
boolean, True = may look. Every model is tested to give the same answer with more padding."""

from __future__ import annotations

import torch

import regard
from regard.attention import attention, look
from regard.show import Heads, Map, Table

WORDS = "she is eating a green apple"


def embed(words: list[str]) -> torch.Tensor:
    """A random vector for each word, the same wherever it stands."""
    random = torch.Generator().manual_seed(2)
    table = {word: torch.randn(8, generator=random) for word in dict.fromkeys(words)}
    return torch.stack([table[word] for word in words])[None]


def scores_of_the_future(text: str = "she is eating a green apple") -> Table:
    """The scores, with minus infinity where a word would look at words that come after it. This is what the
    softmax gets."""
    words = text.split()
    x = embed(words)
    future = torch.ones(len(words), len(words)).triu(1).bool()
    scores = look(x, x).scores[0].masked_fill(future, -torch.inf)
    return Table.of(scores, words, words, digits=2)


def looking_back(text: str = "she is eating a green apple") -> Map:
    """The weights. Hatched cells may not be looked at. The first word sees only itself, so its one weight is
    1; the last one sees all. Every row still sums to 1."""
    words = text.split()
    x = embed(words)
    past = torch.ones(len(words), len(words)).tril().bool()
    return Map(look(x, x, causal=True).weights[0], words, words, mask=past, scale=1)


def zeroed_too_late() -> Table:
    """A common mistake: to set weights to 0 *after* the softmax. Then rows no longer sum to 1, and worse, the
    future has already shaped them: it was in the sum that divides. Compare the rows of `is`."""
    words = WORDS.split()
    x = embed(words)
    late = look(x, x).weights[0].tril()[1]
    right = look(x, x, causal=True).weights[0][1]
    rows = [
        {"row of is": name, **dict(zip(words, row.tolist(), strict=True)), "sum": row.sum().item()}
        for name, row in {"masked before the softmax": right, "set to 0 after it": late}.items()
    ]
    return Table(rows)


def changing_the_future() -> Table:
    """The test of a mask: change the last word, and see what the words before it read. Masked, nothing of
    them changes."""
    x = embed(WORDS.split())
    other = x.clone()
    other[:, -1] = 100.0
    rows = []
    for name, causal in (("no mask", False), ("masked", True)):
        changed = (attention(x, x, causal=causal) - attention(other, other, causal=causal))[0, :-1].abs().max()
        rows.append({"": name, "largest change of the words before": changed.item()})
    return Table(rows)


def padding() -> Heads:
    """A batch is a rectangle, so a short sentence is filled up. Its padding is hidden: the columns `PAD` are
    hatched. Both panels are the same sentence, once with one and once with three places of padding: the
    weights of the words are equal."""
    words = WORDS.split()
    panels, rows, masks = {}, {}, {}
    for count in (1, 3):
        padded, name = words + ["PAD"] * count, f"{count} of padding"
        x, real = embed(padded), torch.tensor([word != "PAD" for word in padded])
        panels[name] = look(x, x, mask=real[None]).weights[:, : len(words)]
        rows[name], masks[name] = padded, real.expand(len(words), -1)
    return Heads(panels, words, rows, mask=masks)


def the_answer_stays() -> Table:
    """The same for a whole trained model, the translator of dates: what it thinks of the answer 1979-05-03,
    with 0, 5 and 50 places of padding behind the text. The differences are those of rounding."""
    run = regard.load("dates")
    source, target = (torch.tensor([run.tokenizer.encode(text)]) for text in ("3 May 1979", "1979-05-03"))
    logits = {}
    for count in (0, 5, 50):
        padded = torch.cat([source, source.new_zeros(1, count)], 1)
        real = torch.arange(padded.shape[1])[None] < source.shape[1]
        with torch.no_grad():
            logits[count] = run.model(padded, target, source_mask=real)
    rows = [
        {"padding": count, "largest difference": (x - logits[0]).abs().max().item()} for count, x in logits.items()
    ]
    return Table(rows)
