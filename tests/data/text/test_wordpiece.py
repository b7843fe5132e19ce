"""WordPiece as BERT has it: trained, saved, and read back by others."""

import os
import subprocess
import sys

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.data.text import wordpiece
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer

TEXTS = [
    "The cat is playing; the dogs played on.",
    "Cats play, a dog plays: playing dogs!",
    "naïve café [MASK] is no token [CLS] here, nor [SEP] or [UNK]",
    "日本 is Japan, 日 is sun",
] * 20
SMALL = Tokenizer.train(TEXTS, kind="wordpiece", size=200, lowercase=True, numbering="bert")
CASED = Tokenizer.train(TEXTS, kind="wordpiece", size=200, numbering="bert")
ODD = "aZÄßİΣς e\u0301\u0308 ﬁ½ \t\n\r\x1c\x85\xa0\u2028\u3000\u200b😀👩\u200d👧🏽[CLS]##[MASK]日本.,'\0\ufffd\x7f"


def test_words_are_parted_into_pieces():
    text = "The cats replayed 日本, qat"
    ids = SMALL.encode(text)
    assert SMALL.tokens(ids) == ["the", "cats", "r", "##ep", "##lay", "##ed", "日", "本", ",", "[UNK]"]
    assert SMALL.begins(ids) == [True, True, True, False, False, False, True, True, True, True]
    assert SMALL.pieces(text) == ["The", "cats", "r", "ep", "lay", "ed", "日", "本", ",", "qat"]
    assert SMALL.encode_words(text)[1] == [0, 1, 2, 2, 2, 2, 3, 3, 3, 4]
    assert SMALL.decode(ids) == "the cats replayed 日 本,"
    assert SMALL.decode([2, *ids, 3, 4, 0], ["Qat"]) == "the cats replayed 日 本, Qat"
    assert SMALL.special == Special(pad=0, start=2, end=3, unknown=1, mask=4)
    assert SMALL.silent >= {0, 2, 3, 4}


def test_whole_words_have_no_pieces(tmp_path):
    texts = [*TEXTS, "a rare word"]
    words = Tokenizer.train(texts, kind="word", size=100, min_count=2, lowercase=True, numbering="bert")
    assert words.special == SMALL.special
    known = words.tokens(range(len(words)))
    assert known[5:8] == ["[", "]", "is"]  # by their counts
    assert not any(piece.startswith("##") for piece in known)
    ids = words.encode("The cats replayed 日本 , rare")
    assert words.tokens(ids) == ["the", "cats", "[UNK]", "日", "本", ",", "[UNK]"]
    assert words.decode(ids[:2]) == "the cats"
    words.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode("the cats replayed") == words.encode(
        "the cats replayed"
    )
    few = Tokenizer.train(texts, kind="word", size=7, lowercase=True, numbering="bert")
    assert few.tokens(range(7)) == known[:7]


def test_other_kinds_do_not_say_what_goes_on_with_a_word():
    for kind in ("bpe", "character", "word"):
        other = Tokenizer.train(TEXTS, kind=kind)
        assert all(other.begins(range(len(other))))
    with pytest.raises(ValueError, match="ids must lie in 0 to 105, got 106"):
        SMALL.begins([106])


def test_lower_case_takes_accents_too_and_upper_case_keeps_them():
    assert SMALL.tokens(SMALL.encode("NAÏVE Café")) == SMALL.tokens(SMALL.encode("naive cafe"))
    assert 1 not in SMALL.encode("NAÏVE")
    assert CASED.decode(CASED.encode("naïve café")) == "naïve café"
    assert CASED.encode("naive") != CASED.encode("naïve")
    assert CASED.decode(CASED.encode("The")) == "The"


@pytest.mark.parametrize("tokenizer", [SMALL, CASED], ids=["lowercase", "cased"])
@pytest.mark.parametrize("name", wordpiece.NAMES)
def test_special_tokens_in_user_text_are_text(tokenizer, name, tmp_path):
    ids = tokenizer.encode(f"cat {name}s{name}")
    assert not set(ids) & {0, 2, 3, 4}
    assert tokenizer.tokens(ids)[1] == "["
    tokenizer.save(tmp_path / "tokenizer.json")
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(name).ids[1:-1] == (
        tokenizer.encode(name)
    )


def test_the_file_alone_is_the_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    SMALL.save(path)
    loaded, plain = Tokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))
    assert loaded.special == SMALL.special
    for text in ["The  CAT plays, on [CLS] it.", " \n", "", "ß the", "they dogs 日 "]:
        ids = SMALL.encode(text)
        assert loaded.encode(text) == ids
        assert plain.encode(text).ids == [2, *ids, 3]
        framed = [2, *ids, 3, 0]
        assert loaded.decode(framed) == plain.decode(framed, skip_special_tokens=False) == SMALL.decode(framed)
    both = plain.encode("cat", "dog")
    assert both.tokens == ["[CLS]", "cat", "[SEP]", "dog", "[SEP]"]
    assert both.type_ids == [0, 0, 0, 1, 1]


TIES = [f"{a}{b} {b}{a}{c}" for a in "abcdefäé日" for b in "ghijkl" for c in "mnoпр"] * 2
PROGRAM = """
from regard.data.text.tokenizer import Tokenizer
texts = [f"{a}{b} {b}{a}{c}" for a in "abcdefäé日" for b in "ghijkl" for c in "mnoпр"] * 2
print(ascii(Tokenizer.train(texts, kind="wordpiece", size=150, numbering="bert").inner.to_str()))
"""


def test_training_is_deterministic():
    saved = {
        ascii(Tokenizer.train(iter(TIES), kind="wordpiece", size=150, numbering="bert").inner.to_str())
        for _ in range(5)
    }
    environment = os.environ | {"PYTHONHASHSEED": "7", "RAYON_NUM_THREADS": "3", "PYTHONUTF8": "1"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert saved == {run.stdout.strip()}


def test_size_keeps_the_most_frequent():
    few = Tokenizer.train(["bbb bb a b c"], kind="wordpiece", size=8, numbering="bert")
    assert few.tokens(range(8)) == [*wordpiece.NAMES, "b", "##b", "a"]
    assert few.tokens(few.encode("bb ab a c")) == ["b", "##b", "a", "##b", "a", "[UNK]"]
    pieces = SMALL.tokens(range(len(SMALL)))
    assert len(set(pieces)) == len(pieces)
    assert "##日" not in pieces  # it stands alone always
    assert not any("\x01" in piece for piece in pieces)


def test_rare_characters_are_unknown(monkeypatch):
    monkeypatch.setattr(wordpiece, "CHARACTERS", 3)
    tokenizer = Tokenizer.train(["aaa bb b cc d"], kind="wordpiece", size=100, numbering="bert")
    assert [tokenizer.encode(one) == [1] for one in "abcd"] == [False, False, False, True]


def test_a_word_of_the_vocabulary_is_one_piece():
    large = Tokenizer.train(TEXTS, kind="wordpiece", numbering="bert", lowercase=True)
    for word in ("playing", "dogs", "the", "japan"):
        assert large.tokens(large.encode(word)) == [word]


@settings(deadline=None, max_examples=150)
@given(text=st.text(st.sampled_from(ODD + "the cats play") | st.characters(codec="utf-8")))
@example(text=ODD)
def test_words_are_counted_in_the_text_as_given(text):
    for tokenizer in (SMALL, CASED):
        ids, places = tokenizer.encode_words(text)
        assert ids == tokenizer.encode(text) == tokenizer.encode_batch([text])[0]
        assert not {0, 2, 3, 4} & set(ids)
        assert places == sorted(places)
        assert set(places) <= set(range(len(text.split())))
        assert len(tokenizer.pieces(text)) == len(ids)


@settings(deadline=None, max_examples=150)
@given(ids=st.lists(st.integers(0, len(SMALL) - 1)))
def test_word_of_is_where_the_token_is_found(ids):
    """Whatever a model writes: the text up to a token, and the token, end within its word."""
    unknown = [f"u{number}." for number in range(ids.count(1))]
    text = SMALL.decode(ids, unknown)
    for end, (i, place) in enumerate(zip(ids, SMALL.word_of(ids, unknown), strict=True), 1):
        if i in SMALL.silent:
            assert place == -1
            continue
        upto = SMALL.decode(ids[:end], unknown[: ids[:end].count(1)])
        assert text.startswith(upto)
        assert place == len(upto.split()) - 1
    known = [i for i in ids if i != 1]
    assert SMALL.decode(known, []) == SMALL.decode(known)


def test_transformers_reads_what_we_write(tmp_path):
    transformers = pytest.importorskip("transformers")

    for tokenizer, lowercase in ((SMALL, True), (CASED, False)):
        tokenizer.save(tmp_path / "tokenizer.json")
        peer = transformers.BertTokenizer.from_pretrained(tmp_path, do_lower_case=lowercase)
        for text in (
            "The cats played, 日本 Café",
            "",
            "A zebra's dog",
            ODD.replace("[CLS]", "").replace("[MASK]", ""),
        ):
            assert peer(text)["input_ids"] == [2, *tokenizer.encode(text), 3]
        assert (peer.mask_token_id, peer.pad_token_id, peer.unk_token_id) == (4, 0, 1)
