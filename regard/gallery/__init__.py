"""The examples by which attention is taught, each made by this library: `regard gallery`.

An example is one file, `regard/gallery/NAME.py`, a plain script: its docstring is the text of the page, and
each function that returns a picture or a table is shown with its result. `core` makes pages and notebooks of
them."""

from __future__ import annotations

# Each example and about how many seconds it takes on two cores; in the order in which they are best read.
GALLERY = {
    "lookup": 1,
    "apple": 1,
    "cat": 1,
    "scores": 7,
    "positions": 15,
    "masking": 1,
    "bottleneck": 60,
    "alignment": 60,
    "transformer": 15,
    "bert-input": 2,
    "heads": 15,
    "norms": 12,
    "lstmn": 12,
    "han": 1,
    "captions": 3,
    "excitation": 4,
    "turing": 4,
    "patches": 1,
    "fewshot": 2,
    "elmo": 40,
    "slides": 2,
}


def module_of(name: str) -> str:
    """The file of an example: bert-input is in bert_input.py."""
    return name.replace("-", "_")
