"""Labels of tokens."""

import pytest
from rich.cells import cell_len

from regard.show.label_text import clean, clusters, label, trim


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
