"""Thick strokes: how many of scikit-learn's digits (8 x 8 pixels, enlarged) does a few-shot run tell apart?

    python results/digits.py .../sklearn/datasets/data/digits.csv.gz [RUN...]

An episode has an example of each of five digits and asks for two others of each; beside it the nearest example by
its pixels. The file comes with `pip install scikit-learn` (handwritten digits of E. Alpaydin and C. Kaynak)."""

from __future__ import annotations

import random
import sys

import numpy as np
from PIL import Image

import regard

EPISODES, WAYS, ASKED = 400, 5, 2


def nearest(examples: np.ndarray, asked: np.ndarray) -> list[int]:
    return [int(((examples - image) ** 2).sum((1, 2)).argmin()) for image in asked.astype(float)]


def share_right(run: regard.FewShot | None, images: np.ndarray, labels: np.ndarray) -> float:
    """Without a run: of the nearest example."""
    draw, right, total = random.Random(0), 0, 0
    for _ in range(EPISODES):
        chosen = draw.sample(range(10), WAYS)
        places = [draw.sample(np.flatnonzero(labels == digit).tolist(), 1 + ASKED) for digit in chosen]
        examples, asked = [own[0] for own in places], [place for own in places for place in own[1:]]
        if run is None:
            told = [chosen[number] for number in nearest(images[examples].astype(float), images[asked])]
        else:
            support = run.learn({str(labels[place]): [Image.fromarray(images[place])] for place in examples})
            told = [
                int(answer.label) for answer in run.fewshot([Image.fromarray(images[p]) for p in asked], support)
            ]
        right += int((np.array(told) == labels[asked]).sum())
        total += len(asked)
    return right / total


if __name__ == "__main__":
    table = np.loadtxt(sys.argv[1], delimiter=",")
    images, labels = (table[:, :64] * 255 / 16).astype(np.uint8).reshape(-1, 8, 8), table[:, 64].astype(int)
    print(f"the nearest by its pixels\t{100 * share_right(None, images, labels):.1f}")
    for name in sys.argv[2:] or ["omniglot"]:
        print(f"{name}\t{100 * share_right(regard.load(name), images, labels):.1f}", flush=True)
