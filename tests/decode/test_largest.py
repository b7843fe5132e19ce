"""What a search asks of long rows: the largest, by way of the largest of chunks, and the sum of exponentials."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.decode.largest import CHUNK, largest, likeliest, log_sum_exp


def rows_of(width: int) -> Tensor:
    torch.manual_seed(0)
    x = torch.randn(8, width)
    x[1] = -torch.inf
    x[2, -1] = 100  # behind the last whole chunk, or in it
    x[3, width // 2] = torch.nan
    x[4, :-5] = -torch.inf
    return x


@pytest.mark.parametrize("width", [99, 5 * CHUNK, 40 * CHUNK, 80 * CHUNK + 37, 400 * CHUNK])
@pytest.mark.parametrize("k", [1, 2, 10])
@pytest.mark.parametrize("beams", [1, 2, 4])
def test_they_are_those_of_topk(width: int, k: int, beams: int) -> None:
    x = rows_of(width).unflatten(0, (-1, beams))
    shift = torch.randn(x.shape[:2])
    values, of, places = largest(x, shift, k)
    whole = x + shift[..., None]
    torch.testing.assert_close(values, whole.flatten(1).topk(k).values, equal_nan=True)
    torch.testing.assert_close(whole[torch.arange(len(x))[:, None], of, places], values, equal_nan=True)
    chosen = (of * width + places).tolist()
    assert all(len(set(row)) == k for row in chosen)


def test_of_equal_numbers_the_first_is_taken() -> None:
    x = torch.zeros(3, 30 * CHUNK)
    x[0, 70] = x[0, 1234] = x[0, 2500] = 1
    x[1, 1234] = x[1, 2500] = 1
    assert likeliest(x)[1].tolist() == x.max(-1).indices.tolist() == [70, 1234, 0]


@pytest.mark.parametrize("width", [1, 99, 8000])
def test_the_likeliest_is_that_of_max(width: int) -> None:
    x = rows_of(width)
    values, places = likeliest(x)
    torch.testing.assert_close(values, x.max(-1).values, equal_nan=True)
    assert places.tolist() == x.max(-1).indices.tolist()


@pytest.mark.parametrize("shift", [0.0, 200.0, -200.0, torch.inf, -torch.inf, torch.nan])
def test_the_sum_of_exponentials_is_exact_for_every_row(shift: float) -> None:
    x = torch.randn(5, 8000)
    x[2] += shift
    before = x.clone()
    torch.testing.assert_close(log_sum_exp(x), x.logsumexp(-1), equal_nan=True, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(x, before, equal_nan=True)
