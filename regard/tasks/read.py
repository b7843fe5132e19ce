"""Text that is read: blanks filled, texts turned into vectors, texts told apart, and where each token looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, TypeGuard, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.batch import pad
from regard.data.labelled import encode_pair
from regard.data.pairs import DataError
from regard.data.text import Tokenizer
from regard.layers.products import plain_products
from regard.show import Heads, Map
from regard.tasks.search import sites_like
from regard.tasks.weights import RunError

PART = 1024  # texts sorted by length at once, so that a batch has rows of like length
BATCH = 8192  # tokens read at once
POOLS = ("mean", "cls")

Texts = str | tuple[str, str]  # one, or a pair
Row = tuple[list[int], list[int]]  # ids and segments, the special tokens included
Found = TypeVar("Found")
Look = Callable[[Sequence[str]], Heads]
Cut = Callable[[Texts], None]


class Looked:
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


@dataclass(frozen=True)
class Filled(Looked):
    source: str
    text: str  # each blank with its likeliest token
    blanks: tuple[tuple[tuple[str, float], ...], ...]  # of each blank the likeliest tokens, and how likely they are
    _look: Look | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Sorted(Looked):
    source: Texts
    label: str
    probabilities: dict[str, float]  # of every class, the likeliest first
    _look: Look | None = field(default=None, repr=False, compare=False)


class Reader:
    """A trained encoder, as `regard.load(run)` gives it. What it can do beside `embed` hangs on its head."""

    def __init__(self, model: Any, tokenizer: Tokenizer, longest: int = 0):
        """longest: so many tokens of a text are read, 0: as many as the model takes."""
        self.model, self.tokenizer = model.eval(), tokenizer
        self.longest = min(longest or model.config.longest, model.config.longest)
        self.blank = tokenizer.inner.id_to_token(tokenizer.special.mask) if tokenizer.special.mask >= 0 else None

    # ---- fill

    def fill(self, text: str | list[str], top: int = 5) -> Any:
        """The likeliest tokens for each [MASK] of a text, or of each of a list."""
        if is_one(text):
            return next(self.fillings([text], top))
        return list(self.fillings(text, top))

    def fillings(self, texts: Iterable[str], top: int = 5) -> Iterator[Filled]:
        """In the order of the texts."""
        self.check_fill()
        if not isinstance(top, int | np.integer) or top < 1:
            raise ValueError(f"top must be a whole number of at least 1, got {top!r:.80}")
        hidden = self.tokenizer.special.mask

        def guess(states: Tensor, mask: Tensor, tokens: Tensor) -> list[list[tuple[list[int], list[float]]]]:
            blanks = (tokens == hidden) & mask
            likely = self.model.masked_logits(states[blanks]).float().softmax(-1).topk(top)
            found = list(zip(likely.indices.tolist(), likely.values.tolist(), strict=True))
            counts = blanks.sum(1).tolist()
            return [[found.pop(0) for _ in range(count)] for count in counts]

        top = min(top, len(self.tokenizer))
        for text, row, found in self._answers(texts, self.read_blanks, guess):
            yield self._filled(text, row, found)

    def check_fill(self) -> None:
        if self.model.config.task != "fill":
            raise RunError(
                f"this model has no head that foretells hidden words (its head is {self.model.config.head!r}), so "
                "it cannot fill blanks; train one with `regard train bert-text`"
            )
        if self.blank is None:
            raise RunError("this model's vocabulary has no token that hides another, so it cannot fill blanks")

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
        return Filled(text, whole, blanks, partial(self._heads, row, places))

    def put(self, text: str, token: str, number: int = 0) -> str:
        """The text with one of its blanks replaced; a piece that goes on with a word joins it."""
        blank = str(self.blank)
        parts = text.split(blank)
        before, after = blank.join(parts[: number + 1]), blank.join(parts[number + 1 :])
        return (before.rstrip() + token[2:] if token.startswith("##") else before + token) + after

    # ---- embed

    def embed(self, text: Texts | list[Any], *, pool: str = "mean", normalise: bool = False) -> np.ndarray:
        """The vector (dim,) of a text or of a pair of texts (a tuple), or those (N, dim) of a list: the mean of the
        tokens' states, or the state of [CLS]."""
        if is_one(text):
            return next(self.vectors([text], pool=pool, normalise=normalise))
        found = list(self.vectors(text, pool=pool, normalise=normalise))
        return np.stack(found) if found else np.zeros((0, self.model.config.dim), np.float32)

    def vectors(
        self, texts: Iterable[Texts], *, pool: str = "mean", normalise: bool = False, cut: Cut = lambda text: None
    ) -> Iterator[np.ndarray]:
        """In the order of the texts. `cut` is told each text that is longer than the model takes."""
        if pool not in POOLS:
            raise ValueError(f"pool must be one of {', '.join(POOLS)}, got {pool!r}")

        def take(states: Tensor, mask: Tensor, tokens: Tensor) -> list[np.ndarray]:
            found = states[:, 0]
            if pool == "mean":
                shares = mask[..., None].to(states.dtype)
                found = (states * shares).sum(1) / shares.sum(1)
            if normalise:
                found = torch.nn.functional.normalize(found, dim=-1)
            return list(found.float().cpu().numpy())

        for _, _, vector in self._answers(texts, partial(self.read, cut=cut), take):
            yield vector

    # ---- classify

    def classify(self, text: Texts | list[Any]) -> Any:
        """The class of a text, of a pair of texts (a tuple), or of each of a list."""
        if is_one(text):
            return next(self.classes([text]))
        return list(self.classes(text))

    def classes(self, texts: Iterable[Texts], *, cut: Cut = lambda text: None) -> Iterator[Sorted]:
        """In the order of the texts. `cut` is told each text that is longer than the model takes."""
        self.check_classify()

        def tell(states: Tensor, mask: Tensor, tokens: Tensor) -> list[list[float]]:
            return self.model.class_logits(states).float().softmax(-1).tolist()

        labels = self.model.config.labels
        for text, row, shares in self._answers(texts, partial(self.read, cut=cut), tell):
            likely = sorted(zip(shares, labels, strict=True), key=lambda one: -one[0])
            found = {label: share for share, label in likely}
            yield Sorted(text, likely[0][1], found, partial(self._heads, row, [0]))

    def check_classify(self) -> None:
        if self.model.config.task != "classify":
            raise RunError(
                f"this model has no classes to choose from (its head is {self.model.config.head!r}); teach it "
                "some: `regard train bert-labelled --from RUN --set data.train=FILE`"
            )

    # ---- what they share

    def read(self, text: Texts, *, cut: Cut = lambda text: None) -> Row:
        """The tokens of a text or a pair, cut to what the model takes, in which case `cut` is told. A second text
        that is empty is none, as in training."""
        pair = (text, "") if isinstance(text, str) else text
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ValueError(f"a text must be a str, or a tuple of two for a pair; got {text!r:.80}")
        first, second = pair
        if second and self.model.config.segments < 2:
            raise ValueError(
                f"this model was made for single texts (segments = 1), got a pair, {first[:40]!r} first"
            )
        parts = [self.tokenizer.encode(part) for part in ((first, second) if second else (first,))]
        if sum(len(part) + 1 for part in parts) + 1 > self.longest:
            cut(text)
        return self._row(parts[0], parts[1] if second else None)

    def look(self, text: Texts, *sites: str) -> Heads:
        """Every head of the named sites (none: all): a row and a column for each token."""
        row = self.read(text)
        return self._heads(row, range(len(row[0])), sites)

    def _row(self, first: list[int], second: list[int] | None) -> Row:
        return encode_pair(first, second, self.tokenizer.special, self.longest)

    def _check_length(self, count: int, text: str) -> None:
        if count > self.longest:
            raise DataError(
                f"the text {text[:40]!r}... has {count} tokens and this model takes {self.longest}; shorten it"
            )

    def _answers(
        self,
        texts: Iterable[Any],
        read: Callable[[Any], Row],
        answer: Callable[[Tensor, Tensor, Tensor], list[Found]],
    ) -> Iterator[tuple[Any, Row, Found]]:
        """answer(states, mask, tokens) of each text, in the order of the texts. Rows of like length are read
        together, and no padding between them is computed."""
        device = next(self.model.parameters()).device
        left = iter(texts)
        while part := list(islice(left, PART)):
            rows = [read(text) for text in part]
            found: dict[int, Found] = {}
            for places in batches([len(ids) for ids, _ in rows]):
                tokens, mask = pad([rows[place][0] for place in places], self.tokenizer.special.pad)
                segments, _ = pad([rows[place][1] for place in places], 0)
                tokens, mask, segments = tokens.to(device), mask.to(device), segments.to(device)
                with torch.inference_mode(), plain_products(self.model):
                    states = self.model.states(tokens, segments, mask)
                    found |= zip(places, answer(states, mask, tokens), strict=True)
            for place, text in enumerate(part):
                yield text, rows[place], found[place]

    def _heads(self, row: Row, places: Sequence[int], sites: Sequence[str]) -> Heads:
        """Where the tokens at these places looked."""
        ids, segments = (torch.tensor([part], device=next(self.model.parameters()).device) for part in row)
        with (
            torch.inference_mode(),
            plain_products(self.model),
            trace(self.model, *sites_like(self.model, sites), rows=places) as seen,
        ):
            self.model.states(ids, segments)
        panels = {site: seen[site][0].float().cpu().numpy() for site in seen.sites}
        labels = self.tokenizer.tokens(row[0])
        return Heads(panels, [labels[place] for place in places], labels)


def is_one(asked: Any) -> TypeGuard[Any]:
    """A text or, in a tuple, a pair; a list is of many. What is neither is read as one, and refused there."""
    return isinstance(asked, str | bytes | tuple) or not isinstance(asked, Iterable)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places of rows that are read together: the longest first, at most BATCH tokens."""
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
