import json
import os
import signal
import threading
import time
import tracemalloc
import unicodedata

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text import byte_level
from regard.data.text.special_tokens import REGARD, SPECIAL, Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

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
    assert tokenizer.special == Special(0, 1, 2, 3) == REGARD
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


def lost(tokenizer, text):
    return tokenizer.unknown_in(text, tokenizer.encode(text))


@pytest.mark.parametrize("normalise", ["", "nfc", "nfkc"])
def test_what_is_lost_of_a_text_is_named(normalise):
    """An accent that joins its letter is not lost."""
    texts, apart = ["the école sat"], unicodedata.normalize("NFD", "école")
    characters, words, pieces = (
        Tokenizer.train(texts, kind=kind, normalise=normalise) for kind in ("character", "word", "bpe")
    )
    assert lost(characters, "the cßt ☃ ß\t") == ("ß", "☃", "\t")
    assert lost(words, "the zebra sat, zebra ☃") == ("zebra", ",", "☃")
    assert lost(pieces, "☃ zebra") == lost(pieces, apart) == ()
    if normalise:
        assert lost(characters, apart) == lost(words, apart) == ()


def test_what_a_normaliser_removes_is_not_lost():
    """BERT's takes accents off, and control characters out."""
    tokenizer = Tokenizer.train(["ecole the"], kind="wordpiece", lowercase=True, numbering="bert")
    assert lost(tokenizer, unicodedata.normalize("NFD", "École") + "\x07 ☃\u200b") == ("☃",)


def test_characters_without_any_token_are_lost_too():
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    assert lost(Tokenizer(inner, Special(0, 0, 0, -1)), "abé ab") == ("é",)


@pytest.mark.parametrize("kind", ["bpe", "word", "wordpiece"])
def test_ctrl_c_ends_the_training_of_a_vocabulary_at_once(kind, signals_heard):
    """`tokenizers` hears no signal, and its texts are no longer read."""
    asked, answered, read = threading.Event(), threading.Event(), []

    def texts():
        for number in range(10_000):
            read.append(number)
            yield "the cat sat"
            if number == 100:
                asked.set()
                answered.wait(20)

    def press():
        asked.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            Tokenizer.train(texts(), kind=kind, numbering="bert" if kind == "wordpiece" else "regard")
    finally:
        answered.set()
    time.sleep(0.05)
    assert len(read) < 200


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
    assert set(byte_level.BYTE_OF) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_level.BYTE_OF.values()) == list(range(256))


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


SETTINGS = [(lowercase, form) for lowercase in (False, True) for form in ("", "nfc", "nfkc")]
NORMALISED = {
    (lowercase, form): Tokenizer.train(TEXTS, kind="bpe", lowercase=lowercase, normalise=form)
    for lowercase, form in SETTINGS
}
ODD = "aZÄßİΣς e\u0301\u0308\u0327A\u030a\u0345 ﬁ½²Å각\u1100\u1161"
ODD += " \t\n\r\x1c\x85\xa0\u2003\u2028\u3000\u200b😀👩\u200d👧🏽<s>\0"


@pytest.mark.parametrize(("lowercase", "form"), SETTINGS)
@settings(deadline=None, max_examples=50)
@given(text=st.text(st.sampled_from(ODD) | st.characters(codec="utf-8")))
def test_bpe_gives_any_text_back_as_normalised(lowercase, form, text):
    tokenizer = NORMALISED[lowercase, form]
    normal = tokenizer.inner.normalizer
    wanted = normal.normalize_str(text) if normal else text
    assert tokenizer.decode(tokenizer.encode(text)) == wanted
    assert tokenizer.decode(tokenizer.encode(wanted)) == (normal.normalize_str(wanted) if normal else wanted)


@pytest.mark.parametrize(("lowercase", "form"), SETTINGS)
def test_normal_forms_are_those_of_unicode_and_come_before_lower_case(lowercase, form):
    for text in ["Cafe\u0301 ﬁn ½ Ａ  x", "A\u030aÅ\u212b", "ℌ K\u0327", "각\u1100\u1161\u11a8"]:
        wanted = unicodedata.normalize(form.upper(), text) if form else text
        wanted = wanted.lower() if lowercase else wanted
        tokenizer = NORMALISED[lowercase, form]
        assert tokenizer.decode(tokenizer.encode(text)) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_normalisation_is_learnt_from_and_saved(kind, tmp_path):
    tokenizer = Tokenizer.train(["Cafe\u0301 Ａ"] * 3, kind=kind, lowercase=True, normalise="nfkc")
    tokenizer.save(tmp_path / "tokenizer.json")
    for one in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert one.encode("CAFÉ a") == one.encode("cafe\u0301 Ａ")
        assert one.decode(one.encode("CAFE\u0301 Ａ")) == "café a"
        assert 3 not in one.encode("CAFÉ a")


def test_texts_are_not_held_while_training():
    def texts():
        for number in range(3000):
            yield f"{number % 7}" + "a" * 2000  # 6 MB in all

    tracemalloc.start()
    try:
        Tokenizer.train(texts(), kind="word")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


def test_what_goes_wrong_while_texts_are_read_is_said():
    def texts():
        yield "a text"
        raise DataError("train.tsv, line 2: not UTF-8")

    with pytest.raises(DataError, match="line 2"):
        Tokenizer.train(texts(), kind="bpe")


def test_encode_words_says_which_word_a_token_is_of():
    bpe, words, characters = (TRAINED[kind] for kind in ("bpe", "word", "character"))
    ids, places = bpe.encode_words("The cat zat.")
    assert ids == bpe.encode("The cat zat.")
    assert list(zip(bpe.tokens(ids), places, strict=True)) == [
        ("The", 0),
        (" cat", 1),
        (" ", 2),
        ("z", 2),
        ("at", 2),
        (".", 2),
    ]
    ids, places = words.encode_words("the cat, zebra")
    assert words.tokens(ids) == ["the", "cat", ",", " ", "<unk>"]
    assert places == [0, 1, 1, 2, 2]
    assert characters.encode_words(" at  o ")[1] == [0, 0, 0, 1, 1, 1, -1]
    assert [one.encode_words("")[1] for one in (bpe, words, characters)] == [[], [], []]


def test_encode_words_counts_in_the_text_as_given():
    """Though normalising makes three characters of one, one of two, and words of none."""
    tokenizer = Tokenizer.train(["e\u0301 ½ \xa8"], kind="character", normalise="nfkc")
    ids, places = tokenizer.encode_words("e\u0301 ½ \xa8")
    assert list(zip(tokenizer.tokens(ids), places, strict=True)) == [
        ("é", 0),
        (" ", 1),
        ("1", 1),
        ("\u2044", 1),
        ("2", 1),
        (" ", 2),
        (" ", 2),
        ("\u0308", 2),
    ]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=100)
@given(text=st.text(st.sampled_from(ODD + "the cat sat") | st.characters(codec="utf-8")))
def test_encode_words_and_word_of_agree_on_what_is_known(kind, text):
    tokenizer = TRAINED[kind]
    ids, places = tokenizer.encode_words(text)
    assert ids == tokenizer.encode(text)
    assert sorted(places, key=lambda place: place % (len(text) + 1)) == places  # they rise, and -1 is last
    assert set(places) <= {*range(len(text.split())), -1}
    if tokenizer.decode(ids) != text:
        assert tokenizer.special.unknown in ids
        return
    assert tokenizer.word_of([1, *ids, 2, 0]) == [-1, *places, -1, -1]


def test_word_of_counts_in_the_decoded_text():
    words, bpe = TRAINED["word"], TRAINED["bpe"]
    the, cat, comma, space = (words.encode(piece)[0] for piece in ("the", "cat", ",", " "))
    assert words.word_of([1, the, cat, comma, cat, comma, space, the, 2]) == [-1, 0, 1, 1, 1, 1, 2, 2, -1]
    assert words.word_of([the, 3, cat]) == [0, 1, 2]
    assert words.word_of([comma, 3, comma, space, 3]) == [0, 0, 0, 1, 1]
    assert words.word_of([the, 3, cat], ["New York"]) == [0, 1, 3]
    assert bpe.word_of([1, *bpe.encode("The cat sat"), 2]) == [-1, 0, 1, 2, -1]
    assert TRAINED["character"].word_of(TRAINED["character"].encode("at o ")) == [0, 0, 1, 1, -1]


def test_word_of_bears_with_broken_characters():
    bpe = TRAINED["bpe"]
    wide = bpe.encode("a\u3000😀")  # a space of three bytes, a face of four
    assert bpe.word_of(wide) == [0, 1, 1, 1, 1, 1, 1, 1]
    assert bpe.word_of(wide[:3]) == [0, 0, 0]  # two of the three bytes are no space
    assert bpe.word_of([*wide[4:6], *bpe.encode(" cat")]) == [0, 0, 1]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, len(TRAINED["bpe"]) - 1)))
def test_word_of_bears_with_any_bpe_ids(ids):
    tokenizer = TRAINED["bpe"]
    unknown = ["u"] * ids.count(3)
    text = tokenizer.decode(ids, unknown)
    places = tokenizer.word_of(ids)
    assert len(places) == len(ids)
    assert max(places, default=-1) < len(text.split())
    known = [i for i in ids if i != 3]
    assert tokenizer.decode(known, []) == tokenizer.decode(known)


@pytest.mark.parametrize("kind", ["word", "character"])
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_word_of_is_where_the_token_is_found(kind, data):
    """Whatever a model writes: the text up to a token, and the token, end within its word."""
    tokenizer = TRAINED[kind]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    unknown = [f"u{number}." for number in range(ids.count(3))]
    text = tokenizer.decode(ids, unknown)
    places = tokenizer.word_of(ids, unknown)
    for end, (i, place) in enumerate(zip(ids, places, strict=True), 1):
        label = tokenizer.tokens([i])[0]
        if i < 3 or (label.isspace() and place == -1):
            assert place == -1
        elif not label.isspace():
            upto = tokenizer.decode(ids[:end], unknown[: ids[:end].count(3)])
            assert text.startswith(upto)
            assert place == len(upto.split()) - 1
    known = [i for i in ids if i != 3]
    assert tokenizer.decode(known, []) == tokenizer.decode(known)


def test_unknown_words_are_replaced():
    words, characters, bpe = (TRAINED[kind] for kind in ("word", "character", "bpe"))
    ids = words.encode("the zebra sat, zebra")
    assert words.decode(ids) == "the sat, "
    assert words.decode(ids, ["gnu", "ibis"]) == "the gnu sat, ibis"
    assert words.decode([1, *ids, 2], ["U.S.", "<unk>"]) == "the U.S. sat, <unk>"
    assert words.decode([3, 3], ["New York", "-"]) == "New York -"
    assert characters.decode(characters.encode("cßt ß"), ["ß", "ss"]) == "cßt ss"
    assert bpe.decode([*bpe.encode("The"), 3], [" größte"]) == "The größte"
    for one in (words, characters, bpe):
        assert one.decode(one.encode("the cat sat"), []) == "the cat sat"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["decode", "word_of"])
def test_each_unknown_needs_its_word(kind, method):
    ask = getattr(TRAINED[kind], method)
    with pytest.raises(ValueError, match="each of 2 <unk> needs one word to stand in for it, got 1"):
        ask([3, 1, 3], ["one"])
    with pytest.raises(ValueError, match=r"each of 0 <unk> .* got 1"):
        ask([1], ["one"])
    with pytest.raises(ValueError, match="surrogate"):
        ask([3], ["\ud800"])


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
    with pytest.raises(
        DataError, match="its unk_token, '<unk>', is not in its vocabulary; add it, or name another"
    ):
        Tokenizer.load(path)
    raw["model"]["unk_token"] = "<unk>x"
    path.write_text(json.dumps(raw))
    with pytest.raises(DataError, match=r"the ids from 0 must be <pad>, <s>, </s>, <unk>; or .* are \['<pad>x'"):
        Tokenizer.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(DataError, match="is not JSON"):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a"], {"kind": "letters"}, "character, word, space, bpe, wordpiece, got 'letters'"),
        (["a"], {"kind": "bpe", "size": 100}, "at least 260 for bpe tokens, got 100"),
        (["a"], {"kind": "word", "size": 4}, "at least 5"),
        (["a"], {"kind": "bpe", "size": 256, "numbering": "gpt2"}, "at least 257 for bpe tokens, got 256"),
        (
            ["a"],
            {"kind": "word", "numbering": "elmo"},
            "numbering must be one of regard, marian, gpt2, bert, <eos>, got 'elmo'",
        ),
        (
            ["a"],
            {"kind": "bpe", "numbering": "bert"},
            "the numbering bert goes with wordpiece or word tokens, and wordpiece with it alone; got 'bpe'",
        ),
        (["a"], {"kind": "wordpiece"}, "wordpiece with it alone; got 'wordpiece' and 'regard'"),
        (["a"], {"kind": "wordpiece", "numbering": "bert", "size": 5}, "at least 6 for wordpiece tokens, got 5"),
        (["a"], {"kind": "wordpiece", "numbering": "bert", "normalise": "nfc"}, "a normal form of its own"),
        (["a"], {"kind": "word", "numbering": "bert", "normalise": "nfc"}, "a normal form of its own"),
        (["", ""], {"kind": "word"}, "no text"),
        ([], {"kind": "bpe"}, "no text"),
        ("a text", {"kind": "word"}, "put it in a list"),
        (["ok", "a\ud800"], {"kind": "word"}, "surrogate"),
        ([b"bytes"], {"kind": "word"}, "must be a string, got bytes"),
        (["a"], {"kind": "word", "normalise": "NFC"}, '"", "nfc" or "nfkc", got \'NFC\''),
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
        with pytest.raises(ValueError, match="ids must lie in 0 to"):
            tokenizer.word_of(ids)
    with pytest.raises(ValueError, match="surrogate"):
        tokenizer.encode_words("a\udcff")
