import io
import json
import sys
import warnings
from itertools import chain

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign import tokenizers as foreign
from regard.foreign.contents import Contents
from regard.foreign.tokenizers import open_text

ENGLISH = [
    "The cat sat on the mat.",
    "A dog, and 2 cats: they sat!",
    "it's the dog's, isn't it?",
    "naïve café",
] * 30
GERMAN = ["Die Katze saß auf der Matte.", "Ein Hund und 2 Katzen, sie saßen!", "größer als das Haus"] * 30
TEXTS = [
    "",
    " ",
    "The cat sat.",
    "  the   cat \n\n sat on ",
    "they're 2 dogs — isn't it?",
    "naïve 日本語 😀😀 cat",
    "</s> <pad> <|endoftext|>cat<s>",
    "ﬁ Ａ ½ e\u0301",
    "\u2028\u3000 a\tb\r\n",
]
ODD = st.text(st.sampled_from("The cat sät <|endoftext|></s>.'s 2\n\t😀é") | st.characters(codec="utf-8"))


# GPT-2


def write_gpt2(folder):
    """As its authors gave it away: <|endoftext|> has the last id, and is in no merge."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator(ENGLISH, trainer)
    model = json.loads(inner.to_str())["model"]
    size = len(model["vocab"])
    (folder / "vocab.json").write_text(json.dumps(model["vocab"] | {"<|endoftext|>": size}))
    merges = [" ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    return size + 1


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """Ours and theirs: from vocab.json and merges.txt, then from the tokenizer.json that theirs writes."""
    transformers = pytest.importorskip("transformers")

    old, new = tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("new")
    size = write_gpt2(old)
    (old / "config.json").write_text('{"model_type": "gpt2"}')
    peer = transformers.GPT2TokenizerFast.from_pretrained(old)
    peer.save_pretrained(new)
    assert not (new / "merges.txt").exists()
    (new / "config.json").write_text('{"model_type": "gpt2"}')
    special = Special(size - 1, size - 1, size - 1, -1)
    ours = [open_text(Contents(folder), vocabulary=size, special=special) for folder in (old, new)]
    return ours, [peer, transformers.AutoTokenizer.from_pretrained(new)]


@pytest.mark.parametrize("text", [text for text in TEXTS if "<|" not in text])
def test_gpt2_gives_the_ids_of_transformers(gpt2, text):
    for ours, peer in zip(*gpt2, strict=True):
        ids = ours.encode(text)
        assert ids == peer(text)["input_ids"]
        assert ours.encode_batch([text]) == [ids]
        assert ours.decode(ids) == peer.decode(ids, skip_special_tokens=True) == text
        assert ours.decode([*ids, ours.special.end]) == text


@settings(deadline=None, max_examples=100)
@given(text=ODD)
def test_gpt2_gives_any_text_back_and_never_a_special_token(gpt2, text):
    old, new = gpt2[0]
    ids = old.encode(text)
    assert new.encode(text) == ids
    assert old.decode(ids) == new.decode(ids) == new.decode(ids, []) == text
    assert old.special.end not in ids
    assert "<|endoftext|>" in text or ids == gpt2[1][1](text)["input_ids"]
    places = old.encode_words(text)[1]
    assert new.word_of(ids) == places


def test_gpt2_streams(gpt2, monkeypatch):
    monkeypatch.setattr("regard.data.text.tokenizer.PART", 8)
    text = "The cat, the dog.\n\n  They sat <|endoftext|> 2 x " * 20
    for ours in gpt2[0]:
        parts = list(ours.encode_stream(text.splitlines(keepends=True)))
        assert len(parts) > 10
        assert list(chain(*parts)) == ours.encode(text)


def test_gpt2_labels_and_special_tokens(gpt2):
    for ours in gpt2[0]:
        assert ours.tokens([*ours.encode("The cat"), ours.special.end]) == ["The", " cat", "<|endoftext|>"]
        assert ours.special == Special(*[len(ours) - 1] * 3, -1)


def test_a_vocabulary_may_be_larger_than_its_tokenizer(tmp_path):
    size = write_gpt2(tmp_path)
    ours = open_text(Contents(tmp_path), vocabulary=384, special=Special(0, 0, size - 1, -1))
    assert len(ours) == 384
    cat = ours.encode("The cat")
    assert ours.decode([*cat, 383]) == ours.decode([*cat, 383], []) == "The cat"
    assert ours.tokens([383]) == ["<383>"]
    assert ours.word_of([*cat, 383]) == [0, 1, -1]
    with pytest.raises(ValueError, match="0 to 383, got 384"):
        ours.decode([384])
    with pytest.raises(RunError, match=rf"endoftext.* has the id {size - 1}, but .* ends at {size - 2}"):
        open_text(Contents(tmp_path), vocabulary=size - 1, special=Special(0, 0, 0, -1))
    with pytest.raises(RunError, match="the id of end must lie in 0 to 383, got 384"):
        open_text(Contents(tmp_path), vocabulary=384, special=Special(0, 0, 384, -1))


def test_settings_of_others_do_not_cut_or_fill(tmp_path):
    inner = tokenizers.Tokenizer.from_str(Tokenizer.train(ENGLISH, kind="bpe").inner.to_str())
    inner.enable_truncation(2)
    inner.enable_padding(length=50)
    inner.save(str(tmp_path / "tokenizer.json"))
    ours = open_text(Contents(tmp_path), vocabulary=len(inner.get_vocab()), special=Special(0, 1, 2, -1))
    assert ours.decode(ours.encode("The cat sat on the mat")) == "The cat sat on the mat"


def test_a_foreign_tokenizer_of_words(tmp_path):
    """One whose decoder is not ours, and whose unknown token the file names."""
    words = ["[UNK]", "[END]", "▁the", "▁cat", "s"]
    inner = tokenizers.Tokenizer(tokenizers.models.Unigram([(word, -1.0) for word in words], unk_id=0))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    inner.decoder = tokenizers.decoders.Metaspace()
    inner.save(str(tmp_path / "tokenizer.json"))
    ours = open_text(Contents(tmp_path), vocabulary=5, special=Special(1, 1, 1, 0))
    ids = ours.encode("the cats")
    assert (ids, ours.decode(ids), ours.decode(ids, [])) == ([2, 3, 4], "the cats", "the cats")
    assert ours.word_of([*ids, 1]) == [0, 1, 1, -1]
    assert list(chain(*ours.encode_stream(["the", " cats", " the"]))) == ours.encode("the cats the")
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "[END]": 2}, unk_token="[UNK]"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    plain.save(str(tmp_path / "tokenizer.json"))
    ours = open_text(Contents(tmp_path), vocabulary=3, special=Special(2, 2, 2, -1))
    assert ours.special.unknown == 0
    assert ours.decode(ours.encode("a b a")) == "a a"
    assert ours.decode(ours.encode("a b a"), ["b"]) == "a b a"


@pytest.mark.parametrize("numbering", ["regard", "marian", "gpt2"])
@pytest.mark.parametrize("kind", ["character", "word", "space", "bpe"])
def test_transformers_reads_what_we_write(kind, numbering, tmp_path):
    transformers = pytest.importorskip("transformers")

    ours = Tokenizer.train(ENGLISH, kind=kind, numbering=numbering)
    ours.save(tmp_path / "tokenizer.json")
    names = dict(zip(("pad_token", "eos_token"), ours.tokens([ours.special.pad, ours.special.end]), strict=True))
    peer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), **names)
    assert len(peer) == len(ours)
    for text in ("The cat sat on the mat.", "", "a dog , 2 zebras"):
        ids = ours.encode(text)
        assert peer(text)["input_ids"] == ids + ([ours.special.end] if numbering == "marian" else [])
        if ours.special.unknown not in ids:
            assert peer.decode([*ids, ours.special.end], skip_special_tokens=True) == ours.decode(ids)


# Marian


def train_model(texts, size, **options):
    sentencepiece = pytest.importorskip("sentencepiece")

    raw = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=raw,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return raw.getvalue()


def write_marian(folder, **options):
    """A joint table with its own order, and not all pieces in it."""
    sentencepiece = pytest.importorskip("sentencepiece")

    pieces = set()
    for name, texts in (("source.spm", ENGLISH), ("target.spm", GERMAN)):
        raw = train_model(texts, 330 if options else 70, **options)
        (folder / name).write_bytes(raw)
        model = sentencepiece.SentencePieceProcessor(model_proto=raw)
        pieces |= {model.id_to_piece(i) for i in range(3, model.get_piece_size())}
    pieces -= {"café", "2"}
    order = ["</s>", "<unk>", ">>de<<", *sorted(pieces, reverse=True), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(order)}))
    return len(order)


def open_marian(folder, size):
    return open_text(Contents(folder), vocabulary=size, special=Special(size - 1, size - 1, 0, -1))


@pytest.fixture(scope="module", params=["plain", "byte fallback"])
def marian(request, tmp_path_factory):
    transformers = pytest.importorskip("transformers")

    folder = tmp_path_factory.mktemp("marian")
    size = write_marian(folder, **({"byte_fallback": True} if request.param != "plain" else {}))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
        peer = transformers.MarianTokenizer.from_pretrained(folder)
    return open_marian(folder, size), peer


@pytest.mark.parametrize("text", [text for text in TEXTS if "</s>" not in text])
@pytest.mark.parametrize("code", ["", ">>de<< ", ">>xx<<", ">>", ">> a <", "<<>>"])
def test_marian_gives_the_ids_of_transformers(marian, text, code):
    ours, peer = marian
    ids = ours.encode(code + text)
    assert [*ids, 0] == peer(code + text)["input_ids"]
    assert ours.encode_batch([code + text]) == [ids]
    found, places = ours.encode_words(code + text)
    assert (found, len(ours.pieces(code + text))) == (ids, len(ids))
    assert set(places) <= {*range(len((code + text).split())), -1}


@pytest.mark.parametrize("text", [*GERMAN[:3], "  Katze  Haus", "the Katze café 2", ""])
def test_marian_decodes_as_transformers_does(marian, text):
    ours, peer = marian
    ids = [ours.ids.get(piece, 1) for piece in ours.target.encode(text, out_type=str)]
    framed = [ours.special.start, *ids, 0, ours.special.pad]
    assert ours.decode(framed) == peer.decode(framed, skip_special_tokens=True)
    unknown = [piece for piece in ours.target.encode(text, out_type=str) if piece not in ours.ids]
    assert ours.decode(framed, [piece.replace("▁", " ") for piece in unknown]) == " ".join(text.split())


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_marian_decodes_whatever_a_model_writes(marian, data):
    ours, peer = marian
    ids = data.draw(st.lists(st.integers(0, len(ours) - 1), max_size=12))
    text = ours.decode(ids)
    assert text == peer.decode(ids, skip_special_tokens=True)
    unknown = ["u"] * ids.count(1)
    places = ours.word_of(ids)
    assert places == ours.word_of(ids, unknown)
    assert [place for i, place in zip(ids, places, strict=True) if i in ours.silent] == [-1] * sum(
        i in ours.silent for i in ids
    )
    assert max(places, default=-1) < max(1, len(ours.decode(ids, unknown).split()))


@settings(deadline=None, max_examples=100)
@given(text=ODD)
def test_marian_text_is_never_a_special_token(marian, text):
    ours, peer = marian
    ids = ours.encode(text)
    assert not {0, ours.special.pad} & set(ids)
    assert any(name in text for name in ("</s>", "<pad>", "<unk>")) or [*ids, 0] == peer(text)["input_ids"]


def test_marian_words_and_labels(tmp_path):
    ours = open_marian(tmp_path, write_marian(tmp_path))
    ids, places = ours.encode_words(">>de<< The cat 😀 café")
    labels = ours.tokens(ids)
    assert labels[0] == ">>de<<"
    for word, place in (("▁The", 1), ("▁cat", 2)):
        assert "".join(label for label, at in zip(labels, places, strict=True) if at == place) == word
    assert (places[0], places[-1]) == (0, 4)
    assert ours.pieces(">>de<< The cat")[0] == ">>de<<"
    assert "".join(ours.pieces(">>de<< The cat")[1:]) == "Thecat"
    unknown = [piece for i, piece in zip(ids, ours.pieces(">>de<< The cat 😀 café"), strict=True) if i == 1]
    assert "😀" in unknown
    assert ours.unknown_in(">>de<< The cat 😀 café", ids) == tuple(dict.fromkeys(unknown))
    assert ours.unknown_in("The cat", ours.encode("The cat")) == ()
    assert ours.decode(ids[1:], unknown) == "The cat 😀 café"
    with pytest.raises(ValueError, match="one word for each of 1 <unk>, got 0"):
        ours.decode(ids, [])
    with pytest.raises(ValueError, match="ids must lie in 0 to"):
        ours.decode([len(ours)])
    with pytest.raises(ValueError, match="surrogate"):
        ours.encode("\ud800")


def test_marian_needs_its_package(tmp_path, monkeypatch):
    size = write_marian(tmp_path)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(
        RunError, match=r"source\.spm can only be read with sentencepiece: pip install 'regard\[sentencepiece\]'"
    ):
        open_marian(tmp_path, size)


# Files that are not what they should be

GOOD = {"vocab.json": '{"a": 0, "b": 1, "ab": 2}', "merges.txt": "#version: 0.2\na b\n"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (GOOD | {"vocab.json": "{"}, r"vocab\.json is not valid JSON"),
        (GOOD | {"vocab.json": "[" * 100_000}, r"vocab\.json is not valid JSON"),
        (GOOD | {"vocab.json": "[]"}, r"vocab\.json must hold a JSON object"),
        (GOOD | {"vocab.json": "{}"}, r"vocab\.json must hold a JSON object"),
        (GOOD | {"vocab.json": '{"a": "0"}'}, r"vocab\.json: the id of 'a' must be a whole number .* got 0"),
        (GOOD | {"vocab.json": '{"a": true}'}, "whole number .* got True"),
        (GOOD | {"vocab.json": '{"a": -1}'}, "whole number .* got -1"),
        (GOOD | {"vocab.json": '{"a": 1, "b": 1}'}, "'a' and 'b' have the same id, 1"),
        (GOOD | {"vocab.json": '{"a": 99999999999999999999}'}, "ends at 9"),
        (GOOD | {"merges.txt": "a b\nb a\n"}, r"merges\.txt, line 2: 'ba' has no id in vocab\.json"),
        (GOOD | {"merges.txt": "a b b\n"}, r"merges\.txt, line 1: must be two pieces"),
        (GOOD | {"merges.txt": b"\xff"}, r"merges\.txt is not UTF-8"),
        ({"tokenizer.json": "{}"}, r"tokenizer\.json is JSON but describes no tokenizer"),
        ({"tokenizer.json": "["}, r"tokenizer\.json is not JSON"),
        ({"tokenizer.json": "[" * 100_000}, r"tokenizer\.json is not JSON"),
        ({"tokenizer.json": None}, r"tokenizer\.json must be a regular file, and is a directory"),
        ({"vocab.json": '{"a": 0}', "source.spm": "", "target.spm": ""}, r"vocab\.json must have an id for <unk>"),
        (
            {"vocab.json": '{"<unk>": 0}', "source.spm": "x", "target.spm": ""},
            r"source\.spm is not a SentencePiece",
        ),
        ({"vocab.json": '{"<unk>": 0}', "source.spm": "", "target.spm": ""}, r"source\.spm is not a SentencePiece"),
        (
            {"vocab.json": '{"<unk>": 0}', "source.spm": "", "target.spm": "", "target_vocab.json": "{}"},
            r"target_vocab\.json: separate vocabularies",
        ),
    ],
)
def test_broken_files_are_named(tmp_path, files, message):
    for name, content in files.items():
        if content is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RunError, match=message):
        open_text(Contents(tmp_path), vocabulary=10, special=Special(0, 0, 0, -1))


# Vocabularies that do not fit their model


def test_a_tokenizer_must_name_most_ids_of_its_model(tmp_path, capsys):
    """Embeddings padded to a round number are usual; one entry short is told of, and most of them are refused."""
    size = write_gpt2(tmp_path)
    special = Special(*[size - 1] * 3, -1)
    for vocabulary in (size, size + -size % 64, size + -size % 128):
        open_text(Contents(tmp_path), vocabulary=vocabulary, special=special)
    assert not capsys.readouterr().err
    odd = size + 1 if size % 2 == 0 else size + 2
    open_text(Contents(tmp_path), vocabulary=odd, special=special)
    said = (
        f"{tmp_path / 'vocab.json'} names {size} of the model's {odd} ids; if a line or an entry is missing, texts"
    )
    assert capsys.readouterr().err.startswith(said)
    with pytest.raises(RunError, match=rf"vocab\.json names {size} of the model's 1,024 ids; it is incomplete, or"):
        open_text(Contents(tmp_path), vocabulary=1024, special=special)
    Tokenizer.train(["a"], kind="word", numbering="gpt2").save(tmp_path / "tokenizer.json")
    with pytest.raises(RunError, match=r"tokenizer\.json names 3 of the model's 591 ids"):
        open_text(Contents(tmp_path), vocabulary=591, special=Special(0, 0, 0, -1))


@pytest.mark.parametrize("lines", [0, 1, 10])
def test_merges_must_make_the_pieces(lines, tmp_path):
    size = write_gpt2(tmp_path)
    path = tmp_path / "merges.txt"
    path.write_text("\n".join(path.read_text().splitlines()[:lines]))
    made = max(lines - 1, 0)
    with pytest.raises(
        RunError, match=rf"merges\.txt has {made} merges, which make {made} of the {size - 257} longer"
    ):
        open_text(Contents(tmp_path), vocabulary=size, special=Special(*[size - 1] * 3, -1))


def test_characters_need_no_merges(tmp_path):
    letters = {letter: place for place, letter in enumerate("abcĠ")} | {"<|endoftext|>": 4, "[HUMAN]": 5}
    (tmp_path / "vocab.json").write_text(json.dumps(letters))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    assert open_text(Contents(tmp_path), vocabulary=6, special=Special(4, 4, 4, -1)).encode("ab c") == [0, 1, 3, 2]


def test_two_pieces_may_not_share_an_id(tmp_path):
    described = json.loads(Tokenizer.train(["ab"], kind="character", numbering="gpt2").inner.to_str())
    described["model"]["vocab"]["b"] = described["model"]["vocab"]["a"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(RunError, match=r"tokenizer\.json: '[ab]' and '[ab]' have the same id, 2"):
        open_text(Contents(tmp_path), vocabulary=4, special=Special(0, 0, 0, -1))


def test_files_of_any_size_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign, "LARGEST_TOKENIZER", 100)
    (tmp_path / "tokenizer.json").write_text(" " * 101)
    with pytest.raises(RunError, match=r"tokenizer\.json has 101 bytes, and at most 100 are read"):
        open_text(Contents(tmp_path), vocabulary=10, special=Special(0, 0, 0, -1))


@pytest.mark.parametrize("files", [{}, {"vocab.json": "{}"}])
def test_without_files_only_text_is_refused(tmp_path, files):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    found = open_text(Contents(tmp_path), vocabulary=10, special=Special(0, 0, 0, -1))
    for ask in (len, lambda x: x.encode("a"), lambda x: x.decode([1]), lambda x: x.special, lambda x: x.inner):
        with pytest.raises(RunError, match=r"holds no tokenizer; it needs tokenizer\.json"):
            ask(found)
    assert "holds no tokenizer" in repr(found)
