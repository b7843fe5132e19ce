"""The pictures of the docs, drawn by regard from the runs it ships: python docs/pictures.py [FOLDER]"""

import sys
from pathlib import Path

import numpy as np
import torch

import regard
from regard.data.made.glyphs import glyphs
from regard.data.made.scenes import scenes
from regard.data.made.shapes import shapes
from regard.layers.positions import sinusoids
from regard.show import Line, Looks, barcode


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    translated = regard.load("de-en").translate("Ich habe meinen Schlüssel im Auto vergessen.")
    translated.attention.save(folder / "translate.svg")
    translated.heads("decoder.*.cross").save(folder / "heads.svg")
    written = regard.load("shakespeare").generate("ROMEO:\nWhat", max_tokens=24)
    written.attention.save(folder / "generate.svg")
    recognised = regard.load("shapes").recognise(shapes("test", 6).pixels[5])
    recognised.overlay().save(folder / "recognise.svg")
    captioned = regard.load("scenes").caption(scenes("test", 11).images.read(10))
    captioned.attention.save(folder / "caption.svg")
    looks().save(folder / "looks.svg")
    signs = glyphs("test", 5, examples=2).pixels
    examples = {name: signs[2 * number] for number, name in enumerate("abcde")}
    regard.load("omniglot").fewshot(signs[5], examples).examples().save(folder / "fewshot.svg")
    regard.load("copy").recall(length=20).picture().save(folder / "tape.svg")
    regard.load("shapes-senet").class_gates().save(folder / "gates.svg")
    barcode(sinusoids(torch.arange(100), 64).numpy()).save(folder / "barcode.svg")


def looks() -> Looks:
    """A generated scene and its caption: the words of a shape look at its pixels, the others at the whole image."""
    made = scenes("test", 2)
    words, image = made.captions[1][0].split(), made.images.read(1)
    assert made.objects is not None
    soft = np.full((len(words), 8, 8), 1 / 64)
    for named in made.objects[1]:
        part = named.mask.reshape(8, len(image) // 8, 8, -1).mean((1, 3)) + 0.01
        soft[named.word - 1 : named.word + 1] = part / part.sum()  # its colour and its noun
    hard = np.eye(64)[soft.reshape(len(words), 64).argmax(1)].reshape(soft.shape)
    gates = np.where(soft.max((1, 2)) > 1 / 64, 0.9, 0.2)
    both = {"soft": Looks(image, [Line(words, soft, gates)]), "hard": Looks(image, [Line(words, hard)])}
    return Looks.together(both).scaled(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
