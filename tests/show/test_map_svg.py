"""The map as SVG: what it says, and that no token breaks out of its text."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.show import Map
from regard.show.colours import LIGHT, shade

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'&amp;&<b>",
    "]]><!--",
    "\x1b[31m\x00\x07",
    "\n",
    "\ud800",
    "\uffff\u202e",
    "{color:red}</style>",
    "${alert(1)}`",
]


def parse(picture):
    return ElementTree.fromstring(picture.svg())


def texts(root, kind):
    return [text for text in root.iter(f"{SVG}text") if text in list(root.find(f"{SVG}g[@class='{kind}']"))]


def shown(text):
    """A label's own words, without its tooltip."""
    children = list(text)
    return (children[-1].tail if children else text.text) or ""


def cell_titles(root):
    return [rect.find(f"{SVG}title").text for rect in root.iter(f"{SVG}rect") if len(rect)]


def test_cells_say_who_looks_where():
    root = parse(Map(np.array([[0.93, 0.07], [0.001, 0.002]]), ["cat", "dog"], ["chat", "chien"]))
    assert cell_titles(root) == ["cat ← chat: 0.93", "cat ← chien: 0.07", "dog ← chien: 0.00"]
    assert [shown(text) for text in texts(root, "rows")] == ["cat", "dog"]
    assert [shown(text) for text in texts(root, "columns")] == ["chat", "chien"]


def test_the_names_and_the_scale_are_there(open_image):
    root = parse(Map(np.eye(3), "abc", "xyz", title="T & t", row_label="French", column_label="English"))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"T & t", "French", "English", "1", "0.5", "0", "weight"} <= set(words)
    (scale,) = root.find(f"{SVG}g[@class='key']").iter(f"{SVG}image")
    colours = open_image(scale.get("href"))[:, 0].tolist()
    assert [colours[0], colours[-1]] == shade(np.array([1, 0]), LIGHT).tolist()


def test_hostile_tokens_stay_text():
    count = len(HOSTILE)
    picture = Map(np.full((count, count), 1 / count), HOSTILE, HOSTILE, HOSTILE[0], HOSTILE[1], HOSTILE[2])
    root = parse(picture)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        "svg", "g", "rect", "text", "title", "path", "image",
    }  # fmt: skip
    assert shown(texts(root, "rows")[0]) == HOSTILE[0][:23] + "…"
    assert texts(root, "rows")[0].find(f"{SVG}title").text == HOSTILE[0]
    assert shown(texts(root, "rows")[4]) == "\\x1b[31m\\x00\\x07"
    assert [shown(text) for text in texts(root, "rows")[5:8]] == ["⏎", "\\ud800", "\\uffff\\u202e"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", picture.svg())


@pytest.mark.parametrize("count", [1, 5, 60])
def test_every_label_has_room(count):
    tokens = [f"token{at}" for at in range(count)]
    root = parse(Map(np.eye(count), tokens, tokens))
    rows = texts(root, "rows")
    font = float(root.get("font-size"))
    assert len(rows) == len(texts(root, "columns")) == count
    heights = np.array([float(text.get("y")) for text in rows])
    assert (np.diff(heights) >= 1.2 * font).all()
    assert heights.max() < float(root.get("height"))
    assert font > 9


def test_a_large_map_stays_small_by_leaving_out_what_is_not_seen():
    rows, columns = [f"t{at}" for at in range(200)], [f"t{at}" for at in range(60)]
    sparse = Map(np.eye(200, 60), rows, columns)
    assert len(cell_titles(parse(sparse))) == 60
    assert len(sparse.svg()) < 100_000


def test_long_tokens_are_cut_with_the_whole_in_the_tooltip():
    root = parse(Map(np.ones((1, 1)), ["x" * 60], ["語" * 60]))
    (row,), (column,) = texts(root, "rows"), texts(root, "columns")
    assert (shown(row), row.find(f"{SVG}title").text) == ("x" * 23 + "…", "x" * 60)
    assert shown(column) == "語" * 11 + "…"


@pytest.mark.parametrize("word", ["שלום", "مرحبا", "你好", "こんにちは"])
def test_the_worlds_letters_keep_their_order(word):
    picture = Map(np.ones((1, 1)), [word], ["a"], title=word)
    root = parse(picture)
    (row,) = texts(root, "rows")
    assert shown(row) == word
    assert row.get("unicode-bidi") == "plaintext"
    assert root.get("direction") == "ltr"  # anchors keep their sides on a page read from right to left
    assert cell_titles(root)[0].replace("\u2068", "").replace("\u2069", "") == f"{word} ← a: 1.00"


def test_right_to_left_tokens_do_not_turn_the_tooltip():
    (title,) = cell_titles(parse(Map(np.ones((1, 1)), ["שלום"], ["a"])))
    assert title == "\u2068שלום\u2069 ← a: 1.00"


def test_a_notebook_gets_the_svg():
    picture = Map(np.eye(2), "ab", "cd")
    assert picture.svg() in picture._repr_html_()
    assert " id=" not in picture.svg()  # several maps share a notebook
