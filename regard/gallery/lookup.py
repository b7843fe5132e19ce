r"""Look-up, hard to soft

A dictionary takes a key and gives back one value. Attention does the same softly: a *query* is compared with
every key, the comparisons become weights that sum to 1, and what is read is the weighted sum of all values.

$$a_i = \frac{e^{\beta\, q \cdot k_i}}{\sum_j e^{\beta\, q \cdot k_j}}, \quad read = \sum_i a_i v_i$$

With a large $\beta$ one weight is 1 and all others are 0: a dictionary. With $\beta = 0$ all weights are
equal: the mean. Everything else lies between the two.

Try: Ask by the prefix "B", by "Carla", by "x", which no name begins with. Which age is read, and whose is it? Then
misspell a name in *Dictionary and vectors*.

In the package: `regard.attention.look` is one look with its weights, `regard.attention.Attend` the module
that every model here uses; `weigh="hard"` takes one place alone (system `show_attend_tell`), and `pooling`
classifies texts by the mean or by attention."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch.nn.functional import one_hot

from regard.attention import look
from regard.data.made.shapes import shapes
from regard.show import Images, Map, Table

PERSONS = {"Anna": 31, "Anne": 35, "Ben": 62, "Bernd": 58, "Carla": 24}  # names and ages
AGES = torch.tensor([[[float(age)] for age in PERSONS.values()]])  # (1, persons, 1)
SLIDERS = {"number": (0, 4), "beta": (0.0, 10.0)}


def by_number(number: int = 2) -> Table:
    """Ask by number. Each person has a key that is 1 at their own number and 0 elsewhere, and the query is
    such a key too. Only one product is not 0. Look at the column `weight`: it is 1 for one person, so exactly that
    age is read."""
    keys = one_hot(torch.arange(5)).float()[None]  # (1, persons, 5)
    seen = look(keys[:, [number]], keys, AGES, score="dot", weigh="hard")
    rows = zip(PERSONS.items(), seen.weights[0, 0].tolist(), strict=True)
    told = [{"name": name, "age": age, "weight": weight} for (name, age), weight in rows]
    return Table(told, notes=f"person number {number}: the age read is {seen.read.item():.0f}", digits=1)


def by_prefix(prefix: str = "An") -> Table:
    """Ask by the beginning of a name. The score of a person counts how many letters agree, and weights are
    its softmax. Two names begin with An, so their weights are the largest and about half of what is read is
    the age of each: a blend. The other persons keep a little weight, as no score is minus infinity."""
    agree = [
        sum(name.lower().startswith(prefix[: end + 1].lower()) for end in range(len(prefix))) for name in PERSONS
    ]
    scores = 2 * torch.tensor([[agree]]).float()  # (1, 1, persons)
    seen = look(torch.zeros(1, 1, 1), torch.zeros(1, 5, 1), AGES, bias=scores)
    rows = zip(PERSONS.items(), agree, seen.weights[0, 0].tolist(), strict=True)
    told = [{"name": n, "age": age, "letters that agree": count, "weight": w} for (n, age), count, w in rows]
    return Table(told, notes=f"names that begin with {prefix}: the age read is {seen.read.item():.1f}")


def letters_of(names: list[str]) -> torch.Tensor:
    """A vector for each name: how often it has each pair of neighbouring letters. Names that are spelled alike have
    vectors that point the same way."""
    pairs = torch.zeros(len(names), 28, 28)
    for row, name in enumerate(names):
        codes = [27, *(min(max(ord(letter) - 96, 0), 26) for letter in name.lower()), 27]  # 27: the ends
        for before, after in pairwise(codes):
            pairs[row, before, after] += 1
    return pairs.flatten(1)


def dictionary_and_vectors(name: str = "Bern") -> Table:
    """A dictionary asks whether two keys are equal: the name is there or it is not, and for `Bern` there is no
    answer. With *vectors* as keys every name is more or less like the one that was asked for. The look reads mostly
    the age of `Bernd`. Ask for `Anna`: then it reads hers, nearly as surely as the dictionary."""
    query, keys = letters_of([name])[None], letters_of(list(PERSONS))[None]
    seen = look(2 * query, keys, AGES, score="dot")
    found = f"{PERSONS[name]}" if name in PERSONS else "nothing (KeyError)"
    rows = [
        {"name": each, "age": age, "in the dictionary": "yes" if each == name else "", "weight": weight}
        for (each, age), weight in zip(PERSONS.items(), seen.weights[0, 0].tolist(), strict=True)
    ]
    return Table(rows, notes=f"{name}: the dictionary gives {found}, the look {seen.read.item():.1f}", digits=2)


def from_mean_to_dictionary(beta: float = 3.0) -> Map:
    """Keys and query are arrows now: five keys that point 0, 40, 90, 140 and 180 degrees up, and a query that
    points 53 degrees up. A row for each $\\beta$. In the first all weights are 0.2, whatever is asked: mean
    pooling. Further down the nearest key, 40 degrees, gets more and more, and in the last row it has everything: a
    dictionary."""
    degrees = torch.tensor([53.0, 0, 40, 90, 140, 180])
    query, keys = torch.stack([degrees.deg2rad().cos(), degrees.deg2rad().sin()], 1)[None].split([1, 5], 1)
    betas = sorted({0.0, 1.0, 10.0, 100.0, beta})
    rows = [look(each * query, keys, score="dot").weights[0, 0] for each in betas]
    return Map(
        torch.stack(rows), [f"beta={each:g}" for each in betas], [f"{at:.0f}°" for at in degrees[1:]], scale=1
    )


def cropping_and_masking() -> Images:
    """The oldest forms of both, on an image: every pixel is multiplied by a weight. To *crop* is to look hard: the
    weight is 1 inside the frame and 0 outside, and nothing else of the image is read. To lay a *mask* over it is
    to look softly: every pixel counts, those near the centre most."""
    image = shapes("test", 6).read(5)
    down, across = np.indices(image.shape[:2])
    hard = (abs(down - 16) < 10) & (abs(across - 8) < 8)
    soft = np.exp(-((down - 16) ** 2 + (across - 8) ** 2) / 100)
    parts = {"the image": np.ones_like(soft), "cropped": hard, "masked": soft}
    return Images({name: (image * weight[..., None]).astype(np.uint8) for name, weight in parts.items()})
