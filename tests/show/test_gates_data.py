"""What gates may be, what is told of each block, and which blocks stand together."""

import numpy as np
import pytest

from regard.show import Gates


def test_one_dimension_is_one_row_and_rows_have_names():
    made = Gates({"a": [0.1, 0.9], "b": [[0.5, 0.5, 0.5]]})
    assert {name: gates.shape for name, gates in made.panels.items()} == {"a": (1, 2), "b": (1, 3)}
    assert made.rows == ("row 0",)
    assert Gates({"a": np.ones((2, 3))}, rows=["cat", "dog"]).rows == ("cat", "dog")
    assert repr(Gates({"a": np.ones((2, 3))}, title="T")) == "<Gates: 1 block, 2 rows, 'T'>"


@pytest.mark.parametrize(
    ("panels", "options", "words"),
    [
        ({}, {}, "no gates to draw"),
        (
            {"a": np.ones((1, 2, 3))},
            {},
            r"a: gates must have shape \(rows, channels\) or \(channels,\), got \(1, 2, 3\)",
        ),
        ({"a": []}, {}, "a: gates must have shape"),
        ({"a": [[0.5, np.nan]]}, {}, "a: gates must be finite, got nan in row 0, channel 1"),
        ({"a": [0.5, 1.2]}, {}, r"a: gates must lie in \[0, 1\], got 1.2: give them after the sigmoid"),
        ({"a": [-0.5, 0.2]}, {}, r"a: gates must lie in \[0, 1\], got -0.5"),
        ({"a": [0.5], "b": [[0.5], [0.5]]}, {}, "all blocks must have gates of the same rows"),
        ({"a": [0.5]}, {"rows": ["x", "y"]}, "rows must be 1 names"),
        ({"a": [0.5]}, {"rows": "x"}, "rows must be 1 names"),
        ({"a": [0.5]}, {"scale": -1}, "scale must be a number above 0"),
        ({"a": [0.5]}, {"image": np.zeros((2, 2))}, r"image must be bytes \(height, width, 3\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(panels, options, words):
    with pytest.raises(ValueError, match=words):
        Gates(panels, **options)


def test_a_block_is_told_by_numbers_worked_by_hand():
    single = Gates({"a": [0.2, 0.8, 0.5, 0.5, 0.9, 0.1]})
    assert single.note("a") == "mean 0.50 ± 0.29"  # sqrt((0.09 + 0.09 + 0 + 0 + 0.16 + 0.16) / 6) = 0.289
    assert single.named("a") == (
        "most open: 4 (0.90), 1 (0.80), 3 (0.50)",
        "least open: 5 (0.10), 0 (0.20), 2 (0.50)",
    )
    several = Gates({"a": [[0.2, 0.5], [0.4, 0.5]]})  # deviations of 0.1 and 0 between the rows
    assert several.note("a") == "mean 0.40, between lines ± 0.050"
    assert Gates({"a": [0.7]}).named("a") == ("most open: 0 (0.70)", "least open: 0 (0.70)")


def test_blocks_of_a_stage_stand_together():
    names = ["stages.0.0.excite", "stages.0.1.excite", "stages.1.0.excite", "layer4.2.se", "last"]
    assert Gates({name: [0.5] for name in names}).stages == [names[:2], names[2:3], names[3:4], names[4:]]


@pytest.mark.parametrize(
    ("scale", "tops"), [(None, (1, 1)), (0.5, (0.5, 0.5)), ("shared", (0.4, 0.4)), ("each", (0.2, 0.4))]
)
def test_the_scale(scale, tops):
    made = Gates({"a": [0.1, 0.2], "b": [0.1, 0.4]}).scaled(scale)
    assert (made.top("a"), made.top("b")) == tops
