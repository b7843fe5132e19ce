"""Text that goes on: continuing a prompt, where each token looked, and how well a text was foreseen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, overload

import torch
from torch import nn

from regard.attention import trace
from regard.data.batch import pad
from regard.data.text import Tokenizer
from regard.decode.greedy import Each
from regard.decode.protocol import Hypothesis
from regard.show import Heads, Map
from regard.tasks.search import LooksAtNothing, search
from regard.tasks.settings import Decoding

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


class LanguageModel:
    """A trained language model, as `regard.load(run)` gives it."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, decode: Decoding | None = None):
        self.model, self.tokenizer, self.decode = model.eval(), tokenizer, decode or Decoding()

    @overload
    def generate(self, prompt: str, decode: Decoding | None = None) -> Continuation: ...
    @overload
    def generate(self, prompt: list[str], decode: Decoding | None = None) -> list[Continuation]: ...
    def generate(
        self, prompt: str | list[str], decode: Decoding | None = None
    ) -> Continuation | list[Continuation]:
        """Go on from a prompt, or from each of a list; the empty one begins a new text."""
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
        """In the order of the prompts. `each` is given the text of a single prompt as it comes, piece by piece."""
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        decode = decode or self.decode
        if decode.coverage or decode.replace_unknown:
            raise ValueError("coverage and replace_unknown ask for a source, which a language model has not")
        prompts = iter(prompts)
        while part := list(islice(prompts, batch)):
            read = [self.read(prompt) for prompt in part]
            stream = partial(Stream, self.tokenizer, decode.stop) if each else None
            found = self._write(read, decode, stream(each) if stream and each and len(part) == 1 else None)
            for prompt, ids, hypotheses in zip(part, read, found, strict=True):
                yield self._continuation(prompt, ids, hypotheses, decode)

    def read(self, prompt: str) -> list[int]:
        """The prompt's tokens, of an empty one that which begins a text. ValueError where they are too many."""
        ids = self.tokenizer.encode(prompt) or [self.tokenizer.special.start]
        longest: Any = self.model.config.longest  # type: ignore[union-attr]
        if len(ids) > longest:
            raise ValueError(
                f"the prompt {prompt[:40]!r}... has {len(ids)} tokens and this model takes {longest}; "
                "keep its last part"
            )
        return ids

    def _write(self, prompts: list[list[int]], decode: Decoding, each: Each | None) -> list[list[Hypothesis]]:
        """The model sees `longest` tokens. Where more are asked for, it goes on from the last half of them, again
        and again; a beam cannot, as its scores would no longer compare."""
        longest: Any = self.model.config.longest  # type: ignore[union-attr]
        wanted = decode.max_length or LENGTH
        room = longest - max(len(ids) for ids in prompts) + 1
        if wanted <= room or decode.beam > 1:
            if wanted > room and decode.max_length:
                raise ValueError(
                    f"a beam may write {room} tokens after this prompt, as this model sees {longest} at once, and "
                    f"{wanted} were asked for; ask for fewer, or leave the beam out"
                )
            return self._search(prompts, decode, min(wanted, room), decode.min_length, each)
        found = [Hypothesis([], 0.0, False) for _ in prompts]
        live = list(range(len(prompts)))
        stop = self._stop(decode)
        for turn in range(wanted):
            texts = [[*prompts[row], *found[row].tokens] for row in live]
            texts = [ids if len(ids) <= longest // 2 or not turn else ids[-max(1, longest // 2) :] for ids in texts]
            done = len(found[live[0]].tokens)
            limit = min(wanted - done, longest - max(len(ids) for ids in texts) + 1)
            part = self._search(
                texts, replace(decode, seed=decode.seed + turn), limit, max(0, decode.min_length - done), each
            )
            for row, (more,) in zip(live, part, strict=True):
                tokens = found[row].tokens + more.tokens
                found[row] = Hypothesis(tokens, found[row].score + more.score, more.finished)
            live = [
                row
                for row in live
                if not found[row].finished
                and len(found[row].tokens) < wanted
                and not (stop and stop(found[row].tokens))
            ]
            if not live:
                break
        return [[one] for one in found]

    def _search(
        self, prompts: list[list[int]], decode: Decoding, limit: int, least: int, each: Each | None
    ) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        special = self.tokenizer.special
        prompt, mask = (
            x.flip(1).to(device) for x in pad([ids[::-1] for ids in prompts], special.pad)
        )  # at the left
        return search(
            self.model,
            prompt[:, :-1],
            mask[:, :-1],
            replace(decode, min_length=min(least, limit)) if not decode.max_length else decode,
            special=special,
            start=prompt[:, -1],
            limit=limit,
            prompt=prompt[:, :-1],
            prompt_mask=mask[:, :-1],
            stop=self._stop(decode),
            each=each,
        )

    def _stop(self, decode: Decoding) -> Callable[[list[int]], bool] | None:
        """Has a stop string been written? A token has a byte at least, so the string is in so many of the last."""
        if not decode.stop:
            return None
        tail = max(len(one.encode()) for one in decode.stop) + 8
        return lambda tokens: any(one in self.tokenizer.decode(tokens[-tail:]) for one in decode.stop)

    def _continuation(
        self, prompt: str, ids: list[int], hypotheses: list[Hypothesis], decode: Decoding
    ) -> Continuation:
        texts = [cut(self.tokenizer.decode(one.tokens), decode.stop) for one in hypotheses]
        best, *others = hypotheses
        rest = tuple((text, one.score) for text, one in zip(texts[1:], others, strict=True))
        look = partial(self.look, ids, best.tokens) if best.tokens and self._looks() else None
        return Continuation(prompt, texts[0], best.score, best.finished, rest, look)

    def _looks(self) -> str:
        model: Any = self.model
        return model.alignment

    def check_looks(self) -> None:
        if not self._looks():
            raise LooksAtNothing(
                f"{type(self.model).__name__} keeps the whole text in one state and looks at nothing: it has no "
                "attention to show"
            )

    def look(self, prompt: list[int], written: list[int], sites: Sequence[str] = ()) -> Heads:
        """A row for each written token, a column for each token before the last, as many as the model sees."""
        self.check_looks()
        longest: Any = self.model.config.longest  # type: ignore[union-attr]
        ids = [*prompt, *written][-longest - 1 :]
        rows = min(len(written), len(ids) - 1)
        device = next(self.model.parameters()).device
        fed = torch.tensor([ids[:-1]], device=device)
        asked = range(len(ids) - 1 - rows, len(ids) - 1)
        model: Any = self.model
        with torch.inference_mode(), trace(self.model, *(sites or ("blocks.*.attend",)), rows=asked) as seen:
            model.states(fed)
        panels = {site: seen[site][0].float().cpu().numpy() for site in seen.sites}
        if not panels:
            raise ValueError(f"there is no attention at {', '.join(sites)}; leave the sites out to see all")
        labels = self.tokenizer.tokens(ids)
        return Heads(panels, labels[len(ids) - rows :], labels[:-1])


class Stream:
    """Tokens as they come, turned into text as soon as that is sure, and none of a stop string."""

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...], write: Callable[[str], None]):
        self.tokenizer, self.stops, self.write = tokenizer, stops, write
        self.tokens: list[int] = []
        self.shown = 0
        self.held = max((len(one) for one in stops), default=0)  # the last characters may begin one

    def __call__(self, new: list[tuple[int, int]]) -> None:
        self.tokens += [token for _, token in new]
        text = self.tokenizer.decode(self.tokens)
        sure = len(text.rstrip("\ufffd")) - self.held  # half a character is shown when it is whole
        if sure > self.shown:
            self.write(text[self.shown : sure])
            self.shown = sure


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((text.find(one) for one in stops if one in text), default=len(text))]
