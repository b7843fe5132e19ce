r"""Which channels a picture opens

A convolutional network makes many maps of an image, its *channels*: one answers to edges, another to round
things. Squeeze and excitation looks at all of them and says how much each counts for this picture. First
every channel is squeezed to one number, its mean; two small layers make a gate between 0 and 1 of each; and
every channel is multiplied by its gate.

$$z_c = \frac{1}{HW} \sum_{i,j} x_{c,i,j}, \quad s = \sigma(W_2\, relu(W_1 z)), \quad x_c \leftarrow s_c\, x_c$$

It is attention over channels in place of positions, and soft: a gate of 0.3 lets 30 % through.

Try: Move `number` to other pictures. Do two circles open the same channels?

In the package: The system `senet`; `run.recognise(image).gates()` and `run.class_gates()` draw the gates;
`results/senet.md`."""

from __future__ import annotations

from functools import cache

import regard
from regard.data.made.shapes import shapes
from regard.show import Gates, Table

SLIDERS = {"number": (0, 29)}


def one_picture(number: int = 5) -> Gates:
    """The gates that one picture opens: a row for each block of the network, a bar for each channel, from
    closed (0) to open (1)."""
    image = shapes("test", 30).read(number)
    return regard.load("shapes-senet").recognise(image).gates()


@cache
def by_class() -> Gates:
    """The mean gates of all pictures of a class: a line for each class. In the early blocks the lines lie on
    each other, as every picture has edges. In the last block they part: each class opens channels of its
    own."""
    return regard.load("shapes-senet").class_gates()


def how_much_classes_differ() -> Table:
    """The same in numbers: how far the gates of the classes lie apart, the standard deviation over the
    classes, averaged over the channels of each block."""
    gates = by_class()
    return Table(
        [
            {"block": block, "spread over classes": float(values.std(0).mean())}
            for block, values in gates.panels.items()
        ]
    )
