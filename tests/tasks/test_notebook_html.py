"""Objects that show themselves in a notebook: plain HTML that loads nothing and trusts no text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import regard
from regard.data.made.shapes import shapes
from regard.errors import NoAttention
from regard.metrics.bootstrap import Comparison
from regard.show import Heads, Map, Overlay
from regard.show.html_table import html_table
from regard.tasks.core.evaluation import SideBySide
from regard.tasks.core.results import Evaluation
from regard.tasks.core.table import TASKS
from regard.tasks.generate.continuation import Continuation

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>\u202e"
VOID = {"img", "image", "path", "rect", "line", "stop", "use", "br", "meta", "polygon", "circle"}


class Reader(HTMLParser):
    """Collects tags and text; every tag that is opened must be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    found = Reader()
    found.feed(html)
    found.close()
    assert not found.open, found.open
    return found


def check_safe(html: str) -> Reader:
    """No script, nothing that runs, nothing from another place; but a view in a frame, which loads nothing."""
    found = read(html)
    assert not {"script", "link", "object", "embed", "form"} & set(found.tags)
    for name, value in found.attributes:
        assert not name.startswith("on"), name
        if name in ("src", "href", "xlink:href"):
            assert value.startswith(("data:", "#")), value
        if name == "srcdoc":
            assert "default-src 'none'" in value
    assert not re.search(r"url\((?!#|data:)", html)
    assert "\u202e" not in html
    return found


def test_a_run_shows_its_card() -> None:
    found = check_safe(regard.load("dates")._repr_html_()).text
    for words in ("Translator", "Bahdanau", "jointly learning to align", "257,636", "translate", "100 tokens"):
        assert words in found
    found = check_safe(regard.load("shapes")._repr_html_()).text
    assert "Dosovitskiy" in found
    assert "star" in found
    assert "vocabulary" not in found


def test_a_card_of_hostile_names_is_text() -> None:
    run = regard.load("shapes")
    config = run.model.config
    object.__setattr__(config, "labels", (HOSTILE, *config.labels[1:]))
    assert "<script>alert(1)</script>" in check_safe(run._repr_html_()).text


def test_an_evaluation_shows_a_table_of_its_metrics() -> None:
    one = Evaluation(
        {"accuracy": 95.123456, "loss": 0.25}, {"texts": 1000}, rows={"accuracy_low": 93.0}, notes=(HOSTILE,)
    )
    found = check_safe(one._repr_html_())
    assert found.tags.count("tr") == 4
    for words in ("texts", "1,000", "accuracy", "95.12", "loss", "0.25", "accuracy_low", "93", "<script>"):
        assert words in found.text


def test_runs_side_by_side_show_a_column_each_and_their_comparison() -> None:
    found = {
        name: Evaluation({"accuracy": value}, {"count": 9}) for name, value in (("one", 90.0), (HOSTILE, 95.0))
    }
    both = SideBySide(
        TASKS["classify"], "test.tsv", found, {HOSTILE: [Comparison("accuracy", 90.0, 95.0, 5.0, (1.0, 9.0), 0.01)]}
    )
    table = check_safe(both._repr_html_())
    assert "95.00" in table.text
    assert "p = 0.010" in table.text
    assert "evaluated on test.tsv" in table.text
    assert repr(both).startswith("<SideBySide: one, ")


def test_every_cell_of_a_table_is_escaped() -> None:
    html = html_table([[HOSTILE, HOSTILE], ["a", HOSTILE]], title=HOSTILE, header=True, notes=HOSTILE)
    found = check_safe(html)
    assert set(found.tags) == {"table", "caption", "tr", "th", "td", "pre"}


@pytest.mark.parametrize(
    "picture",
    [
        Map([[0.5, 0.5]], [HOSTILE], [HOSTILE, "b"], HOSTILE),
        Map(np.full((1, 70), 1 / 70), [HOSTILE], [HOSTILE] * 70, HOSTILE),
        Heads({HOSTILE: [[[0.5, 0.5]]]}, [HOSTILE], [HOSTILE, "b"], HOSTILE),
        Overlay(np.zeros((8, 8, 3), np.uint8), {HOSTILE: np.ones((2, 2))}, title=HOSTILE, caption=HOSTILE),
    ],
    ids=["map", "shaded", "heads", "overlay"],
)
def test_pictures_of_hostile_labels_are_pictures(picture: Any) -> None:
    assert "svg" in check_safe(picture._repr_html_()).tags


def test_answers_show_their_text_and_where_the_model_looked() -> None:
    found = check_safe(regard.load("dates").translate("3 May 1979")._repr_html_())
    assert "1979-05-03" in found.text
    assert "svg" in found.tags
    found = check_safe(regard.load("shakespeare").generate("<b>ROMEO:</b>", max_tokens=5)._repr_html_())
    assert "<b>ROMEO:</b>" in found.text
    assert "svg" in found.tags
    found = check_safe(regard.load("shapes").recognise(shapes("test", 1).pixels[0])._repr_html_())
    assert "svg" in found.tags


def test_an_answer_without_attention_shows_its_text() -> None:
    def look(sites: Sequence[str]) -> Heads:
        raise NoAttention("there is none")

    one = Continuation("a <", " b", -1.0, True, (), look)
    assert one._repr_html_() == '<pre style="white-space:pre-wrap">a &lt; b</pre>\n'
