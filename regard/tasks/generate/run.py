"""A trained language model: continuing a prompt, and where each token looked."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from regard.attention import trace
from regard.data.batches.batch import pad
from regard.data.text.tokenizer import Tokenizer
from regard.decode.generator import finish, step_by_step
from regard.decode.hypothesis import Hypothesis
from regard.decode.joining import Row, Way
from regard.decode.rules import Stop
from regard.decode.settings import Decoding
from regard.errors import BadInput, NoAttention
from regard.models import protocols
from regard.models.protocols import Model
from regard.show import Heads
from regard.tasks.core.inputs import check_many, check_text, in_parts, read_all
from regard.tasks.core.options import GENERATE, change_decoding, check_options, checks_keywords
from regard.tasks.core.results import NOTHING_BEFORE, Evaluation
from regard.tasks.core.run import Run
from regard.tasks.generate.continuation import Continuation
from regard.tasks.generate.windows import LENGTH, Windows, windows
from regard.tasks.shared.gate_maps import UNITS, gate_maps, gate_sites
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.search import Searching, looks_back, need, search, sites_like
from regard.tasks.shared.stepping import Beginning, check_tokens
from regard.tasks.shared.text_stream import Stream, cut
from regard.tasks.shared.words import heads_of
from regard.tasks.shared.writing import Rows, Writing, is_beam, way_of

Pieces = Generator[str, None, Continuation]  # of a text, as it is written


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model reads it."""

    text: str
    ids: list[int]


class LanguageModel(Run):
    """A trained language model, as `regard.load(run)` gives it."""

    model: protocols.LanguageModel

    def __init__(self, model: Model, tokenizer: Tokenizer, decode: Decoding | None = None):
        self.model = need(model, protocols.LanguageModel)
        self.tokenizer, self.decode = tokenizer, decode or Decoding()

    @property
    def max_positions(self) -> int:
        """How many tokens it sees at once."""
        return self.model.config.max_positions

    @overload
    def generate(
        self,
        prompt: str,
        decode: Decoding | None = None,
        *,
        stream: Literal[False] = False,
        max_tokens: int | None = None,
        stop: str | Sequence[str] | None = None,
        beam: int | None = None,
        n_best: int | None = None,
        length_penalty: float | None = None,
        min_length: int | None = None,
        repetition_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Continuation: ...
    @overload
    def generate(
        self,
        prompt: list[str],
        decode: Decoding | None = None,
        *,
        stream: Literal[False] = False,
        max_tokens: int | None = None,
        stop: str | Sequence[str] | None = None,
        beam: int | None = None,
        n_best: int | None = None,
        length_penalty: float | None = None,
        min_length: int | None = None,
        repetition_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> list[Continuation]: ...
    @overload
    def generate(
        self,
        prompt: str,
        decode: Decoding | None = None,
        *,
        stream: Literal[True],
        max_tokens: int | None = None,
        stop: str | Sequence[str] | None = None,
        beam: int | None = None,
        n_best: int | None = None,
        length_penalty: float | None = None,
        min_length: int | None = None,
        repetition_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Pieces: ...
    @checks_keywords
    def generate(
        self,
        prompt: str | list[str],
        decode: Decoding | None = None,
        *,
        stream: bool = False,
        max_tokens: int | None = None,
        stop: str | Sequence[str] | None = None,
        beam: int | None = None,
        n_best: int | None = None,
        length_penalty: float | None = None,
        min_length: int | None = None,
        repetition_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Continuation | list[Continuation] | Pieces:
        """Continue a prompt, or each of a list; the empty prompt begins a new text. The keywords are the options of
        `regard generate`; one that is not given is as `decode` says, else as the run's recipe says.

        At most `max_tokens` are written, and nothing from a `stop` text on; a `temperature` above 0 samples, the
        same text for the same `seed`. With `stream` the text after a single prompt comes piece by piece, as it is
        written; closing the iterator ends the work."""
        asked = {
            "max_tokens": max_tokens,
            "stop": stop,
            "beam": beam,
            "n_best": n_best,
            "length_penalty": length_penalty,
            "min_length": min_length,
            "repetition_penalty": repetition_penalty,
            "no_repeat_ngram": no_repeat_ngram,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
        }
        settings = self.decoding(asked, decode)
        if isinstance(prompt, str):
            if stream:
                return self.stream(prompt, settings)
            return next(self.continuations([self.begin(prompt, settings)], settings))
        check_many(prompt, "prompt")
        if stream:
            raise BadInput("stream gives the text after one prompt, a str, and got several; ask for one at a time")
        return list(self.continuations(prompt, settings))

    def decoding(self, options: Mapping[str, Any], decode: Decoding | None = None) -> Decoding:
        """How to write: as the settings say, else the run's recipe, changed by the options that are given."""
        check_options(GENERATE, options)
        asked = {name: value for name, value in options.items() if value is not None}
        if max(asked.get("beam", 1), asked.get("n_best", 1)) > 1:
            asked.setdefault("temperature", 0.0)  # a beam is asked for, whatever the recipe samples with
        if "max_tokens" in asked:
            asked["max_length"] = asked.pop("max_tokens")
        return change_decoding(decode or self.decode, asked)

    @checks_keywords
    def evaluate(
        self, data: str | Path | None = None, *, columns: str = "", stride: int | None = None
    ) -> Evaluation:
        """How well the run predicts text: perplexity and bits per character on a file, or without one on the test
        data of its recipe. `columns` names the column of texts; windows begin `stride` tokens apart."""
        return self._evaluate(data, columns, stride=stride)

    def continuations(
        self, prompts: Iterable[str | Prompt], decode: Decoding | None = None, *, batch: int = 16
    ) -> Iterator[Continuation]:
        """In the order of the prompts. One that cannot be read raises BadInput with its index, once those before it
        are answered."""
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        decode = decode or self.decode
        self._check(decode)
        for part in in_parts(read_all(prompts, partial(self.begin, decode=decode), "prompts"), batch):
            found = finish(self.model, self._write([prompt.ids for prompt in part], decode))
            for prompt, hypotheses in zip(part, found, strict=True):
                yield self._continuation(prompt, hypotheses, decode)

    def stream(self, prompt: str | Prompt, decode: Decoding | None = None) -> Pieces:
        """The text after a prompt piece by piece, as it is written; a beam's text comes at its end. The value that
        the generator returns is the Continuation."""
        decode = decode or self.decode
        self._check(decode)
        if decode.n_best > 1:
            raise BadInput(
                f"one text is written piece by piece, and n_best asks for {decode.n_best}; give one of them"
            )
        return self._pieces(self.begin(prompt, decode), decode)

    def _pieces(self, prompt: Prompt, decode: Decoding) -> Pieces:
        text = Stream(partial(self._text, prompt), decode.stop)
        steps = step_by_step(self.model, self._write([prompt.ids], decode))
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                [hypotheses] = end.value
                break
            if piece := text.add([token for _, token in step.pairs()]):
                yield piece
        one = self._continuation(prompt, hypotheses, decode)
        if rest := text.rest(one.text):  # what was held back as a possible stop string, and a beam's text
            yield rest
        return one

    def _check(self, decode: Decoding) -> None:
        if decode.coverage or decode.replace_unknown:
            raise BadInput("coverage and replace_unknown need a source, and a language model has none")
        most = max(LENGTH, self.max_positions)
        if decode.min_length > most and not decode.max_length:
            raise BadInput(
                f"min_length must be at most {most:,}, got {decode.min_length:,}; for longer texts also say how "
                "long they may be: max_length (--max-tokens)"
            )

    def begin(self, prompt: str | Prompt, decode: Decoding | None = None) -> Prompt:
        """The prompt's tokens; BadInput if it cannot be continued with these settings."""
        if isinstance(prompt, Prompt):
            return prompt
        ids, decode = self.read(prompt), decode or self.decode
        room = self.max_positions - len(ids) + 1
        if decode.beam > 1 and decode.max_length > room:
            raise BadInput(
                f"a beam may write {room} tokens after this prompt, as this model sees {self.max_positions} at "
                f"once, and {decode.max_length} were asked for; ask for fewer, or leave the beam out"
            )
        return Prompt(prompt, ids)

    def read(self, prompt: str) -> list[int]:
        """The prompt's tokens, or the one that begins a text. BadInput where they are too many."""
        ids = [*self.tokenizer.before, *self.tokenizer.encode(check_text(prompt, "a prompt"))]
        ids = ids or [self.tokenizer.special.start]
        if len(ids) > self.max_positions:
            raise BadInput(
                f"the prompt {prompt[:40]!r}... has {len(ids)} tokens and this model takes {self.max_positions}; "
                "keep its last part"
            )
        return ids

    def _write(self, prompts: list[list[int]], decode: Decoding) -> Searching:
        """At most `max_positions` tokens are seen at once. Where the text may get longer, prompts of one length are
        continued together, so that the end of a window does not depend on the others; with stop strings each prompt
        is alone."""
        longest = self.max_positions
        wanted = decode.max_length or max(LENGTH, decode.min_length + 1)
        room = longest - max(map(len, prompts)) + 1
        if wanted <= room:
            return (yield from self._search(prompts, prompts, decode, wanted, self._stop(decode)))
        groups: dict[int, list[int]] = {}
        for row, ids in enumerate(prompts):
            groups.setdefault(row if decode.stop else len(ids), []).append(row)
        found: dict[int, list[Hypothesis]] = {}
        for rows in groups.values():
            some = [prompts[row] for row in rows]
            long = yield from self._write_long(some, decode, longest)
            found |= zip(rows, long, strict=True)
        return [found[row] for row in range(len(prompts))]

    def _write_long(self, prompts: list[list[int]], decode: Decoding, longest: int) -> Searching:
        """Prompts of one length, so that their windows end together. A beam ends with its first window, as its
        scores would no longer be comparable."""
        if decode.beam > 1:
            room = longest - len(prompts[0]) + 1
            return (yield from self._search(prompts, prompts, decode, room, self._stop(decode)))
        writing = {row: self._windows(ids, decode) for row, ids in enumerate(prompts)}
        seen = {row: next(windows) for row, windows in writing.items()}
        found: dict[int, Hypothesis] = {}
        while seen:
            one = next(iter(seen.values()))
            now = replace(decode, seed=one.seed, min_length=one.min_length)
            parts = [window.seen for window in seen.values()], [window.text for window in seen.values()]
            answers = yield from self._search(*parts, now, one.limit, one.stop)
            for row, (more,) in zip(list(seen), answers, strict=True):
                try:
                    seen[row] = writing[row].send(more)
                except StopIteration as end:
                    found[row] = end.value
                    del seen[row]
        return [[found[row]] for row in range(len(prompts))]

    def _windows(self, prompt: list[int], decode: Decoding) -> Windows:
        return windows(prompt, decode, self.max_positions, lambda before: self._stop(decode, before))

    def collate(self, sources: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Prompts as a batch, padded on the left, and its mask."""
        tokens, mask = pad([ids[::-1] for ids in sources], self.tokenizer.special.pad)
        device = device_of(self.model)
        return tokens.flip(1).to(device), mask.flip(1).to(device)

    def writing(self, prompt: str | Prompt, decode: Decoding | None = None) -> Writing | None:
        """The continuation of a prompt, to be written together with others; None: a beam, which is not."""
        decode = decode or self.decode
        self._check(decode)
        begun = self.begin(prompt, decode)
        if is_beam(decode):
            return None
        text = Stream(partial(self._text, begun), decode.stop)
        return Writing(self._rows(begun, decode), text, lambda one: self._continuation(begun, [one], decode))

    def beginning(self, prompt: str | Prompt, prefix: list[int], decode: Decoding | None = None) -> Beginning:
        """A continuation that begins with these tokens, to be continued step by step. Of a long text, the model
        sees the end."""
        begun, decode = self.begin(prompt, decode), decode or self.decode
        check_tokens(prefix, self.model.config.vocabulary)
        seen = [*begun.ids, *prefix][-self.max_positions :]
        row = Row(seen[:-1], seen[-1], self._way(decode), max_length=1)
        names, text = self.tokenizer.tokens(seen), self._text(begun, prefix)
        return Beginning(row, (), text, prefix, self.tokenizer, lambda site: names)

    def _rows(self, prompt: Prompt, decode: Decoding) -> Rows:
        way, windows = self._way(decode), self._windows(prompt.ids, decode)
        window = next(windows)
        while True:
            *source, start = window.seen
            least, seed = window.min_length, window.seed
            row = Row(source, start, way, window.limit, least, window.text[:-1], seed, window.stop)
            more = yield row
            try:
                window = windows.send(more)
            except StopIteration as end:
                return end.value

    def _way(self, decode: Decoding) -> Way:
        special = self.tokenizer.special
        return way_of(decode, replace(special, start=special.end))  # what begins a text is not forbidden

    def _search(
        self, seen: list[list[int]], texts: list[list[int]], decode: Decoding, limit: int, stop: Stop | None
    ) -> Searching:
        """Continue what is seen of the texts; repetitions are looked for in the whole texts."""
        special = self.tokenizer.special
        (source, mask), (before, real) = self.collate(seen), self.collate(texts)
        return search(
            self.model,
            source[:, :-1],
            mask[:, :-1],
            decode,
            special=replace(special, start=special.end),  # what begins a text is not forbidden
            start=source[:, -1],
            max_length=limit,
            prompt=before[:, :-1],
            prompt_mask=real[:, :-1],
            stop=stop,
        )

    def _stop(self, decode: Decoding, before: Sequence[int] = ()) -> Stop | None:
        """Has a stop string been written? A token has at least one byte, so the last `tail` tokens are enough, some
        of which may have come `before`."""
        if not decode.stop:
            return None
        tail = max(len(one.encode()) for one in decode.stop) + 8

        def written(tokens: list[int]) -> bool:
            text = self.tokenizer.decode([*before, *tokens][-tail:])
            return any(one in text for one in decode.stop)

        return written

    def _continuation(self, prompt: Prompt, hypotheses: list[Hypothesis], decode: Decoding) -> Continuation:
        texts = [cut(self._text(prompt, one.tokens), decode.stop) for one in hypotheses]
        best, *others = hypotheses
        rest = tuple((text, one.score) for text, one in zip(texts[1:], others, strict=True))
        look = partial(self.look, prompt.ids, best.tokens) if best.tokens else None
        gates = partial(self.gates, prompt.ids, best.tokens) if best.tokens else None
        return Continuation(prompt.text, texts[0], best.score, best.finished, rest, look, gates)

    def _text(self, prompt: Prompt, tokens: list[int]) -> str:
        """What the tokens add to the prompt, a space between two words included unless the prompt ends with one."""
        alone, mute = self.tokenizer.decode(tokens), self.tokenizer.silent | {self.tokenizer.special.unknown}
        last = [i for i in prompt.ids if i not in mute][-1:]
        before, both = self.tokenizer.decode(last), self.tokenizer.decode([*last, *tokens])
        return alone if prompt.text[-1:].isspace() or not both.startswith(before) else both[len(before) :]

    def check_looks(self) -> None:
        """NoAttention where the model has none."""
        if not self.model.alignment:
            raise NoAttention(
                f"{type(self.model).__name__} keeps the whole text in one state and has no attention to show"
            )

    def look(self, prompt: list[int], written: list[int], sites: Sequence[str] = ()) -> Heads:
        """A row for each written word, a column for each word before the last token, as many as the model sees. Of
        a model that looks back: a row for each word that was read, the prompt's too."""
        self.check_looks()
        ids = [*prompt, *written][-self.max_positions - 1 :]
        fed, named = ids[:-1], sites_like(self.model, sites)
        back = looks_back(self.model, named)
        if back and len(fed) < 2:
            raise NoAttention(NOTHING_BEFORE)
        rows = len(fed) if back else min(len(written), len(fed))
        asked = range(len(fed) - rows, len(fed))
        with torch.inference_mode(), trace(self.model, *named, rows=asked) as seen:
            self.model.states(torch.tensor([fed], device=device_of(self.model)))
        looking, seen_by = (fed, fed[:-1]) if back else (ids[len(ids) - rows :], fed)
        both = (self.tokenizer, looking), (self.tokenizer, seen_by)
        return heads_of(seen, lambda site: both)

    def gates(self, prompt: list[int], written: list[int], sites: Sequence[str] = (), units: int = UNITS) -> Heads:
        """The gates of the named sites over all words that were read, the prompt's too."""
        ids = [*prompt, *written][-self.max_positions - 1 : -1]
        with torch.inference_mode(), trace(self.model, *gate_sites(self.model, sites)) as seen:
            self.model.states(torch.tensor([ids], device=device_of(self.model)))
        return gate_maps(seen, lambda site: (self.tokenizer, ids), units)
