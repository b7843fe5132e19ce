"""Any text to text: answering, and the look back at the source."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor, nn

from regard.attention import trace
from regard.data.batch import pad
from regard.data.text import END, PAD, START, UNKNOWN, Tokenizer
from regard.decode.beam import beam
from regard.decode.coverage import rerank
from regard.decode.greedy import greedy
from regard.decode.protocol import Hypothesis
from regard.decode.sample import sample
from regard.metrics.alignment import Links, links_from
from regard.show import Map
from regard.tasks import folder as runs
from regard.tasks.settings import Decoding

AHEAD = 8  # batches of texts read at once, so that texts of like length are answered together


class LooksAtNothing(ValueError):
    """Asked where a model looked that has no attention."""


@dataclass(frozen=True)
class Answer:
    source: str
    text: str
    score: float  # log p(text | source)
    others: tuple[tuple[str, float], ...] = ()  # the next best ones with their scores
    _look: Callable[[], Map] | None = field(default=None, repr=False, compare=False)
    _links: Callable[[Map], Links] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> Map:
        """Which source tokens each token of the answer looked at, from one pass over the finished answer."""
        if self._look is None:
            raise ValueError("the empty text was not translated, so nothing was looked at")
        return self._look()

    @cached_property
    def alignment(self) -> Links:
        """(source word, target word) for each word of the answer; words are what spaces part."""
        return frozenset() if self._links is None else self._links(self.attention)


@dataclass(frozen=True)
class Source:
    """A text as the model reads it."""

    text: str
    ids: list[int]  # closing with the end token
    words: list[int]  # the word each is part of; -1: none


class Translator:
    """A trained translator, as `regard.load(run)` gives it."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        decode: Decoding | None = None,
        *,
        source_tokenizer: Tokenizer | None = None,
    ):
        self.model, self.tokenizer, self.decode = model.eval(), tokenizer, decode or Decoding()
        self.source_tokenizer = source_tokenizer or tokenizer

    @overload
    def translate(self, text: str, decode: Decoding | None = None) -> Answer: ...
    @overload
    def translate(self, text: list[str], decode: Decoding | None = None) -> list[Answer]: ...
    def translate(self, text: str | list[str], decode: Decoding | None = None) -> Answer | list[Answer]:
        """One answer for a text, a list of them for a list."""
        if isinstance(text, str):
            return next(self.answers([text], decode))
        return list(self.answers(text, decode))

    def answers(
        self,
        texts: Iterable[str],
        decode: Decoding | None = None,
        *,
        batch: int = 64,
        dictionary: Mapping[str, str] | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> Iterator[Answer]:
        """Answers in the order of the texts, read a few batches at once; a blank one is its own answer.

        With a dictionary, an unknown word of the answer becomes what the dictionary has for the source word most
        looked at, or that word itself. `tick` is called once for each text as it is answered."""
        check_batch(batch)
        decode = decode or self.decode
        if dictionary is not None:
            decode = replace(decode, replace_unknown=True)
        if decode.coverage or decode.replace_unknown:
            self.check_looks()
        texts = iter(texts)
        while waiting := list(islice(texts, batch * AHEAD)):
            yield from self._in_order(waiting, decode, batch, dictionary or {}, tick)

    def check_looks(self) -> None:
        if not self.model.alignment:
            raise LooksAtNothing(
                f"{type(self.model).__name__} keeps the whole source in one vector and looks at nothing: it has no "
                "attention to show, no alignments and no coverage, and no source word for an unknown one"
            )

    def _in_order(
        self,
        texts: list[str],
        decode: Decoding,
        batch: int,
        dictionary: Mapping[str, str],
        tick: Callable[[], None],
    ) -> Iterator[Answer]:
        answers = {row: Answer(text, "", 0.0) for row, text in enumerate(texts) if not text.strip()}
        for _ in answers:
            tick()
        asked = {row: self.read(text) for row, text in enumerate(texts) if row not in answers}
        rows = sorted(asked, key=lambda row: len(asked[row].ids))
        for begin in range(0, len(rows), batch):
            part = rows[begin : begin + batch]
            found = self._search([asked[row].ids for row in part], decode)
            for row, hypotheses in zip(part, found, strict=True):
                answers[row] = self._answer(asked[row], hypotheses[: decode.best], decode, dictionary)
                tick()
        for row in range(len(texts)):
            yield answers[row]

    def read(self, text: str) -> Source:
        """The text's tokens and the end token; ValueError where they are more than the model takes."""
        ids, words = self.source_tokenizer.encode_words(text)
        longest = self.model.config.longest  # type: ignore[union-attr]
        if len(ids) + 1 > longest:  # type: ignore[operator]
            raise ValueError(
                f"{text[:40]!r}... has {len(ids) + 1} tokens with the end token and this model takes {longest}; "
                "shorten or split it"
            )
        return Source(text, [*ids, END], [*words, -1])

    def _search(self, sources: list[list[int]], decode: Decoding) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        source, mask = (x.to(device) for x in pad(sources, PAD))
        model: Any = self.model
        search: Callable[..., Any]
        if decode.temperature > 0:
            search = partial(
                sample,
                temperature=decode.temperature,
                top_k=decode.top_k or None,
                top_p=decode.top_p,
                seed=decode.seed,
            )
        elif decode.beam > 1:
            best = decode.beam if decode.coverage else decode.best  # the penalty needs some to choose from
            search = partial(beam, width=decode.beam, best=best, length_penalty=decode.length_penalty)
        else:
            search = greedy
        limit = decode.max_length or (2 * mask.sum(1) + 20).clamp_min(decode.min_length + 1)
        found = search(
            model, source, mask, start=START, end=END, limit=limit, least=decode.min_length, never=(PAD, START)
        )
        found = [one if isinstance(one, list) else [one] for one in found]
        return self._rerank(sources, found, decode) if decode.coverage else found

    def _rerank(
        self, sources: list[list[int]], found: list[list[Hypothesis]], decode: Decoding
    ) -> list[list[Hypothesis]]:
        asked = [source for source, some in zip(sources, found, strict=True) for _ in some]
        weights, _ = self._weights(asked, [one.tokens for some in found for one in some])
        parts = iter(weights)
        return [
            rerank(
                some,
                [next(parts)[:, : len(source)] for _ in some],
                length_penalty=decode.length_penalty,
                coverage=decode.coverage,
            )
            for source, some in zip(sources, found, strict=True)
        ]

    def _answer(
        self, source: Source, hypotheses: list[Hypothesis], decode: Decoding, dictionary: Mapping[str, str]
    ) -> Answer:
        (best, *others) = hypotheses
        spoken = [self._replacements(source, one, decode, dictionary) for one in hypotheses]
        texts = [self.tokenizer.decode(one.tokens, words) for one, words in zip(hypotheses, spoken, strict=True)]

        def link(seen: Map) -> Links:
            return links_from(seen.weights, source.words, [*self._words(best.tokens, spoken[0]), -1])

        rest = tuple((text, one.score) for text, one in zip(texts[1:], others, strict=True))
        return Answer(source.text, texts[0], best.score, rest, partial(self.look, source.ids, best.tokens), link)

    def _words(self, tokens: list[int], spoken: list[str] | None) -> list[int]:
        """The word of the answer's text that each token is part of; an unknown one that was left out has none."""
        if spoken is not None:
            return self.tokenizer.word_of(tokens, spoken)
        words = iter(self.tokenizer.word_of([token for token in tokens if token != UNKNOWN]))
        return [-1 if token == UNKNOWN else next(words) for token in tokens]

    def _replacements(
        self, source: Source, found: Hypothesis, decode: Decoding, dictionary: Mapping[str, str]
    ) -> list[str] | None:
        """A word for each unknown one of an answer: that of the source it looked at most (Luong 2015b), or what the
        dictionary has for it, as it stands or in small letters."""
        unknown = [place for place, token in enumerate(found.tokens) if token == UNKNOWN]
        if not decode.replace_unknown or not unknown:
            return None
        weights, _ = self._weights([source.ids], [found.tokens])
        pieces = self.source_tokenizer.pieces(source.text)
        words = [place for place, piece in enumerate(pieces) if piece]  # spaces and the end are none
        most, places = weights[0, unknown][:, words].max(-1)
        looked = [pieces[words[place]] if weight else "<unk>" for weight, place in zip(most, places, strict=True)]
        return [dictionary.get(word, dictionary.get(word.lower(), word)) for word in looked]

    def _weights(self, sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        """One teacher-forced pass: where each target token and the end looked (N, T, S), and, of local attention,
        the centres (N, T); rows beyond a target and columns beyond a source are padding."""
        self.check_looks()
        device = next(self.model.parameters()).device
        model: Any = self.model
        site = model.alignment
        source, mask = (x.to(device) for x in pad(sources, PAD))
        target, _ = pad([[START, *row] for row in targets], PAD)
        with torch.inference_mode(), trace(self.model, site) as seen:
            model.decode(target.to(device), *model.encode(source, mask))  # no logits: nobody reads them
        centres = seen[site, "centre"].float().cpu() if "centre" in seen.kinds(site) else None
        return seen[site].float().cpu(), centres

    def look(self, source: list[int], target: list[int]) -> Map:
        """A row for each target token and one for the end."""
        weights, centres = self._weights([source], [target])
        rows, columns = self.tokenizer.tokens([*target, END]), self.source_tokenizer.tokens(source)
        if centres is None:
            return Map(weights[0].numpy(), rows, columns)
        window: Any = self.model.config.window  # type: ignore[union-attr]
        return Map(weights[0].numpy(), rows, columns, centres=centres[0].numpy(), window=window)

    def align(self, pairs: Iterable[tuple[str, str]], *, batch: int = 64) -> Iterator[Links]:
        """Word alignments of given translations: for each target word the source word it looked at most."""
        check_batch(batch)
        pairs = iter(pairs)
        while part := list(islice(pairs, batch)):
            sources = [self.read(source) for source, _ in part]
            targets = [self.tokenizer.encode_words(target) for _, target in part]
            weights, _ = self._weights([source.ids for source in sources], [ids for ids, _ in targets])
            for source, (ids, words), seen in zip(sources, targets, weights.numpy(), strict=True):
                yield links_from(seen[: len(ids) + 1, : len(source.ids)], source.words, [*words, -1])


def check_batch(batch: int) -> None:
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")


def load(folder: Path, decode: Decoding | None = None) -> Translator:
    model: Any = runs.read_model(folder)
    tokenizer, source_tokenizer = runs.read_tokenizers(folder, model.config)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    decode = decode or _decoding(folder / "recipe.toml")
    return Translator(model.to(device), tokenizer, decode, source_tokenizer=source_tokenizer)


def _decoding(path: Path) -> Decoding:
    """How the run's recipe has answers found."""
    if not path.is_file():
        return Decoding()
    try:
        return Decoding(**tomllib.loads(path.read_text(encoding="utf-8")).get("decode", {}))
    except (ValueError, TypeError, RecursionError) as error:
        raise runs.RunError(f"{path}, [decode]: {error}") from None
