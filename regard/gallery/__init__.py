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
    "scores": 60,
    "positions": 21,
    "masking": 2,
    "bottleneck": 52,
    "alignment": 23,
    "transformer": 5,
    "bert-input": 1,
    "heads": 25,
    "norms": 5,
    "lstmn": 6,
    "han": 1,
    "captions": 1,
    "excitation": 3,
    "turing": 3,
    "patches": 1,
    "fewshot": 1,
    "agent": 30,
    "elmo": 20,
    "slides": 1,
}


def module_of(name: str) -> str:
    """The file of an example: bert-input is in bert_input.py."""
    return name.replace("-", "_")
