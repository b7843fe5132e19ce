"""A trained encoder of text: filling blanks, vectors, classes, and where each token looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Generic, Literal, TypeGuard, TypeVar, get_args, overload

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.batch import pad
from regard.data.labelled_texts import encode_pair
from regard.data.short_repr import short_repr
from regard.data.tokenizer import Tokenizer
from regard.errors import BadInput, DataError, RunError
from regard.layers.onednn import without_onednn
from regard.learn.progress import say
from regard.models import protocols
from regard.models.protocols import Model
from regard.show import Heads
from regard.tasks.inputs import check_many, check_text, check_top, in_parts, read_all
from regard.tasks.measuring import device_of
from regard.tasks.options import checks_keywords
from regard.tasks.reader_answers import Classified, Filled, Texts
from regard.tasks.search import need, sites_like
from regard.tasks.task import Run
from regard.tasks.words import heads_of

PART = 1024  # texts sorted by length at once, so that a batch has rows of similar length
BATCH = 8192  # tokens read at once
Pool = Literal["mean", "cls"]

Many = list[str] | list[tuple[str, str]] | list[Texts]
Row = tuple[list[int], list[int]]  # ids and segments, the special tokens included
Asked = TypeVar("Asked", bound=Texts)
Found = TypeVar("Found")
Cut = Callable[[Texts], None]


@dataclass(frozen=True)
class Encoded(Generic[Asked]):
    """A text or a pair as the model reads it."""

    text: Asked
    row: Row
    truncated: bool = False


@dataclass(frozen=True)
class EncodedBatch:
    """Texts as an encoder reads them."""

    tokens: Tensor  # (B, T)
    segments: Tensor  # (B, T)
    mask: Tensor  # (B, T), True = a real token

    __repr__ = short_repr


class Reader(Run):
    """A trained encoder, as `regard.load(run)` gives it. What it can do beside `embed` depends on its head."""

    model: protocols.Encoder

    def __init__(self, model: Model, tokenizer: Tokenizer, max_length: int = 0):
        """max_length: how many tokens of a text are read, 0: as many as the model has positions."""
        self.model, self.tokenizer = need(model, protocols.Encoder), tokenizer
        most = model.config.max_positions
        self.max_length = min(max_length or most, most)
        self.pairs: bool | None = None  # has a classifier learned pairs of texts? None: nobody says

    @cached_property
    def blank(self) -> str | None:
        """The name of the mask token, where there is one."""
        mask = self.tokenizer.special.mask
        return self.tokenizer.inner.id_to_token(mask) if mask >= 0 else None

    # ---- fill

    @overload
    def fill(self, text: str, top: int = 5) -> Filled: ...
    @overload
    def fill(self, text: list[str], top: int = 5) -> list[Filled]: ...
    @checks_keywords
    def fill(self, text: str | list[str], top: int = 5) -> Filled | list[Filled]:
        """The likeliest tokens for each [MASK] of a text, or of each of a list."""
        self.check_fill()
        if is_one(text):
            return next(self.fillings([self.read_blanks(text)], top))
        return list(self.fillings(text, top))

    def fillings(self, texts: Iterable[str | Encoded[str]], top: int = 5) -> Iterator[Filled]:
        """In the order of the texts. Special tokens, such as [CLS], are no fillings."""
        self.check_fill()
        check_top(top)
        model, hidden = need(self.model, protocols.MaskedLanguageModel), self.tokenizer.special.mask
        never = torch.tensor(sorted(self.special_tokens), device=device_of(self.model))

        def guess(batch: EncodedBatch) -> list[list[tuple[list[int], list[float]]]]:
            states = model.states(batch.tokens, batch.segments, batch.mask)
            blanks = (batch.tokens == hidden) & batch.mask
            shares = model.masked_logits(states[blanks]).float().softmax(-1)
            likely = shares.index_fill(-1, never, -1.0).topk(top)
            found = list(zip(likely.indices.tolist(), likely.values.tolist(), strict=True))
            counts = blanks.sum(1).tolist()
            return [[found.pop(0) for _ in range(count)] for count in counts]

        top = min(top, len(self.tokenizer) - len(never))
        for one, found in self._answers(texts, self.read_blanks, guess):
            yield self._filled(one.text, one.row, found)

    @property
    def special_tokens(self) -> set[int]:
        """Ids that are no words, such as [CLS]."""
        return {token for token in {*self.tokenizer.silent, self.tokenizer.special.unknown} if token >= 0}

    def check_fill(self) -> None:
        """RunError where the model cannot fill blanks."""
        if not getattr(self.model.config, "predicts_words", False):
            raise RunError(
                f"this model has no head that predicts masked words (its head is {self.model.config.head!r}), so "
                "it cannot fill blanks; train one with `regard train bert-text`"
            )
        if self.blank is None:
            raise RunError("this model's vocabulary has no mask token, so it cannot fill blanks")

    def read_blanks(self, text: str | Encoded[str]) -> Encoded[str]:
        """The tokens of a text with blanks. DataError where there is none, or too much text."""
        if isinstance(text, Encoded):
            return text
        parts = check_text(text, "a text with blanks").split(str(self.blank))
        if len(parts) == 1:
            raise DataError(f"{text[:60]!r} has no {self.blank} to fill; write it where a word is wanted")
        ids: list[int] = []
        for number, part in enumerate(parts):
            ids += ([self.tokenizer.special.mask] if number else []) + self.tokenizer.encode(part)
        if len(ids) + 2 > self.max_length:
            raise DataError(
                f"the text {text[:40]!r}... has {len(ids) + 2} tokens and this model takes {self.max_length}; "
                "shorten it"
            )
        return Encoded(text, self._row(ids, None))

    def _filled(self, text: str, row: Row, found: list[tuple[list[int], list[float]]]) -> Filled:
        blanks = tuple(tuple(zip(self.tokenizer.tokens(ids), shares, strict=True)) for ids, shares in found)
        whole = text
        for number in reversed(range(len(blanks))):  # from the end, so that the others keep their numbers
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

    @checks_keywords
    def embed(self, text: Texts | Many, *, pool: Pool = "mean", normalise: bool = False) -> np.ndarray:
        """The vector (dim,) of a text or of a pair of texts (a tuple), or those (N, dim) of a list: the mean of the
        tokens' states, or the state of [CLS]."""
        if is_one(text):
            return next(self.vectors([self.read(text)], pool=pool, normalise=normalise))[1]
        found = [vector for _, vector in self.vectors(text, pool=pool, normalise=normalise)]
        return np.stack(found) if found else np.zeros((0, self.model.config.dim), np.float32)

    def vectors(
        self,
        texts: Iterable[Asked | Encoded[Asked]],
        *,
        pool: str = "mean",
        normalise: bool = False,
        cut: Cut = lambda text: None,
    ) -> Iterator[tuple[Asked, np.ndarray]]:
        """Each text and its vector, in the order of the texts. `cut` is called with each text that is longer than
        the model takes."""
        if pool not in (pools := get_args(Pool)):
            raise BadInput(f"pool must be one of {', '.join(pools)}, got {pool!r}")

        def take(batch: EncodedBatch) -> list[np.ndarray]:
            states = self.model.states(batch.tokens, batch.segments, batch.mask)
            found = states[:, 0]
            if pool == "mean":
                shares = batch.mask[..., None].to(states.dtype)
                found = (states * shares).sum(1) / shares.sum(1)
            if normalise:
                found = torch.nn.functional.normalize(found, dim=-1)
            return list(found.float().cpu().numpy())

        for one, vector in self._answers(texts, self.read, take, cut):
            yield one.text, vector

    # ---- classify

    @overload
    def classify(self, text: Texts) -> Classified: ...
    @overload
    def classify(self, text: Many) -> list[Classified]: ...
    @checks_keywords
    def classify(self, text: Texts | Many) -> Classified | list[Classified]:
        """The class of a text, of a pair of texts (a tuple), or of each of a list."""
        self.check_classify()
        if is_one(text):
            return next(self.classes([self.read_labelled(text)]))
        return list(self.classes(text))

    def classes(
        self, texts: Iterable[Texts | Encoded[Texts]], *, cut: Cut = lambda text: None
    ) -> Iterator[Classified]:
        """In the order of the texts. `cut` is called with each text that is longer than the model takes."""
        self.check_classify()

        model = need(self.model, protocols.Classifier)

        def tell(batch: EncodedBatch) -> list[list[float]]:
            return model.class_logits(batch).float().softmax(-1).tolist()

        labels = model.config.labels
        for one, shares in self._answers(texts, self.read_labelled, tell, cut):
            likely = sorted(zip(shares, labels, strict=True), key=lambda one: -one[0])
            found = {label: share for share, label in likely}
            yield Classified(one.text, likely[0][1], found, partial(self._heads, one.row, [0]))

    def check_classify(self) -> None:
        """RunError where the model has no classes."""
        if not getattr(self.model.config, "labels", ()):
            raise RunError(
                f"this model has no classes to choose from (its head is {self.model.config.head!r}); teach it "
                "some: `regard train bert-labelled --from RUN --set data.train=FILE`"
            )

    def read_labelled(self, text: Texts | Encoded[Texts]) -> Encoded[Texts]:
        """As `read`; BadInput where a pair comes and single texts were learned, or the other way round."""
        if isinstance(text, Encoded):
            return text
        encoded = self.read(text)
        if self.pairs is not None and self.pairs != isinstance(text, tuple):
            learned, came = ("pairs of texts", "a single one") if self.pairs else ("single texts", "a pair")
            shown = text if isinstance(text, str) else text[0]
            raise BadInput(f"this run learned classes of {learned} and got {came}, {shown[:40]!r}")
        return encoded

    # ---- what they share

    def read(self, text: Asked | Encoded[Asked]) -> Encoded[Asked]:
        """The tokens of a text or a pair, truncated to what the model takes. An empty second text counts as none,
        as in training."""
        if isinstance(text, Encoded):
            return text
        pair = (text, "") if isinstance(text, str) else text
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise BadInput(
                f"a text must be a str, or a tuple of two for a pair; got {text!r:.40} ({type(text).__name__})"
            )
        first, second = map(check_text, pair)
        if second and self.model.config.segments < 2:
            raise BadInput(f"this model was made for single texts (segments = 1), got a pair, {first[:40]!r} first")
        parts = [self.tokenizer.encode(part) for part in ((first, second) if second else (first,))]
        truncated = sum(len(part) + 1 for part in parts) + 1 > self.max_length
        return Encoded(text, self._row(parts[0], parts[1] if second else None), truncated)

    def look(self, text: Texts, *sites: str) -> Heads:
        """Every head of the named sites (none: all): a row and a column for each word."""
        row = self.read(text).row
        return self._heads(row, range(len(row[0])), sites)

    @contextmanager
    def telling_truncated(self) -> Iterator[Cut]:
        """Counts the texts that were truncated, and says so once at the end."""
        count, first = 0, ""

        def cut(text: Texts) -> None:
            nonlocal count, first
            first = first or (text if isinstance(text, str) else text[0])
            count += 1

        yield cut
        if count:
            texts = "text was" if count == 1 else "texts were"
            shown = f"the one that begins with {first[:40]!r}" + (" first" if count > 1 else "")
            say(f"{count:,} {texts} truncated to the {self.max_length} tokens this model takes: {shown}")

    def _row(self, first: list[int], second: list[int] | None) -> Row:
        return encode_pair(first, second, self.tokenizer.special, self.max_length)

    def _answers(
        self,
        texts: Iterable[Asked | Encoded[Asked]],
        read: Callable[[Asked | Encoded[Asked]], Encoded[Asked]],
        answer: Callable[[EncodedBatch], list[Found]],
        cut: Cut = lambda text: None,
    ) -> Iterator[tuple[Encoded[Asked], Found]]:
        """The answer for each text, in the order of the texts. Rows of similar length are read together. A text
        that cannot be read raises BadInput with its index, once those before it are answered."""
        device = device_of(self.model)
        check_many(texts, "text")
        for part in in_parts(read_all(texts, read, "texts"), PART):
            rows = [one.row for one in part]
            found: dict[int, Found] = {}
            for places in batches([len(ids) for ids, _ in rows]):
                tokens, mask = pad([rows[place][0] for place in places], self.tokenizer.special.pad)
                segments, _ = pad([rows[place][1] for place in places], 0)
                batch = EncodedBatch(tokens.to(device), segments.to(device), mask.to(device))
                with torch.inference_mode(), without_onednn(self.model):
                    found |= zip(places, answer(batch), strict=True)
            for place, one in enumerate(part):
                if one.truncated:
                    cut(one.text)
                yield one, found[place]

    def _heads(self, row: Row, places: Sequence[int], sites: Sequence[str]) -> Heads:
        """Where the tokens at these places looked."""
        ids, segments = (torch.tensor([part], device=device_of(self.model)) for part in row)
        with (
            torch.inference_mode(),
            without_onednn(self.model),
            trace(self.model, *sites_like(self.model, sites), rows=places) as seen,
        ):
            self.model.states(ids, segments)
        both = (self.tokenizer, [row[0][place] for place in places]), (self.tokenizer, row[0])
        return heads_of(seen, lambda site: both)


def is_one(asked: Asked | Iterable[Asked]) -> TypeGuard[Asked]:
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
