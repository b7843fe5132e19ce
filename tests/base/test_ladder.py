"""Sizes rounded up to a few."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from regard.base.ladder import enlarge, ladder, round_rows, round_up
from regard.data.batches.batch import draw_batches


@pytest.mark.parametrize("ratio", [1.1, 1.5, 2.0])
def test_each_size_is_about_so_many_times_the_one_before(ratio):
    sizes = ladder(ratio)
    assert sizes[:2] == (1, 2)
    assert all(after == before + 1 or after / before <= ratio for before, after in pairwise(sizes))
    assert sizes[-1] / sizes[-2] == pytest.approx(ratio, rel=1e-3)
    assert [round_up(size, ratio) for size in sizes[:30]] == list(sizes[:30])


def test_a_size_is_rounded_up_to_the_next():
    assert [round_up(size, 2) for size in (1, 2, 3, 9, 16, 17)] == [1, 2, 4, 16, 16, 32]
    assert round_up(17, 2, most=20) == 20


def test_full_batches_of_one_rounded_length_have_one_number_of_rows():
    lengths = np.random.default_rng(0).integers(1, 400, 3000)
    shapes = {}
    for item in draw_batches(lengths, batch_tokens=1000, generator=np.random.default_rng(1)):
        longest = int(lengths[item].max())
        rows = round_rows(len(item), longest, 1.2, 1000)
        assert rows >= len(item)
        shapes.setdefault(round_up(longest, 1.2), []).append(rows)
    assert sum(len(set(found)) > 1 for found in shapes.values()) <= 2  # the last batch, and the few short rows
    assert len(shapes) < 30


def test_a_batch_that_is_not_half_full_has_a_power_of_two():
    assert round_rows(51, 10, 2.0, 900) == 100  # 9 to 16 tokens: 100 rows at most
    assert [round_rows(rows, 10, 2.0, 900) for rows in (1, 3, 33, 50, 101)] == [1, 4, 64, 64, 128]
    assert round_rows(1, 5000, 1.15, 900) == 1


def test_zeros_come_behind_the_end():
    assert enlarge(torch.ones(2, 1), 3, 2).tolist() == [[1, 0], [1, 0], [0, 0]]
    assert enlarge(torch.tensor([True]), 2).tolist() == [True, False]
