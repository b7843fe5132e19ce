"""Decoding against searches written out plainly, on a small real encoder-decoder with random weights."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from searches import search as search_for
from searches import write as write_down
from torch import Tensor, nn

from regard.decode.choice import Dice, keep_top_k, keep_top_p, pick, sharpen
from regard.decode.hypothesis import Hypothesis
from regard.layers.state import State

PAD, START, END = 0, 1, 2
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@dataclass(frozen=True)
class Source:
    places: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)


class Writer(nn.Module):
    """A GRU cell whose state looks at the source once a step. The look is not fed back, so that a whole
    target can be scored at once by nn.GRU and one attention over all its places."""

    def __init__(self, words: int, seed: int, dim: int = 12) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.source, self.target = nn.Embedding(20, dim), nn.Embedding(words, dim)
        self.cell, self.out = nn.GRUCell(dim, dim), nn.Linear(2 * dim, words)
        self.dropout = nn.Dropout(0.5)
        self.seen: list[tuple[int, int, int]] = []  # rows, width and sentences of each step
        with torch.no_grad():
            self.target.weight.mul_(2)
            self.out.weight.mul_(4)  # decided, but not certain
        self.double().eval()

    def start(self, source: Tensor, mask: Tensor) -> State:
        places = self.source(source).masked_fill(~mask[..., None], 0)
        middle = places.sum(1) / mask.sum(1, keepdim=True)
        return State(Source(places, mask), (middle.tanh(),))

    def look(self, queries: Tensor, memory: Source) -> Tensor:
        """States (B, Q, D) to logits (B, Q, V)."""
        scores = queries @ memory.places.mT / queries.shape[-1] ** 0.5
        weights = scores.masked_fill(~memory.mask[:, None], -torch.inf).softmax(-1)
        return self.out(self.dropout(torch.cat([queries, weights @ memory.places], -1)))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        self.seen.append((len(tokens), state.width, len(state.memory.places)))
        hidden = self.cell(self.target(tokens), state.rows[0])
        logits = self.look(hidden.unflatten(0, (-1, state.width)), state.memory).flatten(0, 1)
        return logits, State(state.memory, (hidden,), state.width)

    @torch.no_grad()
    def score(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        """log p of every token of the targets (B, T), all at once."""
        state = self.start(source, mask)
        whole = nn.GRU(self.cell.input_size, self.cell.hidden_size, batch_first=True).to(self.out.weight)
        for name, weight in self.cell.named_parameters():
            getattr(whole, f"{name}_l0").copy_(weight)
        inputs = torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], 1)
        hidden, _ = whole(self.target(inputs), state.rows[0][None])
        scores = self.look(hidden, state.memory).log_softmax(-1)
        return scores.gather(2, target[..., None])[..., 0]


def sentences(number: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sources of different lengths, padded with what no one may look at."""
    dice = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 7, (number,), generator=dice)
    mask = torch.arange(6) < lengths[:, None]
    return torch.randint(20, (number, 6), generator=dice), mask


def choices(words: int, max_length: int, never: tuple[int, ...] = (), min_length: int = 0) -> list[list[int]]:
    """Every way to write at most `max_length` tokens, cut off or closed by the end after at least `min_length`."""
    inner = [token for token in range(words) if token != END and token not in never]
    closed = [
        [*some, END] for size in range(min_length, max_length) for some in itertools.product(inner, repeat=size)
    ]
    return closed + [list(some) for some in itertools.product(inner, repeat=max_length)]


def exhaustive(
    model: Writer, source: Tensor, mask: Tensor, some: list[list[int]], alpha: float
) -> list[tuple[float, list[int]]]:
    """All answers to one sentence (1, S), best first, scored by teacher forcing."""
    longest = max(map(len, some))
    target = torch.tensor([one + [PAD] * (longest - len(one)) for one in some])
    lengths = torch.tensor([len(one) for one in some])
    steps = model.score(source.expand(len(some), -1), mask.expand(len(some), -1), target)
    totals = steps.masked_fill(torch.arange(longest) >= lengths[:, None], 0).sum(1)
    return sorted(zip((totals / lengths**alpha).tolist(), some, strict=True), key=lambda one: -one[0])


def whole(answer: Hypothesis) -> list[int]:
    return [*answer.tokens, END] if answer.finished else answer.tokens


write = partial(write_down, start=START, end=END)
search = partial(search_for, start=START, end=END, beam=5)
draw = partial(write_down, start=START, end=END, temperature=1.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0, 0.6, 1.0, -1])
def test_beam_of_width_one_is_greedy(seed: int, alpha: float) -> None:
    model, (source, mask) = Writer(6, seed), sentences(9, seed)
    likely = write(model, source, mask, max_length=12)
    beams = search(model, source, mask, max_length=12, beam=1, length_penalty=alpha)
    assert [[whole(one)] for one in likely] == [[whole(one) for one in some] for some in beams]
    assert [one.score for one in likely] == pytest.approx([some[0].score for some in beams])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0, -0.5])
def test_full_width_is_exhaustive_search(alpha: float) -> None:
    words, max_length = 4, 4
    model, (source, mask) = Writer(words, 1), sentences(3)
    found = search(
        model,
        source,
        mask,
        max_length=max_length,
        beam=words**max_length,
        length_penalty=alpha,
        n_best=words**max_length,
    )
    for row, answers in enumerate(found):
        truth = exhaustive(model, source[row, None], mask[row, None], choices(words, max_length), alpha)
        assert [whole(one) for one in answers] == [tokens for _, tokens in truth]
        assert [one.normalised(alpha) for one in answers] == pytest.approx([score for score, _ in truth])
        assert sum(math.exp(one.score) for one in answers) == pytest.approx(1)  # nothing is missed


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_full_width_is_exhaustive_search_without_the_tokens_in_never(alpha: float) -> None:
    model, (source, mask) = Writer(5, 2), sentences(4)
    found = search(model, source, mask, max_length=3, beam=125, length_penalty=alpha, never=(PAD, START))
    for row, answers in enumerate(found):
        truth = exhaustive(model, source[row, None], mask[row, None], choices(5, 3, (PAD, START)), alpha)
        assert whole(answers[0]) == truth[0][1]
        assert answers[0].normalised(alpha) == pytest.approx(truth[0][0])


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_full_width_is_exhaustive_search_of_answers_long_enough(alpha: float) -> None:
    model, (source, mask), min_lengths = Writer(4, 1), sentences(6), [0, 1, 2, 3, 4, 9]
    found = search(
        model,
        source,
        mask,
        max_length=4,
        min_length=torch.tensor(min_lengths),
        beam=256,
        length_penalty=alpha,
        n_best=256,
    )
    for row, (min_length, answers) in enumerate(zip(min_lengths, found, strict=True)):
        truth = exhaustive(model, source[row, None], mask[row, None], choices(4, 4, min_length=min_length), alpha)
        assert [whole(one) for one in answers] == [tokens for _, tokens in truth]
        assert [one.normalised(alpha) for one in answers] == pytest.approx([score for score, _ in truth])


def test_greedy_goes_the_second_best_way_where_the_best_would_end_too_early() -> None:
    model, (source, mask) = Writer(6, 3), sentences(10)
    free, held = write(model, source, mask, max_length=9), write(model, source, mask, max_length=9, min_length=3)
    early = [row for row, one in enumerate(free) if one.finished and len(one.tokens) < 3]
    assert 0 < len(early) < 10
    assert [row for row in range(10) if free[row] != held[row]] == early
    for row in early:
        begun = free[row].tokens
        assert held[row].tokens[: len(begun)] == begun
        target = torch.tensor([[*begun, token] for token in range(6) if token != END])
        steps = model.score(source[row].expand(5, -1), mask[row].expand(5, -1), target).sum(1)
        assert held[row].tokens[: len(begun) + 1] == target[steps.argmax()].tolist()
        assert len(held[row].tokens) >= 3


@pytest.mark.parametrize("decode", [write, search, partial(search, beam=3, n_best=3), partial(draw, top_k=1)])
@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_the_batch_changes_no_answer(decode: Any, precision: torch.dtype) -> None:
    model, (source, mask) = Writer(7, 4).to(precision), sentences(10)
    max_lengths, min_lengths = (
        torch.tensor([12, 3, 7, 0, 1, 9, 12, 5, 2, 8]),
        torch.tensor([3, 0, 9, 1, 0, 5, 0, 4, 1, 7]),
    )
    together = decode(model, source, mask, max_length=max_lengths, min_length=min_lengths, never=(PAD, START))
    for row, size in enumerate(mask.sum(1).tolist()):
        [alone] = decode(
            model,
            source[row, None, :size],
            mask[row, None, :size],
            max_length=int(max_lengths[row]),
            min_length=int(min_lengths[row]),
            never=(PAD, START),
        )
        same(alone, together[row])
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    wider = torch.cat([source, torch.full((10, 5), 9)], 1), torch.cat([mask, mask.new_zeros(10, 5)], 1)
    shuffled = decode(
        model,
        wider[0][order],
        wider[1][order],
        max_length=max_lengths[order],
        min_length=min_lengths[order],
        never=(PAD, START),
    )
    for row, answer in zip(order.tolist(), shuffled, strict=True):
        same(answer, together[row])


def same(one: Any, other: Any) -> None:
    many = [[some] if isinstance(some, Hypothesis) else some for some in (one, other)]
    assert [whole(some) for some in many[0]] == [whole(some) for some in many[1]]
    assert [some.score for some in many[0]] == pytest.approx([some.score for some in many[1]], abs=1e-5)


@pytest.mark.parametrize("decode", [write, partial(search, beam=4, n_best=4), partial(draw, temperature=2, seed=1)])
def test_stepping_is_scoring_all_at_once(decode: Any) -> None:
    model, (source, mask) = Writer(6, 5), sentences(8)
    for row, answers in enumerate(decode(model, source, mask, max_length=9, min_length=2, never=(PAD,))):
        for one in [answers] if isinstance(answers, Hypothesis) else answers:
            steps = model.score(source[row, None], mask[row, None], torch.tensor([whole(one)]))
            assert one.score == pytest.approx(steps.sum().item())
            assert one.length == steps.shape[1] <= 9


def test_the_best_are_sorted_and_distinct() -> None:
    model, (source, mask) = Writer(6, 6), sentences(8)
    for answers in search(model, source, mask, max_length=9, beam=7, n_best=7):
        scores = [one.normalised(1.0) for one in answers]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(whole(one)) for one in answers}) == len(answers) == 7


def test_fewer_answers_where_fewer_exist() -> None:
    model, (source, mask) = Writer(3, 0), sentences(2)
    found = search(model, source, mask, max_length=1, beam=20, n_best=20)
    assert [sorted(whole(one) for one in answers) for answers in found] == [[[0], [1], [2]]] * 2


def test_beams_share_one_memory_and_who_is_done_leaves() -> None:
    model, (source, mask) = Writer(6, 3), sentences(10)
    search(model, source, mask, max_length=torch.arange(1, 11), beam=4)
    assert model.seen[0] == (10, 1, 10)  # one start each, of which the beams come
    assert all(rows == 4 * held and width == 4 for rows, width, held in model.seen[1:])
    held = [some[2] for some in model.seen]
    assert held == sorted(held, reverse=True)
    assert all(here <= 10 - step for step, here in enumerate(held))
    model.seen.clear()
    answers = write(model, source, mask, max_length=6)
    assert [some[0] for some in model.seen] == [
        sum(one.length > step for one in answers) for step in range(max(one.length for one in answers))
    ]


@pytest.mark.parametrize("decode", [write, partial(draw, seed=3), partial(search, beam=9, n_best=9)])
def test_limits_and_forbidden_tokens_hold(decode: Any) -> None:
    model, (source, mask) = Writer(7, 7), sentences(6)
    max_lengths, min_lengths = torch.tensor([0, 1, 2, 5, 9, 0]), torch.tensor([0, 1, 1, 9, 6, 3])
    never = (PAD, START, 4)
    found = decode(model, source, mask, max_length=max_lengths, min_length=min_lengths, never=never)
    for most, min_length, answers in zip(max_lengths.tolist(), min_lengths.tolist(), found, strict=True):
        for one in [answers] if isinstance(answers, Hypothesis) else answers:
            assert min(most, min_length) <= len(one.tokens) <= one.length <= most
            assert one.finished or one.length == most
            assert not {*never, END} & set(one.tokens)
    for answers in decode(model, source, mask, max_length=0):
        assert answers in (Hypothesis([], 0.0, False), [Hypothesis([], 0.0, False)])
    assert decode(model, source[:0], mask[:0], max_length=4) == []


def test_temperature_by_hand() -> None:
    scores = torch.tensor([[0.5, 0.25, 0.25]]).log()
    torch.testing.assert_close(
        sharpen(scores, scores.amax(-1), 0.5).softmax(-1), torch.tensor([[4 / 6, 1 / 6, 1 / 6]])
    )
    cold = sharpen(torch.tensor([[-10.0, -5.0, -20.0]]), torch.tensor([-5.0]), 1e-38)  # -5 / 1e-38 is no float32
    torch.testing.assert_close(cold.softmax(-1), torch.tensor([[0, 1.0, 0]]))


def test_top_k_by_hand() -> None:
    scores = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.7, 0.1, 0.15, 0.05]]).log()
    kept = keep_top_k(scores, 2).softmax(-1)
    torch.testing.assert_close(kept, torch.tensor([[0, 4 / 7, 0, 3 / 7], [0.7 / 0.85, 0, 0.15 / 0.85, 0]]))
    torch.testing.assert_close(keep_top_k(scores, 9), scores)
    assert keep_top_k(torch.zeros(1, 5), 2).isfinite().sum() == 2  # equal ones do not widen the choice


def test_top_p_by_hand() -> None:
    scores = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.7, 0.1, 0.15, 0.05]]).log()
    kept = keep_top_p(scores, 0.6).softmax(-1)
    torch.testing.assert_close(kept, torch.tensor([[0, 4 / 7, 0, 3 / 7], [1.0, 0, 0, 0]]))
    assert keep_top_p(scores, 1e-9).isfinite().sum(1).tolist() == [1, 1]
    assert keep_top_p(scores, 1.0) is scores
    half = torch.tensor([[0.25, 0.5, 0.25]]).log()
    assert keep_top_p(half, 0.5).isfinite().tolist() == [[False, True, False]]  # reached exactly is enough


def test_what_cannot_be_is_never_drawn() -> None:
    rare = torch.tensor([[0, 0.25, 0, 0.75, 0, 0]]).expand(3000, -1)
    drawn = pick(rare, Dice.begin(0, 3000, rare.device))
    counts = torch.bincount(drawn, minlength=6).tolist()
    assert [one > 0 for one in counts] == [False, True, False, True, False, False]
    assert counts[1] == pytest.approx(750, abs=100)


@pytest.mark.parametrize("cut", [{}, {"top_k": 3}, {"top_p": 0.8}, {"top_k": 4, "top_p": 0.7}])
@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_sampling_follows_the_distribution(cut: dict[str, Any], temperature: float) -> None:
    model, (source, mask), number = Writer(7, 8), sentences(1, seed=3), 4000
    many = source.expand(number, -1), mask.expand(number, -1)
    drawn = draw(model, *many, max_length=1, temperature=temperature, seed=5, never=(PAD,), **cut)
    counts = torch.bincount(torch.tensor([whole(one)[0] for one in drawn]), minlength=7)
    logits, _ = model.step(torch.tensor([START]), model.start(source, mask))
    expected = nucleus(logits[0].tolist(), temperature, cut.get("top_k", 7), cut.get("top_p", 1.0))
    assert counts[[one == 0 for one in expected]].sum() == 0
    spread = [math.sqrt(number * one * (1 - one)) for one in expected]
    assert all(
        abs(seen - number * one) <= 4 * wide + 1e-6
        for seen, one, wide in zip(counts.tolist(), expected, spread, strict=True)
    )


def nucleus(logits: list[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """The distribution sampling should follow, with lists; PAD is forbidden."""
    weights = {token: math.exp(one / temperature) for token, one in enumerate(logits) if token != PAD}
    kept = sorted(weights, key=lambda token: -weights[token])[:top_k]
    total, inside = sum(weights[token] for token in kept), list[int]()
    for token in kept:
        if sum(weights[one] for one in inside) / total < top_p:
            inside.append(token)
    total = sum(weights[token] for token in inside)
    return [weights[token] / total if token in inside else 0.0 for token in range(len(logits))]


@pytest.mark.parametrize("device", DEVICES)
def test_a_seed_decides_the_text(device: str) -> None:
    model, (source, mask) = Writer(7, 9).to(device), sentences(8)
    source, mask = source.to(device), mask.to(device)
    first, second, other = (draw(model, source, mask, max_length=10, seed=seed) for seed in (1, 1, 2))
    assert first == second != other
    state = torch.get_rng_state()
    draw(model, source, mask, max_length=10, seed=1)
    assert torch.equal(state, torch.get_rng_state())  # torch's own generator is left alone


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("decode", [write, search, partial(draw, top_k=1)])
def test_the_answers_come_from_the_device_of_the_source(device: str, decode: Any) -> None:
    source, mask = sentences(6)
    here = decode(Writer(7, 9), source, mask, max_length=torch.arange(6))
    there = decode(Writer(7, 9).to(device), source.to(device), mask.to(device), max_length=torch.arange(6))
    for one, other in zip(here, there, strict=True):
        same(one, other)


@pytest.mark.parametrize("decode", [write, search, draw])
def test_a_model_in_training_rests_and_goes_on(decode: Any) -> None:
    model, (source, mask) = Writer(6, 1), sentences(4)
    model.train()
    model.cell.eval()  # a frozen part stays frozen
    answers = decode(model, source, mask, max_length=6, **({"seed": 1} if decode is draw else {}))
    assert (model.training, model.dropout.training, model.cell.training) == (True, True, False)
    model.eval()
    assert answers == decode(model, source, mask, max_length=6, **({"seed": 1} if decode is draw else {}))
    model.train()
    with pytest.raises(ValueError, match="never has token 6"):
        decode(model, source, mask, max_length=6, never=(6,))
    assert model.training
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_half_precision_scores_in_single() -> None:
    model, (source, mask) = Writer(7, 2).to(torch.bfloat16), sentences(3)
    for one in write(model, source, mask, max_length=6):
        assert one.score != torch.tensor(one.score, dtype=torch.bfloat16).item()


@pytest.mark.parametrize(
    ("decode", "options", "message"),
    [
        (draw, {"temperature": -0.1}, "temperature must be at least 0, got -0.1"),
        (draw, {"temperature": math.nan}, "temperature must be a number, got nan"),
        (draw, {"temperature": math.inf}, "temperature must be a number, got inf"),
        (draw, {"top_k": -1}, "top_k must lie in .*, got -1"),
        (draw, {"top_p": 0.0}, r"top_p must lie in \(0, 1\]"),
        (draw, {"top_p": 1.1}, r"top_p must lie in \(0, 1\]"),
        (search, {"beam": 0}, r"beam must lie in \[1, 1,000\), got 0"),
        (search, {"beam": 3, "n_best": 4}, "n_best must be at most beam = 3, got 4"),
        (search, {"n_best": 0}, r"n_best must lie in \[1, 1,000\), got 0"),
        (search, {"length_penalty": 10.5}, r"length_penalty must lie in \[-10, 10\], got 10.5"),
        (search, {"length_penalty": math.nan}, "length_penalty must be a number, got nan"),
        (write, {"max_length": None}, "max_length must say how many tokens an answer may have"),
        (write, {"max_length": -1}, "max_length must be 0 or more, got -1"),
        (write, {"max_length": torch.tensor([1, 2, 3])}, "one for each of the 2 sentences"),
        (write, {"max_length": torch.tensor([1.0, 2.0])}, "max_length must be a whole number"),
        (search, {"min_length": -2}, "min_length must be 0 or more, got -2"),
        (draw, {"min_length": torch.tensor([[1], [2]])}, r"min_length must be a whole number .* of shape \(2, 1\)"),
        (write, {"never": tuple(range(6))}, "no possible next token"),
        (search, {"min_length": 1, "never": (0, 1, 3, 4, 5)}, "or the end token before min_length"),
        (write, {"end": 6}, "end has token 6, but the model's tokens are 0 to 5"),
        (search, {"never": (-1,)}, "the model's tokens are 0 to 5"),
    ],
)
def test_wrong_options_are_named(decode: Any, options: dict[str, Any], message: str) -> None:
    model, (source, mask) = Writer(6, 0), sentences(2)
    with pytest.raises(ValueError, match=message):
        decode(model, source, mask, **{"max_length": 5, **options})


@pytest.mark.parametrize("decode", [write, search, draw])
def test_a_mask_of_numbers_and_a_broken_model_are_refused(decode: Any) -> None:
    model, (source, mask) = Writer(6, 0), sentences(2)
    with pytest.raises(ValueError, match="mask must be boolean"):
        decode(model, source, mask.long(), max_length=5)
    with pytest.raises(ValueError, match="one row per sentence, here 2"):
        decode(model, source, mask[:1], max_length=5)
    nn.init.constant_(model.out.bias, math.nan)
    with pytest.raises(ValueError, match="NaN"):
        decode(model, source, mask, max_length=5)
