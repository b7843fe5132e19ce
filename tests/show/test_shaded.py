"""Long texts, shaded by the attention that their words receive."""

import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from drawn import marks
from PIL import Image
from rich.cells import cell_len

from regard.show import Map, ShadedText
from regard.show.colours import HIDDEN, LIGHT, hex_colours
from regard.show.drawing import Boxes, Text
from regard.show.shaded_words import spell, wrap

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["the", "cat", ",", "the", "dog"]
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "\"'&amp;<b>",
    "]]><!--",
    "\x1b[31m\x00",
    "\ud800",
    "${x}`",
    "$",
]


def long_map(count=80, rows=3, **more):
    weights = np.random.default_rng(0).dirichlet(np.full(count, 0.3), rows)
    return Map(weights, [f"row{at}" for at in range(rows)], [f"word{at}" for at in range(count)], **more)


def test_a_map_of_more_than_60_columns_is_a_text(tmp_path):
    picture = long_map(61, title="T")
    text = picture.shaded()
    assert picture.svg() == text.svg()
    for colour in (True, False):
        assert picture.terminal(colour=colour, width=70) == text.terminal(colour=colour, width=70)
    picture.save(tmp_path / "map.png")
    text.save(tmp_path / "text.png")
    assert (tmp_path / "map.png").read_bytes() == (tmp_path / "text.png").read_bytes()
    assert 'class="words"' not in long_map(60).svg()


def test_words_are_shaded_by_the_mean_of_those_that_may_look():
    weights = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    causal = ShadedText(weights, "abc", "xyz", mask=np.tril(np.ones((3, 3), bool)))
    np.testing.assert_allclose(causal.received, [1.7 / 3, 0.8 / 2, 0.5])
    assert causal.note == "mean of 3 queries"
    np.testing.assert_allclose(ShadedText(weights, "abc", "xyz").received, [1.7 / 3, 0.8 / 3, 0.5 / 3])
    last = ShadedText(weights, "abc", "xyz", query=1, mask=np.tril(np.ones((3, 3), bool)))
    assert (last.received.tolist(), last.note) == ([0.5, 0.5, 0], "where 'y' looks")
    assert last.hidden.tolist() == [False, False, True]
    with pytest.raises(ValueError, match="there are queries 0 to 2, got 3"):
        ShadedText(weights, "abc", "xyz", query=3)


@pytest.mark.parametrize(("query", "wanted"), [(None, None), (2, 1), (0, None)])
def test_a_part_has_some_of_the_queries(query, wanted):
    whole = ShadedText(np.eye(3), "abc", "xyz", query=query, mask=np.eye(3, dtype=bool))
    part = whole.part(rows=range(1, 3))
    assert (part.queries, part.query, part.words) == ("yz", wanted, "abc")
    np.testing.assert_array_equal(part.weights, np.eye(3)[1:])
    assert part.mask.tolist() == np.eye(3, dtype=bool)[1:].tolist()
    assert whole.part() is whole
    with pytest.raises(ValueError, match="rows must lie in 0 to 2"):
        whole.part(rows=range(3, 5))


@pytest.mark.parametrize("query", [None, 1, 1199])
def test_an_html_file_holds_the_last_queries_of_many(query):
    shown, note = ShadedText(np.full((1200, 1000), 1e-3), ["w"] * 1000, ["q"] * 1200, query=query)._for_html()
    whole = query == 1  # it must be there
    assert len(shown.queries) == (1200 if whole else 1000)
    assert shown.query == {None: None, 1: 1, 1199: 999}[query]
    assert note == ("" if whole else "only the last 1,000 queries are here")


def test_one_word_that_receives_most_does_not_make_the_others_pale():
    """As [CLS] does, or the first word of a language model."""
    weights = np.full((1, 100), 0.004)
    weights[0, 0] = 0.6
    text = ShadedText(weights, ["w"] * 100, ["q"])
    assert text.top == 0.004
    assert text.levels.tolist() == [1] * 100
    assert "≥ 0.004" in text.svg()
    assert text.scaled(0.6).top == 0.6
    weights[0, :50] = 0.006  # not far more than the others
    assert ShadedText(weights, ["w"] * 100, ["q"]).top == 0.006


def test_gaps_stand_where_a_text_has_them():
    def text(words):
        return "".join(gap + word for gap, word, _ in spell(words))

    assert text([*WORDS, "."]) == "the cat, the dog."
    assert text(["he", "said", '"', "no", '"', "(", "twice", ")"]) == 'he said "no" (twice)'
    assert text([" the", " c", "at"]) == " the cat"
    assert text(list("a b")) == "a b"
    assert text(["▁the", "▁c", "at"]) == " the cat"
    assert text(["我", "喜", "歡", "cats"]) == "我喜歡 cats"
    assert text(["he", "'", "s", "right", ",", "didn", "’", "T"]) == "he's right, didn’T"
    assert text(["l", "'", "homme", "and", "the", "dogs", "'", "bones"]) == "l'homme and the dogs' bones"
    assert [ends for _, _, ends in spell(["a", "\n", "b"])] == [False, True, False]


def test_lines_end_where_they_are_full_or_the_text_ends_them():
    words = wrap(spell(["aaa", "bbb", "ccc", "\n", "d"]), 8)
    assert [(word.line, word.first, word.cells) for word in words] == [
        (0, 0, 3), (0, 4, 3), (1, 0, 3), (1, 4, 1), (2, 0, 1),
    ]  # fmt: skip
    assert wrap(spell(["x" * 30]), 8)[0].text == "x" * 7 + "…"


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 40, 120])
@pytest.mark.parametrize("kind", ["words", "wide", "emoji", "rtl"])
def test_no_line_is_wider_than_asked(colour, width, kind):
    family = "👨\u200d👩\u200d👧"
    word = {"words": "word", "wide": "三五日", "emoji": family, "rtl": "שלום"}[kind]
    words = [word] * 90
    text = ShadedText(np.full((2, 90), 1 / 90), words, ["a", "b"], "title " * 40)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text.terminal(colour=colour, width=width)).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_the_terminal_shades_words_or_underlines_them():
    text = ShadedText([[0.0, 0.1, 0.3, 0.6, 0.0]], WORDS, ["q"], mask=[[True, True, True, True, False]])
    assert text.terminal(colour=False, width=40).splitlines() == [
        "the cat, the dog", "    ░░░▓ ███ ╱╱╱", "where 'q' looks", "weight: 0 ░▒▓█ 0.6",
    ]  # fmt: skip
    assert "\x1b[48;2;255;217;83;38;2;0;0;0mthe\x1b[0m" in text.terminal(width=40)


def test_the_svg_says_weights_and_the_scale():
    text = ShadedText([[0.0, 0.01, 0.02, 0.04, 0.0]], WORDS, ["q"], "T", mask=[[True, True, True, True, False]])
    root = ElementTree.fromstring(text.svg())
    group = root.find(f"{SVG}g[@class='words']")
    assert [text.text for text in group.iter(f"{SVG}text")] == WORDS
    fills = [box.get("fill") for box in group.iter(f"{SVG}rect")]
    assert fills == [*hex_colours(np.array([0.25, 0.5, 1.0]), LIGHT), HIDDEN]
    assert [title.text for title in group.iter(f"{SVG}title")] == ["cat: 0.010", ",: 0.020", "the: 0.040"]
    assert "0.04  weight, where 'q' looks" in [text.text for text in root.iter(f"{SVG}text")]
    assert " id=" not in text.svg()


def test_right_to_left_texts_begin_at_the_right():
    hebrew = ShadedText(np.full((1, 3), 0.3), ["שלום", "עולם", "abc"], ["q"])
    first, second, _ = (text.x for text in marks(hebrew.drawing().groups("words")[0], Text))
    assert first > second
    latin = ShadedText(np.full((1, 3), 0.3), ["a", "b", "שלום"], ["q"]).drawing()
    first, second, _ = (text.x for text in marks(latin.groups("words")[0], Text))
    assert first < second


def test_a_long_text_is_no_strip_and_no_tower():
    for count in (100, 500):
        drawing = long_map(count).shaded().drawing()
        assert 0.8 < drawing.width / drawing.height < 2.5


def test_the_png_is_dark_where_the_weight_is(tmp_path):
    text = ShadedText(np.eye(70)[:1], ["w"] * 70, ["q"])
    text.save(tmp_path / "t.png")
    group = text.drawing().groups("words")[0]
    with Image.open(tmp_path / "t.png") as image:
        dots = np.asarray(image.convert("RGB")).astype(int)
    ((x, y, _, _),) = marks(group, Boxes)[0].places
    first, second = marks(group, Text)[:2]
    corners = [(x, y), (x + second.x - first.x, y)]  # of the first word and of its neighbour
    dark, white = (dots[int(2 * y) + 3, int(2 * x) + 3].tolist() for x, y in corners)
    assert sum(dark) < 200
    assert white == [255, 255, 255]


def test_hostile_words_stay_text(tmp_path):
    words = HOSTILE * 10
    text = ShadedText(np.full((2, 70), 0.01), words, HOSTILE[:2], HOSTILE[0])
    ElementTree.fromstring(text.svg())
    assert "\x1b[31m\x00" not in text.terminal()
    for suffix in ("png", "svg", "html"):
        text.save(tmp_path / f"t.{suffix}")
