"""Small data of one's own for every task that learns from some, as files and as rows in memory, each with a recipe
of two tiny steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

TRAIN = {"steps": 2, "eval_every": 2, "learning_rate": 0.01, "device": "cpu"}
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "the",
    "mat",
    "and",
    "the",
    "dog",
    "lay",
    "by",
    "the",
    "door",
    "of",
    "an",
    "old",
    "house",
]
RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "translate": {
        "data": {"batch_tokens": 256, "eval_pairs": 4},
        "tokens": {"kind": "character"},
        "model": {"name": "bahdanau", "embed": 4, "encoder": 4, "decoder": 8, "readout": 4, "max_positions": 64},
        "decode": {"max_length": 8},
    },
    "classify": {
        "data": {"batch_tokens": 256},
        "tokens": {"kind": "word", "size": 40},
        "model": {"name": "pooling", "embed": 4, "dim": 4},
    },
    "generate": {
        "data": {"documents": "line", "batch_tokens": 256, "length": 16},
        "tokens": {"kind": "character"},
        "model": {"name": "gpt2", "dim": 8, "layers": 1, "heads": 2, "max_positions": 16},
    },
    "fill": {
        "data": {"documents": "line", "batch_tokens": 256, "length": 16},
        "tokens": {"kind": "wordpiece", "size": 80},
        "model": {"name": "bert", "dim": 8, "layers": 1, "heads": 2, "max_positions": 32, "head": "masked"},
    },
    "embed": {
        "data": {"batch_tokens": 128},
        "tokens": {"kind": "word", "size": 40},
        "model": {
            "name": "elmo", "head": "predict", "character_dim": 4, "widths": [1, 2], "filters": [4, 4], "dim": 4,
            "cell": 8,
        },
    },
    "recognise": {
        "data": {"batch_size": 8, "crop": 0},
        "model": {"name": "vit", "image_size": 8, "patch_size": 4, "dim": 8, "layers": 1, "heads": 2},
    },
    "caption": {
        "data": {"batch_size": 8, "eval_images": 2, "crop": 0},
        "tokens": {"kind": "word", "size": 40},
        "model": {
            "name": "show_and_tell", "image_size": 16, "depths": [1, 1], "widths": [4, 8], "embed": 4, "decoder": 8,
        },
        "decode": {"max_length": 8},
    },
    "fewshot": {
        "data": {"batch_size": 2, "valid_episodes": 4, "test_episodes": 4},
        "model": {
            "name": "snail", "ways": 2, "shots": 1, "image_size": 16, "channels": 1, "conv_filters": 4, "embed": 8,
            "keys": [8, 8], "values": [8, 8], "tc_filters": 4,
        },
    },
}  # fmt: skip


def recipe(task: str) -> dict[str, dict[str, Any]]:
    return {**RECIPES[task], "data": dict(RECIPES[task]["data"]), "train": dict(TRAIN)}


def sentence(number: int) -> str:
    draw = np.random.default_rng(number)
    return " ".join(draw.choice(WORDS, 6)) + f" {number % 7}"


def picture(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (12, 12, 3)).astype(np.uint8)


# ---- as files, in the current folder


def pairs(folder: Path) -> str:
    lines = [f"{sentence(at)}\t{sentence(at).upper()}\n" for at in range(60)]
    (folder / "train.tsv").write_text("".join(lines))
    return "train.tsv"


def labelled(folder: Path) -> str:
    lines = [f"{sentence(at)}\t{'abc'[at % 3]}\n" for at in range(60)]
    (folder / "train.tsv").write_text("".join(lines))
    return "train.tsv"


def text(folder: Path, blank_every: int = 0) -> str:
    """A sentence in each line; `blank_every`: after so many, a blank line ends a document."""
    ends = ("\n\n" if blank_every and not at % blank_every else "\n" for at in range(1, 61))
    (folder / "train.txt").write_text("".join(f"{sentence(at)}{end}" for at, end in enumerate(ends)))
    return "train.txt"


def images(folder: Path) -> str:
    for at in range(40):
        path = folder / "images" / "abcd"[at % 4] / f"{at}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(at)).save(path)
    return "images"


def captions(folder: Path) -> str:
    (folder / "photos").mkdir()
    for at in range(30):
        Image.fromarray(picture(at)).save(folder / "photos" / f"{at}.png")
    (folder / "train.tsv").write_text("".join(f"photos/{at}.png\t{sentence(at)}\n" for at in range(30)))
    return "train.tsv"


FILES: dict[str, Callable[[Path], str]] = {
    "translate": pairs,
    "classify": labelled,
    "generate": text,
    "fill": text,
    "embed": text,
    "recognise": images,
    "caption": captions,
    "fewshot": images,
}


# ---- as rows, in the order of the files

BY_CLASS = [(picture(at), "abcd"[at % 4]) for at in sorted(range(40), key=lambda at: ("abcd"[at % 4], f"{at}.png"))]
ROWS: dict[str, list[Any]] = {
    "translate": [(sentence(at), sentence(at).upper()) for at in range(60)],
    "classify": [(sentence(at), "abc"[at % 3]) for at in range(60)],
    "generate": [sentence(at) for at in range(60)],
    "fill": [sentence(at) for at in range(60)],
    "embed": [sentence(at) for at in range(60)],
    "recognise": BY_CLASS,
    "caption": [(picture(at), sentence(at)) for at in range(30)],
    "fewshot": BY_CLASS,
}
