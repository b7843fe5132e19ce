"""Heads of long texts are shaded texts, one for each site."""

import matplotlib
import numpy as np
import pytest
from drawn import marks
from PIL import Image

from regard.show import Heads
from regard.show.drawing import Cells, Text

matplotlib.use("Agg")


def long_heads(layers=3, heads=2, count=61, **more):
    words = [f"word{at}" for at in range(count)]
    random = np.random.default_rng(0)
    panels = {f"blocks.{at}.attend": random.dirichlet(np.full(count, 0.3), (heads, 4)) for at in range(layers)}
    return Heads(panels, "abcd", words, **more)


def test_more_than_60_columns_are_a_text_for_each_site(tmp_path):
    heads = long_heads(title="T")
    svg, text = heads.svg(), heads.terminal(colour=False, width=80)
    for at, ordinal in enumerate(("first", "second", "third")):
        said, code = f"{ordinal} layer, looking at its own input, mean of 2 heads", f"blocks.{at}.attend"
        assert f">{said}</text>" in svg
        assert f">{code}</text>" in svg
        assert f"{said} · {code}\n" in text
    assert svg.count(">word60</text>") == text.count("word60") == 3  # nothing is cut
    assert svg.count(">T</text>") == 1
    assert text.startswith("T\n")
    assert svg.count("weight, mean of 4 queries") == text.count("mean of 4 queries") == text.count("weight: 0") == 1
    heads.save(tmp_path / "h.png")
    with Image.open(tmp_path / "h.png") as image:
        assert np.asarray(image.convert("L")).std() > 10
    words = [text.get_text() for text in heads.plot().axes[0].texts]
    matplotlib.pyplot.close()
    assert words.count("word60") == 3
    assert 'class="words"' not in long_heads(count=60).svg()


def test_all_texts_share_one_scale_or_say_their_own():
    table = np.zeros((1, 1, 61))
    panels = {"a": table + 0.005, "b": table + 0.01}
    words = ["w"] * 61
    shared, each = (Heads(panels, "q", words, scale=scale) for scale in (None, "each"))
    assert [text.top for text in shared._texts()] == [0.01, 0.01]
    assert "0.01  weight, where" in shared.svg()
    assert [text.top for text in Heads(panels, "q", words, scale=0.5)._texts()] == [0.5, 0.5]
    assert ">a, to 0.005</text>" in each.svg()
    assert ">b, to 0.01</text>" in each.svg()
    assert "largest of each text  weight" in each.svg()
    assert "b, to 0.01" in each.terminal(width=60)


@pytest.mark.parametrize(("layers", "count"), [(1, 200), (6, 70), (6, 205), (12, 400), (24, 300)])
def test_a_sheet_of_texts_is_no_strip_and_no_tower(layers, count):
    drawing = long_heads(layers, count=count).drawing()
    assert 0.8 < drawing.width / drawing.height < 2.6
    (scale,) = marks(drawing, Cells)
    texts = drawing.groups("words")
    assert len(texts) == layers
    ends = [(marks(text, Text)[0].y, marks(text, Text)[-1].y) for text in texts]
    assert all(first <= last < scale.y for first, last in ends)
