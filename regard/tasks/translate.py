"""Any text to text: answering, and the look back at the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, overload

import torch
from torch import Tensor, nn

from regard.attention import Trace, trace
from regard.data.batch import pad
from regard.data.text import Tokenizer
from regard.decode.coverage import rerank
from regard.decode.protocol import Hypothesis
from regard.metrics.alignment import Links, links_from
from regard.show import Heads, Map
from regard.tasks.search import LooksAtNothing, head_weights, search, sites_like
from regard.tasks.settings import Decoding

AHEAD = 8  # batches of texts read at once, so that texts of like length are answered together


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
        site: str = "",
        head: int | None = None,
    ):
        self.model, self.tokenizer, self.decode = model.eval(), tokenizer, decode or Decoding()
        self.source_tokenizer = source_tokenizer or tokenizer
        self.site, self.head = site, head  # whose weights align: the model's own choice unless told

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
        tick: Callable[[], None] = lambda: None,
    ) -> Iterator[Answer]:
        """Answers in the order of the texts, read a few batches at once; a blank one is its own answer.

        With a dictionary, an unknown word of the answer becomes what the dictionary has for the source word most
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
        return Source(text, [*ids, self.source_tokenizer.special.end], [*words, -1])

    def _search(self, sources: list[list[int]], decode: Decoding) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        source, mask = (x.to(device) for x in pad(sources, self.source_tokenizer.special.pad))
        model: Any = self.model
        special = self.tokenizer.special
        limit = decode.max_length or (2 * mask.sum(1) + 20).clamp_min(decode.min_length + 1)
        limit = torch.as_tensor(limit, device=device).clamp_max(model.longest_target)
        found = search(model, source, mask, decode, special=special, start=special.start, limit=limit)
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
        """The word of the answer's text that each token is part of; an unknown one that was left out has none."""
        if spoken is not None:
            return self.tokenizer.word_of(tokens, spoken)
        unknown = self.tokenizer.special.unknown
        words = iter(self.tokenizer.word_of([token for token in tokens if token != unknown]))
        return [-1 if token == unknown else next(words) for token in tokens]

    def _replacements(
        self, source: Source, found: Hypothesis, decode: Decoding, dictionary: Mapping[str, str]
    ) -> list[str] | None:
        """A word for each unknown one of an answer: that of the source it looked at most (Luong 2015b), or what the
        dictionary has for it, as it stands or in small letters."""
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
        """One teacher-forced pass: where each target token and the end looked (N, T, S), and, of local attention,
        the centres (N, T); rows beyond a target and columns beyond a source are padding."""
        self.check_looks()
        model: Any = self.model
        site = self.site or model.alignment
        if site not in (across := [one for one in sites_like(model, ()) if looks_across(one)]):
            raise LooksAtNothing(
                f"no attention from target to source is named {site!r}; there is {', '.join(across)}"
            )
        seen = self._trace(sources, targets, site)
        centres = seen[site, "centre"].float().cpu() if "centre" in seen.kinds(site) else None
        return head_weights(seen[site], self.head, site).float().cpu(), centres

    def _trace(self, sources: list[list[int]], targets: list[list[int]], *sites: str) -> Trace:
        device = next(self.model.parameters()).device
        model: Any = self.model
        special = self.tokenizer.special
        source, mask = (x.to(device) for x in pad(sources, self.source_tokenizer.special.pad))
        target, _ = pad([[special.start, *row] for row in targets], special.pad)
        with torch.inference_mode(), trace(self.model, *sites) as seen:
            model.decode(target.to(device), *model.encode(source, mask))  # no logits: nobody reads them
        return seen

    def heads(self, source: list[int], target: list[int], sites: Sequence[str] = ()) -> Heads:
        """Every head of the named sites. A row is what asks: a source token in the encoder, elsewhere the token
        that is written next."""
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
        """A row for each target token and one for the end."""
        weights, centres = self._weights([source], [target])
        end = self.tokenizer.special.end
        rows, columns = self.tokenizer.tokens([*target, end]), self.source_tokenizer.tokens(source)
        if centres is None:
            return Map(weights[0].numpy(), rows, columns)
        window: Any = self.model.config.window  # type: ignore[union-attr]
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


def check_batch(batch: int | None, model: nn.Module) -> int:
    """How many texts at once: as many as keep the machine busy, unless told."""
    if batch is None:
        return 512 if next(model.parameters()).is_cuda else 64
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    return batch
