"""Texts for the tests of decoding, and a loop that they join one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import LENGTHS, images, special, words
from torch import Tensor

from regard.data.batches.batch import pad
from regard.decode.generator import eval_mode
from regard.decode.hypothesis import Hypothesis
from regard.decode.loop import Loop
from regard.decode.rules import Target, read_rules
from regard.decode.search import decode
from regard.decode.settings import Decoding
from regard.models.protocols import Captioner, LanguageModel
from regard.tasks.shared.writing import Passage

MOST = 5


def collate_for(model: Any) -> Any:
    def texts(sources: list[list[int]]) -> tuple[Tensor, Tensor]:
        if not isinstance(model, LanguageModel):
            return pad(sources, special(model).pad)
        tokens, mask = pad([ids[::-1] for ids in sources], special(model).pad)
        return tokens.flip(1), mask.flip(1)

    def pictures(sources: list[Tensor]) -> tuple[Tensor, Tensor]:
        return torch.stack(sources), torch.ones(len(sources), 1, dtype=torch.bool)

    return pictures if isinstance(model, Captioner) else texts


def sources_of(model: Any) -> list[Any]:
    if isinstance(model, Captioner):
        return list(images(model))
    lengths = [4, 2, 6, 1] if isinstance(model, LanguageModel) else LENGTHS
    return [row[:count].tolist() for row, count in zip(words(lengths), lengths, strict=True)]


def passages_of(model: Any, *, never: tuple[int, ...] = (), **settings: Any) -> list[Passage]:
    """Language models begin behind their prompt, and one prompt has a single token: its past is empty."""
    passages = []
    for number, source in enumerate(sources_of(model)):
        start, before, read = special(model).start, [], source
        if isinstance(model, LanguageModel):
            *before, start = source
            read = before
        prompt = torch.tensor([before], dtype=torch.long)
        target = Target(start, special(model).end, MOST, never=never, prompt=prompt)
        passages.append(Passage(read, Decoding(seed=number, min_length=number, **settings), target))
    return passages


def alone(model: Any, passage: Passage) -> Hypothesis:
    [[answer]] = decode(model, *collate_for(model)([passage.source]), passage.decoding, passage.target)
    return answer


class Running:
    """A loop that texts join one by one. It keeps the answers by the places of the texts in a list."""

    def __init__(self, model: Any) -> None:
        self.model, self.loop, self.count = model, Loop(model), 0
        self.answers: dict[int, Hypothesis] = {}
        self.failed: set[int] = set()

    def join(self, passages: list[Passage]) -> None:
        names = range(self.count, self.count + len(passages))
        self.count += len(passages)
        with eval_mode(self.model):
            source, mask = collate_for(self.model)([passage.source for passage in passages])
            rules = [read_rules(one.decoding, one.target, 1, source.device) for one in passages]
            self.loop.join(source, mask, names, rules)

    def step(self) -> None:
        if len(self.loop):
            with eval_mode(self.model):
                step = self.loop.step()
                self.loop.trim()
            self.answers |= step.answers
            self.failed |= set(step.failed)

    def finish(self) -> list[Hypothesis]:
        while len(self.loop):
            self.step()
        return [self.answers[name] for name in sorted(self.answers)]


WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "rules": {"never": (7,), "repetition_penalty": 1.3, "no_repeat_ngram": 2},
    "sampled": {"temperature": 0.9, "top_k": 6, "top_p": 0.95},
}


def check_joining(model: Any, passages: list[Passage]) -> None:
    running, waiting = Running(model), list(passages)
    while waiting or len(running.loop):  # a new one joins after every second step
        if waiting:
            running.join([waiting.pop(0)])
        running.step()
        running.step()
    assert len(running.answers) == len(passages)
    for place, passage in enumerate(passages):
        answer, wanted = running.answers[place], alone(model, passage)
        assert (answer.tokens, answer.finished) == (wanted.tokens, wanted.finished)
        assert answer.score == pytest.approx(wanted.score, abs=1e-4)
