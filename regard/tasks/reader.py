"""A trained encoder of text: filling blanks, vectors, classes, and where each token looked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TypeGuard, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.batch import pad
from regard.data.labelled_texts import encode_pair
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError, RunError
from regard.layers.onednn import without_onednn
from regard.learn.progress import say
from regard.models import protocols
from regard.models.protocols import Model
from regard.show import Heads, Map, bars
from regard.tasks.measuring import device_of
from regard.tasks.search import need, sites_like
from regard.tasks.task import Run

PART = 1024  # texts sorted by length at once, so that a batch has rows of similar length
BATCH = 8192  # tokens read at once
POOLS = ("mean", "cls")
BARS = 10  # classes that are drawn as bars

Texts = str | tuple[str, str]  # one, or a pair
Row = tuple[list[int], list[int]]  # ids and segments, the special tokens included
Asked = TypeVar("Asked", bound=Texts)
Found = TypeVar("Found")
Look = Callable[[Sequence[str]], Heads]
Cut = Callable[[Texts], None]


class Looked(ABC):
    """An answer that can say where its tokens looked."""

    _look: Look | None

    def heads(self, *sites: str) -> Heads:
        """Every head of the named sites ("blocks.0.*"; none: all) in one picture."""
        assert self._look is not None
        return self._look(sites)

    @cached_property
    def attention(self) -> Map:
        """Where the tokens in question looked: the mean of the last layer's heads."""
        heads = self.heads()
        return heads.map(list(heads.panels)[-1])

    @abstractmethod
    def bars(self) -> list[Sequence[tuple[str, float]]]:
        """How likely the answers are, for a terminal."""

    def picture(self, sites: Sequence[str] = ()) -> BarsAndLooks:
        return BarsAndLooks(self.heads(*sites) if sites else self.attention, self.bars())


@dataclass(frozen=True)
class BarsAndLooks:
    """Where the model looked; in a terminal with how likely the answers are above it."""

    looks: Map | Heads
    rows: list[Sequence[tuple[str, float]]]

    def save(self, path: str | Path) -> None:
        self.looks.save(path)

    def terminal(self, *, colour: bool = True) -> str:
        return "\n".join([*map(bars, self.rows), self.looks.terminal(colour=colour)])


@dataclass(frozen=True)
class EncodedBatch:
    """Texts as an encoder reads them."""

    tokens: Tensor  # (B, T)
    segments: Tensor  # (B, T)
    mask: Tensor  # (B, T), True = a real token


@dataclass(frozen=True)
class Filled(Looked):
    source: str
    text: str  # each blank with its likeliest token
    blanks: tuple[tuple[tuple[str, float], ...], ...]  # the likeliest tokens of each blank with their probabilities
    filled: tuple[tuple[str, ...], ...] = ()  # the text with each of those
    _look: Look | None = field(default=None, repr=False, compare=False)

    def bars(self) -> list[Sequence[tuple[str, float]]]:
        return list(self.blanks)

    def to_dict(self) -> dict[str, object]:
        blanks = [[{"token": token, "probability": share} for token, share in blank] for blank in self.blanks]
        return {"source": self.source, "text": self.text, "blanks": blanks}

    def line(self) -> str:
        return "\n".join(
            f"{share:.4f}\t{token}\t{text}"
            for blank, texts in zip(self.blanks, self.filled, strict=True)
            for (token, share), text in zip(blank, texts, strict=True)
        )


@dataclass(frozen=True)
class Classified(Looked):
    source: Texts
    label: str
    probabilities: dict[str, float]  # of every class, the likeliest first
    _look: Look | None = field(default=None, repr=False, compare=False)

    def bars(self) -> list[Sequence[tuple[str, float]]]:
        return [list(self.probabilities.items())[:BARS]]

    def to_dict(self) -> dict[str, object]:
        first, second = (self.source, None) if isinstance(self.source, str) else self.source
        texts = {"text": first} | ({} if second is None else {"second": second})
        return {**texts, "label": self.label, "probabilities": self.probabilities}

    def line(self) -> str:
        return f"{one_line(self.label)}\t{self.probabilities[self.label]:.4f}"


def one_line(label: str) -> str:
    """A class may have any name, but a line and its columns stay whole."""
    return " ".join(label.split())


class Reader(Run):
    """A trained encoder, as `regard.load(run)` gives it. What it can do beside `embed` depends on its head."""

    model: protocols.Encoder

    def __init__(self, model: Model, tokenizer: Tokenizer, max_length: int = 0):
        """max_length: how many tokens of a text are read, 0: as many as the model has positions."""
        self.model, self.tokenizer = need(model, protocols.Encoder), tokenizer
        most = model.config.max_positions
        self.max_length = min(max_length or most, most)
        self.blank = tokenizer.inner.id_to_token(tokenizer.special.mask) if tokenizer.special.mask >= 0 else None

    # ---- fill

    @overload
    def fill(self, text: str, top: int = 5) -> Filled: ...
    @overload
    def fill(self, text: list[str], top: int = 5) -> list[Filled]: ...
    def fill(self, text: str | list[str], top: int = 5) -> Filled | list[Filled]:
        """The likeliest tokens for each [MASK] of a text, or of each of a list."""
        if is_one(text):
            return next(self.fillings([text], top))
        return list(self.fillings(text, top))

    def fillings(self, texts: Iterable[str], top: int = 5) -> Iterator[Filled]:
        """In the order of the texts."""
        self.check_fill()
        if not isinstance(top, int | np.integer) or top < 1:
            raise ValueError(f"top must be a whole number of at least 1, got {top!r:.80}")
        model, hidden = need(self.model, protocols.MaskedLanguageModel), self.tokenizer.special.mask

        def guess(batch: EncodedBatch) -> list[list[tuple[list[int], list[float]]]]:
            states = model.states(batch.tokens, batch.segments, batch.mask)
            blanks = (batch.tokens == hidden) & batch.mask
            likely = model.masked_logits(states[blanks]).float().softmax(-1).topk(top)
            found = list(zip(likely.indices.tolist(), likely.values.tolist(), strict=True))
            counts = blanks.sum(1).tolist()
            return [[found.pop(0) for _ in range(count)] for count in counts]

        top = min(top, len(self.tokenizer))
        for text, row, found in self._answers(texts, self.read_blanks, guess):
            yield self._filled(text, row, found)

    def check_fill(self) -> None:
        if not getattr(self.model.config, "predicts_words", False):
            raise RunError(
                f"this model has no head that predicts masked words (its head is {self.model.config.head!r}), so "
                "it cannot fill blanks; train one with `regard train bert-text`"
            )
        if self.blank is None:
            raise RunError("this model's vocabulary has no mask token, so it cannot fill blanks")

    def read_blanks(self, text: str) -> Row:
        """The tokens of a text with blanks. DataError where there is none, or too much text."""
        if not isinstance(text, str):
            raise ValueError(f"a text with blanks must be a str, got {text!r:.80}")
        parts = text.split(str(self.blank))
        if len(parts) == 1:
            raise DataError(f"{text[:60]!r} has no {self.blank} to fill; write it where a word is wanted")
        ids: list[int] = []
        for number, part in enumerate(parts):
            ids += ([self.tokenizer.special.mask] if number else []) + self.tokenizer.encode(part)
        self._check_length(len(ids) + 2, text)
        return self._row(ids, None)

    def _filled(self, text: str, row: Row, found: list[tuple[list[int], list[float]]]) -> Filled:
        blanks = tuple(tuple(zip(self.tokenizer.tokens(ids), shares, strict=True)) for ids, shares in found)
        whole = text
        for number in reversed(range(len(blanks))):  # from the end: the likeliest may be [MASK] itself
            whole = self.put(whole, blanks[number][0][0], number)
        places = [place for place, one in enumerate(row[0]) if one == self.tokenizer.special.mask]
        filled = tuple(
            tuple(self.put(text, token, number) for token, _ in blank) for number, blank in enumerate(blanks)
        )
        return Filled(text, whole, blanks, filled, partial(self._heads, row, places))

    def put(self, text: str, token: str, number: int = 0) -> str:
        """The text with one of its blanks replaced; a piece that continues a word is joined to it."""
        blank = str(self.blank)
        parts = text.split(blank)
        before, after = blank.join(parts[: number + 1]), blank.join(parts[number + 1 :])
        return (before.rstrip() + token[2:] if token.startswith("##") else before + token) + after

    # ---- embed

    def embed(self, text: Texts | list[Texts], *, pool: str = "mean", normalise: bool = False) -> np.ndarray:
        """The vector (dim,) of a text or of a pair of texts (a tuple), or those (N, dim) of a list: the mean of the
        tokens' states, or the state of [CLS]."""
        if is_one(text):
            return next(self.vectors([text], pool=pool, normalise=normalise))
        found = list(self.vectors(text, pool=pool, normalise=normalise))
        return np.stack(found) if found else np.zeros((0, self.model.config.dim), np.float32)

    def vectors(
        self, texts: Iterable[Texts], *, pool: str = "mean", normalise: bool = False, cut: Cut = lambda text: None
    ) -> Iterator[np.ndarray]:
        """In the order of the texts. `cut` is called with each text that is longer than the model takes."""
        if pool not in POOLS:
            raise ValueError(f"pool must be one of {', '.join(POOLS)}, got {pool!r}")

        def take(batch: EncodedBatch) -> list[np.ndarray]:
            states = self.model.states(batch.tokens, batch.segments, batch.mask)
            found = states[:, 0]
            if pool == "mean":
                shares = batch.mask[..., None].to(states.dtype)
                found = (states * shares).sum(1) / shares.sum(1)
            if normalise:
                found = torch.nn.functional.normalize(found, dim=-1)
            return list(found.float().cpu().numpy())

        for _, _, vector in self._answers(texts, partial(self.read, cut=cut), take):
            yield vector

    # ---- classify

    @overload
    def classify(self, text: Texts) -> Classified: ...
    @overload
    def classify(self, text: list[Texts]) -> list[Classified]: ...
    def classify(self, text: Texts | list[Texts]) -> Classified | list[Classified]:
        """The class of a text, of a pair of texts (a tuple), or of each of a list."""
        if is_one(text):
            return next(self.classes([text]))
        return list(self.classes(text))

    def classes(self, texts: Iterable[Texts], *, cut: Cut = lambda text: None) -> Iterator[Classified]:
        """In the order of the texts. `cut` is called with each text that is longer than the model takes."""
        self.check_classify()

        model = need(self.model, protocols.Classifier)

        def tell(batch: EncodedBatch) -> list[list[float]]:
            return model.class_logits(batch).float().softmax(-1).tolist()

        labels = model.config.labels
        for text, row, shares in self._answers(texts, partial(self.read, cut=cut), tell):
            likely = sorted(zip(shares, labels, strict=True), key=lambda one: -one[0])
            found = {label: share for share, label in likely}
            yield Classified(text, likely[0][1], found, partial(self._heads, row, [0]))

    def check_classify(self) -> None:
        if not getattr(self.model.config, "labels", ()):
            raise RunError(
                f"this model has no classes to choose from (its head is {self.model.config.head!r}); teach it "
                "some: `regard train bert-labelled --from RUN --set data.train=FILE`"
            )

    # ---- what they share

    def read(self, text: Texts, *, cut: Cut = lambda text: None) -> Row:
        """The tokens of a text or a pair, truncated to what the model takes, in which case `cut` is called. An
        empty second text counts as none, as in training."""
        pair = (text, "") if isinstance(text, str) else text
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ValueError(f"a text must be a str, or a tuple of two for a pair; got {text!r:.80}")
        first, second = pair
        if second and self.model.config.segments < 2:
            raise ValueError(
                f"this model was made for single texts (segments = 1), got a pair, {first[:40]!r} first"
            )
        parts = [self.tokenizer.encode(part) for part in ((first, second) if second else (first,))]
        if sum(len(part) + 1 for part in parts) + 1 > self.max_length:
            cut(text)
        return self._row(parts[0], parts[1] if second else None)

    def look(self, text: Texts, *sites: str) -> Heads:
        """Every head of the named sites (none: all): a row and a column for each token."""
        row = self.read(text)
        return self._heads(row, range(len(row[0])), sites)

    @contextmanager
    def telling_truncated(self) -> Iterator[Cut]:
        """Counts the texts that were truncated, and says so once at the end."""
        count = 0

        def cut(text: Texts) -> None:
            nonlocal count
            count += 1

        yield cut
        if count:
            texts = "text was" if count == 1 else "texts were"
            say(f"{count:,} {texts} truncated to the {self.max_length} tokens this model takes")

    def _row(self, first: list[int], second: list[int] | None) -> Row:
        return encode_pair(first, second, self.tokenizer.special, self.max_length)

    def _check_length(self, count: int, text: str) -> None:
        if count > self.max_length:
            raise DataError(
                f"the text {text[:40]!r}... has {count} tokens and this model takes {self.max_length}; shorten it"
            )

    def _answers(
        self,
        texts: Iterable[Asked],
        read: Callable[[Asked], Row],
        answer: Callable[[EncodedBatch], list[Found]],
    ) -> Iterator[tuple[Asked, Row, Found]]:
        """The answer for each text, in the order of the texts. Rows of similar length are read together."""
        device = device_of(self.model)
        left = iter(texts)
        while part := list(islice(left, PART)):
            rows = [read(text) for text in part]
            found: dict[int, Found] = {}
            for places in batches([len(ids) for ids, _ in rows]):
                tokens, mask = pad([rows[place][0] for place in places], self.tokenizer.special.pad)
                segments, _ = pad([rows[place][1] for place in places], 0)
                batch = EncodedBatch(tokens.to(device), segments.to(device), mask.to(device))
                with torch.inference_mode(), without_onednn(self.model):
                    found |= zip(places, answer(batch), strict=True)
            for place, text in enumerate(part):
                yield text, rows[place], found[place]

    def _heads(self, row: Row, places: Sequence[int], sites: Sequence[str]) -> Heads:
        """Where the tokens at these places looked."""
        ids, segments = (torch.tensor([part], device=device_of(self.model)) for part in row)
        with (
            torch.inference_mode(),
            without_onednn(self.model),
            trace(self.model, *sites_like(self.model, sites), rows=places) as seen,
        ):
            self.model.states(ids, segments)
        panels = {site: seen[site][0].float().cpu().numpy() for site in seen.sites}
        labels = self.tokenizer.tokens(row[0])
        return Heads(panels, [labels[place] for place in places], labels)


def is_one(asked: Asked | list[Asked]) -> TypeGuard[Asked]:
    """A text or, in a tuple, a pair; a list holds many. Anything else is taken as one text, and refused there."""
    return isinstance(asked, str | bytes | tuple) or not isinstance(asked, Iterable)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers that are read together: the longest first, at most BATCH tokens."""
    batch: list[int] = []
    tokens = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if batch and tokens + lengths[place] > BATCH:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += lengths[place]
    if batch:
        yield batch
