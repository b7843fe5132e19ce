"""A trained translator: any text to text, and where each word looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Unpack, overload

import torch
from torch import Tensor

from regard.attention import Trace, trace
from regard.base.arguments import checked
from regard.base.divided import each
from regard.data.artifacts import AnyTokenizer
from regard.data.batches.batch import pad
from regard.data.text.tokenizer import Tokenizer
from regard.decode.coverage import rerank
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Target
from regard.decode.search import decode as search
from regard.decode.settings import Decoding
from regard.errors import BadInput, NoAttention
from regard.layers.engine import engine_of
from regard.learn.progress import say
from regard.metrics.alignment import Links, links_from
from regard.models import protocols
from regard.models.protocols import Model, need
from regard.show import Heads, Map
from regard.show.heads_data import heads_title
from regard.tasks.core.inputs import check_many, check_text, check_there, in_parts, read_all
from regard.tasks.core.options import TranslateOptions, checks_keywords
from regard.tasks.core.results import Evaluation, Tick, Unread, in_order, no_tick
from regard.tasks.core.run import Data
from regard.tasks.shared.gate_maps import UNITS, gate_maps, gate_sites
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.sites import head_weights, sites_like
from regard.tasks.shared.stepping import Beginning, check_tokens
from regard.tasks.shared.text_stream import Stream
from regard.tasks.shared.words import Tokens, heads_of, words_of
from regard.tasks.shared.writing import Passage, Writing, alone
from regard.tasks.shared.writing_run import WritingRun, check_search, never_written
from regard.tasks.translate.source import Source, looks_across
from regard.tasks.translate.translation import Translation

AHEAD = 8  # batches of texts read at once, so that texts of similar length are answered together


class Translator(WritingRun):
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
        self.target_tag = ""  # the kind that is written

    @property
    def tags(self) -> dict[str, int]:
        """The kinds of targets, and their tokens."""
        return getattr(self.tokenizer, "tags", {})

    def towards(self, to: str | None) -> Translator:
        """The same translator, whose answers begin with this tag's token; None or "": this one."""
        if not to:
            return self
        self.tag(to)
        assert isinstance(self.tokenizer, Tokenizer)
        tagged = copy(self)
        tagged.target_tag, tagged.tokenizer = to, self.tokenizer.beginning_with(to)
        return tagged

    def tag(self, to: str) -> int:
        """The token of a tag; BadInput if this run has no such."""
        if not self.tags:
            raise BadInput(f"this run has one kind of target and takes no tag, got {to!r}; leave to (--to) out")
        if to not in self.tags:
            raise BadInput(f"this run has no target tag {to!r}; there are {', '.join(self.tags)}")
        return self.tags[to]

    @property
    def max_source(self) -> int:
        """The most tokens a source may have, the end token included."""
        return self.model.max_source_positions

    @property
    def at_once(self) -> int:
        return check_batch(None, self.model) * AHEAD

    @overload
    def translate(
        self,
        text: str,
        decode: Decoding | None = None,
        *,
        to: str | None = None,
        dictionary: Mapping[str, str] | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Translation: ...
    @overload
    def translate(
        self,
        text: list[str],
        decode: Decoding | None = None,
        *,
        to: str | None = None,
        dictionary: Mapping[str, str] | None = None,
        **options: Unpack[TranslateOptions],
    ) -> list[Translation]: ...
    @checks_keywords
    def translate(
        self,
        text: str | list[str],
        decode: Decoding | None = None,
        *,
        to: str | None = None,
        dictionary: Mapping[str, str] | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Translation | list[Translation]:
        """One answer for a text, a list of them for a list. The keywords are the options of `regard translate`; an
        option that is not given is as `decode` says, else as the run's recipe says. An empty text is refused;
        within a list it keeps its place, as lines of a file do.

        `beam` hypotheses are kept (1 is greedy), `n_best` answers given; a `temperature` above 0 samples. With a
        `dictionary`, an unknown word becomes the entry for the source word most looked at, or that word itself.
        `to`: of a run with several kinds of targets, as languages, which is written."""
        settings, run = self.decoding(options, decode), self.towards(to)
        if isinstance(text, str):
            check_there(text, "translate")
            return next(run.answers([self.read(text)], settings, dictionary=dictionary))
        check_many(text, "text")
        return list(run.answers(read_all(text, self.read, "texts"), settings, dictionary=dictionary))

    @checks_keywords
    def evaluate(self, data: Data | None = None, *, columns: str = "", beam: int | None = None) -> Evaluation:
        """How good the translations are: BLEU, chrF, exact match, perplexity, on a file of pairs, or without one on
        the test data of the run's recipe. `columns`: as in "source,target"."""
        return self._evaluate(data, columns, beam=beam)

    def answers(
        self,
        sources: Iterable[Source],
        decode: Decoding | None = None,
        *,
        batch: int | None = None,
        dictionary: Mapping[str, str] | None = None,
        tick: Tick = no_tick,
    ) -> Iterator[Translation]:
        """Answers in the order of the sources, read a few batches at once; a blank text is its own answer. Where
        reading one raises BadInput, those before it are answered first. An error that ends the work carries what
        was done: see `unfinished`.

        With a dictionary, an unknown word of the answer becomes the dictionary's entry for the source word most
        looked at, or that word itself. `tick` is called once for each source as it is answered."""
        batch = check_batch(batch, self.model)
        decode = decode or self.decode
        if not isinstance(dictionary, Mapping | None):
            raise BadInput(f"dictionary must be a dict of words, source to target; got {dictionary!r:.40}")
        if dictionary is not None:
            decode = replace(decode, replace_unknown=True)
        self._check(decode)
        for waiting in in_parts(sources, batch * AHEAD):
            yield from in_order(len(waiting), self._groups(waiting, decode, batch, dictionary or {}, tick))

    def _check(self, decode: Decoding) -> None:
        """BadInput where no answer can be searched for with these settings."""
        self._check_tag()
        most = self.model.max_target_positions
        check_search(decode, most if decode.max_length else min(most, 2 * self.max_source + 20), "a translation")
        if decode.coverage or decode.replace_unknown:
            self.check_looks()

    def _check_tag(self) -> None:
        """BadInput where a run with several kinds of targets is not told which to write."""
        if self.tags and not self.target_tag:
            raise BadInput(
                f"this run writes {' or '.join(self.tags)}; say which: to={next(iter(self.tags))!r} (--to)"
            )

    def check_looks(self) -> None:
        """NoAttention where the model has none."""
        if not self.model.alignment:
            raise NoAttention(
                f"{type(self.model).__name__} keeps the whole source in one vector and has no attention: there is "
                "nothing to show, to align or to cover, and no source word for an unknown one"
            )

    def _groups(
        self,
        sources: list[Source],
        decode: Decoding,
        batch: int,
        dictionary: Mapping[str, str],
        tick: Tick,
    ) -> Iterator[dict[int, Translation]]:
        """The answers by the numbers of their sources, those of similar length together."""
        others = (("", 0.0),) * (decode.n_best - 1)  # so that every text has as many lines
        blank = (row for row, source in enumerate(sources) if source.blank)
        answers = {row: Translation(sources[row].text, "", 0.0, others) for row in blank}
        yield answers
        for _ in answers:
            tick()
        rows = [row for row in range(len(sources)) if row not in answers]
        rows.sort(key=lambda row: len(sources[row].ids))
        for begin in range(0, len(rows), batch):
            part = rows[begin : begin + batch]
            hypotheses = self._search([sources[row].ids for row in part], decode)
            for row, own in zip(part, hypotheses, strict=True):
                yield {row: self._answer(sources[row], own[: decode.n_best], decode, dictionary)}
                tick()

    def read(self, text: str) -> Source:
        """The text's tokens and the end token; BadInput where they are more than the model takes."""
        ids, words = self.source_tokenizer.encode_words(check_text(text))
        first = getattr(self.source_tokenizer, "before", ())
        ids, words = [*first, *ids], [*[-1] * len(first), *words]
        if len(ids) + 1 > self.max_source and text.strip():
            raise BadInput(
                f"{text[:40]!r}... has {len(ids) + 1} tokens with the end token and this model takes "
                f"{self.max_source}; shorten or split it"
            )
        unknown = self.source_tokenizer.unknown_in(text, ids)
        return Source(text, [*ids, self.source_tokenizer.special.end], [*words, -1], unknown)

    def collate(self, sources: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Sources as a batch and its mask."""
        tokens, mask = pad(sources, self.source_tokenizer.special.pad)
        return tokens.to(device_of(self.model)), mask.to(device_of(self.model))

    def _limit(self, source: list[int], decode: Decoding) -> int:
        """The most tokens of an answer."""
        wanted = decode.max_length or max(2 * len(source) + 20, decode.min_length + 1)
        return min(wanted, self.model.max_target_positions)

    def _target(self, limits: int | Tensor) -> Target:
        special = self.tokenizer.special
        return Target(special.start, special.end, limits, never=never_written(special, self.tags.values()))

    def _passage(self, source: Source, decode: Decoding) -> Passage:
        return Passage(source.ids, decode, self._target(self._limit(source.ids, decode)))

    def writing(self, source: Source, decode: Decoding | None = None) -> Writing | None:
        """The answer to a text, to be written together with others; None: a beam, the answer to a blank text, or
        an engine's, whose answers come whole."""
        decode = decode or self.decode
        self._check(decode)
        if source.blank or decode.is_beam or engine_of(self.model):
            return None
        passages, text = alone(self._passage(source, decode)), Stream(self.tokenizer.decode, ())
        return Writing(passages, text, lambda answer: self._answer(source, [answer], decode, {}))

    def beginning(self, source: Source, prefix: list[int], decode: Decoding | None = None) -> Beginning:
        """An answer that begins with these tokens, to be continued step by step."""
        check_tokens(prefix, self.model.config.vocabulary)
        fed = self.tokenizer.tokens([self.tokenizer.special.start, *prefix])
        read, passage = self.source_tokenizer.tokens(source.ids), self._passage(source, decode or self.decode)

        def columns(site: str) -> Sequence[str]:
            return read if looks_across(site) else fed

        return Beginning(passage, prefix, self.tokenizer.decode(prefix), prefix, self.tokenizer, columns)

    def _search(self, sources: list[list[int]], decode: Decoding) -> list[list[Hypothesis]]:
        source, mask = self.collate(sources)
        target = self._target(torch.tensor([self._limit(ids, decode) for ids in sources]))
        if not (decode.coverage and decode.is_beam):
            return search(self.model, source, mask, decode, target)
        all_beams = replace(decode, n_best=decode.beam)  # the coverage penalty needs answers to choose from
        return self._rerank(sources, search(self.model, source, mask, all_beams, target), decode)

    def _rerank(
        self, sources: list[list[int]], answers: list[list[Hypothesis]], decode: Decoding
    ) -> list[list[Hypothesis]]:
        repeated = [source for source, own in zip(sources, answers, strict=True) for _ in own]
        weights, *_ = self._weights(repeated, [hypothesis.tokens for own in answers for hypothesis in own])
        parts = iter(weights)
        return [
            rerank(
                own,
                [next(parts)[:, : len(source)] for _ in own],
                length_penalty=decode.length_penalty,
                coverage=decode.coverage,
            )
            for source, own in zip(sources, answers, strict=True)
        ]

    def _answer(
        self, source: Source, hypotheses: list[Hypothesis], decode: Decoding, dictionary: Mapping[str, str]
    ) -> Translation:
        (best, *others) = hypotheses
        spoken = [self._replacements(source, answer.tokens, decode, dictionary) for answer in hypotheses]
        texts = [
            self.tokenizer.decode(answer.tokens, words) for answer, words in zip(hypotheses, spoken, strict=True)
        ]

        def link(seen: Map) -> Links:
            return links_from(seen.weights, source.words, [*self._words(best.tokens, spoken[0]), -1])

        rest = tuple((text, other.score) for text, other in zip(texts[1:], others, strict=True))
        look, heads = partial(self.look, source.ids, best.tokens), partial(self.heads, source.ids, best.tokens)
        gates = partial(self.gates, source.ids, best.tokens)
        ranks = tuple(answer.normalised(decode.length_penalty) for answer in hypotheses)
        told = (source.text, texts[0], best.score, rest)
        return Translation(
            *told, look, link, heads, gates, ranks=ranks, unknown=source.unknown, written=tuple(best.tokens)
        )

    def _words(self, tokens: list[int], spoken: list[str] | None) -> list[int]:
        """The word of the answer's text that each token is part of; an unknown token that was left out has none."""
        if spoken is not None:
            return self.tokenizer.word_of(tokens, spoken)
        unknown = self.tokenizer.special.unknown
        words = iter(self.tokenizer.word_of([token for token in tokens if token != unknown]))
        return [-1 if token == unknown else next(words) for token in tokens]

    def _replacements(
        self, source: Source, tokens: list[int], decode: Decoding, dictionary: Mapping[str, str]
    ) -> list[str] | None:
        """A word for each unknown token of an answer: the source word it looked at most (Luong 2015b), or the
        dictionary's entry for that, as it is or in lower case."""
        unknown = [place for place, token in enumerate(tokens) if token == self.tokenizer.special.unknown]
        if not decode.replace_unknown or not unknown:
            return None
        weights, *_ = self._weights([source.ids], [tokens])
        pieces = self.source_tokenizer.pieces(source.text)
        words = [place for place, piece in enumerate(pieces) if piece]  # spaces and the end are none
        most, places = weights[0, unknown][:, words].max(-1)
        looked = [pieces[words[place]] if weight else "<unk>" for weight, place in zip(most, places, strict=True)]
        return [dictionary.get(word, dictionary.get(word.lower(), word)) for word in looked]

    def _weights(self, sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, Tensor | None, str]:
        """One teacher-forced pass: where each target token and the end token looked (N, T, S); with local attention
        the centres (N, T); and which heads these weights are of, "" for attention without heads. Rows beyond a
        target and columns beyond a source are padding."""
        self.check_looks()
        site = self.site or self.model.alignment
        if site not in (across := [name for name in sites_like(self.model, ()) if looks_across(name)]):
            raise NoAttention(f"no attention from target to source is named {site!r}; there is {', '.join(across)}")
        seen = self._trace(sources, targets, site)
        centres = seen[site, "centre"].float().cpu() if "centre" in seen.kinds(site) else None
        weights = seen[site]
        title = heads_title(site, weights.shape[1], self.head) if weights.dim() == 4 else ""
        return head_weights(weights, self.head, site).float().cpu(), centres, title

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
        read = (self.source_tokenizer, source)
        written, fed = ((self.tokenizer, ids) for ids in ([*target, special.end], [special.start, *target]))

        def tokens(site: str) -> tuple[Tokens, Tokens]:
            encodes = site.startswith("encoder")
            return read if encodes else written, read if encodes or looks_across(site) else fed

        return heads_of(seen, tokens)

    @checked
    def look_over(self, text: str, sites: Sequence[str] = ()) -> Heads:
        """Of SOURCE TAB TARGET, or of a source and what the run makes of it."""
        source, tab, target = text.partition("\t")
        check_there(source, "look over")
        read = self.read(source)
        written = self.tokenizer.encode(target) if tab else list(next(self.answers([read])).written)
        return self.heads(read.ids, written, sites)

    def gates(self, source: list[int], target: list[int], sites: Sequence[str] = (), units: int = UNITS) -> Heads:
        """The gates of the named sites over the words that each read: the source, or what was written before."""
        names = gate_sites(self.model, sites)
        seen = self._trace([source], [target], *names)
        encoders = {name for name in names if name.startswith("encoder")}
        read, fed = (self.source_tokenizer, source), (self.tokenizer, [self.tokenizer.special.start, *target])
        turned = encoders if getattr(self.model.config, "reverse", False) else ()
        return gate_maps(seen, lambda site: read if site in encoders else fed, units, turned=turned)

    def look(self, source: list[int], target: list[int]) -> Map:
        """A row for each target word and one for the end token."""
        weights, centres, title = self._weights([source], [target])
        written = [*target, self.tokenizer.special.end]
        rows, columns = self.tokenizer.tokens(written), self.source_tokenizer.tokens(source)
        if centres is None:
            both = words_of(self.tokenizer, written), words_of(self.source_tokenizer, source)
            return Map(weights[0].numpy(), rows, columns, title).in_words(*both)
        window = self.model.config.window
        return Map(weights[0].numpy(), rows, columns, title, centres=centres[0].numpy(), window=window)

    def align(
        self, pairs: Iterable[tuple[str, str]], *, to: str | None = None, batch: int | None = None
    ) -> Iterator[Links]:
        """Word alignments of given translations: for each target word the source word it looked at most. What the
        model does not know of them is said at the end, on stderr."""
        return self.towards(to).links(in_parts(pairs, check_batch(batch, self.model)), each)

    def links(
        self, parts: Iterable[list[tuple[str, str]]], divide: Callable[..., Iterator[Any]]
    ) -> Iterator[Links]:
        """As `align`, of pairs that are aligned together; `divide`: a function of `base.divided`."""
        self._check_tag()
        unread = Unread("pairs")
        for links, unknown in divide(parts, self._align):
            unread.add_unknown(unknown)
            yield links
        for line in unread.lines():  # links cannot tell
            say(line)

    def _align(self, pairs: list[tuple[str, str]], tick: Tick) -> Iterator[tuple[Links, tuple[str, ...]]]:
        """The links of each pair, and what the model does not know of it."""
        sources = [self.read(source) for source, _ in pairs]
        targets = [self.tokenizer.encode_words(target) for _, target in pairs]
        weights, *_ = self._weights([source.ids for source in sources], [ids for ids, _ in targets])
        for source, (ids, words), (_, target), seen in zip(sources, targets, pairs, weights.numpy(), strict=True):
            links = links_from(seen[: len(ids) + 1, : len(source.ids)], source.words, [*words, -1])
            yield links, (*source.unknown, *self.tokenizer.unknown_in(target, ids))


def check_batch(batch: int | None, model: Model) -> int:
    """How many inputs at once: enough to keep the machine busy, unless given."""
    if batch is None:
        return 512 if device_of(model).type == "cuda" else 64
    if batch < 1:
        raise BadInput(f"batch must be at least 1, got {batch}")
    return batch
