"""What a reader does that finds answers: trained, opened, evaluated, asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from regard.base.lines import open_chunks
from regard.data.artifacts import Artifacts
from regard.data.text.questions import Question
from regard.errors import BadInput
from regard.metrics.answers import f1, is_exact
from regard.models.protocols import Model
from regard.runs.folder import Folder
from regard.tasks.ask.answers import AskedText
from regard.tasks.ask.prepare import prepare, survey
from regard.tasks.ask.run import LONGEST, Asked, QuestionReader
from regard.tasks.ask.settings import QuestionSettings
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.shared.reader_desk import ReaderDesk


class AskDesk(ReaderDesk[QuestionSettings, QuestionReader, list[Question]]):
    kind = QuestionReader
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> QuestionReader:
        """The recipe says how windows overlap, and how long answers were."""
        data = (folder.recipe or {}).get("data", {})
        stride, longest = (data.get(name) if isinstance(data, dict) else 0 for name in ("stride", "longest_answer"))
        return QuestionReader(
            model,
            artifacts.own_tokenizer,
            artifacts.max_length,
            stride=stride if isinstance(stride, int) else 0,
            longest=longest if isinstance(longest, int) and longest > 0 else LONGEST,
        )

    # -- evaluation

    @contextmanager
    def test_data(self, run: QuestionReader, settings: QuestionSettings) -> Iterator[list[Question]]:
        yield settings.rows("test")

    def has_columns(self, settings: QuestionSettings) -> bool:
        return False

    def evaluate(
        self,
        run: QuestionReader,
        data: list[Question],
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How many answers are right, and how many of their words. Questions without an answer count too."""
        run.model.eval()
        asked = (run.read_question(row.text, row.context) for row in data)
        answers = [answer.text for answer in run.answers(asked, tick=tick)]
        right = [[each.text for each in row.answers] for row in data]
        exact = [is_exact(answer, texts) for answer, texts in zip(answers, right, strict=True)]
        shares = [f1(answer, texts) for answer, texts in zip(answers, right, strict=True)]
        metrics = {"f1": 100 * sum(shares) / len(data), "exact": 100 * sum(exact) / len(data)}
        if only:
            return Evaluation({name: metrics[name] for name in only})
        without = [hit for hit, texts in zip(exact, right, strict=True) if not texts]
        rows = {"exact where there is no answer": 100 * sum(without) / len(without)} if without else {}
        counts = {"questions": len(data)} | ({"without an answer": len(without)} if without else {})
        return Evaluation(metrics, counts, rows=rows)

    def held_out(self, run: QuestionReader, data: list[Question], count: int) -> Iterator[AskedText]:
        return run.answers(run.read_question(row.text, row.context) for row in data[:count])

    def ticks(self, data: list[Question]) -> int:
        return len(data)

    # -- asking

    def settled(self, run: QuestionReader, options: Options) -> Options:
        """With the context, read once for all questions."""
        context = options.get("context")
        if isinstance(context, Path):
            context = "".join(open_chunks(context))
            if not context.strip():
                raise BadInput(f"{options['context']} is empty; --context names the text that the answers stand in")
        return {**options, "context": context}

    def reader(self, run: QuestionReader, options: Options) -> Callable[[Any], Asked]:
        return partial(_read, run, options.get("context"))

    def ask(
        self,
        run: QuestionReader,
        inputs: Iterable[Asked],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[AskedText]:
        return run.answers(inputs, options.get("n_best") or 1, tick=tick)


def _read(run: QuestionReader, context: str | None, item: str | tuple[str, ...]) -> Asked:
    """A question, which in a file with columns may have a context of its own."""
    question, *own = item if isinstance(item, tuple) else (item,)
    if not own and context is None:
        raise BadInput(
            "give the text that the answer stands in with --context FILE, or as a column of the questions"
        )
    return run.read_question(question, own[0] if own else str(context))
