"""Texts split into sentences by rules or at line breaks."""

import pytest

from regard.data.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n\t ", []),
        ("no end", ["no end"]),
        ("It rains. Does it?  Yes!", ["It rains.", "Does it?", "Yes!"]),
        ("i hate it. it rains.", ["i hate it.", "it rains."]),  # without capitals
        ("Mr. Smith met Dr. J. R. Jones. They spoke.", ["Mr. Smith met Dr. J. R. Jones.", "They spoke."]),
        ("See No. 5 and vol. 2, pp. 3 etc. and more.", ["See No. 5 and vol. 2, pp. 3 etc. and more."]),
        ("No. He did not. So did I. Then", ["No.", "He did not.", "So did I.", "Then"]),
        ("It cost 3.5 dollars, e.g. here. Fine.", ["It cost 3.5 dollars, e.g. here.", "Fine."]),
        ("The U.S. Army left at 5 p.m. He stayed.", ["The U.S. Army left at 5 p.m.", "He stayed."]),
        ("Well ... and then? What?! (Yes.) Go", ["Well ... and then?", "What?!", "(Yes.)", "Go"]),
        ('"Stop!" he said. "No."', ['"Stop!" he said.', '"No."']),
        ("one<br /><br />two. three\r\nfour", ["one", "two.", "three", "four"]),
        ("我爱你。你好！真的吗？是", ["我爱你。", "你好！", "真的吗？", "是"]),
        ("www.a.org is.it", ["www.a.org is.it"]),
    ],
)
def test_rules(text, sentences):
    assert split_sentences(text) == sentences


def test_lines_are_taken_as_they_are():
    assert split_sentences("One. Two.\n\n  Mr. X! ", "lines") == ["One. Two.", "Mr. X!"]
    with pytest.raises(ValueError, match="sentences are split by rules or lines, got 'words'"):
        split_sentences("a", "words")


@pytest.mark.parametrize("text", ["." * 200_000, '."' * 100_000, "。" * 100_000, "a" * 300_000, "<br" * 100_000])
def test_odd_texts_take_no_longer_than_others(text):
    """Time is linear in the length: a quadratic search would take minutes."""
    assert split_sentences(text) == [text]
