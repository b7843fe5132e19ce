"""Which words of a scene's caption look at which shape?

    python results/scenes.py RUN...        # 20 seconds on a core for each run; the shipped one is `scenes`

For the captions of 1,000 unseen generated scenes: how often the place with the most weight lies on the shape that a
word belongs to (of "left of" and "above", the shape before), on the next one, and on none; and how far the gate is
open."""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np

import regard
from regard.data.made.scenes import COLOURS, scenes
from regard.data.made.shapes import CLASSES
from regard.metrics.pointing import near_object
from regard.tasks.caption.run import BATCH


def kind_of(word: str) -> str:
    return "colour" if word in COLOURS else "shape" if word in CLASSES else word


def main(run: str) -> None:
    captioner, made = regard.load(run, task="caption"), scenes("test", 1000)
    assert made.objects is not None
    rows = defaultdict(list)
    for first in range(0, len(made), BATCH):
        part = range(first, min(first + BATCH, len(made)))
        captions = [made.captions[row][0].split() for row in part]
        images = captioner.read([made.images.read(row) for row in part])
        texts = [captioner.tokenizer.encode_words(made.captions[row][0])[0] for row in part]
        looks, gates = captioner.looks(images, texts)
        assert gates is not None
        for row, words, seen, gate in zip(part, captions, looks, gates, strict=True):
            nouns = made.objects[row]
            for at, word in enumerate(words):
                hits = [near_object(seen[at], noun.mask, cells=0) for noun in nouns]
                own = max(0, sum(noun.word < at for noun in nouns) - (word in ("left", "of", "above")))
                after = hits[own + 1] if own + 1 < len(nouns) else False
                rows[kind_of(word)].append((hits[own], after, not any(hits), gate[at]))
    print(f"{run}\n\n| word | its shape, % | the next, % | none, % | gate |\n|---|---|---|---|---|")
    for kind, values in rows.items():
        own, after, none, gate = np.mean(values, 0)
        print(f"| {kind} | {100 * own:.1f} | {100 * after:.1f} | {100 * none:.1f} | {gate:.2f} |")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["scenes"]:
        main(name)
