"""A trained reader that finds answers in texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import overload

import numpy as np
import torch

from regard.attention import trace
from regard.data.text.question_windows import Window, encode_questions, question_batch, windows
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput
from regard.layers.onednn import without_onednn
from regard.models import protocols
from regard.models.protocols import Model, need
from regard.show import Document, Heads
from regard.tasks.ask.answers import AskedText, Candidate
from regard.tasks.ask.spans import Span, best_spans
from regard.tasks.core.inputs import check_many, check_text, in_parts, read_all
from regard.tasks.core.options import checks_keywords
from regard.tasks.core.results import Cut, Tick, no_tick
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.reader import Reader
from regard.tasks.shared.sites import sites_like
from regard.tasks.shared.text_reader import BATCH, GPU_BATCH, batches
from regard.tasks.shared.words import document_of

PART = 64  # questions whose windows are sorted by length together
LONGEST = 30  # tokens of an answer


@dataclass(frozen=True)
class Asked:
    """A question and its context as the model reads them."""

    question: str
    context: str
    windows: list[Window] = field(repr=False)
    places: list[tuple[int, int]] = field(repr=False)  # the characters that each token of the context stands for
    cut: Cut | None = None
    unknown: tuple[str, ...] = ()


class QuestionReader(Reader):
    """A trained encoder with a head for answers, as `regard.load(run)` gives it."""

    model: protocols.SpanFinder

    def __init__(
        self, model: Model, tokenizer: Tokenizer, max_length: int = 0, *, stride: int = 0, longest: int = LONGEST
    ):
        """max_length: how many tokens are read at once, 0: as many as the model takes; stride: how far apart the
        windows of a longer context begin, 0: a third of that; longest: tokens of an answer."""
        super().__init__(need(model, protocols.SpanFinder), tokenizer, max_length)
        self.stride, self.longest = stride or max(1, self.max_length // 3), longest

    @property
    def at_once(self) -> int:
        return PART

    @overload
    def ask(self, question: str, context: str, *, n_best: int = 1) -> AskedText: ...
    @overload
    def ask(self, question: list[str], context: str, *, n_best: int = 1) -> list[AskedText]: ...
    @checks_keywords
    def ask(self, question: str | list[str], context: str, *, n_best: int = 1) -> AskedText | list[AskedText]:
        """The answer to a question, or to each of a list: the likeliest span of the context, or "" where there
        seems to be none; with `n_best` further ones."""
        if isinstance(question, str):
            return next(self.answers([self.read_question(question, context)], n_best))
        check_many(question, "question")
        return list(
            self.answers(read_all(question, partial(self.read_question, context=context), "questions"), n_best)
        )

    def read_question(self, question: str, context: str) -> Asked:
        """The windows of a question. BadInput where one of the two is empty."""
        for what, text in (("question", question), ("context", context)):
            if not check_text(text, f"a {what}").strip():
                raise BadInput(f"the {what} is empty")
        [(ids, tokens, places)] = encode_questions(self.tokenizer, [(question, context)])
        if not tokens:
            raise BadInput(f"the context {context[:40]!r} has no word that the model could read")
        parts = windows(ids, tokens, self.tokenizer.special, length=self.max_length, stride=self.stride)
        read = parts[0].place - 2
        cut = Cut({"tokens of the question": (read, len(ids))}, f"{read} tokens") if read < len(ids) else None
        lost = dict.fromkeys(self.tokenizer.unknown_in(question, ids) + self.tokenizer.unknown_in(context, tokens))
        return Asked(question, context, parts, places, cut, tuple(lost))

    def answers(self, asked: Iterable[Asked], n_best: int = 1, *, tick: Tick = no_tick) -> Iterator[AskedText]:
        """In the order of the questions. `tick` is called once for each as it is answered."""
        for part in in_parts(asked, PART):
            logits = self._logits([window for each in part for window in each.windows])
            for each in part:
                own, logits = logits[: len(each.windows)], logits[len(each.windows) :]
                spans = best_spans(each.windows, own, n_best=n_best, longest=self.longest)
                yield self._answered(each, spans)
                tick()

    def _logits(self, parts: Sequence[Window]) -> list[np.ndarray]:
        """Of each window (T, 2)."""
        device = device_of(self.model)
        found: dict[int, np.ndarray] = {}
        for places in batches([len(each.row[0]) for each in parts], BATCH if device.type == "cpu" else GPU_BATCH):
            batch = question_batch([parts[place].row for place in places], self.tokenizer.special)
            with torch.inference_mode(), without_onednn(self.model):
                told = self.model.span_logits(batch.to(device)).float().cpu().numpy()
            found |= {place: own[: len(parts[place].row[0])] for place, own in zip(places, told, strict=True)}
        return [found[place] for place in range(len(parts))]

    def _answered(self, asked: Asked, spans: Sequence[Span]) -> AskedText:
        candidates = tuple(self._candidate(asked, span) for span in spans)
        window = asked.windows[spans[0].window]
        look = partial(self._heads, window.row, range(1, window.place - 1))
        return AskedText(
            asked.question,
            asked.context,
            candidates,
            look,
            partial(self._shaded, asked, window),
            cut=asked.cut,
            unknown=asked.unknown,
        )

    def _candidate(self, asked: Asked, span: Span) -> Candidate:
        if span.tokens is None:
            return Candidate("", span.probability)
        first, last = span.tokens
        start, end = asked.places[first][0], asked.places[last][1]
        return Candidate(asked.context[start:end], span.probability, start)

    # ---- where it looks

    @property
    def looks_at(self) -> str:
        """The site whose looks are drawn: the last one in which what the question looked at still matters, as only
        the states of the context are read after the last block."""
        sites = sites_like(self.model, ())
        return sites[max(0, len(sites) - 2)]

    def look_heads(self, asked: Asked, *sites: str) -> Heads:
        """Where each word of the question looked, in the window of the context that comes first."""
        window = asked.windows[0]
        return self._heads(window.row, range(1, window.place - 1), sites)

    def _shaded(self, asked: Asked, window: Window) -> Document:
        """The words of a window's context, shaded by the mean of the looks of all words of the question."""
        ids, segments = (torch.tensor([part], device=device_of(self.model)) for part in window.row)
        question, context = slice(1, window.place - 1), slice(window.place, window.place + window.count)
        with torch.inference_mode(), without_onednn(self.model), trace(self.model, self.looks_at) as seen:
            self.model.states(ids, segments)
        weights = seen[self.looks_at][0].float().cpu().numpy()  # (H, T, T)
        shares = weights[:, question, context].mean((0, 1))
        part = range(window.first, window.first + window.count)
        pieces = [asked.context[slice(*asked.places[token])] for token in part]
        return document_of(self.tokenizer, [window.row[0][context]], [pieces], shares[None], None)
