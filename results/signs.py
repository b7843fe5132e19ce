"""Drawings of five signs, with ink and grounds as people have them: how many does a few-shot run tell apart?

    python results/signs.py [RUN...]

An episode has one drawing of each sign and asks for two others of each; a drawing is a function of the seed."""

from __future__ import annotations

import math
import random
import sys

from PIL import Image, ImageDraw

import regard

SIDE, EPISODES = 112, 20
STROKES = {
    "circle": [[(math.cos(t * math.pi / 10), math.sin(t * math.pi / 10)) for t in range(21)]],
    "line": [[(-1, -0.2), (1, 0.2)]],
    "rectangle": [[(-1, -0.7), (1, -0.7), (1, 0.7), (-1, 0.7), (-1, -0.7)]],
    "cross": [[(-1, 0), (1, 0)], [(0, -1), (0, 1)]],
    "triangle": [[(0, -1), (1, 0.8), (-1, 0.8), (0, -1)]],
}
INKS = {  # on which ground
    "white on black": ("white", "black"),
    "black on white": ("black", "white"),
    "blue on white": ("#141eb4", "white"),
    "grey pencil on cream": ("#5a5a5a", "#faf5e1"),
    "yellow on green": ("#f0dc3c", "#145a1e"),
}


def drawn(sign: str, ink: str, ground: str, width: int, draw: random.Random) -> Image.Image:
    """Somewhere near the middle, of some size, a little turned."""
    image = Image.new("RGB", (SIDE, SIDE), ground)
    x, y = (SIDE / 2 + draw.uniform(-8, 8) for _ in "xy")
    size, turn = draw.uniform(24, 38), draw.uniform(-0.2, 0.2)
    for stroke in STROKES[sign]:
        places = [complex(*place) * complex(math.cos(turn), math.sin(turn)) * size for place in stroke]
        line = [(x + place.real, y + place.imag) for place in places]
        ImageDraw.Draw(image).line(line, fill=ink, width=width, joint="curve")
    return image.resize((SIDE // 2, SIDE // 2))


def share_right(run: regard.FewShot, ink: str, ground: str) -> float:
    draw, asked, right = random.Random(0), [*STROKES] * 2, 0
    for _ in range(EPISODES):
        width = draw.choice((5, 7, 9))
        support = run.learn({sign: [drawn(sign, ink, ground, width, draw)] for sign in STROKES})
        told = run.fewshot([drawn(sign, ink, ground, width, draw) for sign in asked], support)
        right += sum(answer.label == sign for answer, sign in zip(told, asked, strict=True))
    return right / (EPISODES * len(asked))


if __name__ == "__main__":
    for name in sys.argv[1:] or ["omniglot"]:
        for inks, (ink, ground) in INKS.items():
            print(f"{name}\t{inks}\t{100 * share_right(regard.load(name), ink, ground):.1f}")
