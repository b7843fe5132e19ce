r"""Positions

Attention does not know the order of what it looks at, so each position has a vector that is added to its
word. The vectors of 2017 are waves, from fast to slow, two for each frequency:

$$PE(p, 2i) = \sin\left(\frac{p}{10000^{2i/d}}\right), \quad PE(p, 2i+1) = \cos\left(\frac{p}{10000^{2i/d}}\right)$$

With four dimensions position $p$ is $(\sin p, \cos p, \sin \frac{p}{100}, \cos \frac{p}{100})$. Nothing of it
is learned, it is the same in every sentence, and there is a vector for every position, however long the text
is.

Try: Move `shift` of *From one position to another*: do the rows agree for every shift? Set `dim` of *The
curves* to 4.

In the package: `regard.layers.positions.sinusoids`; `model.positions` of the systems `transformer` and others
is one of sinusoidal, learned, fraction, number and none, and `results/positions.md` compares them; the
pictures are `regard.show.position_curves`, `barcode` and `similarity`."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from regard.attention import MultiHead
from regard.layers.positions import Fraction, Learned, Number, Sinusoidal, sinusoids
from regard.show import Barcode, Curves, Table, barcode, position_curves, similarity

SLIDERS = {"dim": (4, 64), "shift": (0, 30)}
SHORT, LONG = 32, 64
STEPS = 700


def numbers() -> Table:
    """The first numbers of two positions, of 512. Position 0 is 0, 1, 0, 1, ...; position 1 begins with the
    sine and the cosine of 1, and ends with waves so slow that it still looks like position 0."""
    table = sinusoids(torch.arange(2), 512)
    shown = torch.cat([table[:, :4], table[:, -2:]], 1)
    return Table.of(shown, ["PE(0)", "PE(1)"], ["0", "1", "2", "3", "510", "511"], digits=4)


def the_curves(dim: int = 16) -> Curves:
    """Some dimensions over 60 positions. The first waves turn round every six words, the last ones hardly
    move: like the hands of a clock, fast ones tell neighbours apart, slow ones tell where in the text one
    is."""
    return position_curves(sinusoids(torch.arange(60), dim - dim % 2).numpy())


def the_barcode() -> Barcode:
    """All values: a row for each position, a column for each dimension. No two rows are the same. On the left
    the waves are fast, on the right the columns keep one colour."""
    return barcode(sinusoids(torch.arange(60), 64).numpy())


def alike_by_distance() -> Curves:
    """The product of two positions depends on their distance alone, not on where they are: the band from the
    smallest to the largest is as thin as the line. Near positions are alike, far ones less."""
    return similarity(sinusoids(torch.arange(100), 64).numpy())


def from_one_position_to_another(shift: int = 5) -> Table:
    """The vector of position $p + k$ is a fixed matrix times that of $p$: each pair of waves is turned by the
    same angle. Made here for four dimensions, and the same matrix is right for every $p$. So a layer can
    learn to look $k$ words back."""
    angles = shift / torch.tensor([1.0, 100.0])
    turn = torch.zeros(4, 4)
    for pair, angle in enumerate(angles):
        rotation = torch.tensor([[angle.cos(), angle.sin()], [-angle.sin(), angle.cos()]])
        turn[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = rotation
    made, rows = sinusoids(torch.arange(100), 4), dict[str, torch.Tensor]()
    for p in (0, 3, 40):
        rows |= {f"M PE({p})": turn @ made[p], f"PE({p} + {shift})": made[p + shift]}
    return Table.of(torch.stack(list(rows.values())), list(rows), ["0", "1", "2", "3"])


def the_plain_number() -> Curves:
    """What comes to mind before the waves: the number of the place itself. It grows without limit, and soon
    drowns a word's vector, whose length is about 1. The waves have the same length everywhere."""
    places = torch.arange(100)
    ideas = {"plain number": Number(64), "waves": Sinusoidal(64)}
    series = {name: (places.tolist(), idea(places).norm(dim=-1).tolist()) for name, idea in ideas.items()}
    return Curves(series, "How long the vector of a position is", "position", "length", from_zero=True)


def a_fraction_between_0_and_1() -> Curves:
    """The next idea: the place divided by the number of words. It stays small, but the *same* step from one
    word to the next has another size in each sentence, the steeper the shorter it is, and the last words of a
    short and of a long one have the same number."""
    idea, series = Fraction(64, max_positions=512), {}
    for length in (5, 20, 60):
        told = idea(torch.arange(length), lengths=torch.tensor([length]))[0, :, 0]
        series[f"{length} words"] = (list(range(length)), told.tolist())
    return Curves(series, "Position as a fraction", "position", "fraction", from_zero=True)


def word_against_position() -> Table:
    """Why the Transformer multiplies its embeddings by $\\sqrt{d}$. Drawn with a spread of $1/\\sqrt{d}$ a
    word's vector has length 1, and a position of 512 numbers has length 16. Added, the word would be a
    whisper; multiplied by $\\sqrt{512}$ it has length 22.6, and both are heard."""
    torch.manual_seed(0)
    word, position = torch.randn(512) / 512**0.5, sinusoids(torch.tensor([7]), 512)[0]
    rows = []
    for name, part in {"as it is": word, "times sqrt(512)": word * 512**0.5}.items():
        share = torch.cosine_similarity(part + position, part, 0).item()
        row = {"word": name, "its length": part.norm().item(), "length of the position": position.norm().item()}
        rows.append(row | {"cosine of their sum and the word": share})
    return Table(rows, digits=2)


def logits_of(model: nn.ModuleList, text: torch.Tensor) -> torch.Tensor:
    """One look over words and positions; from the second place on, what stood just before."""
    embed, positions, attend, out = model
    x = embed(text) + positions(torch.arange(text.shape[1]))
    return out(attend(x, x))[:, 1:]


def train(positions: nn.Module, dim: int = 64, symbols: int = 20) -> list[float]:
    """The look learns to name the symbol just before, on texts of up to 32 symbols. Then texts of 64 are
    asked: the share of right symbols at each place."""
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Embedding(symbols, dim), positions, MultiHead(dim, 1), nn.Linear(dim, symbols)])
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        text = torch.randint(symbols, (32, int(torch.randint(4, SHORT + 1, ()))))
        optimiser.zero_grad()
        cross_entropy(logits_of(model, text).flatten(0, 1), text[:, :-1].flatten()).backward()
        optimiser.step()
    text = torch.randint(symbols, (300, LONG))
    right = (logits_of(model, text).argmax(-1) == text[:, :-1]).float().mean(0)
    return [part.mean().item() for part in right.split(4)]


def trained_short_and_asked_long() -> Curves:
    """Trained now on texts of up to 32 symbols, asked for 64. Where training texts often reached, both are right.
    Beyond 32 a learned table has rows that no text has ever used, and falls to a tenth, little more than guessing.
    The waves go on, and so does some of what was learned: they fall too, but not all the way. A table of 32 rows
    could not even be asked."""
    places = list(range(1, LONG, 4))
    torch.manual_seed(0)
    lines = {"sinusoids": train(Sinusoidal(64)), "learned table": train(Learned(64, max_positions=LONG))}
    series = {name: (places, right) for name, right in lines.items()}
    return Curves(series, "Right symbols, trained up to position 32", "position", "share", from_zero=True)
