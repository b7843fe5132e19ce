"""A trained language model: continuing a prompt, and where each token looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import overload

import torch
from torch import Tensor

from regard.attention import trace
from regard.data.batch import pad
from regard.data.tokenizer import Tokenizer
from regard.decode.greedy import Each
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Stop
from regard.decode.settings import Decoding
from regard.errors import NoAttention
from regard.models import protocols
from regard.models.protocols import Model
from regard.show import Heads, Map
from regard.tasks.measuring import device_of
from regard.tasks.search import need, search, sites_like
from regard.tasks.task import Run

LENGTH = 200  # tokens, where nobody says how many


@dataclass(frozen=True)
class Continuation:
    prompt: str
    text: str  # what was written after the prompt
    score: float  # log p(text | prompt)
    finished: bool  # the model itself ended the text
    others: tuple[tuple[str, float], ...] = ()  # the next best ones with their scores
    _look: Callable[[Sequence[str]], Heads] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> Map:
        """Which tokens before it each written token looked at: the mean of the last layer's heads."""
        heads = self.heads()
        return heads.map(list(heads.panels)[-1])

    def heads(self, *sites: str) -> Heads:
        """Every head of the named sites ("blocks.0.*"; none: all) in one picture."""
        if self._look is None:
            raise ValueError("nothing was written, so nothing was looked at")
        return self._look(sites)

    def to_dict(self) -> dict[str, object]:
        others = [{"text": text, "score": score} for text, score in self.others]
        return {
            "prompt": self.prompt,
            "text": self.text,
            "score": self.score,
            "finished": self.finished,
            "others": others,
        }

    def line(self) -> str:
        """The whole text, or of several answers lines `score TAB text`."""
        if not self.others:
            return self.prompt + self.text
        every = ((self.text, self.score), *self.others)
        return "\n".join(f"{score:.4f}\t{self.prompt}{text}" for text, score in every)

    def picture(self, sites: Sequence[str] = ()) -> Map | Heads:
        return self.heads(*sites) if sites else self.attention


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
    def generate(self, prompt: str, decode: Decoding | None = None) -> Continuation: ...
    @overload
    def generate(self, prompt: list[str], decode: Decoding | None = None) -> list[Continuation]: ...
    def generate(
        self, prompt: str | list[str], decode: Decoding | None = None
    ) -> Continuation | list[Continuation]:
        """Continue a prompt, or each of a list; the empty prompt begins a new text."""
        if isinstance(prompt, str):
            return next(self.continuations([prompt], decode))
        return list(self.continuations(prompt, decode))

    def continuations(
        self,
        prompts: Iterable[str],
        decode: Decoding | None = None,
        *,
        batch: int = 16,
        each: Callable[[str], None] | None = None,
    ) -> Iterator[Continuation]:
        """In the order of the prompts. `each` is given the text after a single prompt piece by piece, as it is
        written."""
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        decode = decode or self.decode
        if decode.coverage or decode.replace_unknown:
            raise ValueError("coverage and replace_unknown need a source, and a language model has none")
        prompts = iter(prompts)
        while part := list(islice(prompts, batch)):
            read = [self.read(prompt) for prompt in part]
            speak = partial(self._text, part[0], read[0])
            stream = Stream(speak, decode.stop, each) if each and len(part) == 1 else None
            found = self._write(read, decode, stream)
            for prompt, ids, hypotheses in zip(part, read, found, strict=True):
                one = self._continuation(prompt, ids, hypotheses, decode)
                if stream:
                    stream.show(one.text)  # what was held back as a possible stop string, and a beam's text
                yield one

    def read(self, prompt: str) -> list[int]:
        """The prompt's tokens, or the one that begins a text. ValueError where they are too many."""
        ids = self.tokenizer.encode(prompt) or [self.tokenizer.special.start]
        if len(ids) > self.max_positions:
            raise ValueError(
                f"the prompt {prompt[:40]!r}... has {len(ids)} tokens and this model takes {self.max_positions}; "
                "keep its last part"
            )
        return ids

    def _write(self, prompts: list[list[int]], decode: Decoding, each: Each | None) -> list[list[Hypothesis]]:
        """At most `max_positions` tokens are seen at once. Where the text may get longer, prompts of one length are
        continued together, so that the end of a window does not depend on the others; with stop strings each prompt
        is alone."""
        longest = self.max_positions
        wanted = decode.max_length or max(LENGTH, decode.min_length + 1)
        room = longest - max(map(len, prompts)) + 1
        if wanted <= room:
            return self._search(prompts, prompts, decode, wanted, self._stop(decode), each)
        if decode.beam > 1 and decode.max_length:
            raise ValueError(
                f"a beam may write {room} tokens after this prompt, as this model sees {longest} at once, and "
                f"{wanted} were asked for; ask for fewer, or leave the beam out"
            )
        groups: dict[int, list[int]] = {}
        for row, ids in enumerate(prompts):
            groups.setdefault(row if decode.stop else len(ids), []).append(row)
        found: dict[int, list[Hypothesis]] = {}
        for rows in groups.values():
            some = [prompts[row] for row in rows]
            found |= zip(rows, self._write_long(some, decode, wanted, longest, each), strict=True)
        return [found[row] for row in range(len(prompts))]

    def _write_long(
        self, prompts: list[list[int]], decode: Decoding, wanted: int, longest: int, each: Each | None
    ) -> list[list[Hypothesis]]:
        """Prompts of one length: when the window is full, go on from its last half, again and again. A beam ends
        there, as its scores would no longer be comparable."""
        if decode.beam > 1:
            return self._search(prompts, prompts, decode, longest - len(prompts[0]) + 1, self._stop(decode), each)
        found = [Hypothesis([], 0.0, False) for _ in prompts]
        live, done, turn, stop = list(range(len(prompts))), 0, 0, self._stop(decode)
        while live:
            texts = [[*prompts[row], *found[row].tokens] for row in live]
            seen = [ids[-max(1, longest // 2) :] for ids in texts] if turn else texts
            limit = min(wanted - done, longest - len(seen[0]) + 1)
            least = min(max(0, decode.min_length - done), limit)
            now = replace(decode, seed=(decode.seed + turn) % (1 << 63), min_length=least)
            part = self._search(seen, texts, now, limit, self._stop(decode, found[live[0]].tokens), each)
            for row, (more,) in zip(live, part, strict=True):
                tokens = found[row].tokens + more.tokens
                found[row] = Hypothesis(tokens, found[row].score + more.score, more.finished)
            done, turn = done + limit, turn + 1
            live = [row for row in live if not found[row].finished and len(found[row].tokens) == done < wanted]
            live = [row for row in live if stop is None or not stop(found[row].tokens)]
        return [[one] for one in found]

    def _search(
        self,
        seen: list[list[int]],
        texts: list[list[int]],
        decode: Decoding,
        limit: int,
        stop: Stop | None,
        each: Each | None,
    ) -> list[list[Hypothesis]]:
        """Continue what is seen of the texts; repetitions are looked for in the whole texts."""
        device = device_of(self.model)
        special = self.tokenizer.special

        def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
            tokens, mask = pad([ids[::-1] for ids in rows], special.pad)
            return tokens.flip(1).to(device), mask.flip(1).to(device)  # at the left

        (source, mask), (before, real) = padded(seen), padded(texts)
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
            each=each,
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

    def _continuation(
        self, prompt: str, ids: list[int], hypotheses: list[Hypothesis], decode: Decoding
    ) -> Continuation:
        texts = [cut(self._text(prompt, ids, one.tokens), decode.stop) for one in hypotheses]
        best, *others = hypotheses
        rest = tuple((text, one.score) for text, one in zip(texts[1:], others, strict=True))
        look = partial(self.look, ids, best.tokens) if best.tokens else None
        return Continuation(prompt, texts[0], best.score, best.finished, rest, look)

    def _text(self, prompt: str, ids: list[int], tokens: list[int]) -> str:
        """What the tokens add to the prompt, a space between two words included unless the prompt ends with one."""
        alone, mute = self.tokenizer.decode(tokens), self.tokenizer.silent | {self.tokenizer.special.unknown}
        last = [i for i in ids if i not in mute][-1:]
        before, both = self.tokenizer.decode(last), self.tokenizer.decode([*last, *tokens])
        return alone if prompt[-1:].isspace() or not both.startswith(before) else both[len(before) :]

    def check_looks(self) -> None:
        if not self.model.alignment:
            raise NoAttention(
                f"{type(self.model).__name__} keeps the whole text in one state and has no attention to show"
            )

    def look(self, prompt: list[int], written: list[int], sites: Sequence[str] = ()) -> Heads:
        """A row for each written token, a column for each token before the last, as many as the model sees."""
        self.check_looks()
        ids = [*prompt, *written][-self.max_positions - 1 :]
        rows = min(len(written), len(ids) - 1)
        fed = torch.tensor([ids[:-1]], device=device_of(self.model))
        asked = range(len(ids) - 1 - rows, len(ids) - 1)
        with torch.inference_mode(), trace(self.model, *sites_like(self.model, sites), rows=asked) as seen:
            self.model.states(fed)
        panels = {site: seen[site][0].float().cpu().numpy() for site in seen.sites}
        labels = self.tokenizer.tokens(ids)
        return Heads(panels, labels[len(ids) - rows :], labels[:-1])


class Stream:
    """Turns tokens into text as soon as it is certain, and shows nothing of a stop string."""

    def __init__(self, speak: Callable[[list[int]], str], stops: tuple[str, ...], write: Callable[[str], None]):
        self.speak, self.stops, self.write = speak, stops, write
        self.tokens: list[int] = []
        self.shown = 0
        self.held = max((len(one) - 1 for one in stops), default=0)  # the last characters may begin a stop string

    def __call__(self, new: list[tuple[int, int]]) -> None:
        self.tokens += [token for _, token in new]
        text = self.speak(self.tokens)
        before = cut(text, self.stops)
        whole = text[:-3] + text[-3:].rstrip("\ufffd")  # half a character is shown once it is complete
        self.show(before if before != text else whole[: max(0, len(whole) - self.held)])

    def show(self, text: str) -> None:
        """The new part of a text that is certain."""
        if len(text) > self.shown:
            self.write(text[self.shown :])
            self.shown = len(text)


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((text.find(one) for one in stops if one in text), default=len(text))]
