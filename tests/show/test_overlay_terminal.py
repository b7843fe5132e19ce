"""An overlay as text."""

import re

import numpy as np
import pytest
from rich.cells import cell_len

from regard.show import Overlay

CORNER = np.array([[3.0, 1.0], [0.0, 0.0]])


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def overlay(count=1, high=32, wide=32, **names):
    maps = np.random.default_rng(1).random((count, 4, 6))
    return Overlay(noise(high, wide), {f"head {at}": table for at, table in enumerate(maps)}, **names)


def test_the_terminal_without_colour_shows_the_maps():
    made = Overlay(noise(4, 4), {"a": np.array([[0.0, 1.0], [1.0, 0.0]]), "b": np.ones((1, 1))}, "T", "c\nd")
    lines = made.terminal(colour=False, width=80).splitlines()
    assert lines[:5] == ["T", "c", "d", "", "a" + " " * 33 + "b"]
    assert lines[5] == "at most 50.0 %" + " " * 20 + "100.0 % each"
    assert lines[-2:] == ["", "not faded: maximum of each panel"]
    assert len(lines) == 6 + 16 + 2
    # The level rises from 0 at the eighth dot to 1 at the 24th: 0.1, 0.3, 0.5 and 0.75 are passed on the way.
    assert lines[6] == " " * 10 + "░░░▒▒▒▓▓▓▓" + "█" * 12 + "  " + "█" * 32
    assert lines[-3] == "█" * 12 + "▓▓▓▓▒▒▒░░░" + " " * 10 + "  " + "█" * 32


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 33, 80])
@pytest.mark.parametrize(("high", "wide"), [(32, 32), (10, 90), (90, 3)])
def test_no_line_is_wider_than_asked(colour, width, high, wide):
    text = overlay(5, high, wide, title="long " * 40, caption="猫" * 90).terminal(colour=colour, width=width)
    assert max(cell_len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()) <= width
    assert text.count("head") == 5
    assert ("\x1b[38;2;" in text) == colour
    with pytest.raises(ValueError, match="at least 10 cells, got 9"):
        overlay().terminal(width=9)


def test_a_half_block_is_two_dots():
    image = np.repeat(np.repeat(np.array([[[9, 8, 7]], [[1, 2, 3]]], np.uint8), 16, 0), 32, 1)
    lines = Overlay(image, {"a": CORNER}).terminal(width=40).splitlines()
    assert lines[3].startswith("\x1b[38;2;9;8;7;48;2;9;8;7m▀")
    assert "38;2;1;2;3;48;2;1;2;3m▀" in lines[18]
