"""The five tasks of the Neural Turing Machine's paper as batches of bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data.made.sequences import SEQUENCES, SHAPES, BitData, NGrams, Size, sequences_of
from regard.errors import BadInput


def rows(part: torch.Tensor) -> list[list[int]]:
    return part.int().tolist()


def test_copy_wants_the_vectors_again_behind_the_delimiter() -> None:
    batch = sequences_of("copy-bits", 2).read("01 11 10")
    assert rows(batch.inputs[0]) == [[0, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert batch.mask[0].tolist() == [False] * 4 + [True] * 3
    assert rows(batch.targets[0, 4:]) == [[0, 1], [1, 1], [1, 0]]


def test_repeat_copy_wants_as_many_copies_as_it_says_and_an_end_marker() -> None:
    batch = sequences_of("repeat-copy", 2).read("01 11 x2")
    assert rows(batch.targets[0, 3:]) == [[0, 1, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert batch.mask[0].sum() == 5
    assert batch.inputs[0, 2, 2] == 1, "the delimiter"
    assert batch.inputs[0, 2, 3] == pytest.approx((2 - 5.5) / 2.8723, abs=1e-4)


def test_recall_wants_the_item_behind_the_one_that_is_shown_again() -> None:
    batch = sequences_of("associative-recall", 1).read("0 0 1 / 1 1 0 / 0 1 0 ? 1 1 0")
    assert rows(batch.inputs[0, :, 0:1].T) == [[0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0]]
    assert batch.inputs[0, :, 1].nonzero().flatten().tolist() == [0, 4, 8]
    assert batch.inputs[0, :, 2].nonzero().flatten().tolist() == [12, 16]
    assert batch.mask[0].nonzero().flatten().tolist() == [17, 18, 19]
    assert rows(batch.targets[0, 17:]) == [[0], [1], [0]]


def test_sorting_wants_the_highest_priorities_first() -> None:
    batch = sequences_of("priority-sort", 2).read("00:0.1 01:-0.5 10:1 11:0.2 11:-1")
    assert rows(batch.targets[0, 6:]) == [[1, 0], [1, 1], [0, 0], [0, 1]]
    assert batch.inputs[0, :, 3].tolist() == pytest.approx([0.1, -0.5, 1, 0.2, -1, 0, 0, 0, 0, 0])


def test_ngrams_want_the_next_bit_where_five_are_known() -> None:
    batch = NGrams().read("0110 1001")
    assert rows(batch.inputs[0].T) == [[0, 1, 1, 0, 1, 0, 0]]
    assert rows(batch.targets[0].T) == [[1, 1, 0, 1, 0, 0, 1]]
    assert batch.mask[0].tolist() == [False] * 4 + [True] * 3


def test_ngrams_follow_the_bits_before_them() -> None:
    """What follows a context is mostly the same in one sequence: Beta(1/2, 1/2) is largest at 0 and 1."""
    bits = NGrams().draw(np.random.default_rng(0), 50, Size(400)).inputs[..., 0].numpy().astype(int)
    windows = np.lib.stride_tricks.sliding_window_view(bits, 6, axis=1)
    places = windows[..., :5] @ (1 << np.arange(5))
    ones = np.array([windows[row, places[row] == place, 5].sum() for row in range(50) for place in range(32)])
    seen = np.array([(places[row] == place).sum() for row in range(50) for place in range(32)])
    assert 0.1 < np.minimum(ones, seen - ones).sum() / seen.sum() < 0.19, (
        "E[min(p, 1 - p)] is 0.18; of fair bits 0.5"
    )


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_drawn_sequence_is_written_and_read_again(name: str) -> None:
    kind = sequences_of(name)
    for length in sorted({*kind.lengths, 6}):
        size = Size(length, kind.repeats[1])
        batch = kind.draw(np.random.default_rng(3), 2, size)
        assert batch.inputs.shape == (2, kind.steps(size), kind.inputs)
        assert batch.targets.shape == (2, kind.steps(size), kind.outputs)
        one = batch.each(lambda x: x[1:])
        again = kind.read(kind.write(one))
        torch.testing.assert_close(again.inputs, one.inputs, atol=6e-4, rtol=0)
        torch.testing.assert_close(again.targets, one.targets)
        torch.testing.assert_close(again.mask, one.mask)
    assert kind.write(kind.read(kind.example.strip('"'))) == kind.example.strip('"')


@pytest.mark.parametrize("name", SEQUENCES)
def test_training_batches_follow_from_their_numbers_and_have_few_shapes(name: str) -> None:
    kind = sequences_of(name)
    data = BitData(kind, 2, 5, lengths=kind.lengths, repeats=kind.repeats)
    first, again, other = data.batch((0, 3)), data.batch((0, 3)), data.batch((1, 3))
    assert torch.equal(first.inputs, again.inputs)
    assert first.inputs.shape != other.inputs.shape or not torch.equal(first.inputs, other.inputs)
    batches = [data.batch(item) for item in list(data.order(0))[:200]]
    assert len({batch.inputs.shape for batch in batches}) <= SHAPES
    for batch in batches:
        assert batch.mask.any(1).all()
        assert not batch.targets[~batch.mask].any() or name == "n-gram"


def test_a_curriculum_begins_with_short_sequences() -> None:
    kind = sequences_of("copy-bits")
    data = BitData(kind, 1, 0, lengths=(1, 20), repeats=(1, 1), curriculum_steps=100)
    lengths = [int(data.batch((0, step)).mask.sum()) for step in range(300)]
    assert max(lengths[:10]) <= 3
    assert max(lengths[:50]) <= 11
    assert set(lengths[100:]) == set(range(1, 21))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("copy-bits", "", "give 1 to 1,000 vectors of 8 bits, got 0"),
        ("copy-bits", "0101", "a vector must be 8 of the digits 0 and 1, got '0101'"),
        ("copy-bits", "0000000x", "got '0000000x'"),
        ("repeat-copy", "01010101", "end with the number of copies"),
        ("repeat-copy", "01010101 x0", "end with the number of copies, 1 to 1000"),
        ("associative-recall", "000000 000001 000011 ? 000000 000001 000011", "must be one of those before it"),
        ("associative-recall", "000000 000001", "an item has 3 vectors of 6 bits, got '000000 000001'"),
        ("n-gram", "01010", "at least 6 bits, got 5"),
        ("priority-sort", "01010101", "every vector needs a priority"),
        ("priority-sort", "01010101:2", "a priority from -1 to 1"),
        ("priority-sort", "01010101:nan", "a priority from -1 to 1"),
    ],
)
def test_what_is_no_sequence_is_refused(name: str, text: str, told: str) -> None:
    with pytest.raises(BadInput) as error:
        sequences_of(name).read(text)
    assert told in str(error.value)
