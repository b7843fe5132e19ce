r"""An image is worth a few words

A Vision Transformer cuts an image into squares, *patches*, and reads them as a sentence reads words. Each
patch becomes a vector, a position is added, and one more token, the *class token*, stands in front. It has no
patch of its own: it looks at the others, and at the end what was recognised is read from it.

$$x = [class; \; E p_1; \; \ldots; \; E p_n] + position$$

Try: Move `number` to other pictures. Does the class token look at the shape, or at the ground?

In the package: The system `vit`; `run.recognise(image).overlay()` draws the rollout,
`.overlay("blocks.*.attend")` every head; `results/vit.md`."""

from __future__ import annotations

import numpy as np

import regard
from regard.data.made.shapes import shapes
from regard.show import Images, Overlay, Table

SLIDERS = {"number": (0, 29)}


def the_sentence() -> Table:
    """From image to tokens, for the model that comes with the package. One patch for each square, and the
    class token."""
    config = regard.load("shapes").model.config
    side = config.image_size // config.patch_size
    rows = [
        ("image", f"{config.image_size} x {config.image_size} x 3"),
        ("patch", f"{config.patch_size} x {config.patch_size} x 3 = {config.patch_size**2 * 3} numbers"),
        ("patches", f"{side} x {side} = {side**2}"),
        ("tokens, with the class token", f"{side**2 + 1} vectors of {config.dim}"),
    ]
    return Table([{"": name, "size": size} for name, size in rows])


def the_patches(number: int = 5) -> Images:
    """The image, and the same cut up. Each of the small squares is one word of the sentence; it is read line by
    line, from the upper left to the lower right."""
    image, side = shapes("test", 30).read(number), regard.load("shapes").model.config.patch_size
    count = len(image) // side
    patches = image.reshape(count, side, count, side, 3).swapaxes(1, 2)  # (rows, columns, 4, 4, 3)
    frame = [(0, 0), (0, 0), (1, 0), (1, 0), (0, 0)]  # a grey line above and before each patch
    apart = np.pad(patches, frame, constant_values=150).swapaxes(1, 2).reshape(count * (side + 1), -1, 3)
    return Images({"the image": image, f"in {count**2} patches": apart})


def where_the_class_token_looks(number: int = 5) -> Overlay:
    """The *rollout*: the attention of all blocks multiplied through, from the class token down to the
    patches. The patches that keep their colours are those that the answer was read from; they lie on the shape."""
    return regard.load("shapes").recognise(shapes("test", 30).read(number)).overlay()


def what_it_says(number: int = 5) -> Table:
    """What the model recognises, with the probabilities it gives."""
    answer = regard.load("shapes").recognise(shapes("test", 30).read(number))
    return Table(
        [{"class": name, "percent": round(100 * share, 1)} for name, share in answer.probabilities.items()],
        digits=1,
    )
