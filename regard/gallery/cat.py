r"""YOUR CAT IS A LOVELY CAT

Self-attention without anything to learn. Each word is a vector, and each is query, key and value at once: it
is compared with all six words, itself included. Six words that look at six words are a table of 6 x 6
weights.

$$A = softmax\left(\frac{X X^T}{\sqrt{d}}\right), \quad read = A X$$

The softmax goes along each row: a row is one word's look, and its weights sum to 1. The columns do not.

Try: Type another sentence that has a word twice. Then shuffle it: what changes with positions, and what
without?

In the package: `regard.attention.attention(x, x)` is this line; `regard.attention.MultiHead` the layer with
weights to learn; `regard.layers.positions` the positions; `answer.heads()` draws the same tables of any
trained model."""

from __future__ import annotations

import torch

from regard.attention import MultiHead, attention, look
from regard.layers.positions import sinusoids
from regard.show import Heads, Map, Table

SENTENCE = "YOUR CAT IS A LOVELY CAT"
DIM = 6


def embed(words: list[str]) -> torch.Tensor:
    """A vector for each word: random, but the same wherever the word stands."""
    random = torch.Generator().manual_seed(23)
    table = {word: torch.randn(DIM, generator=random) for word in dict.fromkeys([*SENTENCE.split(), *words])}
    return torch.stack([table[word] for word in words])[None]  # (1, words, DIM)


def without_positions(text: str = "YOUR CAT IS A LOVELY CAT") -> Map:
    """Where each word looks. Rows look, columns are looked at. Most words look at themselves, as a vector
    agrees with itself. But see row `A`: its vector is short and agrees more with the longer one of `LOVELY`,
    so that the largest weight is not on the diagonal. Both rows `CAT` are the same to the last digit: equal
    words ask the same, wherever they stand."""
    words = text.split()
    x = embed(words)
    return Map(look(x, x).weights[0], words, words, "without positions")


def scores(text: str = "YOUR CAT IS A LOVELY CAT") -> Table:
    """The numbers before the softmax: products of two vectors, divided by $\\sqrt{d}$. They are of either
    sign and know no limit. The table is symmetric, `CAT` to `IS` is `IS` to `CAT`; after the softmax it no
    longer is, as every row is divided by its own sum."""
    words = text.split()
    x = embed(words)
    return Table.of(look(x, x).scores[0], words, words, digits=2)


def weights_in_numbers(text: str = "YOUR CAT IS A LOVELY CAT") -> Table:
    """The numbers after the softmax, those of the picture. They are between 0 and 1, and every row sums to 1: a
    word has one look to give away. The largest of a row is not always its own word's."""
    words = text.split()
    weights = look(embed(words), embed(words)).weights[0]
    shown = torch.cat([weights, weights.sum(1, keepdim=True)], 1)
    return Table.of(shown, words, [*words, "sum"], digits=2)


def word_plus_position() -> Table:
    """To tell the two CATs apart, a vector of its position is added to each word: embedding + position =
    input. The embeddings of both are equal, the positions 1 and 5 are not, and so the inputs are not."""
    words = SENTENCE.split()
    x, p = embed(words)[0], sinusoids(torch.arange(len(words)), DIM)
    parts = {"embedding of CAT": x[1], "position 1": p[1], "input, CAT at 1": x[1] + p[1], "position 5": p[5]}
    parts["input, CAT at 5"] = x[5] + p[5]
    return Table.of(torch.stack(list(parts.values())), list(parts), [str(i) for i in range(DIM)], digits=2)


def with_positions(text: str = "YOUR CAT IS A LOVELY CAT") -> Map:
    """The same sentence with positions. Now the rows of the two CATs differ: each looks at itself more than
    at the other."""
    words = text.split()
    x = embed(words) + sinusoids(torch.arange(len(words)), DIM)
    return Map(look(x, x).weights[0], words, words, "with positions")


def shuffled(text: str = "YOUR CAT IS A LOVELY CAT") -> Heads:
    """The words in another order, without positions. Find the row `LOVELY` in both tables: it has the same
    weights, each under the word it had before. Shuffling the words shuffles rows and columns and does nothing
    else: self-attention is *equivariant*. It cannot know the order unless positions tell it."""
    words = text.split()
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(1))
    other = [words[i] for i in order]
    x, y = embed(words), embed(other)
    sides = {"as written": words, "shuffled": other}
    return Heads({"as written": look(x, x).weights, "shuffled": look(y, y).weights}, sides, sides)


def reads_are_shuffled_too() -> Table:
    """What each word reads, in numbers: the largest difference between the reads of the sentence, put into
    the new order, and the reads of the shuffled sentence."""
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    x = embed(SENTENCE.split())
    p = sinusoids(torch.arange(6), DIM)
    plain = (attention(x, x)[:, order] - attention(x[:, order], x[:, order])).abs().max()
    told = (attention(x + p, x + p)[:, order] - attention(x[:, order] + p, x[:, order] + p)).abs().max()
    return Table(
        [{"": "without positions", "difference": plain.item()}, {"": "with positions", "difference": told.item()}]
    )


def from_input_to_output() -> Table:
    """A layer that learns has three matrices, and the input goes through each: queries, keys and values. They
    are split into heads by reshaping, each head looks by itself, and the heads are merged by reshaping back.
    Read the shapes downwards: the input and the output have the same."""
    torch.manual_seed(0)
    layer, x = MultiHead(DIM, 2), embed(SENTENCE.split())
    q, k, v = layer.query(x), layer.key(x), layer.value(x)
    split = [part.unflatten(-1, (2, 3)).transpose(1, 2) for part in (q, k, v)]
    scores = split[0] @ split[1].transpose(-1, -2) / 3**0.5
    merged = (scores.softmax(-1) @ split[2]).transpose(1, 2).flatten(2)
    steps = {"input X": x, "query Q = X Wq": q, "key K = X Wk": k, "value V = X Wv": v, "Q in two heads": split[0]}
    steps |= {"scores Q K^T / sqrt(3)": scores, "weights, softmax of each row": scores.softmax(-1)}
    steps |= {"heads merged": merged, "output, times Wo": layer.out(merged)}
    assert torch.allclose(layer.out(merged), layer(x, x), atol=1e-6)  # the layer does the same
    rows = [{"step": name, "shape": " x ".join(map(str, part.shape[1:]))} for name, part in steps.items()]
    return Table(
        rows, notes="2 x 6 x 3: two heads, six words, three numbers each. 2 x 6 x 6: a table for each head."
    )
