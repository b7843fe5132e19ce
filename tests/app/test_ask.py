"""`regard ask`, and training a BERT that finds answers."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.tasks.core.table import load

RECIPE = """[data]
train = "train.json"
valid = "train.json"
length = 32
batch_tokens = 640
longest_answer = 3

[tokens]
kind = "wordpiece"
size = 200

[model]
name = "bert"
head = "span"
dim = 32
layers = 1
heads = 2
max_positions = 32
dropout = 0.0
attention_dropout = 0.0

[train]
steps = 60
learning_rate = 1e-2
eval_every = 60
"""
CONTEXT = "It was here . The boat is green ."
QUESTION = "What colour is the boat?"


def write_data() -> None:
    colours, things = ("red", "blue", "green", "white"), ("cup", "hat", "boat", "door", "lamp")

    def paragraph(number: int) -> dict[str, Any]:
        colour, thing, place = colours[number % 4], things[number % 5], ("here", "there")[number % 3 == 0]
        told = number % 4 != 3
        context = (
            f"It was {place} . The {thing} is {colour} ." if told else f"It was {place} . The {thing} is new ."
        )
        answers = [{"text": colour, "answer_start": context.index(colour)}] if told else []
        question = {"id": str(number), "question": f"What colour is the {thing}?", "answers": answers}
        return {"context": context, "qas": [question | {"is_impossible": not told}]}

    Path("train.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph(n) for n in range(60)]}]}))
    Path("ask.toml").write_text(RECIPE)
    Path("text.txt").write_text(CONTEXT)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that tells colours: the word after "is". Where there is none there is no answer."""
    folder = tmp_path_factory.mktemp("asked")
    with contextlib.chdir(folder):
        write_data()
        regard.train("ask.toml", out="run")
    return str(folder / "run")


def test_it_learned_where_answers_stand(call: Any, asked: str) -> None:
    write_data()
    scores = json.loads(call("evaluate", asked, "--data", "train.json", "--json").out)
    assert scores["exact"] == scores["f1"] == 100
    assert (scores["questions"], scores["without an answer"]) == (60, 15)
    answer = load(asked).ask(QUESTION, CONTEXT)
    assert (answer.text, answer.start) == ("green", 26)
    done = call("ask", asked, "--context", "text.txt", QUESTION)
    assert (done.code, done.err, done.out) == (0, "", f"green\t{answer.probability:.4f}\n")
    assert load(asked).ask(QUESTION, "It was here . The boat is new .").text == ""


def test_several_answers_and_plain_data(call: Any, asked: str) -> None:
    write_data()
    done = call("ask", asked, "--context", "text.txt", QUESTION, QUESTION, "--n-best", 3)
    assert len(done.out.splitlines()) == 6
    row = json.loads(call("ask", asked, "--context", "text.txt", QUESTION, "--n-best", 2, "--json").out)
    assert (row["input"], row["text"], row["start"]) == (QUESTION, "green", 26)
    assert row["answers"][0]["text"] == "green"
    assert len(row["answers"]) == 2


def test_a_file_may_have_the_context_of_each_question(call: Any, asked: str) -> None:
    Path("in.csv").write_text(
        f"id,question,context\n1,{QUESTION},{CONTEXT}\n2,{QUESTION},{CONTEXT.replace('green', 'red')}\n"
    )
    done = call("ask", asked, "--input", "in.csv")
    assert done.code == 0
    assert [line.partition("\t")[0] for line in done.out.splitlines()] == ["green", "red"]


def test_what_is_missing_is_named(call: Any, asked: str) -> None:
    Path("in.txt").write_text(f"{QUESTION}\n")
    Path("empty.txt").write_text("\n")
    assert "give the text that the answer stands in with --context FILE" in call("ask", asked, QUESTION).err
    done = call("ask", asked, "--input", "in.txt")
    assert (done.code, "in.txt, line 1: give the text" in done.err) == (1, True)
    assert "empty.txt is empty" in call("ask", asked, QUESTION, "--context", "empty.txt").err
    assert "nowhere.txt" in call("ask", asked, QUESTION, "--context", "nowhere.txt").err


def test_the_picture_has_the_context_and_the_answer(call: Any, asked: str) -> None:
    write_data()
    assert call("ask", asked, QUESTION, "--context", "text.txt", "--show", "looks.svg").code == 0
    drawn = Path("looks.svg").read_text()
    assert "boat" in drawn
    assert "green 100.0 %" in drawn


def test_other_runs_say_that_they_cannot(call: Any, filler: str) -> None:
    Path("text.txt").write_text(CONTEXT)
    done = call("ask", filler, QUESTION, "--context", "text.txt")
    assert done.code == 2
    assert "and not for `regard ask`" in done.err
