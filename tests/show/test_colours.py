"""Colours tell weights by lightness alone."""

import numpy as np
import pytest

from regard.show.colours import DARK, DIVERGING, LIGHT, shade


@pytest.mark.parametrize(("ramp", "sign"), [(LIGHT, -1), (DARK, 1)])
def test_more_weight_is_ever_darker_on_paper_and_lighter_in_a_terminal(ramp, sign):
    colours = shade(np.linspace(0, 1, 60), ramp) / 255
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (sign * np.diff(luminance) > 0).all()
    assert "#{:02x}{:02x}{:02x}".format(*shade(np.array(1.0), ramp)) == ramp[-1]


def test_the_colours_diverge():
    colours = shade(np.linspace(0, 1, 41), DIVERGING) / 255
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert luminance.argmax() == 20
    assert (np.diff(luminance[:21]) > 0).all()
    assert (np.diff(luminance[20:]) < 0).all()
    assert (colours[:20, 2] > colours[:20, 0]).all()  # blue below
    assert (colours[21:, 0] > colours[21:, 2]).all()  # orange above
