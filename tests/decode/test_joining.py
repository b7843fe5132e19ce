"""Texts join and leave a running batch; each is written as if it were alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import LENGTHS, build, each, images, small, special, words, writes
from torch import Tensor

from regard.data.batches.batch import pad
from regard.decode.greedy import greedy
from regard.decode.joining import Batch, Row, Way
from regard.decode.sample import sample
from regard.models.protocols import Captioner, Generator, LanguageModel

MOST = 6


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


def rows_of(model: Any, **way: Any) -> list[Row]:
    """Language models begin behind their prompt, and one prompt has a single token: its past is empty."""
    found, kind = [], Way(end=special(model).end, **way)
    for number, source in enumerate(sources_of(model)):
        begins = isinstance(model, LanguageModel)
        start = source[-1] if begins else special(model).start
        before = source[:-1] if begins else []
        given = source[:-1] if begins else source
        found.append(Row(given, start, kind, MOST, before=before, seed=number, min_length=number))
    return found


def alone(model: Any, row: Row) -> tuple[list[int], float]:
    source, mask = collate_for(model)([row.source])
    options: dict[str, Any] = {
        "start": row.start,
        "end": row.way.end,
        "max_length": row.max_length,
        "min_length": row.min_length,
        "never": row.way.never,
        "repetition_penalty": row.way.repetition_penalty,
        "no_repeat_ngram": row.way.no_repeat_ngram,
        "prompt": torch.tensor([row.before], dtype=torch.long),
    }
    if row.way.temperature:
        drawn = {"temperature": row.way.temperature, "top_k": row.way.top_k, "top_p": row.way.top_p}
        [found] = sample(model, source, mask, **options, **drawn, seed=row.seed)
    else:
        [found] = greedy(model, source, mask, **options)
    return found.tokens, found.score


WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "rules": {"never": (7,), "repetition_penalty": 1.3, "no_repeat_ngram": 2},
    "sampled": {"temperature": 0.9, "top_k": 6, "top_p": 0.95},
}


@each(Generator, only=writes)
def test_a_text_is_written_as_if_it_were_alone(name: str, variant: str) -> None:
    """How a token is chosen does not depend on the model: with each, the rows take turns in the ways."""
    model = build(name, variant)
    turns = [rows_of(model, **way) for way in WAYS.values()]
    check_joining(model, [turns[place % len(turns)][place] for place in range(len(turns[0]))])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["transformer", "rnnlm", "show_attend_tell"])
def test_every_text_is_written_in_one_way(name: str, way: str) -> None:
    model = build(name)
    check_joining(model, rows_of(model, **WAYS[way]))


def check_joining(model: Any, rows: list[Row]) -> None:
    wanted = [alone(model, row) for row in rows]
    batch = Batch(model, collate_for(model))
    waiting, done = list(rows), []
    while waiting or len(batch):  # a new one joins after every second step
        batch.join([waiting.pop(0)] if waiting else [])
        done += batch.step()
        done += batch.step()
    assert {id(row) for row in done} == {id(row) for row in rows}
    for row, (tokens, score) in zip(rows, wanted, strict=True):
        assert row.written == tokens
        assert row.score == pytest.approx(score, abs=1e-4)


def test_ways_of_writing_share_a_batch() -> None:
    model = build("gpt2")
    rows = [row for way in WAYS.values() for row in rows_of(model, **way)]
    wanted = [alone(model, row) for row in rows]
    batch = Batch(model, collate_for(model))
    batch.join(rows)
    while len(batch):
        batch.step()
    assert [row.written for row in rows] == [tokens for tokens, _ in wanted]


def test_one_that_leaves_does_not_change_the_others() -> None:
    model = build("gpt2")
    rows, wanted = rows_of(model), [alone(model, row) for row in rows_of(model)]
    batch = Batch(model, collate_for(model))
    batch.join(rows)
    batch.step()
    batch.leave([rows[2]])  # the longest: the padding that it needed goes with it
    assert batch.state is not None
    assert batch.state.rows[0][0].size == 4
    while len(batch):
        batch.step()
    assert [row.written for row in rows[:2]] == [tokens for tokens, _ in wanted[:2]]
    assert len(rows[2].written) <= 1


def test_a_row_without_a_token_fails_alone() -> None:
    model = build("gpt2")
    vocabulary = small("gpt2").vocabulary
    nothing = Row([5], 6, Way(end=special(model).end, never=tuple(range(vocabulary)), temperature=1.0), MOST)
    other = rows_of(model)[0]
    wanted = alone(model, other)[0]
    batch = Batch(model, collate_for(model))
    batch.join([nothing, other])
    while len(batch):
        batch.step()
    assert "no possible next token" in nothing.failed
    assert other.written == wanted


def test_a_text_ends_where_it_is_told_to() -> None:
    model = build("gpt2")
    [row, *_] = rows_of(model)
    row.stop = lambda tokens: len(tokens) == 2
    batch = Batch(model, collate_for(model))
    batch.join([row])
    while len(batch):
        batch.step()
    assert len(row.written) == 2
    assert not row.hypothesis().finished
