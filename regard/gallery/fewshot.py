r"""Learning from one example

Five signs you have never seen, one example of each; then another drawing of one of them. People can do this,
and so can a network that has learned how to compare: SNAIL reads the examples with their names as a sequence,
and the new drawing at its end looks back at them.

$$p(class) \leftarrow \sum_{i \leq t} a_{ti} v_i, \quad a_{ti} = softmax_{i \leq t}(q_t \cdot k_i / \sqrt{d})$$

Nothing is trained here: the weights stay as they are, and all that it learns of the new signs is in what it
looks at.

Try: Move `query` to the other signs, and `draw` to five other signs.

In the package: The system `snail`; `regard fewshot omniglot`; `results/snail.md`. The same blocks play
bandits and MDPs (system `snail_agent`, `regard play`), where a step looks back at what earlier steps
earned."""

from __future__ import annotations

import regard
from regard.data.made.glyphs import glyphs
from regard.show import Examples, Table

SLIDERS = {"query": (0, 4), "draw": (0, 20)}
NAMES = "abcde"


def which_example_it_looked_at(query: int = 2, draw: int = 0) -> Examples:
    """The drawing on the left is to be named; the others are the examples it may look at. The more weight an
    example had, the longer its bar. Of all examples it looks most at that of its own class; what is left of its
    weight stays on the new drawing itself."""
    signs = glyphs("test", 5 + draw, examples=2).pixels[-10:]
    examples = {name: signs[2 * number] for number, name in enumerate(NAMES)}
    return regard.load("omniglot").fewshot(signs[2 * query + 1], examples).examples()


def how_often() -> Table:
    """Over 60 drawings of signs it has never seen, five classes with one example each. By chance 12 would be named
    right. It looks at the right example much more often than by chance, but not always, and is right all the same:
    what was compared in the layers before, and in other places of the sequence, counts too. Where a model looks
    tells a part of why it answers."""
    run, named, looked = regard.load("omniglot"), 0, 0
    signs = glyphs("test", 60, examples=2).pixels
    for group in range(12):
        own = signs[10 * group : 10 * group + 10]
        examples = {name: own[2 * number] for number, name in enumerate(NAMES)}
        told = run.fewshot([own[2 * number + 1] for number in range(5)], examples)
        for number, answer in enumerate(told):
            (weights,) = answer.examples().looks.values()
            named += answer.label == NAMES[number]
            looked += int(weights[:-1].argmax() == number)  # the last is the drawing itself
    return Table([{"drawings": 60, "named right": named, "looked most at its own class": looked, "by chance": 12}])
