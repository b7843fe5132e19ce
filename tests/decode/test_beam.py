"""Beam search against its rules written out with lists, on a real model with random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.decode.beam import beam
from regard.decode.protocol import Hypothesis
from regard.layers.state import State
from regard.models.bahdanau import Bahdanau, BahdanauConfig

START, END, PADDING = 1, 2, 99


class Counted(Bahdanau):
    """Counts the sentences of each step."""

    def __init__(self, words: int, seed: int) -> None:
        torch.manual_seed(seed)
        super().__init__(BahdanauConfig(words, embed=8, encoder=8, decoder=8, readout=8))
        self.seen: list[int] = []
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(3)  # decided, but not certain
            self.out.bias[END] += 2.5
        self.double().eval()

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        self.seen.append(len(tokens) // state.width)
        return super().step(tokens, state)


def sentences(words: int, number: int, seed: int) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(seed)
    mask = torch.arange(6) < torch.randint(1, 7, (number, 1), generator=dice)
    return torch.randint(words, (number, 6), generator=dice), mask


def plain_beam(
    model: Bahdanau,
    source: Tensor,
    mask: Tensor,
    *,
    limit: int,
    width: int,
    alpha: float,
    penalty: float = 1.0,
    no_repeat: int = 0,
    prompt: tuple[int, ...] = (),
    stop: int | None = None,
) -> tuple[list[tuple[float, list[int]]], int]:
    """Beam search of one sentence (1, S), each beginning teacher forced anew, by the rules of Hugging Face's
    generate with early_stopping=False; and how many steps it took. `stop` closes an answer like the end token."""

    live: list[tuple[float, list[int]]] = [(0.0, [])]
    pool: list[tuple[float, list[int]]] = []
    for length in range(1, limit + 1):
        grown = []
        target = torch.tensor([[START, *tokens] for _, tokens in live])
        with torch.no_grad():
            logits = model(source.expand(len(live), -1), target, mask.expand(len(live), -1))
        for (total, tokens), following in zip(live, logits[:, -1].log_softmax(-1).tolist(), strict=True):
            past = [*prompt, START, *tokens]
            for token, step in enumerate(following):
                if not no_repeat or not repeats([*past, token], no_repeat):
                    grown.append((total + step * (penalty if token in past else 1), [*tokens, token]))
        chosen = sorted(grown, reverse=True)[: 2 * width]
        ends = [length == limit or tokens[-1] in (END, stop) for _, tokens in chosen]
        pool += [
            (chosen[place][0] / length**alpha, chosen[place][1])
            for place, is_end in enumerate(ends[:width])
            if is_end
        ]
        pool = sorted(pool, reverse=True)[:width]
        live = [one for one, is_end in zip(chosen, ends, strict=True) if not is_end][:width]
        if not live or (len(pool) == width and pool[-1][0] >= live[0][0] / length**alpha):
            break
    return pool, length


def repeats(tokens: list[int], size: int) -> bool:
    """Do the last `size` tokens stand somewhere before?"""
    return tokens[-size:] in [tokens[at : at + size] for at in range(len(tokens) - size)]


def whole(answer: Hypothesis) -> list[int]:
    return [*answer.tokens, END] if answer.finished else answer.tokens


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0, -0.5])
@pytest.mark.parametrize(("width", "best"), [(2, 1), (3, 3), (5, 2)])
def test_a_sentence_is_searched_by_the_rules_and_then_leaves(alpha: float, width: int, best: int) -> None:
    model, (source, mask), limit = Counted(8, 3), sentences(8, 12, 0), 12
    found = beam(
        model, source, mask, start=START, end=END, limit=limit, width=width, length_penalty=alpha, best=best
    )
    lasted = []
    for row, answers in enumerate(found):
        truth, steps = plain_beam(model, source[row, None], mask[row, None], limit=limit, width=width, alpha=alpha)
        assert [whole(one) for one in answers] == [tokens for _, tokens in truth[:best]]
        assert [one.normalised(alpha) for one in answers] == pytest.approx([score for score, _ in truth[:best]])
        lasted.append(steps)
    assert model.seen == [sum(one > step for one in lasted) for step in range(max(lasted))]
    assert min(lasted) < max(lasted)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    words=st.integers(4, 9),
    width=st.integers(2, 6),
    limit=st.integers(1, 8),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    penalty=st.sampled_from([1.0, 1.3, 0.7]),
    no_repeat=st.integers(0, 3),
    prompt=st.lists(st.sampled_from([0, 1, 3]), max_size=4).map(tuple),
    stop=st.sampled_from([None, 3]),
)
def test_beam_is_the_plain_search(
    seed: int,
    words: int,
    width: int,
    limit: int,
    alpha: float,
    penalty: float,
    no_repeat: int,
    prompt: tuple[int, ...],
    stop: int | None,
) -> None:
    model, (source, mask) = Counted(words, seed), sentences(words, 3, seed)
    before = torch.tensor([[PADDING] * (5 - len(prompt)) + list(prompt)]).expand(3, -1)
    controls: dict[str, Any] = {"repetition_penalty": penalty, "no_repeat": no_repeat}
    controls |= {"prompt": before, "prompt_mask": before != PADDING, "stop": lambda tokens: tokens[-1] == stop}
    found = beam(
        model,
        source,
        mask,
        start=START,
        end=END,
        limit=limit,
        width=width,
        best=width,
        length_penalty=alpha,
        **controls,
    )
    for row, answers in enumerate(found):
        truth, _ = plain_beam(
            model,
            source[row, None],
            mask[row, None],
            limit=limit,
            width=width,
            alpha=alpha,
            penalty=penalty,
            no_repeat=no_repeat,
            prompt=prompt,
            stop=stop,
        )
        assert [whole(one) for one in answers] == [tokens for _, tokens in truth]
        assert [one.normalised(alpha) for one in answers] == pytest.approx([score for score, _ in truth])


def test_a_sentence_without_a_way_on_keeps_what_it_found() -> None:
    """With no token twice, four words (one of them the start) end within three tokens; the limit is never met."""
    model, (source, mask) = Counted(4, 0), sentences(4, 3, 0)
    found = beam(model, source, mask, start=START, end=END, limit=9, width=6, best=6, no_repeat=1)
    assert [sorted(whole(one) for one in some) for some in found] == [
        [[0, 2], [0, 3, 2], [2], [3, 0, 2], [3, 2]]
    ] * 3
    assert len(model.seen) == 3
