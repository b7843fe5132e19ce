"""A trained encoder of text: filling blanks, vectors, classes, and where each token looked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any, overload

import torch

from regard.base.arguments import checked
from regard.data.text.text_encoding import EncodedText, LabelledBatch, encode_pair
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError, RunError
from regard.layers.onednn import without_onednn
from regard.models import protocols
from regard.models.protocols import Model, need
from regard.show import Heads
from regard.tasks.core.inputs import check_pair, check_text, check_there, check_top
from regard.tasks.core.options import checks_keywords
from regard.tasks.core.results import Tick, no_tick
from regard.tasks.embed.run import Embedder
from regard.tasks.shared.looking import look_over
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.reader_answers import Classified, Filled, Followed, LookAt, Texts
from regard.tasks.shared.sites import sites_like
from regard.tasks.shared.text_reader import Encoded, Many, is_single

WORD_BEGINS = "▁"  # in pieces of SentencePiece


class Reader(Embedder):
    """A trained encoder, as `regard.load(run)` gives it. What it can do beside `embed` depends on its head."""

    model: protocols.Encoder
    pools = ("mean", "cls")

    def __init__(self, model: Model, tokenizer: Tokenizer, max_length: int = 0):
        """max_length: how many tokens of a text are read, 0: as many as the model has positions."""
        super().__init__(need(model, protocols.Encoder), tokenizer, max_length)

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
        if is_single(text):
            return next(self.fillings([self.read_blanks(text)], top))
        return list(self.fillings(self._read_all(text, self.read_blanks), top))

    def fillings(self, texts: Iterable[Encoded[str]], top: int = 5, *, tick: Tick = no_tick) -> Iterator[Filled]:
        """In the order of the texts. Special tokens, such as [CLS], are no fillings. `tick` is called once for each
        text as it is answered."""
        self.check_fill()
        check_top(top)
        model, hidden = need(self.model, protocols.MaskedLanguageModel), self.tokenizer.special.mask
        never = torch.tensor(sorted(self.special_tokens), device=device_of(self.model))

        def guess(batch: LabelledBatch) -> list[list[tuple[list[int], list[float]]]]:
            states = model.states(batch.tokens, batch.segments, batch.mask)
            blanks = (batch.tokens == hidden) & batch.mask
            shares = model.masked_logits(states[blanks]).float().softmax(-1)
            likely = shares.index_fill(-1, never, -1.0).topk(top)
            guesses = iter(zip(likely.indices.tolist(), likely.values.tolist(), strict=True))
            return [list(islice(guesses, count)) for count in blanks.sum(1).tolist()]

        top = min(top, len(self.tokenizer) - len(never))
        yield from self._answers(texts, guess, self._filled, tick)

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

    def read_blanks(self, text: str) -> Encoded[str]:
        """The tokens of a text with blanks. DataError where there is none, or too much text."""
        parts = check_text(text, "a text with blanks").split(str(self.blank))
        if len(parts) == 1:
            raise DataError(f"{text[:60]!r} has no {self.blank} to fill; write it where a word is wanted")
        ids, unknown = list[int](), dict[str, None]()
        for number, part in enumerate(parts):
            part = part.rstrip() if self.tokenizer.mask_takes_space and number + 1 < len(parts) else part
            own = self.tokenizer.encode(part)
            ids += ([self.tokenizer.special.mask] if number else []) + own
            unknown |= dict.fromkeys(self.tokenizer.unknown_in(part, own))
        if len(ids) + 2 > self.max_length:
            longer = ", or train one with a larger data.length" if self.max_length < self.encoding.most else ""
            raise DataError(
                f"the text {text[:40]!r}... has {len(ids) + 2} tokens and this model takes {self.max_length}; "
                f"shorten it{longer}"
            )
        return Encoded(text, self._row(ids, None), unknown=tuple(unknown))

    def _filled(self, encoded: Encoded[str], guesses: list[tuple[list[int], list[float]]]) -> Filled:
        text, row = encoded.text, encoded.row
        blanks = tuple(tuple(zip(self.tokenizer.tokens(ids), shares, strict=True)) for ids, shares in guesses)
        whole = text
        for number in reversed(range(len(blanks))):  # from the end, so that the others keep their numbers
            whole = self.put(whole, blanks[number][0][0], number)
        places = [place for place, token in enumerate(row[0]) if token == self.tokenizer.special.mask]
        filled = tuple(
            tuple(self.put(text, token, number) for token, _ in blank) for number, blank in enumerate(blanks)
        )
        look = partial(self._heads, row, places)
        return Filled(text, whole, blanks, filled, look, unknown=encoded.unknown)

    def put(self, text: str, token: str, number: int = 0) -> str:
        """The text with one of its blanks replaced; a piece that continues a word is joined to it."""
        blank = str(self.blank)
        parts = text.split(blank)
        before, after = blank.join(parts[: number + 1]), blank.join(parts[number + 1 :])
        if token.startswith("##"):
            return before.rstrip() + token[2:] + after
        word = token.replace(WORD_BEGINS, " ")
        between = " " if before.strip() and word[:1].isspace() else ""
        return (before.rstrip() + between + word.strip() if word[:1].isspace() else before + word) + after

    # ---- follows

    @overload
    def follows(self, first: str, second: str) -> Followed: ...
    @overload
    def follows(self, first: list[tuple[str, str]]) -> list[Followed]: ...
    @checks_keywords
    def follows(self, first: str | list[tuple[str, str]], second: str | None = None) -> Followed | list[Followed]:
        """Whether the second text follows the first one, or of each pair of a list."""
        self.check_follows()
        if isinstance(first, list) and second is None:
            return list(self.following(self._read_all(first, self.read_following)))
        return next(self.following([self.read_following((first, second))]))

    def following(self, pairs: Iterable[Encoded[Texts]], *, tick: Tick = no_tick) -> Iterator[Followed]:
        """In the order of the pairs. `tick` is called once for each as it is answered."""
        self.check_follows()
        model = need(self.model, protocols.MaskedLanguageModel)

        def tell(batch: LabelledBatch) -> list[float]:
            states = model.states(batch.tokens, batch.segments, batch.mask)
            return model.next_logits(states).float().softmax(-1)[:, 0].tolist()

        def followed(encoded: Encoded[Texts], share: float) -> Followed:
            assert isinstance(encoded.text, tuple)
            return Followed(*encoded.text, share, partial(self._heads, encoded.row, [0]), **encoded.unread)

        yield from self._answers(pairs, tell, followed, tick)

    def check_follows(self) -> None:
        """RunError where the model cannot tell what follows."""
        if not getattr(self.model.config, "predicts_next", False):
            raise RunError(
                f"this model has no head that predicts next sentences (its head is {self.model.config.head!r}); "
                "train one with `regard train bert-text --set model.head=pretrain`"
            )

    def read_following(self, pair: object) -> Encoded[Texts]:
        """The tokens of a pair; in a line a tab separates the two texts."""
        return self.read(check_pair(pair))

    # ---- embed

    def _tokens(self, encoded: Encoded[Any]) -> list[str]:
        """Special tokens too: each has a state."""
        return self.tokenizer.tokens(encoded.row[0])

    def _look_of(self, encoded: Encoded[Any]) -> LookAt:
        return partial(self._heads, encoded.row, range(len(encoded.row[0])))

    # ---- classify

    @overload
    def classify(self, text: Texts) -> Classified: ...
    @overload
    def classify(self, text: Many) -> list[Classified]: ...
    @checks_keywords
    def classify(self, text: Texts | Many) -> Classified | list[Classified]:
        """The class of a text, of a pair of texts (a tuple), or of each of a list."""
        return super().classify(text)  # type: ignore[return-value] # of `_classified`

    def _classified(self, encoded: Encoded[Texts], probabilities: dict[str, float]) -> Classified:
        look = partial(self._heads, encoded.row, [0])
        return Classified(encoded.text, next(iter(probabilities)), probabilities, look, **encoded.unread)

    # ---- where it looks

    def check_looks(self) -> None:
        """Every encoder has attention."""

    def look(self, text: Texts, *sites: str) -> Heads:
        """Every head of the named sites (none: all): a row and a column for each word."""
        row = self.read(text).row
        return self._heads(row, range(len(row[0])), sites)

    @checked
    def look_over(self, text: str, sites: Sequence[str] = ()) -> Heads:
        """As `look`."""
        check_there(text, "look over")
        return self.look(text, *sites)

    def _row(self, first: list[int], second: list[int] | None) -> EncodedText:
        return encode_pair(first, second, self.tokenizer.special, self.max_length)

    def _heads(self, row: EncodedText, places: Sequence[int], sites: Sequence[str]) -> Heads:
        """Where the tokens at these places looked."""
        ids, segments = (torch.tensor([part], device=device_of(self.model)) for part in row)
        both = (self.tokenizer, [row[0][place] for place in places]), (self.tokenizer, row[0])
        with without_onednn(self.model):
            return look_over(
                self.model,
                sites_like(self.model, sites),
                places,
                lambda site: both,
                lambda: self.model.states(ids, segments),
            )
