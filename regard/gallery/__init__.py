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
}
