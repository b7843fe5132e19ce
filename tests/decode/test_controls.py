"""Repetition, stopping, streaming and prompts, on a real model with random weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest
import torch
from searches import parted
from searches import search as search_for
from searches import write as write_down
from torch import Tensor

from regard.decode.generator import step_by_step
from regard.decode.hypothesis import Hypothesis, normaliser
from regard.decode.rules import forbid_repeats, penalise
from regard.decode.search import search as steps_of
from regard.models.bahdanau import Bahdanau, BahdanauConfig

START, END, WORDS, LIMIT, NUMBER = 1, 2, 8, 10, 8

write = partial(write_down, end=END)
search = partial(search_for, end=END, beam=3, n_best=3)
draw = partial(write_down, end=END, temperature=1.0, seed=1)
ALL = pytest.mark.parametrize("decode", [write, search, draw])


@pytest.fixture(scope="module")
def model() -> Bahdanau:
    torch.manual_seed(3)
    model = Bahdanau(BahdanauConfig(WORDS, embed=8, encoder=8, decoder=8, readout=8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # decided, but not certain
        model.out.bias[END] += 1
    return model.double().eval()


@pytest.fixture
def asked() -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(0)
    mask = torch.arange(6) < torch.randint(1, 7, (NUMBER, 1), generator=dice)
    return torch.randint(WORDS, (NUMBER, 6), generator=dice), mask


def flat(found: Any) -> list[Hypothesis]:
    return [one for some in found for one in (some if isinstance(some, list) else [some])]


def whole(answer: Hypothesis) -> list[int]:
    return [*answer.tokens, END] if answer.finished else answer.tokens


def plain_greedy(
    model: Bahdanau,
    source: Tensor,
    mask: Tensor,
    start: int,
    allow: Callable[[list[int], list[float]], list[float]],
) -> tuple[list[int], float]:
    """Greedy for one sentence with lists, each beginning teacher forced anew; `allow` changes the logits."""
    tokens, total = list[int](), 0.0
    while len(tokens) < LIMIT and END not in tokens:
        with torch.no_grad():
            logits = model(source, torch.tensor([[start, *tokens]]), mask)[0, -1]
        changed = allow([start, *tokens], logits.tolist())
        tokens.append(max(range(WORDS), key=changed.__getitem__))
        total += logits.log_softmax(-1)[tokens[-1]].item()
    return tokens, total


def test_penalties_by_hand() -> None:
    scores = torch.tensor([[2.0, -1.0, 0.0, 4.0, -3.0]] * 2)
    penalise(scores, torch.tensor([[0, 1, 0, 0], [-1, -1, 2, 4]]), 2.0)
    assert scores.tolist() == [[1.0, -2.0, 0.0, 4.0, -3.0], [2.0, -1.0, 0.0, 4.0, -6.0]]


def barred(history: list[int], size: int) -> list[int]:
    scores = torch.zeros(1, 6)
    forbid_repeats(scores, torch.tensor([history]), size)
    return (scores[0] == -torch.inf).nonzero().flatten().tolist()


def test_repeats_by_hand() -> None:
    assert barred([3, 4, 5, 3], 1) == [3, 4, 5]
    assert barred([3, 4, 3, 5, 3], 2) == [4, 5]
    assert barred([4, 4], 2) == [4]
    assert barred([3, 4, 5, 3, 4], 3) == [5]
    assert barred([4, 3, 5, 3, 4], 3) == []
    assert barred([3, 4], 3) == []  # nothing of three yet
    assert barred([3, -1, 3], 2) == barred([-1, -1, 3], 2) == []  # padding stands for nothing
    assert barred([-1, 3, 4, 3], 2) == [4]


@pytest.mark.parametrize(("penalty", "size"), [(1.0, 0), (1.5, 0), (0.6, 0), (1.0, 1), (1.0, 2), (1.3, 3)])
def test_greedy_minds_what_came_before_and_scores_as_the_model(
    model: Bahdanau, asked: tuple[Tensor, Tensor], penalty: float, size: int
) -> None:
    source, mask = asked
    starts = torch.tensor([1, 3, 4, 5, 6, 7, 1, 0])
    prompts = torch.tensor([[9, 9, 3], [9, 5, 6], [4, 4, 5], [9, 9, 9], [3, 4, 3], [0, 1, 3], [9, 7, 7], [9, 9, 6]])
    found = write(
        model,
        source,
        mask,
        start=starts,
        max_length=LIMIT,
        repetition_penalty=penalty,
        no_repeat_ngram=size,
        prompt=prompts,
        prompt_mask=prompts != 9,
    )
    for row, answer in enumerate(found):
        prompt = [token for token in prompts[row].tolist() if token != 9]

        def allow(tokens: list[int], logits: list[float], prompt: list[int] = prompt) -> list[float]:
            past = prompt + tokens
            for token in set(past):
                logits[token] *= penalty if logits[token] < 0 else 1 / penalty
            for token in range(WORDS) if size else ():
                line = [*past, token]
                if line[-size:] in [line[at : at + size] for at in range(len(line) - size)]:
                    logits[token] = -math.inf
            return logits

        tokens, total = plain_greedy(model, source[row, None], mask[row, None], int(starts[row]), allow)
        assert whole(answer) == tokens
        assert answer.score == pytest.approx(total)


@ALL
@pytest.mark.parametrize("size", [1, 2, 3])
def test_nothing_comes_twice(model: Bahdanau, asked: tuple[Tensor, Tensor], decode: Any, size: int) -> None:
    free = flat(decode(model, *asked, start=START, max_length=LIMIT))
    held = flat(decode(model, *asked, start=START, max_length=LIMIT, no_repeat_ngram=size))

    def twice(answer: Hypothesis) -> bool:
        line = [START, *whole(answer)]
        parts = [tuple(line[at : at + size]) for at in range(len(line) - size + 1)]
        return len(set(parts)) < len(parts)

    assert any(map(twice, free))
    assert not any(map(twice, held))


def test_sampling_the_likeliest_is_greedy_under_all_rules(model: Bahdanau, asked: tuple[Tensor, Tensor]) -> None:
    rules: dict[str, Any] = {
        "start": START,
        "max_length": LIMIT,
        "repetition_penalty": 1.4,
        "no_repeat_ngram": 2,
    }
    assert draw(model, *asked, top_k=1, temperature=0.5, **rules) == write(model, *asked, **rules)


@ALL
def test_a_stop_is_asked_of_every_living_row_and_ends_it(
    model: Bahdanau, asked: tuple[Tensor, Tensor], decode: Any
) -> None:
    seen = []

    def stop(tokens: list[int]) -> bool:
        seen.append(tuple(tokens))
        return tokens[-2:] == [7, 7] or tokens[-1] == 4

    answers = flat(decode(model, *asked, start=START, max_length=LIMIT, stop=stop))
    stopped = [one for one in answers if one.tokens and not one.finished and len(one.tokens) < LIMIT]
    assert stopped
    assert all(one.tokens[-2:] == [7, 7] or one.tokens[-1] == 4 for one in stopped)
    assert all(one.length == len(one.tokens) for one in stopped)
    for one in answers:
        assert 4 not in one.tokens[:-1]
        assert all(tuple(one.tokens[:size]) in seen for size in range(1, len(whole(one)) - one.finished))
    assert not any(END in tokens for tokens in seen)


def test_a_row_that_stops_leaves_the_others_as_they_were(model: Bahdanau, asked: tuple[Tensor, Tensor]) -> None:
    free = write(model, *asked, start=START, max_length=LIMIT)
    held = write(model, *asked, start=START, max_length=LIMIT, stop=lambda tokens: len(tokens) == 3)
    assert [whole(one)[:3] for one in free] == [whole(one) for one in held]


@pytest.mark.parametrize("way", ["greedy", "sample"])
def test_a_program_hears_every_token_as_it_comes(model: Bahdanau, asked: tuple[Tensor, Tensor], way: str) -> None:
    options: dict[str, Any] = {"start": START, "end": END, "max_length": torch.tensor([0, 1, 2, 9, 9, 9, 4, 10])}
    options |= {} if way == "greedy" else {"temperature": 1.0}
    steps = step_by_step(model, steps_of(model, *asked, *parted(options)))
    heard: list[list[int]] = [[] for _ in range(NUMBER)]
    model.train()
    for place in count():
        try:
            step = next(steps)
        except StopIteration as end:
            answers = [answer for (answer,) in end.value]
            break
        assert model.training, "eval mode ends with each step"
        assert not torch.is_inference_mode_enabled()
        for sentence, token in step.pairs():
            assert len(heard[sentence]) == place  # none late
            heard[sentence].append(token)
    model.eval()
    assert answers == write_down(model, *asked, **options)
    assert heard == [one.tokens for one in answers]
    assert place == max(one.length for one in answers)


@ALL
def test_a_start_for_each_sentence(model: Bahdanau, asked: tuple[Tensor, Tensor], decode: Any) -> None:
    """A limit of 0 leaves before the first step; the starts of the others stay theirs."""
    source, mask = asked
    starts, max_lengths = torch.arange(NUMBER) % WORDS, torch.tensor([3, 0, 9, 5, 9, 0, 9, 9])
    options = {"top_k": 1} if decode is draw else {}
    found = decode(model, source, mask, start=starts, max_length=max_lengths, **options)
    for row in range(NUMBER):
        one = slice(row, row + 1)
        alone = decode(model, source[one], mask[one], start=row, max_length=int(max_lengths[row]), **options)
        assert [whole(some) for some in flat(alone)] == [whole(some) for some in flat(found[one])]


@ALL
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repetition_penalty": 0.0}, r"repetition_penalty must lie in \[1e-06, 1,000,000.0\], got 0.0"),
        ({"repetition_penalty": math.nan}, "repetition_penalty must be a number, got nan"),
        ({"repetition_penalty": 1e40}, r"repetition_penalty must lie in .*, got 1e\+40"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram must lie in .*, got -1"),
        ({"start": torch.tensor([1, 2])}, "start must be a whole number or one for each of the 8 sentences"),
        ({"start": -1}, "start must be 0 or more, got -1"),
        (
            {"prompt": torch.zeros(2, 3, dtype=torch.long)},
            r"prompt must have one row .* 8 sentences, got shape \(2, 3\)",
        ),
        (
            {"prompt": torch.zeros(8, 3, dtype=torch.long), "prompt_mask": torch.ones(8, 3)},
            "prompt_mask must be boolean",
        ),
        ({"never": (0, 1, 3, 4, 5, 6, 7), "min_length": 3}, "or the end token before min_length"),
    ],
)
def test_wrong_controls_are_named(
    model: Bahdanau, asked: tuple[Tensor, Tensor], decode: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        decode(model, *asked, **{"start": START, "max_length": LIMIT, **options})


@ALL
def test_a_row_that_has_used_up_the_vocabulary_ends(
    model: Bahdanau, asked: tuple[Tensor, Tensor], decode: Any
) -> None:
    """Even before min_length: nothing else may be written."""
    options: dict[str, Any] = {"no_repeat_ngram": 1, "never": (0, 3, 4, 5, 6), "min_length": 6}
    for one in flat(decode(model, *asked, start=START, max_length=LIMIT, **options)):
        assert one.finished
        assert one.tokens == [7]


def test_the_extremes_of_sampling_are_their_limits(model: Bahdanau, asked: tuple[Tensor, Tensor]) -> None:
    likeliest = write(model, *asked, start=START, max_length=LIMIT)
    for options in ({"temperature": 1e-46}, {"temperature": 5e-324}, {"top_p": 1e-300}, {"top_p": 5e-324}):
        assert draw(model, *asked, start=START, max_length=LIMIT, **options) == likeliest
    many = [side.repeat(10, 1) for side in asked]
    answers = draw(model, *many, start=START, max_length=40, temperature=1e300, never=(END,), top_k=WORDS)
    counts = torch.tensor([token for one in answers for token in one.tokens]).bincount(minlength=WORDS)
    assert counts[END] == 0
    assert (counts[torch.arange(WORDS) != END] > len(answers) * 40 / WORDS / 2).all(), "every token alike"


@pytest.mark.parametrize("alpha", [-10.0, 10.0])
def test_the_extremes_of_the_length_penalty_find_answers(
    model: Bahdanau, asked: tuple[Tensor, Tensor], alpha: float
) -> None:
    options: dict[str, Any] = {"max_length": 20, "min_length": 9, "length_penalty": alpha, "beam": 2, "n_best": 1}
    found = search(model, *asked, start=START, **options)
    assert all(len(some) == 1 and len(some[0].tokens) >= 9 for some in found)
    by = torch.tensor([-1e4, -1e-4]) / normaliser(1 << 20, alpha)
    assert (by.isfinite() & (by < 0)).all(), "float32 can divide by it"
