"""The generated questions."""

from __future__ import annotations

import re

from regard.data.made.facts import FIRST, LAST, TOWNS, facts, paragraphs

COUNT = 600


def test_answers_stand_where_they_are_said_to() -> None:
    for row in facts("train", COUNT):
        [answer] = row.answers
        assert row.context[answer.start : answer.start + len(answer.text)] == answer.text


def test_paragraphs_are_the_same_texts_with_the_answer_behind_the_question() -> None:
    for row, text in zip(facts("train", COUNT), paragraphs("train", COUNT), strict=True):
        question, *sentences = text.split("\n")
        assert question == row.text
        assert row.answers[0].text in sentences[0]
        assert sorted(sentences) == sorted(row.context.replace(". ", ".\n").split("\n"))


def test_only_one_answer_is_right() -> None:
    """Nobody else is told to live there, and nobody is told to live in two towns."""
    asked = 0
    for row in facts("train", 4 * COUNT):
        if match := re.fullmatch(r"Where does (\w+)( \w+)? live\?", row.text):
            told = re.findall(rf"{match[1]}(?: \w+)? lives in (\w+)", row.context)
            assert [answer.text for answer in row.answers] == told
            asked += 1
    assert asked > 20


def test_a_larger_count_begins_alike_and_splits_differ() -> None:
    assert facts("train", 20) == facts("train", 50)[:20]
    assert not {row.context for row in facts("train", COUNT)} & {row.context for row in facts("test", COUNT)}


def test_made_up_names_of_one_split_are_in_no_other() -> None:
    known = {*FIRST, *LAST, *TOWNS}

    def names(split: str) -> set[str]:
        found = re.findall(
            r"(\w+) (?:works|likes|plays|bought)|lives in (\w+)",
            " ".join(row.context for row in facts(split, COUNT)),
        )
        return {name for both in found for name in both if name} - known

    train, test = names("train"), names("test")
    assert not train & test
    assert min(len(train), len(test)) > 20
