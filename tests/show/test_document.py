"""Documents whose words and sentences are shaded by attention."""

import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from drawn import marks
from matplotlib import pyplot
from PIL import Image
from rich.cells import cell_len

from regard.show import Document
from regard.show.colours import LIGHT, hex_colours
from regard.show.drawing import Box, Text
from regard.show.shaded_words import LINE

matplotlib.use("Agg")
SENTENCES = [["The", "cat", "sat", "."], ["Superb", "!"]]
WEIGHTS = [[0.1, 0.2, 0.3, 0.4], [0.75, 0.25]]
HOSTILE = ["</script><img src=x onerror=alert(1)>", "\"'&amp;<b>", "\x1b[31m\x00", "\ud800", "${x}`"]


def make(**more):
    return Document(SENTENCES, WEIGHTS, [0.25, 0.75], **more)


def test_words_are_shaded_by_the_root_of_their_sentence_times_their_own():
    document = make()
    wanted = [0.5 * w for w in WEIGHTS[0]] + [np.sqrt(0.75) * w for w in WEIGHTS[1]]
    np.testing.assert_allclose(document.received, wanted)
    assert document.top == 0.8
    np.testing.assert_allclose(document.sentence_levels, [0.25 / 0.8, 0.75 / 0.8])
    plain = Document(SENTENCES, WEIGHTS)
    np.testing.assert_allclose(plain.received, np.concatenate(WEIGHTS))
    assert make().scaled(2.0).top == 2
    assert repr(make(title="T")) == "<Document: 2 sentences, 6 words, 'T'>"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (([], []), "a document needs weights for each of its sentences, at least one; got 0"),
        ((SENTENCES, WEIGHTS[:1]), "got 2 sentences, weights of 1"),
        ((SENTENCES, [[0.1] * 3, [0.5] * 2]), "weights must have shape"),
        ((SENTENCES, WEIGHTS, [1.0]), "weights must have shape"),
        ((SENTENCES, [[np.nan] * 4, [0.5] * 2]), "weights must be finite"),
    ],
)
def test_what_is_no_document(given, told):
    with pytest.raises(ValueError, match=told):
        Document(*given)


def test_every_sentence_begins_a_line_beside_its_bar():
    drawing = make().drawing()
    words = marks(drawing.groups("words")[0], Text)
    lines = [round((word.y - words[0].y) / LINE) for word in words]
    assert lines == [0, 0, 0, 0, 1, 1]
    bars = marks(drawing, Box)
    assert all(bar.y <= word.y <= bar.y + bar.height for bar, word in zip(bars, (words[0], words[4]), strict=True))
    assert len({bar.height for bar in bars}) == 1  # a line each
    assert [text.text for text in marks(drawing, Text)[:2]] == ["0.25", "0.75"]
    long = Document([["word"] * 90, ["end"]], [[1 / 90] * 90, [1.0]], [0.5, 0.5]).drawing()
    first, second = marks(long, Box)
    *most, last = marks(long.groups("words")[0], Text)
    assert first.height > LINE > second.height
    assert first.y + first.height < second.y < last.y < second.y + second.height
    assert all(first.y < word.y < first.y + first.height for word in most)
    assert marks(Document(SENTENCES, WEIGHTS).drawing(), Box) == []


def test_svg_has_a_box_for_each_word_and_a_bar_for_each_sentence():
    tree = ElementTree.fromstring(make(title="T").svg())
    boxes = [box for box in tree.iter("{http://www.w3.org/2000/svg}rect") if box.get("class") == "sentence"]
    assert [box.get("fill") for box in boxes] == hex_colours(make().sentence_levels, LIGHT)
    texts = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in ("cat", "Superb", "0.75", "T")] == ["T", "0.75", "cat", "Superb"]
    assert 'class="sentence"' not in Document(SENTENCES, WEIGHTS).svg()


def test_png(tmp_path):
    make(title="T").save(tmp_path / "a.png")
    pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).reshape(-1, 3)
    for colour in hex_colours(make().sentence_levels, LIGHT):
        wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
        assert (pixels == wanted).all(1).any()
    figure = make().plot()
    assert figure.get_size_inches()[0] > 1
    pyplot.close(figure)


@pytest.mark.parametrize("width", [10, 16, 17, 40])
def test_terminal_keeps_its_width(width):
    for data in (make(), Document(SENTENCES, WEIGHTS)):
        for colour in (True, False):
            text = re.sub(r"\x1b\[[0-9;]*m", "", data.terminal(colour=colour, width=width))
            assert max(map(cell_len, text.splitlines())) <= width
    assert "0.75 █ Superb!" in make().terminal(colour=False, width=40)


def test_hostile_words_stay_text():
    document = Document([HOSTILE, ["x"]], [[0.2] * 5, [1.0]], [0.5, 0.5], HOSTILE[0])
    for text in (document.svg(), document.terminal(colour=False)):
        assert "\x1b" not in text
