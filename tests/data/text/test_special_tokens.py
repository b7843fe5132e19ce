"""Layouts of the special tokens, words parted by white space, and texts that come in chunks."""

from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.data.text import tokenizer as tokenizer_module
from regard.data.text.special_tokens import NUMBERINGS, REGARD, SPECIAL, Special
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_training import KINDS

TEXTS = ["The cat sat on the mat.", "The cat, the dog: they sat.", "<s> is no token </s> here <pad> nor <unk>"] * 20
ANY = [numbering for numbering in NUMBERINGS if numbering != "bert"]
EVERY = [(kind, numbering) for kind in KINDS if kind != "wordpiece" for numbering in ANY]


@pytest.mark.parametrize(("kind", "numbering"), [*EVERY, ("wordpiece", "bert")])
def test_each_numbering_has_its_special_tokens_where_they_belong(kind, numbering, tmp_path):
    tokenizer = Tokenizer.train(TEXTS, kind=kind, numbering=numbering)
    last = len(tokenizer) - 1
    names = {
        "regard": {0: "<pad>", 1: "<s>", 2: "</s>", 3: "<unk>"},
        "marian": {0: "</s>", 1: "<unk>", last: "<pad>"},
        "gpt2": {0: "<|endoftext|>"} | ({} if kind == "bpe" else {1: "<unk>"}),
        "bert": {0: "[PAD]", 1: "[UNK]", 2: "[CLS]", 3: "[SEP]", 4: "[MASK]"},
        "<eos>": {0: "<pad>", 1: "<eos>", 2: "<unk>"},
    }[numbering]
    wanted = {
        "regard": REGARD,
        "marian": Special(last, last, 0, 1),
        "gpt2": Special(0, 0, 0, 1),
        "bert": Special(0, 2, 3, 1, 4),
        "<eos>": Special(0, 1, 1, 2),
    }[numbering]
    if (kind, numbering) == ("bpe", "gpt2"):
        wanted = Special(0, 0, 0, -1)
    assert tokenizer.special == wanted
    assert dict(zip(names, tokenizer.tokens(names), strict=True)) == names
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([*names, *ids, *names]) == "the cat"
    framing = {wanted.pad, wanted.start, wanted.end}
    assert tokenizer.word_of([*framing, *ids]) == [-1] * len(framing) + tokenizer.encode_words("the cat")[1]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.special == wanted
    assert loaded.inner.to_str() == tokenizer.inner.to_str()


@pytest.mark.parametrize("kind", ["character", "word", "bpe"])
def test_layouts_differ_in_numbers_alone(kind):
    regard, marian, gpt2, eos = (Tokenizer.train(TEXTS, kind=kind, numbering=numbering) for numbering in ANY)
    text = "The cat, the <s> sat </s> <|endoftext|> on ßx"
    labels = [one.tokens(one.encode(text)) for one in (regard, marian, gpt2, eos)]
    assert labels[0] == labels[1] == labels[2] == labels[3]
    shift = regard.encode("cat")[0] - marian.encode("cat")[0]
    assert shift == 2  # <s> is not there, <pad> is at the end


@pytest.mark.parametrize(("kind", "numbering"), EVERY)
def test_no_text_is_a_special_token(kind, numbering):
    names = ["<pad>", "<s>", "</s>", "<|endoftext|>", "<unk>"]
    texts = [f"{name} a{name} {name} a" for name in names] * 30
    tokenizer = Tokenizer.train(texts, kind=kind, numbering=numbering)
    special = {tokenizer.special.pad, tokenizer.special.start, tokenizer.special.end}
    for name in names:
        for text in (name, f"a {name} a", f"a{name}", f"\u3000{name}\n"):
            assert not special & set(tokenizer.encode(text))
            if kind != "space":
                assert tokenizer.special.unknown not in tokenizer.encode(text.strip())
                assert tokenizer.decode(tokenizer.encode(text.strip())) == text.strip()


def test_space_parts_at_white_space_alone():
    texts = ["the <unk> @-@ cat 's U.S. <unk> , <unk>\n", "the cat"]
    tokenizer = Tokenizer.train(texts, kind="space", numbering="gpt2")
    assert tokenizer.tokens(range(2)) == ["<|endoftext|>", "<unk>"]
    assert len(tokenizer) == 2 + 6
    ids = tokenizer.encode("  the\u3000U.S.\t <unk> zebra\n cat ")
    assert tokenizer.tokens(ids) == ["the", "U.S.", "<unk>", "<unk>", "cat"]
    assert tokenizer.decode(ids) == "the U.S. cat"
    assert tokenizer.decode(ids, ["<unk>", "zebra"]) == "the U.S. <unk> zebra cat"
    assert tokenizer.word_of(ids) == [0, 1, 2, 3, 4]
    assert tokenizer.pieces("the <unk> </s> <|endoftext|> cat") == ["the", "<unk>", "</s>", "<|endoftext|>", "cat"]
    assert tokenizer.encode("") == tokenizer.encode(" \n") == []
    few = Tokenizer.train(texts, kind="space", size=6)
    assert few.tokens(range(6)) == [*SPECIAL, "cat", "the"]  # though <unk> is the most frequent word
    small = Tokenizer.train(["THE Cat"], kind="space", lowercase=True, normalise="nfkc")
    assert small.encode("</S> ＜s＞ <PAD>") == [3, 3, 3]
    assert small.decode(small.encode("the CAT")) == "the cat"


STREAMED = {
    (kind, form): Tokenizer.train(
        [*TEXTS, "a 's 2 sa s2 . , = > _ é á e \u0301 \n   aé2    e"] * 2,
        kind=kind,
        normalise=form,
        lowercase=form == "nfc",
        numbering="gpt2",
    )
    for kind in KINDS
    if kind != "wordpiece"
    for form in ("", "nfc", "nfkc")
}
STREAMED["wordpiece", ""] = Tokenizer.train(TEXTS, kind="wordpiece", numbering="bert")
STREAMED["wordpiece", "lowercase"] = Tokenizer.train(TEXTS, kind="wordpiece", numbering="bert", lowercase=True)
CUTTABLE = "a  é e\u0301.a   2s'sé =\u0338\n\n \t각\u11a8 \xa8ﷺ, <s> <unk>\u3000\x1c a_s\r\n.. "
CUTTABLE += "日\u0301 日本\x7f [CLS]\n\u0301"
CHUNKS = st.lists(st.text(st.sampled_from(CUTTABLE)) | st.text(st.characters(codec="utf-8")))


@pytest.mark.parametrize(("kind", "form"), STREAMED)
@settings(deadline=None, max_examples=40)
@given(chunks=CHUNKS, part=st.integers(1, 12))
@example(chunks=list(CUTTABLE), part=1)  # cut wherever it may be
@example(chunks=[CUTTABLE[:20], "", CUTTABLE[20:]], part=1)
def test_a_stream_has_the_ids_of_the_whole(kind, form, chunks, part):
    tokenizer = STREAMED[kind, form]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "PART", part)
        parts = list(tokenizer.encode_stream(iter(chunks)))
    assert list(chain(*parts)) == tokenizer.encode("".join(chunks))


@pytest.mark.parametrize(("kind", "form"), STREAMED)
def test_a_stream_is_not_held(kind, form, monkeypatch):
    monkeypatch.setattr(tokenizer_module, "PART", 100)
    line, read = "The cat sat, on the mat .\n", 0

    def lines():
        nonlocal read
        for _ in range(300):
            read += 1
            yield line

    longest, given = len(STREAMED[kind, form].encode(line)), 0
    for part in STREAMED[kind, form].encode_stream(lines()):
        given += len(part)
        assert given >= longest * (read - 5)  # of a hundred characters four lines and a bit
    assert given == longest * 300
