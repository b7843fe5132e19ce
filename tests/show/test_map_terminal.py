"""The map as text."""

import re

import numpy as np
import pytest
from rich.cells import cell_len

from regard.show import Map


def strip(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_single_characters_take_one_line_and_the_shades_stand_below_them():
    weights = np.array([[0.0, 0.1, 0.3], [0.6, 0.04, 0.9]])
    lines = Map(weights, "ab", "x z").terminal(colour=False, width=40).splitlines()
    assert lines == ["  x ␣ z ", "a   ░░▒▒", "b ▓▓  ██", "weight: 0 ░▒▓█ 1"]


def test_wide_characters_take_two_cells():
    lines = Map(np.eye(3), list("1五3"), list("三五a")).terminal(colour=False, width=40).splitlines()
    assert lines == ["   三五a ", " 1 ██    ", "五   ██  ", " 3     ██", "weight: 0 ░▒▓█ 1"]


def test_words_are_written_downwards():
    lines = Map(np.eye(2), ["le", "chat"], ["a", "cat"]).terminal(colour=False, width=40).splitlines()
    assert [line.rstrip() for line in lines] == [
        "       c",
        "       a",
        "     a t",
        "  le ██",
        "chat   ██",
        "weight: 0 ░▒▓█ 1",
    ]


def test_names_come_first():
    text = Map(np.eye(2), "ab", "cd", "A title", "answer", "source").terminal(colour=False, width=40)
    assert text.splitlines()[:2] == ["A title", "answer ↓   source →"]


def test_colours_are_of_24_bits_and_end_with_the_line():
    text = Map(np.array([[0.0, 0.0, 1.0]]), "a", "xyz").terminal(width=40)
    body = text.splitlines()[-2]
    assert body == "a \x1b[48;2;20;30;69m    \x1b[48;2;255;217;83m  \x1b[0m"


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 40, 80, 120])
@pytest.mark.parametrize("tokens", ["single", "words", "wide", "long", "emoji"])
def test_no_line_is_wider_than_asked(colour, width, tokens):
    labels = {
        "single": list("abcdefghij" * 10),
        "words": [f"word{at}" for at in range(200)],
        "wide": list("三五日" * 30),
        "long": ["x" * 60] * 5,
        "emoji": ["👨\u200d👩\u200d👧", "👍🏽", "❤\ufe0f"] * 9,
    }[tokens]
    picture = Map(np.eye(len(labels)), labels, labels, "title " * 50, "rows " * 30, "columns " * 30)
    lines = strip(picture.terminal(colour=colour, width=width)).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_what_is_cut_is_noted():
    labels = [str(at % 10) for at in range(60)]
    lines = Map(np.eye(60), labels, labels).terminal(colour=False, width=40).splitlines()
    assert lines[-1] == "… 23 more columns"
    assert all(line.endswith("…") for line in lines[:-2])
    assert cell_len(lines[0]) == 40
    assert "…" not in Map(np.eye(5), "abcde", "abcde").terminal(colour=False, width=80)


def test_the_terminals_width_is_taken_when_none_is_given(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    picture = Map(np.eye(60), list("abcdef" * 10), list("abcdef" * 10))
    assert picture.terminal() == picture.terminal(width=30)
    with pytest.raises(ValueError, match="at least 10 cells, got 3"):
        picture.terminal(width=3)


@pytest.mark.parametrize("colour", [True, False])
def test_no_control_character_gets_through(colour):
    hostile = ["\x1b[2J\x1b]0;owned\x07", "\r\x08", "\n", "\x9b31m", "\u202eabc", "\u2028", "\x00"]
    picture = Map(np.eye(7), hostile, hostile, *hostile[:3])
    text = picture.terminal(colour=colour, width=80)
    left = strip(text) if colour else text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", left)
    plain = Map(np.eye(7), list("abcdefg"), hostile, *hostile[:3]).terminal(colour=colour, width=80)
    assert text.count("\n") == plain.count("\n")
