"""The largest numbers of rows, by way of the largest of chunks."""

from __future__ import annotations

import pytest
import torch

from regard.decode.largest import CHUNK, largest


@pytest.mark.parametrize("width", [99, 5 * CHUNK, 40 * CHUNK, 80 * CHUNK + 37, 400 * CHUNK])
@pytest.mark.parametrize("k", [1, 2, 10])
def test_they_are_those_of_topk(width: int, k: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, width)
    x[1] = -torch.inf
    x[2, -1] = 100  # behind the last whole chunk, or in it
    x[3, width // 2] = torch.nan
    x[4, :-5] = -torch.inf
    values, places = largest(x, k)
    torch.testing.assert_close(values, x.topk(k).values, equal_nan=True)
    torch.testing.assert_close(x.gather(1, places), values, equal_nan=True)
    assert all(len(set(row)) == k for row in places.tolist())


def test_of_equal_numbers_the_first_is_taken() -> None:
    x = torch.zeros(3, 30 * CHUNK)
    x[0, 70] = x[0, 1234] = x[0, 2500] = 1
    x[1, 1234] = x[1, 2500] = 1
    assert largest(x, 1)[1][:, 0].tolist() == x.max(-1).indices.tolist() == [70, 1234, 0]
