"""Sentences of words for a bidirectional language model: spelled, numbered, in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.data.text.characters import CharacterBatch, character_batch, spell
from regard.data.text.sentence_data import SentenceData, encode_words
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

TEXT = "The cat sat . A dög barked at the cat ! \n\nIt was 3 in the night , and cats slept .\n"


def words_of(text: str = TEXT, **options: Any) -> tuple[Tokenizer, list[Any]]:
    tokenizer = Tokenizer.train([text], kind=options.pop("kind", "word"), **options)
    return tokenizer, list(encode_words([iter([line]) for line in text.split("\n")], tokenizer))


def data_of(sentences: Any, tokenizer: Tokenizer, **options: Any) -> SentenceData:
    chosen = {"length": 64, "batch_tokens": 1000, "seed": 1, "widest": 3} | options
    return SentenceData(sentences, special=tokenizer.special, **chosen)


def spelled(batch: CharacterBatch) -> list[list[list[int]]]:
    """The characters of every word of each row, filled up."""
    rows = zip(batch.places, batch.mask, strict=True)
    return [batch.characters[places[mask]].tolist() for places, mask in rows]


@pytest.mark.parametrize("kind", ["word", "space"])
def test_sentences_are_words_without_white_space(kind: str) -> None:
    tokenizer, found = words_of(kind=kind)
    assert [words for _, words in found] == [
        ["The", "cat", "sat", "."],
        ["A", "dög", "barked", "at", "the", "cat", "!"],
        ["It", "was", "3", "in", "the", "night", ",", "and", "cats", "slept", "."],
    ]
    for ids, words in found:
        assert tokenizer.tokens(ids) == words


def test_words_keep_their_capitals_where_what_is_predicted_has_none() -> None:
    tokenizer, found = words_of(lowercase=True)
    assert found[0][1][0] == "The"
    assert tokenizer.tokens(found[0][0]) == ["the", "cat", "sat", "."]


def test_a_batch_has_the_characters_and_the_ids() -> None:
    tokenizer, sentences = words_of(size=12)
    data = data_of(sentences, tokenizer)
    batch = data.batch(np.array([2, 0, 1]))
    assert batch.mask.sum(1).tolist() == [13, 6, 9]
    wanted = character_batch([[spell(word) for word in sentences[row][1]] for row in (2, 0, 1)], widest=3)
    assert spelled(batch) == spelled(wanted)
    assert len(batch.characters) == len({*sentences[0][1], *sentences[1][1], *sentences[2][1]}) + 2
    assert batch.words is not None
    for ids, row, mask in zip(batch.words, (2, 0, 1), batch.mask, strict=True):
        special = tokenizer.special
        assert ids[mask].tolist() == [special.start, *sentences[row][0], special.end]
    assert tokenizer.special.unknown in batch.words, "an unknown word is read by its characters all the same"


def test_every_word_is_once_in_an_epoch_and_another_epoch_has_another_order() -> None:
    tokenizer, sentences = words_of("\n".join("a " * count + "b ." for count in range(1, 30)))
    data = data_of(sentences, tokenizer, batch_tokens=64)
    assert (len(data), data.words) == (29, sum(range(3, 32)))
    first, again, other = (data.order(epoch) for epoch in (0, 0, 1))
    assert [one.tolist() for one in first] == [one.tolist() for one in again]
    assert [one.tolist() for one in first] != [one.tolist() for one in other]
    for order in (first, other):
        assert sorted(row for one in order for row in one) == list(range(29))
        for rows in order:
            batch = data.batch(rows)
            assert batch.places.numel() <= 64 or len(rows) == 1


def test_the_rest_of_a_long_sentence_is_another_row() -> None:
    tokenizer, sentences = words_of()
    data = data_of(sentences, tokenizer, length=4)
    assert (len(data), data.words) == (6, 22)
    assert data.rows.lengths().tolist() == [4, 4, 3, 4, 4, 3]


def test_the_last_sentences_are_held_out() -> None:
    tokenizer, sentences = words_of()
    data = data_of(sentences, tokenizer)
    first, last = data.hold_out(0.4)
    assert [len(one) for one in (data, first, last)] == [3, 2, 1]
    assert (data.words, first.words, last.words) == (22, 11, 11)
    whole, part = data.batch(np.array([2])), last.batch(np.array([0]))
    assert all(torch.equal(whole.tensors()[name], tensor) for name, tensor in part.tensors().items())
    with pytest.raises(DataError, match="1 sentences are too few to hold some out"):
        last.hold_out(0.1)


def test_what_has_no_words_is_refused() -> None:
    tokenizer, _ = words_of()
    assert list(encode_words([iter([" \n \t\n"])], tokenizer)) == []
    with pytest.raises(DataError, match="there must be at least one sentence with words, got none"):
        data_of([], tokenizer)


def test_a_batch_fits_on_a_device_and_has_one_type() -> None:
    tokenizer, sentences = words_of()
    batch = data_of(sentences, tokenizer).batch(np.array([0]))
    assert {name: tensor.dtype for name, tensor in batch.tensors().items()} == {
        "characters": torch.long,
        "places": torch.long,
        "mask": torch.bool,
        "words": torch.long,
    }
