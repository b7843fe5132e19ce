r"""Captions, word by word

A captioner looks at an image anew for every word it writes: at `red` and `circle` it looks at the circle, at
`above` between two shapes. Its memory is a grid of places in the image, and the decoder's state asks it, as
in a translator. A gate $\beta$ says how much of what was read counts for this word.

$$c_t = \beta_t \sum_i a_{ti} v_i, \quad \beta_t = \sigma(w \cdot s_t)$$

The model shown here comes with the package; it was trained on generated scenes of coloured shapes, and knows
nothing else. One of photographs is trained by `regard train flickr8k-show-attend-tell`, on a GPU: on 1,000
photographs that it has never seen, its captions reach a CIDEr of 39.3, with hard attention 36.2, and without
attention 28.7. The licence of those photographs does not let us show them here; with a captioner and a photograph
of your own this page does.

Try: Move `number` to other scenes. Which words have the smallest gate? With a photograph: `regard gallery captions
--set CAPTIONER=RUN --set PHOTO=photo.jpg`.

In the package: The systems `show_attend_tell` (soft and hard) and `show_and_tell` (no attention); `regard
caption scenes drawing.png --show looks.html`; `results/captions.md`, also for photographs (Flickr8k)."""

from __future__ import annotations

import numpy as np
from PIL import Image

import regard
from regard.attention import Hard
from regard.data.made.scenes import scenes
from regard.metrics.captions import cider
from regard.show import Entry, Looks, Sheet

CAPTIONER = "scenes"  # a run
PHOTO = ""  # an image file; empty: a generated scene
SLIDERS = {"number": (0, 29)}
COLOURS = ["red", "blue", "green", "yellow", "white"]


def image_of(number: int) -> np.ndarray:
    """The photograph, if one is named, else a scene that the model has never seen."""
    return np.asarray(Image.open(PHOTO).convert("RGB")) if PHOTO else scenes("test", 30).images.read(number)


def word_by_word(number: int = 10) -> Looks:
    """A panel for each word: the places it looked at keep their colours; the number is the gate. Look at the nouns:
    the colour lies on the shape they name. Words such as `a` look anywhere, and their gates are smaller."""
    return regard.load(CAPTIONER).caption(image_of(number)).attention


def soft_and_hard(number: int = 10) -> Looks:
    """The same model looking softly, and looking hard: one place for each word and nothing else. This one was
    trained softly; a model can also be trained to look hard, by rewarding good places (`weigh = "hard"`)."""
    image = image_of(number)
    soft, hard = regard.load(CAPTIONER), regard.load(CAPTIONER)
    for part in hard.model.modules():
        if hasattr(part, "weigh"):
            part.weigh = Hard().eval()
    return Looks.together({"soft": soft.caption(image).attention, "hard": hard.caption(image).attention})


def four_captions(number: int) -> dict[str, str]:
    """Of one scene: the model's own caption, the same with another colour, that of another scene with the same
    shape, and one about something else."""
    made = scenes("test", 30)
    own = regard.load("scenes").caption(made.images.read(number)).text
    colour = next(word for word in own.split() if word in COLOURS)
    other = next(name for name in COLOURS if name not in own)
    elsewhere = [each[0] for each in made.captions if each != made.captions[number]]
    related = next((text for text in elsewhere if own.split()[2] in text.split()), elsewhere[0])
    answers = [own, own.replace(colour, other, 1), related, "two dogs in the snow"]
    return dict(zip(("right", "minor errors", "related", "unrelated"), answers, strict=True))


def graded(number: int = 10) -> Sheet:
    """How good is a caption? People grade it right, with minor errors, related, or unrelated. CIDEr counts
    which words and phrases it shares with captions that people wrote, and the rare ones count most. Look at the
    score below each of the four: it falls in this order."""
    made, answers = scenes("test", 30), four_captions(number)
    image, wanted = made.images.read(number), list(made.captions[number])
    # What is rare is counted over all scenes.
    every = [*answers.values(), *(each[0] for each in made.captions)]
    _, scores = cider(every, [wanted] * 4 + list(made.captions))
    rows = zip(answers.items(), scores[:4], strict=True)
    return Sheet([Entry(image, text, wanted, score, grade) for (grade, text), score in rows])
