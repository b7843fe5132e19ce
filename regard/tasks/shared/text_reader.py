"""A trained classifier of texts, whatever it makes of them; and what it shares with other readers of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypedDict, TypeGuard, TypeVar, overload

import torch

from regard.attention import trace
from regard.data.text.text_encoding import EncodedText
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput, NoAttention, RunError
from regard.layers.onednn import without_onednn
from regard.models import name_of, protocols
from regard.models.protocols import Model, need
from regard.show import Document, Heads
from regard.tasks.core.inputs import check_many, check_text, check_there, in_parts, read_all
from regard.tasks.core.options import checks_keywords
from regard.tasks.core.results import Answer, Cut, Tick, in_order, no_tick
from regard.tasks.core.run import Run
from regard.tasks.shared.measuring import answer, can_replay, device_of
from regard.tasks.shared.reader_answers import Classified, ClassifiedDocument, ClassifiedText, Texts
from regard.tasks.shared.sites import looks_back, sites_like
from regard.tasks.shared.words import document_of, heads_of

PART = 1024  # texts sorted by length at once, so that a batch has rows of similar length
BATCH, GPU_BATCH = 8192, 16384  # tokens read at once; a GPU takes about as long for few as for many

Many = list[str] | list[tuple[str, str]] | list[Texts]
T = TypeVar("T", bound=Texts)
R = TypeVar("R")  # what a model says of a text
A = TypeVar("A", bound=Answer)


class NotRead(TypedDict):
    cut: Cut | None
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Encoded(Generic[T]):
    """A text or a pair as the model reads it."""

    text: T
    row: EncodedText
    cut: Cut | None = None  # where the text is longer than what is read
    unknown: tuple[str, ...] = ()  # what the vocabulary does not have

    @property
    def unread(self) -> NotRead:
        """What an answer says of it."""
        return {"cut": self.cut, "unknown": self.unknown}

    @property
    def truncated(self) -> bool:
        return self.cut is not None


class TextReader(Run):
    """A trained classifier of texts, as `regard.load(run)` gives it."""

    def __init__(self, model: Model, tokenizer: Tokenizer, max_length: int = 0):
        """max_length: how many tokens of a text are read, 0: as many as the model takes."""
        self.model, self.tokenizer = model, tokenizer
        self.encoding = need(model, protocols.TextClassifier).encoding
        self.max_length = min(max_length or self.encoding.most, self.encoding.most)
        self.pairs: bool | None = None  # was a classifier trained on pairs of texts? None: unknown

    @property
    def at_once(self) -> int:
        return PART

    # ---- classify

    @overload
    def classify(self, text: Texts) -> ClassifiedText: ...
    @overload
    def classify(self, text: Many) -> Sequence[ClassifiedText]: ...
    @checks_keywords
    def classify(self, text: Texts | Many) -> ClassifiedText | Sequence[ClassifiedText]:
        """The class of a text, of a pair of texts (a tuple), or of each of a list."""
        self.check_classify()
        if is_single(text):
            return next(self.classes([self.read_labelled(text)]))
        return list(self.classes(self._read_all(text, self.read_labelled)))

    def classes(self, texts: Iterable[Encoded[Texts]], *, tick: Tick = no_tick) -> Iterator[ClassifiedText]:
        """In the order of the texts. `tick` is called once for each as it is answered."""
        self.check_classify()
        model = need(self.model, protocols.Classifier)

        def tell(batch: Any) -> list[list[float]]:
            return answer(model, batch).float().softmax(-1).tolist()

        labels = model.config.labels

        def classified(encoded: Encoded[Texts], shares: list[float]) -> ClassifiedText:
            likeliest_first = sorted(zip(shares, labels, strict=True), key=lambda pair: -pair[0])
            return self._classified(encoded, {label: share for share, label in likeliest_first})

        yield from self._answers(texts, tell, classified, tick)

    def _classified(self, encoded: Encoded[Texts], probabilities: dict[str, float]) -> ClassifiedText:
        words, told = len(encoded.row[0]), (encoded.text, next(iter(probabilities)), probabilities)
        if self._looks_back:
            look = partial(self._look_back, encoded) if words > 1 else None
            return Classified(*told, look, **encoded.unread)
        return ClassifiedDocument(*told, words, partial(self._document, encoded), **encoded.unread)

    def check_classify(self) -> None:
        """RunError where the model has no classes."""
        if not getattr(self.model.config, "labels", ()):
            head = getattr(self.model.config, "head", "")
            has = f" (its head is {head!r})" if head else ""
            raise RunError(
                f"this model has no classes to choose from{has}; teach it some: "
                f"`regard train {name_of(self.model)}-labelled --from RUN --set data.train=FILE`"
            )

    def read_labelled(self, text: Texts) -> Encoded[Texts]:
        """As `read`; BadInput where there is nothing to read, or where a pair comes and single texts were learned,
        or the other way round."""
        check_there(text, "classify")
        encoded = self.read(text)
        if self.pairs is not None and self.pairs != isinstance(text, tuple):
            learned, came = ("pairs of texts", "a single one") if self.pairs else ("single texts", "a pair")
            shown = text if isinstance(text, str) else text[0]
            raise BadInput(f"this run learned classes of {learned} and got {came}, {shown[:40]!r}")
        return encoded

    # ---- where it looks

    def check_looks(self) -> None:
        """NoAttention where the model has no weights to show."""
        if not self._levels() and not self._looks_back:
            raise NoAttention(
                f"this {name_of(self.model)} pools by {self.model.config.pool!r}, which has no weights to show; "
                "leave --show out, or train one with model.pool = 'attention'"
            )

    def _levels(self) -> tuple[str, ...]:
        return self.model.levels if isinstance(self.model, protocols.DocumentClassifier) else ()

    @cached_property
    def _looks_back(self) -> bool:
        return looks_back(self.model, sites_like(self.model, ()))

    def _look_back(self, encoded: Encoded[Texts], sites: Sequence[str] = ()) -> Heads:
        """Which words before it each word looked at."""
        ids, named = encoded.row[0], sites_like(self.model, sites)
        model = need(self.model, protocols.Classifier)
        batch = self.encoding.batch([encoded.row], self.tokenizer.special).to(device_of(model))
        with torch.inference_mode(), without_onednn(model), trace(model, *named) as seen:
            model.class_logits(batch)
        both = (self.tokenizer, ids), (self.tokenizer, ids[:-1])
        return heads_of(seen, lambda site: both)

    def _document(self, encoded: Encoded[Texts], sites: Sequence[str] = ()) -> Document:
        """The text with the weights of its words and sentences."""
        self.check_looks()
        if not encoded.row[0]:
            raise NoAttention("a text without words has nothing to show")
        model, levels = need(self.model, protocols.DocumentClassifier), self._levels()
        named = sites_like(model, sites)
        batch = self.encoding.batch([encoded.row], self.tokenizer.special).to(device_of(model))
        with torch.inference_mode(), without_onednn(model), trace(model, *levels) as seen:
            model.class_logits(batch)
        words, *sentences = (seen[site][:, 0].float().cpu().numpy() if site in named else None for site in levels)
        text = encoded.text if isinstance(encoded.text, str) else encoded.text[0]
        split = self.encoding.sentences(text, encoded.row, self.tokenizer)
        pieces = iter(self.encoding.pieces(text, self.tokenizer))
        spelled = [[next(pieces) for _ in ids] for ids in split]
        by_sentence = None if words is None else words[self.encoding.sentence_rows(batch)]
        above = sentences[0][0][: len(split)] if sentences and sentences[0] is not None else None
        return document_of(self.tokenizer, split, spelled, by_sentence, above)

    # ---- what readers share

    def read(self, text: T) -> Encoded[T]:
        """The tokens of a text or a pair, truncated to what the model takes. An empty second text counts as none,
        as in training."""
        pair = (text, "") if isinstance(text, str) else text
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise BadInput(
                f"a text must be a str, or a tuple of two for a pair; got {text!r:.40} ({type(text).__name__})"
            )
        first, second = map(check_text, pair)
        if second and not self.encoding.pairs:
            why = f" ({self.encoding.single})" if self.encoding.single else ""
            raise BadInput(f"this model was made for single texts{why}, got a pair, {first[:40]!r} first")
        row, truncated = next(self.encoding.rows([(first, second)], self.tokenizer, self.max_length))
        whole = truncated or self.encoding.shortens(first)
        cut = self._cut((first, second), row) if whole else None
        return Encoded(text, row, cut, self.encoding.unknown((first, second), row, self.tokenizer))

    def _cut(self, text: tuple[str, str], row: EncodedText) -> Cut | None:
        read, whole = self.encoding.counts(row), self.encoding.counts(self.encoding.whole(text, self.tokenizer))
        parts = {unit: (read[unit], count) for unit, count in whole.items() if read[unit] < count}
        return Cut(parts, self.encoding.limits(self.max_length)) if parts else None

    def _read_all(self, texts: Iterable[T], read: Callable[[T], Encoded[T]]) -> Iterator[Encoded[T]]:
        """A text that cannot be read raises BadInput with its index."""
        check_many(texts, "text")
        return read_all(texts, read, "texts")

    def _answers(
        self,
        texts: Iterable[Encoded[T]],
        tell: Callable[[Any], list[R]],
        answered: Callable[[Encoded[T], R], A],
        tick: Tick = no_tick,
    ) -> Iterator[A]:
        """The answer for each text, in the order of the texts: what `answered` makes of what `tell` says of a
        batch. Where reading a text raises BadInput, those before it are answered first. An error that ends the work
        carries what was done: see `unfinished`."""
        for part in in_parts(texts, PART):
            yield from in_order(len(part), self._groups(part, tell, answered, tick))

    def _groups(
        self,
        texts: Sequence[Encoded[T]],
        tell: Callable[[Any], list[R]],
        answered: Callable[[Encoded[T], R], A],
        tick: Tick,
    ) -> Iterator[dict[int, A]]:
        """The answers by the numbers of their texts, those of similar length together."""
        device = device_of(self.model)
        room = BATCH if device.type == "cpu" else GPU_BATCH
        rows = [encoded.row for encoded in texts]
        for places in batches(list(map(self.encoding.length, rows)), room):
            batch = self.encoding.batch([rows[place] for place in places], self.tokenizer.special)
            if can_replay(self.model):
                batch = self.encoding.rounded(batch, batch_tokens=room, most=self.max_length)
            with torch.inference_mode(), without_onednn(self.model):
                told = tell(batch.to(device))[: len(places)]
            yield {place: answered(texts[place], own) for place, own in zip(places, told, strict=True)}
            for _ in places:
                tick()


def is_single(text: T | Iterable[T]) -> TypeGuard[T]:
    """A text or, in a tuple, a pair; a list holds many. Anything else is taken as a text, and refused there."""
    return isinstance(text, str | bytes | tuple) or not isinstance(text, Iterable)


def batches(lengths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Row numbers that are read together: the longest first, at most `room` tokens."""
    batch: list[int] = []
    tokens = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if batch and tokens + lengths[place] > room:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += lengths[place]
    if batch:
        yield batch
