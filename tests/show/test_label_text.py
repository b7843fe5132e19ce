"""Labels of tokens."""

import pytest
from rich.cells import cell_len

from regard.show.label_text import clean, clusters, fit, label, trim, wrap_text


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (" ", "␣"),
        (" the", "␣the"),
        ("\u00a0", "␣"),
        ("\n", "⏎"),
        ("\t", "⇥"),
        ("\r", "\\r"),
        ("\x1b", "\\x1b"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("\u200d", "\\u200d"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_shown(token, expected):
    assert label(token) == expected


def test_titles_keep_their_spaces():
    assert clean("a title\x07") == "a title\\x07"


def test_width_counts_cells():
    assert [cell_len(text) for text in ("abc", "日本", "e\u0301", "ｱ", "")] == [3, 4, 1, 1, 0]


@pytest.mark.parametrize("longest", [2, 3, 7, 24])
@pytest.mark.parametrize("text", ["x" * 60, "日本" * 20, "e\u0301" * 40, "👍🏽" * 30, "می\u200cخواهم" * 9])
def test_trimmed_text_fits(text, longest):
    short = trim(text, longest)
    assert short.endswith("…")
    assert longest - 1 <= cell_len(short) <= longest
    assert text.startswith(short[:-1])
    assert trim(text, 100) == text


def test_accents_stay_on_their_letters():
    assert clusters("e\u0301a") == ["e\u0301", "a"]


def test_a_joined_emoji_is_one_and_is_not_cut_apart():
    family = "👨\u200d👩\u200d👧"
    assert clusters("a" + family + "b") == ["a", family, "b"]
    assert trim("ab" + family + "cdef", 5) == "ab" + family + "…"
    assert trim("ab" + family + "cdef", 4) == "ab…"


def test_fit_cuts_no_more_than_it_must():
    assert [fit(text, 100, 10) for text in ("", "a" * 15, "a" * 16)] == ["", "a" * 15, "a" * 13 + "…"]
    assert fit("猫" * 9, 100, 10) == "猫" * 9  # 9.18 times the font size wide, although 18 cells
    assert fit("wide", 3, 10) == "…"
    assert len(fit("a" * 100_000, 100, 10)) == 14  # and at once


def test_wrapping_breaks_at_spaces_and_cuts_the_last_line():
    assert wrap_text("", 100, 10, 2) == [""]
    assert wrap_text("one  two three", 100, 10, 2) == ["one two three"]
    assert wrap_text("one two three", 60, 10, 2) == ["one two", "three"]
    assert wrap_text("one two three four", 60, 10, 2) == ["one two", "three f…"]
    assert wrap_text("a" * 20, 60, 10, 2) == ["a" * 7 + "…"]
