"""Texts join and leave a running batch; each is written as if it were alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from joined_texts import MOST, WAYS, Running, alone, check_joining, collate_for, passages_of
from small_models import build, each, small, special, writes

from regard.decode.generator import eval_mode
from regard.decode.rules import Target, read_rules
from regard.decode.search import decode
from regard.decode.settings import Decoding
from regard.models.protocols import Generator
from regard.tasks.shared.writing import Passage


@each(Generator, only=writes)
def test_a_text_is_written_as_if_it_were_alone(name: str, variant: str) -> None:
    """How a token is chosen does not depend on the model: with each, the texts take turns in the ways."""
    model = build(name, variant)
    check_joining(model, [passages_of(model, **way)[place] for place, way in enumerate(WAYS.values(), start=1)])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["transformer", "rnnlm", "show_attend_tell"])
def test_every_text_is_written_in_one_way(name: str, way: str) -> None:
    model = build(name)
    check_joining(model, passages_of(model, **WAYS[way]))


def test_ways_of_writing_share_a_batch() -> None:
    model = build("gpt2")
    passages = [passage for way in WAYS.values() for passage in passages_of(model, **way)]
    running = Running(model)
    running.join(passages)
    assert running.loop.rows is not None
    assert len(running.loop.rows.groups) == len(WAYS), "texts that are chosen in the same way are computed together"
    assert [answer.tokens for answer in running.finish()] == [alone(model, passage).tokens for passage in passages]


def test_texts_that_begin_together_may_draw_from_one_generator_beside_others() -> None:
    """A whole batch draws the same as without the one that has joined it."""
    model = build("rnnlm")
    many, [single, *_] = passages_of(model), passages_of(model, temperature=1.1)
    source, mask = collate_for(model)([passage.source for passage in many])
    starts = torch.tensor([passage.target.start for passage in many])
    decoding, target = Decoding(temperature=1.1, seed=5), Target(starts, special(model).end, MOST)
    wanted = [answers[0].tokens for answers in decode(model, source, mask, decoding, target)]
    running = Running(model)
    running.join([single])
    running.step()
    with eval_mode(model):
        rules = read_rules(decoding, target, len(many), source.device)
        running.loop.join(source, mask, range(10, 10 + len(many)), [rules])
    assert running.loop.rows is not None
    assert len(running.loop.rows.groups) == 1
    answers = running.finish()
    assert [answer.tokens for answer in answers] == [alone(model, single).tokens, *wanted]


def test_one_that_leaves_does_not_change_the_others() -> None:
    model = build("gpt2")
    passages, running = passages_of(model), Running(model)
    running.join(passages)
    running.step()
    with eval_mode(model):
        running.loop.leave([2])  # the longest: the padding that it needed goes with it
        running.loop.trim()
    assert running.loop.rows is not None
    assert running.loop.rows.state.rows[0][0].size == 4
    running.finish()
    assert 2 not in running.answers
    for place in (0, 1, 3):
        assert running.answers[place].tokens == alone(model, passages[place]).tokens


def test_the_history_of_a_running_batch_does_not_grow_for_ever() -> None:
    model = build("gpt2")
    running, [passage, *_] = Running(model), passages_of(model, repetition_penalty=1.3)
    for _ in range(20):
        running.join([passage])
        running.step()
        running.step()
    assert running.loop.rows is not None
    assert running.loop.rows.history.shape[1] <= 4 + MOST
    running.finish()
    assert {tuple(answer.tokens) for answer in running.answers.values()} == {tuple(alone(model, passage).tokens)}


def test_a_row_without_a_token_fails_alone() -> None:
    model = build("gpt2")
    never = tuple(range(small("gpt2").vocabulary))
    nothing = Passage([5], Decoding(temperature=1.0), Target(6, special(model).end, MOST, never=never))
    other, running = passages_of(model)[0], Running(model)
    running.join([nothing, other])
    running.finish()
    assert running.failed == {0}
    assert running.answers[1].tokens == alone(model, other).tokens
    assert list(running.answers) == [1]


def test_a_text_ends_where_it_is_told_to() -> None:
    model = build("gpt2")
    first, second, *_ = passages_of(model, temperature=1.0)
    short = replace(first, target=replace(first.target, stop=lambda tokens: len(tokens) == 2))
    running = Running(model)
    running.join([second, short])
    other, answer = running.finish()
    assert len(answer.tokens) == 2
    assert not answer.finished
    assert other.tokens == alone(model, second).tokens, "it is not asked of others"
