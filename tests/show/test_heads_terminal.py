"""Heads as text."""

import re

import numpy as np
import pytest
from rich.cells import cell_len

from regard.show import Heads


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def square(layers, heads, count, **names):
    tokens = [f"t{at}" for at in range(count)]
    panels = {f"blocks.{layer}.attend": weights(heads, count, count, layer) for layer in range(layers)}
    return Heads(panels, tokens, tokens, **names)


def test_the_terminal_sets_heads_side_by_side():
    heads = Heads({"a.0": np.array([np.eye(2), 1 - np.eye(2)])}, ["le", "chat"], "xy", "T")
    assert heads.terminal(colour=False, width=40).splitlines() == [
        "T", "", "a.0", "     0    1   ", "  le ██     ██", "chat   ██ ██  ", "",
        "weight: 0 ░▒▓█ 1",
    ]  # fmt: skip
    assert "ch…" in heads.terminal(colour=False, width=12)  # names shrink in a narrow one
    assert "\x1b[48;2;" in heads.terminal(width=40)


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 40, 100])
@pytest.mark.parametrize("count", [1, 3, 20, 60, 150])
def test_no_line_is_wider_than_asked(colour, width, count):
    text = square(1, 5, count, title="long " * 40).terminal(colour=colour, width=width)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert any(line.startswith("… ") for line in lines) == (width - 5 < count <= 60)  # more are shaded text
    with pytest.raises(ValueError, match="at least 10 cells, got 9"):
        square(1, 1, 2).terminal(width=9)
