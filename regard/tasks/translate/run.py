"""A trained translator: any text to text, and where each word looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import overload

import torch
from torch import Tensor

from regard.attention import Trace, trace
from regard.data.artifacts import AnyTokenizer
from regard.data.batch import pad
from regard.decode.coverage import rerank
from regard.decode.hypothesis import Hypothesis
from regard.decode.settings import Decoding
from regard.errors import NoAttention
from regard.metrics.alignment import Links, links_from
from regard.models import protocols
from regard.models.protocols import Model, Module
from regard.show import Heads, Map
from regard.tasks.measuring import device_of
from regard.tasks.search import head_weights, need, search, sites_like
from regard.tasks.task import Run, Tick, no_tick

AHEAD = 8  # batches of texts read at once, so that texts of similar length are answered together


@dataclass(frozen=True)
class Answer:
    source: str
    text: str
    score: float  # log p(text | source)
    others: tuple[tuple[str, float], ...] = ()  # the next best ones with their scores
    _look: Callable[[], Map] | None = field(default=None, repr=False, compare=False)
    _links: Callable[[Map], Links] | None = field(default=None, repr=False, compare=False)
    _heads: Callable[[Sequence[str]], Heads] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> Map:
        """Which source tokens each token of the answer looked at, from one pass over the finished answer."""
        if self._look is None:
            raise ValueError("the empty text was not translated, so nothing was looked at")
        return self._look()

    def heads(self, *sites: str) -> Heads:
        """Every head of the named sites ("encoder.*", "decoder.*.cross"; none: all) in one picture."""
        if self._heads is None:
            raise ValueError("the empty text was not translated, so nothing was looked at")
        return self._heads(sites)

    @cached_property
    def alignment(self) -> Links:
        """(source word, target word) for each word of the answer; words are what spaces part."""
        return frozenset() if self._links is None else self._links(self.attention)

    def to_dict(self) -> dict[str, object]:
        others = [{"text": text, "score": score} for text, score in self.others]
        return {"source": self.source, "text": self.text, "score": self.score, "others": others}

    def line(self) -> str:
        """The text, or of several answers lines `score TAB text`."""
        if not self.others:
            return self.text
        return "\n".join(f"{score:.4f}\t{text}" for text, score in ((self.text, self.score), *self.others))

    def picture(self, sites: Sequence[str] = ()) -> Map | Heads | None:
        if self._look is None:
            return None
        return self.heads(*sites) if sites else self.attention


@dataclass(frozen=True)
class Source:
    """A text as the model reads it."""

    text: str
    ids: list[int]  # closing with the end token
    words: list[int]  # the word each is part of; -1: none


class Translator(Run):
    """A trained translator, as `regard.load(run)` gives it."""

    model: protocols.Translator

    def __init__(
        self,
        model: Model,
        tokenizer: AnyTokenizer,
        decode: Decoding | None = None,
        *,
        source_tokenizer: AnyTokenizer | None = None,
        site: str = "",
        head: int | None = None,
    ):
        self.model = need(model, protocols.Translator)
        self.tokenizer, self.decode = tokenizer, decode or Decoding()
        self.source_tokenizer = source_tokenizer or tokenizer
        self.site, self.head = site, head  # whose weights align; "" and None: as the model says

    @property
    def max_source(self) -> int:
        """The most tokens a source may have, the end token included."""
        return self.model.config.max_positions

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
        batch: int | None = None,
        dictionary: Mapping[str, str] | None = None,
        tick: Tick = no_tick,
    ) -> Iterator[Answer]:
        """Answers in the order of the texts, read a few batches at once; a blank text is its own answer.

        With a dictionary, an unknown word of the answer becomes the dictionary's entry for the source word most
        looked at, or that word itself. `tick` is called once for each text as it is answered."""
        batch = check_batch(batch, self.model)
        decode = decode or self.decode
        if dictionary is not None:
            decode = replace(decode, replace_unknown=True)
        if decode.stop:
            raise ValueError("stop strings are for language models; a translation ends by itself, or by max_length")
        if decode.coverage or decode.replace_unknown:
            self.check_looks()
        texts = iter(texts)
        while waiting := list(islice(texts, batch * AHEAD)):
            yield from self._in_order(waiting, decode, batch, dictionary or {}, tick)

    def check_looks(self) -> None:
        if not self.model.alignment:
            raise NoAttention(
                f"{type(self.model).__name__} keeps the whole source in one vector and has no attention: there is "
                "nothing to show, to align or to cover, and no source word for an unknown one"
            )

    def _in_order(
        self,
        texts: list[str],
        decode: Decoding,
        batch: int,
        dictionary: Mapping[str, str],
        tick: Tick,
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
                answers[row] = self._answer(asked[row], hypotheses[: decode.n_best], decode, dictionary)
                tick()
        for row in range(len(texts)):
            yield answers[row]

    def read(self, text: str) -> Source:
        """The text's tokens and the end token; ValueError where they are more than the model takes."""
        ids, words = self.source_tokenizer.encode_words(text)
        if len(ids) + 1 > self.max_source:
            raise ValueError(
                f"{text[:40]!r}... has {len(ids) + 1} tokens with the end token and this model takes "
                f"{self.max_source}; shorten or split it"
            )
        return Source(text, [*ids, self.source_tokenizer.special.end], [*words, -1])

    def _search(self, sources: list[list[int]], decode: Decoding) -> list[list[Hypothesis]]:
        device = device_of(self.model)
        source, mask = (x.to(device) for x in pad(sources, self.source_tokenizer.special.pad))
        special = self.tokenizer.special
        limit = decode.max_length or (2 * mask.sum(1) + 20).clamp_min(decode.min_length + 1)
        limit = torch.as_tensor(limit, device=device).clamp_max(self.model.max_target_positions)
        found = search(self.model, source, mask, decode, special=special, start=special.start, max_length=limit)
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
        look, heads = partial(self.look, source.ids, best.tokens), partial(self.heads, source.ids, best.tokens)
        return Answer(source.text, texts[0], best.score, rest, look, link, heads)

    def _words(self, tokens: list[int], spoken: list[str] | None) -> list[int]:
        """The word of the answer's text that each token is part of; an unknown token that was left out has none."""
        if spoken is not None:
            return self.tokenizer.word_of(tokens, spoken)
        unknown = self.tokenizer.special.unknown
        words = iter(self.tokenizer.word_of([token for token in tokens if token != unknown]))
        return [-1 if token == unknown else next(words) for token in tokens]

    def _replacements(
        self, source: Source, found: Hypothesis, decode: Decoding, dictionary: Mapping[str, str]
    ) -> list[str] | None:
        """A word for each unknown token of an answer: the source word it looked at most (Luong 2015b), or the
        dictionary's entry for that, as it is or in lower case."""
        name = self.tokenizer.special.unknown
        unknown = [place for place, token in enumerate(found.tokens) if token == name]
        if not decode.replace_unknown or not unknown:
            return None
        weights, _ = self._weights([source.ids], [found.tokens])
        pieces = self.source_tokenizer.pieces(source.text)
        words = [place for place, piece in enumerate(pieces) if piece]  # spaces and the end are none
        most, places = weights[0, unknown][:, words].max(-1)
        looked = [pieces[words[place]] if weight else "<unk>" for weight, place in zip(most, places, strict=True)]
        return [dictionary.get(word, dictionary.get(word.lower(), word)) for word in looked]

    def _weights(self, sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        """One teacher-forced pass: where each target token and the end token looked (N, T, S) and, with local
        attention, the centres (N, T); rows beyond a target and columns beyond a source are padding."""
        self.check_looks()
        site = self.site or self.model.alignment
        if site not in (across := [one for one in sites_like(self.model, ()) if looks_across(one)]):
            raise NoAttention(f"no attention from target to source is named {site!r}; there is {', '.join(across)}")
        seen = self._trace(sources, targets, site)
        centres = seen[site, "centre"].float().cpu() if "centre" in seen.kinds(site) else None
        return head_weights(seen[site], self.head, site).float().cpu(), centres

    def _trace(self, sources: list[list[int]], targets: list[list[int]], *sites: str) -> Trace:
        device = device_of(self.model)
        special = self.tokenizer.special
        source, mask = (x.to(device) for x in pad(sources, self.source_tokenizer.special.pad))
        target, _ = pad([[special.start, *row] for row in targets], special.pad)
        with torch.inference_mode(), trace(self.model, *sites) as seen:
            self.model.decode(target.to(device), *self.model.encode(source, mask))  # states are enough
        return seen

    def heads(self, source: list[int], target: list[int], sites: Sequence[str] = ()) -> Heads:
        """Every head of the named sites. A row is a query: a source token in the encoder, elsewhere the token that
        is written next."""
        self.check_looks()
        seen = self._trace([source], [target], *sites_like(self.model, sites))
        special = self.tokenizer.special
        read = self.source_tokenizer.tokens(source)
        written, fed = (self.tokenizer.tokens(x) for x in ([*target, special.end], [special.start, *target]))
        panels, rows, columns = {}, {}, {}
        for site in seen.sites:
            weights = seen[site][0].float().cpu().numpy()
            panels[site] = weights if weights.ndim == 3 else weights[None]
            encodes = site.startswith("encoder")
            rows[site] = read if encodes else written
            columns[site] = read if encodes or looks_across(site) else fed
        return Heads(panels, rows, columns)

    def look(self, source: list[int], target: list[int]) -> Map:
        """A row for each target token and one for the end token."""
        weights, centres = self._weights([source], [target])
        end = self.tokenizer.special.end
        rows, columns = self.tokenizer.tokens([*target, end]), self.source_tokenizer.tokens(source)
        if centres is None:
            return Map(weights[0].numpy(), rows, columns)
        window = self.model.config.window
        return Map(weights[0].numpy(), rows, columns, centres=centres[0].numpy(), window=window)

    def align(self, pairs: Iterable[tuple[str, str]], *, batch: int | None = None) -> Iterator[Links]:
        """Word alignments of given translations: for each target word the source word it looked at most."""
        batch = check_batch(batch, self.model)
        pairs = iter(pairs)
        while part := list(islice(pairs, batch)):
            sources = [self.read(source) for source, _ in part]
            targets = [self.tokenizer.encode_words(target) for _, target in part]
            weights, _ = self._weights([source.ids for source in sources], [ids for ids, _ in targets])
            for source, (ids, words), seen in zip(sources, targets, weights.numpy(), strict=True):
                yield links_from(seen[: len(ids) + 1, : len(source.ids)], source.words, [*words, -1])


def looks_across(site: str) -> bool:
    """From target to source, and not at the own side."""
    return site.endswith("cross") or not site.startswith(("encoder", "decoder"))


def check_batch(batch: int | None, model: Module) -> int:
    """How many texts at once: enough to keep the machine busy, unless given."""
    if batch is None:
        return 512 if device_of(model).type == "cuda" else 64
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    return batch
