"""Word vectors as text: a word and its numbers on each line, with spaces between them.

This is the form of word2vec, GloVe and fastText. word2vec and fastText begin with a line of two numbers: how many
words there are, and how many numbers each has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from regard.base.files import find_data
from regard.base.lines import open_lines
from regard.errors import DataError


def read_vectors(name: str, words: Collection[str], size: int) -> Iterator[tuple[str, np.ndarray]]:
    """The vectors (size,) of those of the words that the file has, in its order. DataError where a line has other
    than `size` numbers."""
    path = find_data(name)
    for number, line in open_lines(path):
        word, *numbers = line.rstrip().split(" ")
        if number == 1 and len(numbers) == 1 != size and word.isdigit():  # how many words, and numbers of each
            continue
        if len(numbers) < size or (len(numbers) > size and number == 1):
            raise DataError(
                f"{path}, line {number}: wants a word and {size} numbers, as model.embed says, and has "
                f"{len(numbers)} numbers; take other vectors or set model.embed"
            )
        if len(numbers) > size:  # GloVe has a few words with spaces in them
            word, numbers = " ".join([word, *numbers[:-size]]), numbers[-size:]
        if word in words:
            yield word, _vector(numbers, f"{path}, line {number}")


def _vector(numbers: list[str], where: str) -> np.ndarray:
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where}: not a number among them: {error}") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: has a number that is not finite")
    return vector
