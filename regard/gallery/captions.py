r"""Captions, word by word

A captioner looks at an image anew for every word it writes: at `red` and `circle` it looks at the circle, at
`above` between two shapes. Its memory is a grid of places in the image, and the decoder's state asks it, as
in a translator. A gate $\beta$ says how much of what was read counts for this word.

$$c_t = \beta_t \sum_i a_{ti} v_i, \quad \beta_t = \sigma(w \cdot s_t)$$

Two such models come with the package. `scenes` was trained on generated scenes of coloured shapes, knows nothing
else, and is nearly always right. `photos` is small and was trained on 6,000 photographs for four minutes: what it
says is often wrong, and where it looked often tells why.

Try: Move `number` to other scenes. Which words have the smallest gate? With a photograph of your own: `regard
gallery captions --set PHOTO=photo.jpg`.

In the package: The systems `show_attend_tell` (soft and hard) and `show_and_tell` (no attention); `regard
caption photos photo.jpg --show looks.html`; `results/captions.md`, also with larger models, hard attention and
none."""

from __future__ import annotations

import json
from base64 import b64decode
from importlib.resources import files
from io import BytesIO

import numpy as np
from PIL import Image

import regard
from regard.attention import Hard
from regard.data.made.scenes import scenes
from regard.metrics.captions import cider
from regard.show import Entry, Looks, Sheet

CAPTIONER = "photos"  # a run that captions photographs
PHOTO = ""  # an image file; empty: photographs that come with it
SLIDERS = {"number": (0, 29), "photo": (0, 4)}
COLOURS = ["red", "blue", "green", "yellow", "white"]
# Of each photograph that comes with `photos`: two good captions, and how good that of the model was found.
JUDGED = [
    (["a raccoon sits among green leaves", "a grey and black raccoon in the grass looks up"], "related"),
    (["a woman in an orange space suit before a flag", "an astronaut beside a model of a shuttle"], "related"),
    (["a brown cat looks into the camera", "the face of a tabby cat with green eyes"], "related"),
    (["a cup of coffee with a spoon on a wooden table", "a red saucer under a cup of espresso"], "unrelated"),
    (["a man looks through a camera on a tripod", "a photographer in a long coat on a field"], "unrelated"),
]


def image_of(number: int) -> np.ndarray:
    """A scene that the model has never seen."""
    return scenes("test", 30).images.read(number)


def word_by_word(number: int = 10) -> Looks:
    """A panel for each word: the places it looked at keep their colours; the number is the gate. Look at the nouns:
    the colour lies on the shape they name. Words such as `a` look anywhere, and their gates are smaller."""
    return regard.load("scenes").caption(image_of(number)).attention


def soft_and_hard(number: int = 10) -> Looks:
    """The same model looking softly, and looking hard: one place for each word and nothing else. This one was
    trained softly; a model can also be trained to look hard, by rewarding good places (`weigh = "hard"`)."""
    image = image_of(number)
    soft, hard = regard.load("scenes"), regard.load("scenes")
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
    which words and phrases it shares with captions that people wrote, and the rare ones count most; 1000 is the
    very same caption. Look at the score below each of the four: it falls in this order."""
    made, answers = scenes("test", 30), four_captions(number)
    image, wanted = made.images.read(number), list(made.captions[number])
    # What is rare is counted over all scenes.
    every = [*answers.values(), *(each[0] for each in made.captions)]
    _, scores = cider(every, [wanted] * 4 + list(made.captions))
    rows = zip(answers.items(), scores[:4], strict=True)
    return Sheet([Entry(image, text, wanted, score, grade) for (grade, text), score in rows])


def photograph(number: int) -> np.ndarray:
    """One of five that come with `photos`, which has never seen them; or `PHOTO`, if that is named."""
    if PHOTO:
        return np.asarray(Image.open(PHOTO).convert("RGB"))
    examples = json.loads((files("regard") / "shipped/photos/examples.json").read_text())["inputs"]
    return np.asarray(Image.open(BytesIO(b64decode(examples[number].partition(",")[2]))))


def a_photograph(photo: int = 1) -> Looks:
    """Now a photograph: a woman in the orange suit of an astronaut, before a flag. Where does the model look when
    it first writes `red`? At the suit. It sees an image of 80 by 80 pixels, calls her a man, and says what is
    likely in photographs with a person and something red."""
    return regard.load(CAPTIONER).caption(photograph(photo)).attention


def photographs_graded() -> Sheet:
    """Five photographs, graded by hand in the same way: three captions are related, two are not, and none is right
    or nearly so. The score stands below each, but it counts what is rare over these five alone, and is rough. Look
    at the mistakes: in the photographs that it learned from, what is black, white and on grass is a dog, so a
    raccoon must be one."""
    shown, run = [photograph(number) for number in range(len(JUDGED))], regard.load(CAPTIONER)
    answers, wanted = [answer.text for answer in run.caption(shown)], [texts for texts, _ in JUDGED]
    _, scores = cider(answers, wanted)
    rows = zip(shown, answers, JUDGED, scores, strict=True)
    return Sheet([Entry(image, text, texts, score, grade) for image, text, (texts, grade), score in rows])
