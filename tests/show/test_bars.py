"""Bars of answers."""

import pytest
from rich.cells import cell_len

from regard.show import bars


def test_bars_are_as_long_as_their_shares():
    text = bars([("cat", 1.0), ("a dog", 0.5), ("猫", 0.03125), ("x", 0.0001), ("y", 0.0)], width=22)
    assert text.splitlines() == [
        "cat   ████████ 100.0 %",
        "a dog ████      50.0 %",
        "猫    ▎          3.1 %",
        "x     ▏          0.0 %",
        "y                0.0 %",
    ]
    assert bars([]) == ""


def test_bars_fit_any_terminal_and_hold_no_control_characters():
    rows = [("long name " * 9, 0.25), ("\x1b[31mred\x07\n", 0.75), ("語" * 30, 1 + 1e-4)]
    for width in (10, 14, 40, 80, 300):
        lines = bars(rows, width=width).splitlines()
        assert len(lines) == 3
        assert {cell_len(line) for line in lines} == {cell_len(lines[0])}
        assert cell_len(lines[0]) <= width
        assert not any(character < " " for line in lines for character in line)
    assert "█" in bars(rows, width=40)
    assert cell_len(lines[0]) == 40 + 1 + 40 + 8  # in a wide terminal neither names nor bars run on


@pytest.mark.parametrize("share", [1.5, -0.2, float("nan")])
def test_bars_refuse_what_is_no_share(share):
    with pytest.raises(ValueError, match=r"shares must lie in \[0, 1\], got .* for 'cat'"):
        bars([("cat", share)])
    with pytest.raises(ValueError, match="width must be at least 10 cells, got 9"):
        bars([], width=9)
