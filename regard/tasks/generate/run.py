"""A trained language model: continuing a prompt, and where each token looked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, Unpack, overload

import torch
from torch import Tensor

from regard.attention import trace
from regard.base.arguments import checked
from regard.data.batches.batch import pad
from regard.data.text.tokenizer import Tokenizer
from regard.decode.generator import finish, step_by_step
from regard.decode.hypothesis import Hypothesis
from regard.decode.lookup import check_speculation
from regard.decode.rules import Stop, Target
from regard.decode.search import Searching, search
from regard.decode.settings import Decoding
from regard.errors import BadInput, NoAttention
from regard.layers.engine import engine_of
from regard.models import protocols
from regard.models.protocols import Model, need
from regard.show import Heads
from regard.tasks.core.inputs import check_many, check_text, check_there, in_parts, read_all
from regard.tasks.core.options import MAX_TOKENS, GenerateOptions, check_options, checks_keywords
from regard.tasks.core.results import NOTHING_BEFORE, Evaluation, keep_unfinished
from regard.tasks.core.run import Data
from regard.tasks.generate.continuation import Continuation
from regard.tasks.generate.drafts import Drafts
from regard.tasks.generate.windows import LENGTH, Windows, windows
from regard.tasks.shared.gate_maps import UNITS, gate_maps, gate_sites
from regard.tasks.shared.looking import look_over
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.sites import looks_back, sites_like
from regard.tasks.shared.stepping import Beginning, check_tokens
from regard.tasks.shared.text_stream import Stream, cut
from regard.tasks.shared.writing import Passage, Passages, Writing
from regard.tasks.shared.writing_run import WritingRun, never_written

BATCH = 16  # prompts
Pieces = Generator[str, None, Continuation]  # of a text, as it is written


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model reads it."""

    text: str
    ids: list[int]
    unknown: tuple[str, ...] = ()  # what the vocabulary does not have


class LanguageModel(WritingRun):
    """A trained language model, as `regard.load(run)` gives it."""

    model: protocols.LanguageModel

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        decode: Decoding | None = None,
        *,
        opening: Sequence[int] = (),
        responds: bool = False,
    ):
        """`opening`: the tokens that a new text follows; (): the one that begins a text. `responds`: the run has
        learned responses to prompts (`data.documents = "pairs"`): a prompt ends with the token that begins one."""
        self.model = need(model, protocols.LanguageModel)
        self.tokenizer, self.decode = tokenizer, decode or Decoding()
        self._opening, self.responds = list(opening), responds

    @property
    def opening(self) -> list[int]:
        """The tokens that a new text follows."""
        return self._opening or [self.tokenizer.special.start]

    @property
    def max_positions(self) -> int:
        """How many tokens it sees at once."""
        return self.model.max_target_positions

    @property
    def at_once(self) -> int:
        return BATCH

    @overload
    def generate(
        self,
        prompt: str,
        decode: Decoding | None = None,
        *,
        stream: Literal[False] = False,
        **options: Unpack[GenerateOptions],
    ) -> Continuation: ...
    @overload
    def generate(
        self,
        prompt: list[str],
        decode: Decoding | None = None,
        *,
        stream: Literal[False] = False,
        **options: Unpack[GenerateOptions],
    ) -> list[Continuation]: ...
    @overload
    def generate(
        self,
        prompt: str,
        decode: Decoding | None = None,
        *,
        stream: Literal[True],
        **options: Unpack[GenerateOptions],
    ) -> Pieces: ...
    @checks_keywords
    def generate(
        self,
        prompt: str | list[str],
        decode: Decoding | None = None,
        *,
        stream: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Continuation | list[Continuation] | Pieces:
        """Continue a prompt, or each of a list; the empty prompt begins a new text. The keywords are the options of
        `regard generate`; an option that is not given is as `decode` says, else as the run's recipe says.

        At most `max_tokens` are written, and nothing from a `stop` text on; a `temperature` above 0 samples, the
        same text for the same `seed`. With `stream` the text after a single prompt comes piece by piece, as it is
        written; closing the iterator ends the work."""
        settings = self.decoding(options, decode)
        self._check(settings, streamed=stream)
        if isinstance(prompt, str):
            begun = self.begin(prompt, settings)
            return self.stream(begun, settings) if stream else next(self.continuations([begun], settings))
        check_many(prompt, "prompt")
        if stream:
            raise BadInput("stream gives the text after one prompt, a str, and got several; ask for one at a time")
        prompts = read_all(prompt, partial(self.begin, decode=settings), "prompts")
        return list(self.continuations(prompts, settings))

    def decoding(self, options: Mapping[str, Any], decode: Decoding | None = None) -> Decoding:
        """How to write: as the settings say, else the run's recipe, changed by the options that are given."""
        check_options([MAX_TOKENS], options)
        changes = {name: value for name, value in options.items() if value is not None}
        if max(changes.get("beam", 1), changes.get("n_best", 1)) > 1:
            changes.setdefault("temperature", 0.0)  # a beam is wanted, whatever the recipe samples with
        if "max_tokens" in changes:
            changes["max_length"] = changes.pop("max_tokens")
        return super().decoding(changes, decode)

    @checks_keywords
    def evaluate(self, data: Data | None = None, *, columns: str = "", stride: int | None = None) -> Evaluation:
        """How well the run predicts text: perplexity and bits per character on a file, or without one on the test
        data of its recipe. `columns` names the column of texts; windows begin `stride` tokens apart."""
        return self._evaluate(data, columns, stride=stride)

    def continuations(
        self, prompts: Iterable[Prompt], decode: Decoding | None = None, *, batch: int = BATCH
    ) -> Iterator[Continuation]:
        """In the order of the prompts. Where reading one raises BadInput, those before it are answered first. An
        error that ends the work carries what was written so far: see `unfinished`."""
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        decode = decode or self.decode
        self._check(decode)
        for part in in_parts(prompts, batch):
            drafts = Drafts(len(part))
            try:
                answers = finish(self.model, self._write([prompt.ids for prompt in part], decode, drafts))
            except BaseException as error:
                kept = zip(part, drafts.hypotheses(), strict=False)  # the last ones may not be begun
                keep_unfinished(error, [self._continuation(prompt, [text], decode) for prompt, text in kept])
                raise
            for prompt, hypotheses in zip(part, answers, strict=True):
                yield self._continuation(prompt, hypotheses, decode)

    def stream(self, prompt: Prompt, decode: Decoding | None = None) -> Pieces:
        """The text after a prompt piece by piece, as it is written; a beam's text comes at its end. The value that
        the generator returns is the Continuation."""
        decode = decode or self.decode
        self._check(decode, streamed=True)
        return self._pieces(prompt, decode)

    def _pieces(self, prompt: Prompt, decode: Decoding) -> Pieces:
        text = Stream(self._speaker(prompt), decode.stop)
        steps = step_by_step(self.model, self._write([prompt.ids], decode))
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                [hypotheses] = end.value
                break
            if piece := text.add([token for _, token in step.pairs()]):
                yield piece
        answer = self._continuation(prompt, hypotheses, decode)
        if rest := text.rest(answer.text):  # what was held back as a possible stop string, and a beam's text
            yield rest
        return answer

    def _check(self, decode: Decoding, *, streamed: bool = False) -> None:
        """BadInput where no text can be written with these settings."""
        if streamed and decode.n_best > 1:
            raise BadInput(
                f"one text is written piece by piece, and n_best asks for {decode.n_best}; give one of them"
            )
        if decode.coverage or decode.replace_unknown:
            raise BadInput("coverage and replace_unknown need a source, and a language model has none")
        check_speculation(self.model, decode)
        most = max(LENGTH, self.max_positions)
        if decode.min_length > most and not decode.max_length:
            raise BadInput(
                f"min_length must be at most {most:,}, got {decode.min_length:,}; for longer texts also say how "
                "long they may be: max_length (--max-tokens)"
            )

    def begin(self, prompt: str, decode: Decoding | None = None) -> Prompt:
        """Read a prompt; BadInput if it cannot be continued with these settings."""
        ids, decode = self.read(prompt), decode or self.decode
        room = self.max_positions - len(ids) + 1
        if decode.beam > 1 and decode.max_length > room:
            raise BadInput(
                f"a beam may write {room} tokens after this prompt, as this model sees {self.max_positions} at "
                f"once, and {decode.max_length} were asked for; ask for fewer, or leave the beam out"
            )
        return Prompt(prompt, ids, self.tokenizer.unknown_in(prompt, ids))

    def read(self, prompt: str) -> list[int]:
        """The prompt's tokens, or what a new text follows. BadInput if they are too many."""
        ids = [*self.tokenizer.before, *self.tokenizer.encode(check_text(prompt, "a prompt"))]
        ids = [*ids, self.tokenizer.special.start] if self.responds else ids or self.opening
        if len(ids) > self.max_positions:
            raise BadInput(
                f"the prompt {prompt[:40]!r}... has {len(ids)} tokens and this model takes {self.max_positions}; "
                "keep its last part"
            )
        return ids

    def _write(self, prompts: list[list[int]], decode: Decoding, drafts: Drafts | None = None) -> Searching:
        """At most `max_positions` tokens are seen at once. Where the text may get longer, prompts of one length are
        continued together, so that the end of a window does not depend on the others; with stop strings each prompt
        is alone."""
        longest, drafts = self.max_positions, drafts or Drafts(len(prompts))
        wanted = decode.max_length or max(LENGTH, decode.min_length + 1)
        room = longest - max(map(len, prompts)) + 1
        if wanted <= room:
            writing = self._search(prompts, prompts, decode, wanted, self._stop(decode))
            return (yield from drafts.follow(writing, range(len(prompts))))
        groups: dict[int, list[int]] = {}
        for row, ids in enumerate(prompts):
            groups.setdefault(row if decode.stop else len(ids), []).append(row)
        answers: dict[int, list[Hypothesis]] = {}
        for rows in groups.values():
            long = yield from self._write_long([prompts[row] for row in rows], decode, rows, drafts)
            answers |= zip(rows, long, strict=True)
        return [answers[row] for row in range(len(prompts))]

    def _write_long(
        self, prompts: list[list[int]], decode: Decoding, numbers: Sequence[int], drafts: Drafts
    ) -> Searching:
        """Prompts of one length, so that their windows end together; `numbers` are theirs in the drafts. A beam
        ends with its first window, as its scores would no longer be comparable."""
        if decode.beam > 1:
            room = self.max_positions - len(prompts[0]) + 1
            return (yield from self._search(prompts, prompts, decode, room, self._stop(decode)))
        writing = {row: self._windows(ids, decode) for row, ids in enumerate(prompts)}
        windows = {row: next(following) for row, following in writing.items()}
        answers: dict[int, Hypothesis] = {}
        while windows:
            first = next(iter(windows.values()))
            now = replace(decode, seed=first.seed, min_length=first.min_length)
            seen, texts = ([getattr(window, part) for window in windows.values()] for part in ("seen", "text"))
            search = self._search(seen, texts, now, first.limit, first.stop)
            parts = yield from drafts.follow(search, [numbers[row] for row in windows], whole=False)
            for row, (part,) in zip(list(windows), parts, strict=True):
                try:
                    windows[row] = writing[row].send(part)
                except StopIteration as end:
                    answers[row] = drafts.done[numbers[row]] = end.value
                    del windows[row]
        return [[answers[row]] for row in range(len(prompts))]

    def _windows(self, prompt: list[int], decode: Decoding) -> Windows:
        return windows(prompt, decode, self.max_positions, lambda before: self._stop(decode, before))

    def collate(self, sources: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Prompts as a batch, padded on the left, and its mask."""
        tokens, mask = pad([ids[::-1] for ids in sources], self.tokenizer.special.pad)
        device = device_of(self.model)
        return tokens.flip(1).to(device), mask.flip(1).to(device)

    def writing(self, prompt: Prompt, decode: Decoding | None = None) -> Writing | None:
        """The continuation of a prompt, to be written together with others; None: a beam or an engine's, which are
        not."""
        decode = decode or self.decode
        self._check(decode)
        if decode.is_beam or engine_of(self.model):
            return None
        text = Stream(self._speaker(prompt), decode.stop)
        passages = self._passages(prompt, decode)
        return Writing(passages, text, lambda answer: self._continuation(prompt, [answer], decode))

    def beginning(self, prompt: Prompt, prefix: list[int], decode: Decoding | None = None) -> Beginning:
        """A continuation that begins with these tokens, to be continued step by step. Of a long text, the model
        sees the end."""
        check_tokens(prefix, self.model.config.vocabulary)
        seen = [*prompt.ids, *prefix][-self.max_positions :]
        passage = Passage(seen[:-1], decode or self.decode, self._target(seen[-1], max_length=1))
        names, text = self.tokenizer.tokens(seen), self._speaker(prompt)(prefix)
        return Beginning(passage, (), text, prefix, self.tokenizer, lambda site: names)

    def _passages(self, prompt: Prompt, decode: Decoding) -> Passages:
        """A passage for each window of the text."""
        windows = self._windows(prompt.ids, decode)
        window = next(windows)
        while True:
            *source, start = window.seen
            settings = replace(decode, seed=window.seed, min_length=window.min_length)
            before = torch.tensor([window.text[:-1]], dtype=torch.long)
            target = self._target(start, window.limit, prompt=before, stop=window.stop)
            part = yield Passage(source, settings, target)
            try:
                window = windows.send(part)
            except StopIteration as end:
                return end.value

    def _target(
        self,
        start: int | Tensor,
        max_length: int,
        prompt: Tensor | None = None,
        prompt_mask: Tensor | None = None,
        stop: Stop | None = None,
    ) -> Target:
        special = self.tokenizer.special
        # What begins a text is not forbidden; an unknown word would be missing from the text.
        unknown = [special.unknown] if special.unknown >= 0 else []
        never = never_written(replace(special, start=special.end), unknown)
        return Target(
            start, special.end, max_length, never=never, prompt=prompt, prompt_mask=prompt_mask, stop=stop
        )

    def _search(
        self, seen: list[list[int]], texts: list[list[int]], decode: Decoding, limit: int, stop: Stop | None
    ) -> Searching:
        """Continue what is seen of the texts; repetitions are looked for in the whole texts."""
        (source, mask), (before, real) = self.collate(seen), self.collate(texts)
        target = self._target(source[:, -1], limit, before[:, :-1], real[:, :-1], stop)
        return search(self.model, source[:, :-1], mask[:, :-1], decode, target)

    def _stop(self, decode: Decoding, before: Sequence[int] = ()) -> Stop | None:
        """Has a stop string been written? A token has at least one byte, so the last `tail` tokens are enough, some
        of which may have come `before`."""
        if not decode.stop:
            return None
        tail = max(len(text.encode()) for text in decode.stop) + 8

        def written(tokens: list[int]) -> bool:
            end = self.tokenizer.decode([*before, *tokens][-tail:])
            return any(text in end for text in decode.stop)

        return written

    def _continuation(self, prompt: Prompt, hypotheses: list[Hypothesis], decode: Decoding) -> Continuation:
        texts = [cut(self._speaker(prompt)(hypothesis.tokens), decode.stop) for hypothesis in hypotheses]
        best, *others = hypotheses
        rest = tuple((text, other.score) for text, other in zip(texts[1:], others, strict=True))
        look = partial(self.look, prompt.ids, best.tokens) if best.tokens else None
        gates = partial(self.gates, prompt.ids, best.tokens) if best.tokens else None
        told = (prompt.text, texts[0], best.score, best.finished, rest)
        ranks = tuple(hypothesis.normalised(decode.length_penalty) for hypothesis in hypotheses)
        last = (self.model.alignment,) if self.model.alignment else ()
        between = "\n" if self.responds else ""
        return Continuation(
            *told,
            look,
            gates,
            between=between,
            unknown=prompt.unknown,
            written=tuple(best.tokens),
            ranks=ranks,
            _alignment=last,
        )

    def _speaker(self, prompt: Prompt) -> Callable[[list[int]], str]:
        """What tokens add to the prompt, a space between two words included unless the prompt ends with one."""
        decode, mute = self.tokenizer.decode, self.tokenizer.silent | {self.tokenizer.special.unknown}
        last = list(islice((i for i in reversed(prompt.ids) if i not in mute), 1))
        before, is_spaced = decode(last), prompt.text[-1:].isspace() or self.responds

        def speak(tokens: list[int]) -> str:
            both = "" if is_spaced else decode([*last, *tokens])
            return decode(tokens) if is_spaced or not both.startswith(before) else both[len(before) :]

        return speak

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
        looked_from = range(len(fed) - rows, len(fed))
        looking, seen_by = (fed, fed[:-1]) if back else (ids[len(ids) - rows :], fed)
        both = (self.tokenizer, looking), (self.tokenizer, seen_by)
        read = torch.tensor([fed], device=device_of(self.model))
        return look_over(self.model, named, looked_from, lambda site: both, lambda: self.model.states(read))

    @checked
    def look_over(self, text: str, sites: Sequence[str] = ()) -> Heads:
        """A row and a column for each word of a text; of a model that looks back as `look`."""
        check_there(text, "look over")
        self.check_looks()
        ids, named = self.read(text), sites_like(self.model, sites)
        if looks_back(self.model, named):
            return self.look([], [*ids, ids[-1]], sites)
        both, read = ((self.tokenizer, ids),) * 2, torch.tensor([ids], device=device_of(self.model))
        return look_over(self.model, named, range(len(ids)), lambda site: both, lambda: self.model.states(read))

    def gates(self, prompt: list[int], written: list[int], sites: Sequence[str] = (), units: int = UNITS) -> Heads:
        """The gates of the named sites over all words that were read, the prompt's too."""
        ids = [*prompt, *written][-self.max_positions - 1 : -1]
        with torch.inference_mode(), trace(self.model, *gate_sites(self.model, sites)) as seen:
            self.model.states(torch.tensor([ids], device=device_of(self.model)))
        return gate_maps(seen, lambda site: (self.tokenizer, ids), units)
