"""Ask: questions whose answers stand in a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import BadInput
from regard.tasks.core.card import Card, TaskRequest
from regard.tasks.core.inputs import FROM_FILE, Texts, check_text
from regard.tasks.core.options import Option
from regard.tasks.core.results import Metric
from regard.tasks.shared.received import Received


class Questions(Texts):
    what = "questions"
    metavar = "QUESTION"
    help = "Questions; without any, lines of stdin."
    from_file = FROM_FILE.format(what="question", usual="question, or question and context")
    usual = (("question", "context"), ("question",))
    fields = ()
    pairs = True
    tried = ("Who lives in Oslo?",)


def check_request(request: TaskRequest) -> None:
    context = request.options.get("context")
    if context is None and request.input_file is None:
        raise BadInput("give the text that the answer stands in with --context FILE")
    if isinstance(context, str) and not context.strip():
        raise BadInput("the text that the answer stands in is empty (context)")


ask_card = Card[Any](
    verb="ask",
    summary="Answer questions by a part of a text, and show where the question looked in it.",
    help="""
        regard ask runs/bert --context text.txt "Where does Nora live?"

        regard ask runs/bert --context text.txt "Where does Nora live?" --n-best 3 --show looks.png

        regard ask runs/bert --input questions.csv --output answers.tsv

    A line for each: answer TAB probability; the answer is empty where the text seems to have none. A file with two
    columns, question and context, needs no --context. A long text is read in windows that overlap.""",
    desk_name="regard.tasks.ask.desk:AskDesk",
    settings_name="regard.tasks.ask.settings:QuestionSettings",
    hub_task="question-answering",
    inputs=Questions(),
    options=(
        Option(
            "context",
            Path,
            "The text that the answers stand in: a file.",
            metavar="FILE",
            received=Received(
                {"type": "string", "description": "The text that the answers stand in."},
                lambda sent, pixels: check_text(sent, "context"),
            ),
            asked=True,
        ),
        Option("n_best", int, "How many answers to give to each question.", 1, min=1, max=100, metavar="N"),
    ),
    check_request=check_request,
    metrics={"f1": Metric("max", perfect=100), "exact": Metric("max", perfect=100)},
    validated=("f1", "exact"),
    unit="windows",
    sections=("tokens",),
)
