"""Answers as spans of a context: chosen by hand-worked scores, learned, evaluated, drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention import trace
from regard.data.text.question_windows import windows
from regard.data.text.questions import AnswerIn, Question
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput
from regard.metrics.answers import f1, is_exact
from regard.models.bert import Bert, BertConfig
from regard.tasks.ask.run import QuestionReader
from regard.tasks.ask.spans import best_spans
from regard.tasks.core.table import TASKS

SPECIAL = Special(0, 2, 3, 1)
CONTEXT = "Nora Berg lives in Oslo. Tom lives in Rome. Nora works as a baker, and Tom as a pilot."
QUESTION = "Where does Nora live?"


def reader(longest: int = 30, **changes: Any) -> QuestionReader:
    """Drawn weights, which say something different of every span."""
    tokens = Tokenizer.train([CONTEXT, QUESTION] * 3, kind="wordpiece", size=120, lowercase=True, numbering="bert")
    sizes: dict[str, Any] = {"dim": 24, "layers": 2, "heads": 3, "max_positions": 64} | changes
    torch.manual_seed(1)
    model = Bert(BertConfig(len(tokens), head="span", **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return QuestionReader(model, tokens, longest=longest)


# ---- choosing


def test_the_best_span_has_the_largest_sum() -> None:
    """Begins 1, 3, 0 and ends 0, 0, 2 of three tokens: the sums are 1 1 3, 3 5, 2, and 0 without an answer."""
    [window] = windows([9], [20, 21, 22], SPECIAL, length=16, stride=4)
    logits = np.full((len(window.row[0]), 2), -np.inf)
    logits[0] = 0.5, -0.5
    logits[window.place : window.place + 3] = [(1, 0), (3, 0), (0, 2)]
    every = [0.0, 1, 1, 3, 3, 5, 2]
    total = sum(math.exp(each) for each in every)
    spans = best_spans([window], [logits], n_best=3, longest=3)
    assert [span.tokens for span in spans] == [(1, 2), (0, 2), (1, 1)]
    assert [span.probability for span in spans] == pytest.approx([math.exp(each) / total for each in (5, 3, 3)])
    assert [span.tokens for span in best_spans([window], [logits], n_best=9, longest=1)] == [
        (1, 1),
        (2, 2),
        (0, 0),
        None,
    ]


def test_no_answer_wins_where_its_score_does() -> None:
    [window] = windows([9], [20, 21], SPECIAL, length=16, stride=4)
    logits = np.zeros((len(window.row[0]), 2))
    logits[0] = 3, 3
    [span] = best_spans([window], [logits], n_best=1, longest=5)
    assert span.tokens is None
    assert span.probability == pytest.approx(math.exp(6) / (math.exp(6) + 3))


def test_each_span_counts_once_and_no_answer_in_its_least_likely_window() -> None:
    found = windows([7], list(range(20, 30)), SPECIAL, length=9, stride=3)
    logits = [np.zeros((len(window.row[0]), 2)) for window in found]
    logits[0][0], logits[1][0], logits[2][0] = (2, 2), (1, 0), (4, 4)
    spans = best_spans(found, logits, n_best=1000, longest=2)
    shown = [span.tokens for span in spans if span.tokens]
    assert len(shown) == len(set(shown))
    assert {span.window for span in spans if span.tokens == (5, 6)} == {1}
    assert spans[0].tokens is None  # of the second window: e^1 beside e^0
    assert spans[0].probability == pytest.approx(math.e / (math.e + len(shown)))


# ---- asking


def test_an_answer_is_a_span_of_the_context_by_hand() -> None:
    """p(i, j) = exp(b_i + e_j) / sum; the characters are those of the context, in capitals too."""
    run = reader()
    model, tokens = run.model, run.tokenizer
    first, second = tokens.encode(QUESTION), tokens.encode(CONTEXT)
    ids = [2, *first, 3, *second, 3]
    segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    with torch.no_grad():
        states = model.states(torch.tensor([ids]), torch.tensor([segments]))[0].double()
    with torch.no_grad():
        logits = states @ model.span.weight.T.double() + model.span.bias.double()
    place = len(first) + 2
    scores = {
        (i, j): float(logits[place + i, 0] + logits[place + j, 1])
        for i in range(len(second))
        for j in range(i, min(i + 30, len(second)))
    }
    none = float(logits[0].sum())
    total = math.exp(none) + sum(map(math.exp, scores.values()))
    best = max(scores, key=lambda span: scores[span])
    answer = run.ask(QUESTION, CONTEXT, n_best=5)
    candidate = next(each for each in answer.candidates if each.text)
    assert candidate.probability == pytest.approx(math.exp(scores[best]) / total, rel=1e-4)
    assert CONTEXT[candidate.start :].startswith(candidate.text)
    assert tokens.encode(candidate.text) == second[best[0] : best[1] + 1]
    assert sum(each.probability for each in answer.candidates) <= 1
    assert [each.text for each in run.ask([QUESTION, QUESTION], CONTEXT)] == [answer.text] * 2


def test_a_long_context_is_read_whole() -> None:
    """The answer of a long context is found in a window, as if that were the context."""
    run = reader(max_positions=24, longest=4)
    asked = run.read_question(QUESTION, CONTEXT * 3)
    assert len(asked.windows) > 3
    answer = run.ask(QUESTION, CONTEXT * 3, n_best=3)
    for each in answer.candidates:
        assert not each.text or (CONTEXT * 3)[each.start :].startswith(each.text)
    covered = {number for window in asked.windows for number in range(window.first, window.first + window.count)}
    assert covered == set(range(len(asked.places)))


@pytest.mark.parametrize(
    ("question", "context", "told"),
    [
        (" ", CONTEXT, "the question is empty"),
        (QUESTION, "\n", "the context is empty"),
        (3, CONTEXT, "give one question"),
    ],
)
def test_what_cannot_be_asked_is_refused(question: Any, context: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        reader().ask(question, context)


def test_the_picture_shades_the_context_by_the_looks_of_the_question() -> None:
    run = reader()
    answer = run.ask(QUESTION, CONTEXT)
    document = answer.document()
    assert " ".join(document.sentences[0]).startswith("Nora Berg lives in Oslo .")
    tokens = run.tokenizer.encode(CONTEXT)
    [window] = run.read_question(QUESTION, CONTEXT).windows
    ids, segments = (torch.tensor([part]) for part in window.row)
    with torch.no_grad(), trace(run.model, "blocks.0.attend") as seen:
        run.model.states(ids, segments)
    looks = seen["blocks.0.attend"][0][:, 1 : window.place - 1, window.place : window.place + len(tokens)]
    assert float(np.concatenate(document.weights).sum()) == pytest.approx(float(looks.mean((0, 1)).sum()), rel=1e-5)
    assert answer.heads("blocks.0.*").panels.keys() == {"blocks.0.attend"}


# ---- evaluation


def test_evaluation_counts_as_squad_does() -> None:
    run = reader()
    rows = [Question(CONTEXT, QUESTION, (AnswerIn("Oslo", 19),)), Question(CONTEXT, "Who is Tom?")]
    found = TASKS["ask"].desk.evaluate(run, rows)
    said = [run.ask(row.text, row.context).text for row in rows]
    right = [["Oslo"], []]
    assert found.metrics["exact"] == 50 * sum(map(is_exact, said, right))
    assert found.metrics["f1"] == pytest.approx(50 * sum(map(f1, said, right)))
    assert found.counts == {"questions": 2, "without an answer": 1}
