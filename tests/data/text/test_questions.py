"""Questions in SQuAD's form, and as windows of tokens."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.text.question_windows import QuestionData, tokens_of, widest, windows
from regard.data.text.questions import AnswerIn, Question, read_questions
from regard.data.text.special_tokens import Special
from regard.errors import DataError

SPECIAL = Special(0, 2, 3, 1)
CONTEXT = "Nora lives in Oslo. Tom lives in Rome."


def squad(*items: dict[str, Any], context: Any = CONTEXT) -> dict[str, Any]:
    return {"version": "v2.0", "data": [{"title": "x", "paragraphs": [{"context": context, "qas": list(items)}]}]}


def item(**changes: Any) -> dict[str, Any]:
    answers = [{"text": "Oslo", "answer_start": 14}]
    return {"id": "q1", "question": "Where does Nora live?", "answers": answers} | changes


def test_both_versions_are_read(tmp_path: Path) -> None:
    twice = [{"text": "Oslo", "answer_start": 14}] * 2 + [{"text": "in Oslo", "answer_start": 11}]
    plausible = [{"text": "Rome", "answer_start": 33}]
    table = squad(
        item(answers=twice),
        item(id="q2", question="Where is Ben?", answers=[], is_impossible=True, plausible_answers=plausible),
    )
    wanted = [
        Question(CONTEXT, "Where does Nora live?", (AnswerIn("Oslo", 14), AnswerIn("in Oslo", 11)), "q1"),
        Question(CONTEXT, "Where is Ben?", (), "q2"),
    ]
    (tmp_path / "a.json").write_text(json.dumps(table))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(table).encode()))
    assert list(read_questions(tmp_path / "a.json")) == wanted
    assert list(read_questions(tmp_path / "a.json.gz")) == wanted


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ([], 'must be an object with "data"'),
        ({"data": [{"paragraphs": 3}]}, "paragraphs must be a list of objects, got 3"),
        (squad(context=7), "'context' must be text, got 7"),
        (squad(), "has no questions"),
        (squad(item(question=" ")), "question 'q1': the question is empty"),
        (squad(item(answers=[])), "has no answers; a question without any says is_impossible: true"),
        (squad(item(is_impossible="no")), "is_impossible must be true or false, got 'no'"),
        (squad(item(answers=[{"text": "Oslo", "answer_start": 13}])), "'Oslo' does not stand at character 13"),
        (squad(item(answers=[{"text": "Oslo", "answer_start": True}])), "does not stand at character True"),
        (squad(item(answers=[{"text": "", "answer_start": 3}])), "the answer '' does not stand"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(tmp_path: Path, table: Any, told: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(table))
    with pytest.raises(DataError, match=re.escape(told)):
        list(read_questions(file))


def test_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"data": [')
    with pytest.raises(DataError, match="is no JSON"):
        list(read_questions(tmp_path / "bad.json"))


def test_a_context_that_fits_is_one_window() -> None:
    [window] = windows([7, 8], [20, 21, 22], SPECIAL, length=16, stride=4)
    assert window.row == ([2, 7, 8, 3, 20, 21, 22, 3], [0, 0, 0, 0, 1, 1, 1, 1])
    assert (window.first, window.count, window.place) == (0, 3, 4)
    assert window.at((1, 2)) == (5, 6)
    assert window.at(None) == (0, 0)


def test_windows_are_a_stride_apart_and_hold_every_token() -> None:
    """Ten tokens in rows of eight: five of the context fit beside one of the question."""
    found = windows([7], list(range(20, 30)), SPECIAL, length=9, stride=3)
    assert [(window.first, window.count) for window in found] == [(0, 5), (3, 5), (6, 4)]
    assert [window.row[0][3:-1] for window in found] == [
        [20, 21, 22, 23, 24],
        [23, 24, 25, 26, 27],
        [26, 27, 28, 29],
    ]
    assert [window.at((4, 5)) for window in found] == [(0, 0), (4, 5), (0, 0)]  # whole in the second alone


def test_a_token_belongs_to_the_window_that_shows_most_around_it() -> None:
    """Of tokens 3 and 4, the first window shows 1 and 0 more to the right, the second 0 and 1 to the left."""
    found = windows([7], list(range(20, 30)), SPECIAL, length=9, stride=3)
    assert widest(found, 10).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_stride_beyond_the_room_leaves_nothing_out() -> None:
    found = windows([7], list(range(20, 30)), SPECIAL, length=9, stride=100)
    assert [each for window in found for each in window.row[0][3:-1]] == list(range(20, 30))


def test_a_long_question_is_truncated() -> None:
    [window] = windows(list(range(100)), [20, 21], SPECIAL, length=16, stride=4)
    assert window.place == 8 + 2


def test_tokens_of_characters() -> None:
    places = [(0, 4), (5, 10), (11, 13), (14, 18), (18, 19)]
    assert tokens_of(places, 14, 18) == (3, 3)
    assert tokens_of(places, 12, 17) == (2, 3)  # within tokens
    assert tokens_of(places, 4, 5) is None


def test_batches_have_the_places_of_the_answers() -> None:
    rows = [
        (window, window.at((4, 5))) for window in windows([7], list(range(20, 30)), SPECIAL, length=9, stride=3)
    ]
    data = QuestionData(rows, special=SPECIAL, batch_tokens=100, seed=0)
    batch = data.batch(np.array([1, 2]))
    assert batch.tokens.tolist() == [[2, 7, 3, 23, 24, 25, 26, 27, 3], [2, 7, 3, 26, 27, 28, 29, 3, 0]]
    assert batch.segments[:, 3:].tolist() == [[1] * 6, [1] * 5 + [0]]
    assert batch.mask.sum(1).tolist() == [9, 8]
    assert (batch.begins.tolist(), batch.ends.tolist()) == ([4, 0], [5, 0])
    assert sorted(np.concatenate(data.order(0)).tolist()) == [0, 1, 2]
