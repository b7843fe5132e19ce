"""Beam search against its rules written out with lists, on a real model with random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import search
from torch import Tensor

from regard.decode.hypothesis import Hypothesis
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


Known = dict[tuple[int, ...], list[float]]


def following(
    model: Bahdanau, source: Tensor, mask: Tensor, live: list[list[int]], known: Known
) -> list[list[float]]:
    """log p(next token) after each beginning, teacher forced; `known` keeps those of earlier searches."""
    new = [tokens for tokens in live if tuple(tokens) not in known]
    if new:
        target = torch.tensor([[START, *tokens] for tokens in new])
        with torch.no_grad():
            logits = model(source.expand(len(new), -1), target, mask.expand(len(new), -1))
        known |= zip(map(tuple, new), logits[:, -1].log_softmax(-1).tolist(), strict=True)
    return [known[tuple(tokens)] for tokens in live]


def plain_beam(
    model: Bahdanau,
    source: Tensor,
    mask: Tensor,
    *,
    max_length: int,
    width: int,
    alpha: float,
    penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    prompt: tuple[int, ...] = (),
    stop: int | None = None,
    known: Known | None = None,
) -> tuple[list[tuple[float, list[int]]], int]:
    """Beam search of one sentence (1, S), each beginning teacher forced anew, by the rules of Hugging Face's
    generate with early_stopping=False; and how many steps it took. `stop` closes an answer like the end token."""

    known = {} if known is None else known
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    pool: list[tuple[float, list[int]]] = []
    for length in range(1, max_length + 1):
        grown = []
        steps = following(model, source, mask, [tokens for _, tokens in live], known)
        for (total, tokens), after in zip(live, steps, strict=True):
            past = [*prompt, START, *tokens]
            for token, step in enumerate(after):
                if not no_repeat_ngram or not repeats([*past, token], no_repeat_ngram):
                    grown.append((total + step * (penalty if token in past else 1), [*tokens, token]))
        chosen = sorted(grown, reverse=True)[: 2 * width]
        ends = [length == max_length or tokens[-1] in (END, stop) for _, tokens in chosen]
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


@pytest.fixture(scope="module")
def known() -> list[Known]:
    """Of each sentence, what the searches of the next test share: one model reads the same twelve sentences."""
    return [{} for _ in range(12)]


@pytest.mark.parametrize(
    ("alpha", "width", "n_best"),
    [(0.0, 2, 1), (0.0, 5, 2), (0.6, 3, 3), (1.0, 5, 2), (1.0, 2, 1), (2.0, 3, 3), (2.0, 2, 1), (-0.5, 5, 2)],
)
def test_a_sentence_is_searched_by_the_rules_and_then_leaves(
    alpha: float, width: int, n_best: int, known: list[Known]
) -> None:
    model, (source, mask), max_length = Counted(8, 3), sentences(8, 12, 0), 12
    found = search(
        model,
        source,
        mask,
        start=START,
        end=END,
        max_length=max_length,
        beam=width,
        length_penalty=alpha,
        n_best=n_best,
    )
    lasted = []
    for row, answers in enumerate(found):
        truth, steps = plain_beam(
            model,
            source[row, None],
            mask[row, None],
            max_length=max_length,
            width=width,
            alpha=alpha,
            known=known[row],
        )
        assert [whole(one) for one in answers] == [tokens for _, tokens in truth[:n_best]]
        assert [one.normalised(alpha) for one in answers] == pytest.approx([score for score, _ in truth[:n_best]])
        lasted.append(steps)
    assert model.seen == [sum(one > step for one in lasted) for step in range(max(lasted))]
    assert min(lasted) < max(lasted)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    words=st.integers(4, 9),
    width=st.integers(2, 6),
    max_length=st.integers(1, 8),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    penalty=st.sampled_from([1.0, 1.3, 0.7]),
    no_repeat_ngram=st.integers(0, 3),
    prompt=st.lists(st.sampled_from([0, 1, 3]), max_size=4).map(tuple),
    stop=st.sampled_from([None, 3]),
)
def test_beam_is_the_plain_search(
    seed: int,
    words: int,
    width: int,
    max_length: int,
    alpha: float,
    penalty: float,
    no_repeat_ngram: int,
    prompt: tuple[int, ...],
    stop: int | None,
) -> None:
    model, (source, mask) = Counted(words, seed), sentences(words, 2, seed)
    before = torch.tensor([[PADDING] * (5 - len(prompt)) + list(prompt)]).expand(2, -1)
    controls: dict[str, Any] = {"repetition_penalty": penalty, "no_repeat_ngram": no_repeat_ngram}
    controls |= {"prompt": before, "prompt_mask": before != PADDING, "stop": lambda tokens: tokens[-1] == stop}
    found = search(
        model,
        source,
        mask,
        start=START,
        end=END,
        max_length=max_length,
        beam=width,
        n_best=width,
        length_penalty=alpha,
        **controls,
    )
    for row, answers in enumerate(found):
        truth, _ = plain_beam(
            model,
            source[row, None],
            mask[row, None],
            max_length=max_length,
            width=width,
            alpha=alpha,
            penalty=penalty,
            no_repeat_ngram=no_repeat_ngram,
            prompt=prompt,
            stop=stop,
        )
        assert [whole(one) for one in answers] == [tokens for _, tokens in truth]
        assert [one.normalised(alpha) for one in answers] == pytest.approx([score for score, _ in truth])


def test_a_sentence_without_a_way_on_keeps_what_it_found() -> None:
    """With no token twice, four words (one of them the start) end within three tokens; the limit is never met."""
    model, (source, mask) = Counted(4, 0), sentences(4, 3, 0)
    found = search(model, source, mask, start=START, end=END, max_length=9, beam=6, n_best=6, no_repeat_ngram=1)
    assert [sorted(whole(one) for one in some) for some in found] == [
        [[0, 2], [0, 3, 2], [2], [3, 0, 2], [3, 2]]
    ] * 3
    assert len(model.seen) == 3
