"""Labels of tokens."""

import pytest

from regard.show.text import cells, clean, clusters, label, trim, visual_order


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
    assert [cells(text) for text in ("abc", "日本", "e\u0301", "ｱ", "")] == [3, 4, 1, 1, 0]


@pytest.mark.parametrize("longest", [2, 3, 7, 24])
@pytest.mark.parametrize("text", ["x" * 60, "日本" * 20, "e\u0301" * 40])
def test_trimmed_text_fits(text, longest):
    short = trim(text, longest)
    assert short.endswith("…")
    assert longest - 1 <= cells(short) <= longest
    assert text.startswith(short[:-1])
    assert trim(text, 100) == text


def test_accents_stay_on_their_letters():
    assert clusters("e\u0301a") == ["e\u0301", "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc 12", "abc 12"),
        ("אבג", "גבא"),
        ("אב גד", "דג בא"),
        ("אב12", "12בא"),
        ("אב 12/05", "12/05 בא"),
        ("אב (abc)", "(abc) בא"),
        ("abc אב גד", "abc דג בא"),
        ("abc 12 אב", "abc 12 בא"),
        ("(אב)", "(בא)"),
        ("בּא", "אבּ"),  # the dot stays on its letter
        ("אב…", "…בא"),
    ],
)
def test_right_to_left_text_in_the_order_it_is_seen(text, expected):
    assert visual_order(text) == expected
