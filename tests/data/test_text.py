import json
import os

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import text as text_module
from regard.data.pairs import DataError
from regard.data.text import SPECIAL, Tokenizer

TEXTS = [
    "The cat sat on the mat.",
    "The cat, the dog: they sat.",
    "<s> is no token </s> here <pad> nor <unk>",
] * 20
KINDS = ["character", "word", "bpe"]
TRAINED = {kind: Tokenizer.train(TEXTS, kind=kind) for kind in KINDS}
WORDS = ["cat", "The", "the", "sat", "is", ".", ",", ":", "<", ">", "/", " ", "  "]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_the_first_ids(kind):
    tokenizer = TRAINED[kind]
    assert (tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert tokenizer.tokens(range(4)) == list(SPECIAL) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert len(tokenizer) == len(tokenizer.tokens(range(len(tokenizer))))


@settings(deadline=None, max_examples=100)
@given(st.text(st.characters(codec="utf-8")))
def test_bpe_gives_any_text_back(text):
    ids = TRAINED["bpe"].encode(text)
    assert TRAINED["bpe"].decode(ids) == text
    assert not set(ids) & {0, 1, 2, 3}


@pytest.mark.parametrize("text", ["", " ", "a  b\n\n\tc ", "😀👩‍👩‍👧 \r\n", "naïve 日本語 \u2028 \0", " leading"])
def test_bpe_gives_hard_texts_back(text):
    assert TRAINED["bpe"].decode(TRAINED["bpe"].encode(text)) == text


@settings(deadline=None, max_examples=100)
@given(st.text(sorted(set("".join(TEXTS)))))
def test_characters_give_any_known_text_back(text):
    ids = TRAINED["character"].encode(text)
    assert len(ids) == len(text)
    assert TRAINED["character"].tokens(ids) == list(text)
    assert TRAINED["character"].decode(ids) == text
    assert not set(ids) & {0, 1, 2, 3}


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(WORDS)))
def test_words_give_known_words_and_exact_spaces_back(pieces):
    text = ""
    for piece in pieces:  # two words in a row would be one, unknown, word
        text += " " + piece if text[-1:].isalpha() and piece.isalpha() else piece
    ids = TRAINED["word"].encode(text)
    assert TRAINED["word"].decode(ids) == text
    assert not set(ids) & {0, 1, 2, 3}


def test_words_leave_single_spaces_between_words_out():
    tokenizer = TRAINED["word"]
    assert tokenizer.tokens(tokenizer.encode("The cat sat")) == ["The", "cat", "sat"]
    assert tokenizer.tokens(tokenizer.encode("the cat, sat")) == ["the", "cat", ",", " ", "sat"]
    # A space that a model says between two words, though none is needed, is not doubled.
    the, cat, space = (tokenizer.encode(piece)[0] for piece in ("the", "cat", " "))
    assert tokenizer.decode([the, space, cat]) == "the cat"


def test_characters_know_newlines_and_spaces():
    tokenizer = Tokenizer.train(["a\r\nb\u2028\t  c\0"], kind="character")
    assert tokenizer.decode(tokenizer.encode("c\0\n\r a\u2028\t\t")) == "c\0\n\r a\u2028\t\t"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special", SPECIAL)
def test_special_tokens_in_user_text_are_text(kind, special, tmp_path):
    """Even when the training text is full of them, and also in plain `tokenizers`."""
    tokenizer = Tokenizer.train([f"{special} a{special} {special}"] * 100, kind=kind)
    ids = tokenizer.encode(f"a{special}")
    assert not set(ids) & {0, 1, 2, 3}
    assert tokenizer.decode(ids) == f"a{special}"
    tokenizer.save(tmp_path / "tokenizer.json")
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(f"a{special}").ids == ids


def test_special_tokens_registered_by_others_are_text_too(tmp_path):
    plain = tokenizers.Tokenizer.from_str(TRAINED["character"].inner.to_str())
    plain.add_special_tokens(list(SPECIAL))
    plain.save(str(tmp_path / "tokenizer.json"))
    assert plain.encode("<s>").ids == [1]
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    assert tokenizer.encode("<s>") == TRAINED["character"].encode("<s>")
    assert tokenizer.decode([1, *tokenizer.encode("<s>"), 2]) == "<s>"


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_leaves_special_tokens_out(kind):
    tokenizer = TRAINED[kind]
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([1, *ids, 3, 2, 0, 0]) == "the cat"
    assert tokenizer.tokens([1, *ids, 2, 0])[0] == "<s>"
    assert tokenizer.tokens([1, *ids, 2, 0])[-2:] == ["</s>", "<pad>"]


def test_unknown_pieces_become_the_unknown_token():
    characters, words = TRAINED["character"], TRAINED["word"]
    assert characters.tokens(characters.encode("cßt")) == ["c", "<unk>", "t"]
    assert words.tokens(words.encode("the zebra sat")) == ["the", "<unk>", "sat"]


def test_bpe_labels_show_real_characters_and_broken_ones_as_bytes():
    tokenizer = Tokenizer.train(["der größte Bär"] * 50 + ["😀"], kind="bpe")
    ids = tokenizer.encode("der größte\n")
    assert "".join(tokenizer.tokens(ids)) == "der größte\n"
    assert " größte" in tokenizer.tokens(ids)
    assert tokenizer.tokens(tokenizer.encode("😀")) == [r"\xf0", r"\x9f", r"\x98", r"\x80"]


def test_byte_table_is_that_of_the_library():
    assert set(text_module.BYTE_OF) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert sorted(text_module.BYTE_OF.values()) == list(range(256))


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic(kind):
    texts = [f"{a}{b} {b}{a}{c}" for a in "abcdef" for b in "ghijkl" for c in "mno"] * 2  # full of ties
    saved = {Tokenizer.train(iter(texts), kind=kind, size=300).inner.to_str() for _ in range(5)}
    assert len(saved) == 1


def test_size_keeps_the_most_frequent():
    texts = ["b b b a a c"]
    words = Tokenizer.train(texts, kind="word", size=6)
    assert words.tokens(range(6)) == [*SPECIAL, "b", "a"]
    assert len(words) == 6
    characters = Tokenizer.train(["bbbaac"], kind="character", size=6)
    assert characters.tokens(characters.encode("abc")) == ["a", "b", "<unk>"]
    assert len(Tokenizer.train(TEXTS, kind="bpe", size=270)) == 270


def test_lowercase():
    tokenizer = Tokenizer.train(["Das ÄRGERT"], kind="word", lowercase=True)
    assert tokenizer.decode(tokenizer.encode("DAS ärgert")) == "das ärgert"


@pytest.mark.parametrize("kind", KINDS)
def test_encode_batch_is_encode_of_each(kind):
    texts = ["the cat", "", "a dog sat.  ß"]
    assert TRAINED[kind].encode_batch(texts) == [TRAINED[kind].encode(text) for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_alone_is_the_tokenizer(kind, tmp_path):
    tokenizer = Tokenizer.train(TEXTS, kind=kind, lowercase=True)
    path = tmp_path / "tokenizer.json"
    path.write_text("an older file")
    tokenizer.save(path)
    assert os.listdir(tmp_path) == ["tokenizer.json"]
    loaded, plain = Tokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))
    assert len(loaded) == len(tokenizer)
    for text in ["The  CAT sat, on <s> it.", " \n", "ß the", "they sat on:the mat "]:
        ids = tokenizer.encode(text)
        assert loaded.encode(text) == plain.encode(text).ids == ids
        assert loaded.tokens(ids) == tokenizer.tokens(ids)
        framed = [1, *ids, 2, 0]
        assert loaded.decode(framed) == plain.decode(framed) == tokenizer.decode(framed)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    TRAINED["word"].save(path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        TRAINED["character"].save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["tokenizer.json"]


def test_load_refuses_what_is_no_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(DataError, match="does not exist"):
        Tokenizer.load(path)
    with pytest.raises(DataError, match="is a directory"):
        Tokenizer.load(tmp_path)
    whole = TRAINED["word"].inner.to_str()
    path.write_text(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="is not JSON"):
        Tokenizer.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not JSON"):
        Tokenizer.load(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="describes no tokenizer"):
        Tokenizer.load(path)
    raw = json.loads(whole)
    raw["model"]["vocab"] = {f"{piece}x": i for piece, i in raw["model"]["vocab"].items()}
    path.write_text(json.dumps(raw))
    with pytest.raises(DataError, match=r"ids 0 to 3 must be <pad>, <s>, </s>, <unk>"):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a"], {"kind": "letters"}, "character, word, bpe, got 'letters'"),
        (["a"], {"kind": "bpe", "size": 100}, "at least 260 for bpe tokens, got 100"),
        (["a"], {"kind": "word", "size": 4}, "at least 5"),
        (["", ""], {"kind": "word"}, "no text"),
        ([], {"kind": "bpe"}, "no text"),
        ("a text", {"kind": "word"}, "put it in a list"),
        (["ok", "a\ud800"], {"kind": "word"}, "surrogate"),
        ([b"bytes"], {"kind": "word"}, "must be a string, got bytes"),
    ],
)
def test_train_says_what_is_wrong(texts, options, message):
    with pytest.raises(ValueError, match=message):
        Tokenizer.train(texts, **options)


def test_encoding_and_decoding_say_what_is_wrong():
    tokenizer = TRAINED["character"]
    with pytest.raises(ValueError, match=r"character 2 of .* surrogate"):
        tokenizer.encode("a\udcff")
    with pytest.raises(ValueError, match="surrogate"):
        tokenizer.encode_batch(["a", "a\udcff"])
    for ids in ([len(tokenizer)], [-1]):
        with pytest.raises(ValueError, match="ids must lie in 0 to"):
            tokenizer.decode(ids)
        with pytest.raises(ValueError, match="ids must lie in 0 to"):
            tokenizer.tokens(ids)
