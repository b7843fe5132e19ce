"""Which pieces of a tokenizer make a word, and what of that a picture shows."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.foreign.sentencepiece import SentencePieceTokenizer, read_model
from regard.tasks.core.table import load
from regard.tasks.shared.words import words_of

TEXTS = ["the quick brown fox isn't unbelievable", "foxes, quickly!", "unable to believe", "a (42) fox-like 猫和狗"]


@pytest.fixture(scope="module")
def bytes_bpe() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="bpe", size=280, numbering="gpt2")


@pytest.fixture(scope="module")
def wordpiece() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="wordpiece", size=70, numbering="bert")


@pytest.fixture(scope="module")
def unigram() -> SentencePieceTokenizer:
    sentencepiece = pytest.importorskip("sentencepiece")
    raw = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 3), model_writer=raw, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    model = read_model(raw.getvalue(), Path("x.spm"))
    pieces = ["</s>", "<unk>", *(model.id_to_piece(i) for i in range(3, model.get_piece_size())), "<pad>"]
    special = Special(pad=len(pieces) - 1, start=len(pieces) - 1, end=0, unknown=1)
    ids = {piece: i for i, piece in enumerate(pieces)}
    return SentencePieceTokenizer(model, model, ids, special, size=len(pieces))


@pytest.mark.parametrize("kind", ["bytes_bpe", "wordpiece", "unigram"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the unbelievable fox", ["the", "unbelievable", "fox"]),
        ("quickly, foxes!", ["quickly", ",", "foxes", "!"]),
        ("a (42) fox-like", ["a", "(", "42", ")", "fox", "-", "like"]),
    ],
)
def test_pieces_are_joined_to_words(request: Any, kind: str, text: str, words: list[str]) -> None:
    tokenizer = request.getfixturevalue(kind)
    ids = tokenizer.encode(text)
    assert len(ids) > len(words), "some words are in pieces"
    found = words_of(tokenizer, ids)
    assert list(found.labels) == words
    # The pieces of each word spell it.
    for number, word in enumerate(found.labels):
        own = [one for one, part in zip(ids, found.numbers, strict=True) if part == number]
        assert tokenizer.decode(own).removeprefix("##").strip() == word


def test_apostrophes_belong_to_their_words(bytes_bpe: Tokenizer) -> None:
    assert words_of(bytes_bpe, bytes_bpe.encode("the fox isn't")).labels == ["the", "fox", "isn't"]


def test_bytes_of_a_character_are_joined_and_scripts_without_spaces_are_not(bytes_bpe: Tokenizer) -> None:
    ids = bytes_bpe.encode("fox 猫和 🦊")
    assert words_of(bytes_bpe, ids).labels == ["fox", "猫", "和", "🦊"]


def test_line_breaks_and_special_tokens_stand_alone(bytes_bpe: Tokenizer, wordpiece: Tokenizer) -> None:
    end = bytes_bpe.special.end
    ids = [*bytes_bpe.encode("fox\n\nthe"), end, *bytes_bpe.encode(" fox")]
    assert words_of(bytes_bpe, ids).labels == ["fox", "\n", "\n", "the", bytes_bpe.tokens([end])[0], "fox"]
    special = wordpiece.special
    row = [special.start, *wordpiece.encode("unable"), special.mask, special.end]
    assert words_of(wordpiece, row).labels == ["[CLS]", "unable", "[MASK]", "[SEP]"]


def test_characters_stay_as_they_are_and_whole_words_too() -> None:
    for kind, text in (("character", "the fox, quickly"), ("word", "the fox isn't unable")):
        tokenizer = Tokenizer.train(TEXTS, kind=kind)
        ids = tokenizer.encode(text)
        found = words_of(tokenizer, ids)
        assert list(found.labels) == tokenizer.tokens(ids)
        assert list(found.numbers) == list(range(len(ids)))


def test_a_translator_shows_words_and_keeps_its_pieces() -> None:
    answer = load("de-en").translate("Ich habe meinen Schlüssel im Auto vergessen.")
    found, pieces = answer.attention, answer.attention.pieces
    assert found.columns == ("Ich", "habe", "meinen", "Schlüssel", "im", "Auto", "vergessen", ".", "</s>")
    assert pieces.columns[1] == " habe"
    np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-5)
    heads = answer.heads("decoder.0.*")
    assert heads.rows["decoder.0.attend"] == found.rows
    assert answer.heads("decoder.0.*", pieces=True).columns["decoder.0.cross"] == pieces.columns
    # The future of the decoder is hidden by the model's own mask, the source is not.
    assert heads.mask["decoder.0.attend"].tolist() == np.tril(np.ones((len(found.rows),) * 2, bool)).tolist()
    assert heads.mask["decoder.0.cross"].all()


def test_a_language_model_hides_the_future() -> None:
    one = load("shakespeare").generate("ROMEO:", Decoding(max_length=20))
    found = one.attention
    assert found.hidden is not None
    assert (found.weights[found.hidden] == 0).all()
    assert found.mask.sum(1).tolist() == list(
        range(len(found.columns) - len(found.rows) + 1, len(found.columns) + 1)
    )


def test_a_space_before_a_full_stop_is_no_word() -> None:
    """A model of whole words has it as a token of its own. Among characters a space is one of them."""
    whole = Tokenizer.train(["the run .", "a cat ."], kind="word", size=30)
    words = words_of(whole, whole.encode("the run ."))
    assert words.labels == ["the", "run", "."]
    assert list(words.numbers) == [0, 1, 2, 2]
    characters = Tokenizer.train(["the run ."], kind="character")
    assert words_of(characters, characters.encode("n .")).labels == ["n", " ", "."]
