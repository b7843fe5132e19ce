r"""Errors in well-known slides

Slides are copied from slides, and errors with them. Each of these can be found in lectures that are otherwise
good, and each can be tested in a few lines. The formula that most of them get wrong somewhere:

$$Attention(Q, K, V) = softmax\left(\frac{Q K^T}{\sqrt{d_k}}\right) V$$

Try: Find the next one. Write the claim down as code, and look at its numbers.

In the package: `regard.layers.positions`, `regard.attention` and `regard.layers.block` have the right forms,
each with a test against numbers worked out by hand."""

from __future__ import annotations

import torch
from torch import nn

import regard
from regard.attention import Additive, attention, look
from regard.data.made.scenes import scenes
from regard.data.made.shapes import shapes
from regard.layers.block import Block
from regard.layers.positions import sinusoids
from regard.show import Table


def the_exponent_of_odd_dimensions() -> Table:
    """The claim: $PE(p, j) = \\cos(p / 10000^{j/d})$ for odd $j$, with $j$ itself in the exponent. But sine
    and cosine of a pair must turn at the same speed, so both have the even number, $2i$. Else the product of
    two positions no longer depends on their distance alone: look along the second row, where it should be the
    same everywhere."""
    p, j = torch.arange(200.0)[:, None], torch.arange(64)
    angle = p / 10000 ** (j / 64)
    wrong, right = torch.where(j % 2 == 0, angle.sin(), angle.cos()), sinusoids(torch.arange(200), 64)
    rows = [
        {"": name, **{f"PE({at}) . PE({at + 5})": float(table[at] @ table[at + 5]) for at in (0, 10, 50, 150)}}
        for name, table in (("even number in both", right), ("own number in each", wrong))
    ]
    return Table(rows)


def the_axis_of_the_softmax() -> Table:
    """The claim: a picture whose *columns* sum to 1. The softmax goes over the keys, for each query, so that
    the weights of one look sum to 1. Along the other axis a query may read half as much again as its share,
    and what it reads depends on who else asks."""
    torch.manual_seed(0)
    q, k = torch.randn(4, 8), torch.randn(6, 8)
    scores = q @ k.T / 8**0.5
    rows = [
        {
            "softmax over": name,
            **{f"sum of query {at}": total for at, total in enumerate(scores.softmax(axis).sum(1).tolist())},
        }
        for name, axis in (("keys", 1), ("queries", 0))
    ]
    return Table(rows)


def the_root_of_what() -> Table:
    """The claim: divided by $\\sqrt{n}$, the length of the sentence. It is $\\sqrt{d}$, the size of a key: a
    product of $d$ random numbers has spread $\\sqrt{d}$. Divided by it, scores have spread 1 for every $n$;
    divided by $\\sqrt{n}$ the same words get other weights when the sentence is longer."""
    torch.manual_seed(0)
    rows = []
    for n in (4, 64, 1024):
        products = torch.randn(n, 64) @ torch.randn(n, 64).T
        row = {"words": n, "spread, undivided": products.std().item()}
        rows.append(
            row | {"by sqrt(d)": (products / 64**0.5).std().item(), "by sqrt(n)": (products / n**0.5).std().item()}
        )
    return Table(rows, digits=2)


def multiplied_in_place_of_divided() -> Table:
    """The claim: scores are *multiplied* by $\\sqrt{d}$. Then they have spread $d$, one weight is 1 and the
    others are 0, and no gradient comes through. (Embeddings are multiplied by $\\sqrt{d}$: that is another
    place.)"""
    torch.manual_seed(0)
    q, k = torch.randn(200, 64), torch.randn(8, 64)
    scores = q @ k.T
    rows = [
        {"scores": name, "largest of eight weights": each.softmax(1).amax(1).mean().item()}
        for name, each in (("divided", scores / 8), ("as they are", scores), ("multiplied", scores * 8))
    ]
    return Table(rows)


def invariant_or_equivariant() -> Table:
    """The claim: self-attention is *invariant* to the order of words. Shuffle them, and its output does
    change: it is shuffled as well. That is *equivariant*. Only their mean is invariant."""
    torch.manual_seed(0)
    x, order = torch.randn(1, 6, 8), torch.tensor([3, 0, 5, 1, 4, 2])
    before, after = attention(x, x), attention(x[:, order], x[:, order])
    compared = {
        "output, shuffled and not": before - after,
        "shuffled output, output of the shuffled": before[:, order] - after,
        "means of both outputs": before.mean(1) - after.mean(1),
    }
    return Table([{"compared": name, "largest difference": x.abs().max().item()} for name, x in compared.items()])


def the_additive_score_without_v() -> Table:
    """The claim: $score = tanh(W q + U k)$. This is a vector, and a score is a number. The outer $v$ makes
    one of it: $v \\cdot tanh(W q + U k)$."""
    torch.manual_seed(0)
    score, q, k = Additive(8, 8), torch.randn(8), torch.randn(8)
    inside = (score.query_weight(q) + score.key_weight(k)).tanh()
    rows = [("tanh(W q + U k)", inside.shape), ("v . tanh(W q + U k)", (score.v @ inside).shape)]
    return Table([{"": name, "numbers for one key": int(torch.Size(shape).numel())} for name, shape in rows])


def between_0_and_1() -> Table:
    """The claim: layer norm brings values between 0 and 1. It brings them to mean 0 and spread 1: more than half
    of these are negative, and some are larger than 2."""
    torch.manual_seed(0)
    made = nn.LayerNorm(512)(10 * torch.rand(100, 512) ** 2)
    inside = ((made >= 0) & (made <= 1)).float().mean().item()
    row = {
        "smallest": made.min().item(),
        "largest": made.max().item(),
        "mean": abs(made.mean().item()),
        "spread": made.std().item(),
    }
    return Table([row | {"share between 0 and 1": inside}], digits=2)


def a_captioner_looks_at_an_image() -> Table:
    """The claim: captioning shows *self-attention*. In self-attention a sequence looks at itself, and the
    table is square. A captioner's words look at places of an image: two different things, and a table of
    words by places."""
    seen = regard.load("scenes").caption(scenes("test", 11).images.read(10)).attention.lines[0]
    words, *grid = seen.weights.shape
    x = torch.randn(1, 6, 8)
    rows = [("self-attention, six words", "6 words", "6 words", str(tuple(look(x, x).weights[0].shape)))]
    rows += [
        ("the captioner", f"{words} words", f"{grid[0]} x {grid[1]} places", f"({words}, {grid[0] * grid[1]})")
    ]
    return Table([{"": name, "queries": q, "memory": m, "table": shape} for name, q, m, shape in rows])


def encoder_or_decoder() -> Table:
    """The claim: BERT is a decoder, or its stack of blocks "decodes". A block that looks both ways is an
    encoder: change the last word, and the states of the words before change. In a decoder they cannot, as its
    mask hides what comes after."""
    torch.manual_seed(0)
    x = torch.randn(1, 6, 16)
    other = x.clone()
    other[:, -1] += 1
    rows = []
    for name, causal in (("looks both ways, as BERT", False), ("looks back only, as GPT-2", True)):
        block = Block(16, 2, 32, causal=causal)
        changed = (block(x) - block(other))[:, :-1].abs().max().item()
        rows.append({"block": name, "change of the words before": changed})
    return Table(rows)


def soft_gates() -> Table:
    """The claim: squeeze and excitation chooses channels by a *boolean map*. Its gates are the output of a
    sigmoid, and most are neither 0 nor 1: channels are weighted, not chosen. Counted over the gates that
    thirty pictures open."""
    run, made = regard.load("shapes-senet"), shapes("test", 30)
    answers = run.recognise([made.read(number) for number in range(30)])
    gates = torch.cat(
        [torch.as_tensor(part).flatten() for answer in answers for part in answer.gates().panels.values()]
    )
    parts = {"below 0.05": gates <= 0.05, "between": (gates > 0.05) & (gates < 0.95), "above 0.95": gates >= 0.95}
    return Table([{"gates": len(gates), **{name: part.float().mean().item() for name, part in parts.items()}}])


def cut_off_or_rounded() -> Table:
    """The claim: $PE(1) = (0.8414, 0.5403, 0.8218, \\ldots)$ for $d = 512$. The digits were cut off and not
    rounded: the fifth digit is 7 in the first number and 5 in the third, so the fourth goes up."""
    values = sinusoids(torch.tensor([1]), 512, torch.float64)[0, :4]
    rows = {"value": [f"{x:.7f}" for x in values], "rounded": [f"{x:.4f}" for x in values]}
    rows["cut off"] = [f"{int(x * 10000) / 10000:.4f}" for x in values]
    return Table(
        [{"": name, **{f"dimension {at}": text for at, text in enumerate(texts)}} for name, texts in rows.items()]
    )
