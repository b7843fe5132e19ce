"""Files of word vectors: word2vec's, GloVe's and fastText's."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from regard.data.text.word_vectors import read_vectors
from regard.errors import DataError

WORDS = {"good", "bad", "new york", "7"}


def found(path: Path, size: int = 2) -> dict[str, list[float]]:
    return {word: vector.tolist() for word, vector in read_vectors(str(path), WORDS, size)}


def test_glove_and_word2vec_are_told_apart_by_their_first_line(tmp_path: Path) -> None:
    lines = "good 1 2.5\nother 0 0\nnew york -1 1e-3\n7 3 4"
    for name, header in (("glove.txt", ""), ("word2vec.txt", "4 2\n")):
        (tmp_path / name).write_text(header + lines + "\n")
        assert found(tmp_path / name) == {
            "good": [1, 2.5],
            "new york": [-1, pytest.approx(0.001)],
            "7": [3, 4],
        }
    (tmp_path / "one.txt").write_text("7 3\n")  # a vector of one number is no header
    assert found(tmp_path / "one.txt", 1) == {"7": [3]}


def test_compressed_with_spaces_at_the_end_of_lines(tmp_path: Path) -> None:
    (tmp_path / "fasttext.vec.gz").write_bytes(gzip.compress(b"2 2\nbad 1 2 \ngood 3 4 \n"))
    vectors = list(read_vectors(str(tmp_path / "fasttext.vec.gz"), WORDS, 2))
    assert [word for word, _ in vectors] == ["bad", "good"]
    assert vectors[0][1].dtype == np.float32


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("good 1 2 3\n", r"line 1: wants a word and 2 numbers, as model.embed says, and has 3"),
        ("good 1 2\nbad 1\n", r"line 2: wants a word and 2 numbers, as model.embed says, and has 1"),
        ("good 1 x\n", r"line 1: not a number among them"),
        ("good 1 nan\n", r"line 1: has a number that is not finite"),
    ],
)
def test_lines_that_cannot_be_read_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(text)
    with pytest.raises(DataError, match=said):
        found(tmp_path / "vectors.txt")
