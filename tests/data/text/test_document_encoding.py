"""Documents of sentences of words: limits, ragged batches, and how much of them is padding."""

from itertools import chain

import numpy as np
import pytest
import torch

from regard.data.text.document_encoding import DocumentEncoding, cut_rows
from regard.data.text.labelled_texts import LabelledData
from regard.data.text.text_encoding import PairEncoding, PlainEncoding, sentences_of
from regard.data.text.tokenizer import Tokenizer

TEXTS = ["The cat sat. It was fat, not thin!", "A dog barked.\nAt whom? Nobody knows."]
WORDS = Tokenizer.train(TEXTS, kind="word", lowercase=True)
BPE = Tokenizer.train(TEXTS * 9, kind="bpe", size=300)
WORDPIECE = Tokenizer.train(TEXTS, kind="wordpiece", numbering="bert", size=60, lowercase=True)


def make(**changes):
    return DocumentEncoding(**{"max_sentences": 8, "max_words": 8} | changes)


def read(text, encoding=None, tokenizer=WORDS, truncate=100):
    (row, truncated), = (encoding or make()).rows([(text, "")], tokenizer, truncate)  # fmt: skip
    return [tokenizer.tokens(ids) for ids in sentences_of(row)], truncated


def test_a_text_becomes_sentences_of_words_without_spaces():
    wanted = [["the", "cat", "sat", "."], ["it", "was", "fat", ",", "not", "thin", "!"]]
    assert read(TEXTS[0]) == (wanted, False)
    assert read(TEXTS[0], PlainEncoding()) == ([wanted[0] + wanted[1]], False)
    assert read("The zebra sat.")[0] == [["the", "<unk>", "sat", "."]]


@pytest.mark.parametrize("tokenizer", [WORDS, BPE, WORDPIECE], ids=["word", "bpe", "wordpiece"])
@pytest.mark.parametrize(
    "encoding", [make(), make(max_words=3), PlainEncoding()], ids=["sentences", "short", "plain"]
)
def test_the_pieces_of_a_text_are_those_of_its_row(tokenizer, encoding):
    for text in (*TEXTS, "Zebra 象 ...  \n\nWhom?", ""):
        ((ids, parts), _), = encoding.rows([(text, "")], tokenizer, 10)  # fmt: skip
        pieces = list(encoding.pieces(text, tokenizer))[: len(ids)]
        assert len(pieces) == len(ids) == len(parts)
        assert "".join(text.split()).startswith("".join(pieces).replace(" ", "")[:3])


def test_white_space_is_left_out_only_where_words_are_words_without_it():
    assert {WORDS.tokens([one])[0] for one in WORDS.white_space} == {" ", "\n"}
    characters = Tokenizer.train(TEXTS, kind="character")
    assert [tokenizer.white_space for tokenizer in (BPE, WORDPIECE, characters)] == [frozenset()] * 3
    assert "".join(read("A cat", tokenizer=characters)[0][0]) == "A cat"


def test_limits():
    long = " ".join(["cat"] * 20) + ". It sat. The dog barked."
    assert [len(part) for part in read(long)[0]] == [8, 8, 5, 3, 4]  # the endless sentence becomes three
    assert not read(long)[1]
    few, truncated = read(long, make(max_sentences=4))
    assert ([len(part) for part in few], truncated) == ([8, 8, 5, 3], True)
    short, truncated = read(long, truncate=10)
    assert ([len(part) for part in short], truncated) == ([8, 2], True)
    assert read("cat " * 8, make(max_sentences=1)) == ([["cat"] * 8], False)
    assert make().limits(10) == "10 tokens and 8 sentences"


@pytest.mark.parametrize("text", ["", " ", "\n\n", "<br />"])
def test_an_empty_document_has_no_sentence(text):
    assert read(text) == ([], False)


def documents(count=60, most=6):
    dice = np.random.default_rng(0)
    return [[[4] * int(dice.integers(1, 9)) for _ in range(dice.integers(0, most + 1))] for _ in range(count)]


def test_a_batch_holds_every_sentence_once():
    given = documents()
    encoding = make()
    batch = encoding.batch([encoding.row(document, 999)[0] for document in given], WORDS.special)
    lengths = batch.mask.sum(1)
    assert (lengths.diff() <= 0).all()
    assert len(batch.tokens) == sum(map(len, given))
    for row, document in enumerate(given):
        rows = batch.sentences[row][batch.document_mask[row]]
        assert [batch.tokens[i][batch.mask[i]].tolist() for i in rows] == document
    empty = encoding.batch([([], []), ([], [])], WORDS.special)
    assert [x.shape for x in empty.tensors().values()] == [(1, 1), (1, 1), (2, 1), (2, 1)]
    assert not empty.mask.any()
    assert not empty.document_mask.any()


def test_rows_are_cut_where_padding_costs_more():
    assert cut_rows([], 5) == []
    assert cut_rows([9, 9, 9], 0) == [(0, 3)]
    assert cut_rows([9, 5, 4, 1], 4) == [(0, 2), (2, 4)]
    assert cut_rows([9, 5, 4, 1], 99) == [(0, 4)]


def test_data_in_order_and_how_much_is_padding():
    encoding = make()
    rows = [(*encoding.row(document, 999), at % 3) for at, document in enumerate(documents())]

    def data(seed=1, kind=encoding):
        return LabelledData(iter(rows), encoding=kind, special=WORDS.special, batch_tokens=64, seed=seed)

    made = data()
    assert sorted(row for item in made.order(0) for row in item) == list(range(60))
    assert all(np.array_equal(a, b) for a, b in zip(made.order(3), data().order(3), strict=True))
    assert [list(item) for item in made.order(0)] != [list(item) for item in data(2).order(0)]
    for item in made.order(0)[:5]:
        batch = made.batch(item)
        assert batch.labels.tolist() == [row % 3 for row in item]
        assert batch.labels.dtype == batch.tokens.dtype == batch.sentences.dtype == torch.int64
    assert made.row(7) == rows[7][0]
    assert 0 < made.in_vain() < 0.4
    assert 0 <= data(kind=PlainEncoding()).in_vain() < 0.2


@pytest.mark.parametrize("encoding", [make(), PlainEncoding()], ids=["sentences", "plain"])
def test_batches_of_few_shapes_hold_the_same_texts(encoding):
    given = documents(600, most=40)
    rows = [(make().row(document, 999)[0], False, at % 3) for at, document in enumerate(given)]

    def data(few_shapes):
        return LabelledData(
            iter(rows), encoding=encoding, special=WORDS.special, batch_tokens=512, seed=1, few_shapes=few_shapes
        )

    plain, few = data(False), data(True)
    shapes = [set(), set()]
    for item in chain.from_iterable(map(few.order, range(5))):
        before, after = plain.batch(item), few.batch(item)
        assert after.counted.tolist() == [place < len(item) for place in range(len(after.labels))]
        assert after.labels[: len(item)].tolist() == [row % 3 for row in item]
        for name, tensor in before.tensors().items():
            grown = getattr(after, name)
            inside = tuple(slice(size) for size in tensor.shape)
            assert torch.equal(grown[inside], tensor)
            assert int((grown != 0).sum()) == int((tensor != 0).sum())
        for found, batch in zip(shapes, (before, after), strict=True):
            found.add(tuple(tensor.shape for tensor in batch.tensors().values()))
    assert len(shapes[1]) < 2 / 3 * len(shapes[0])
    assert max(shape[0][1] for shape in shapes[1]) == max(
        shape[0][1] for shape in shapes[0]
    )  # not beyond the limits


def test_pairs_of_texts_have_few_shapes_too():
    encoding = PairEncoding(segments=2, max_positions=20)
    batch = encoding.batch([([4, 5], [0, 0])] * 3 + [([4] * 7, [0] * 7)], WORDPIECE.special)
    rounded = encoding.rounded(batch, batch_tokens=64, most=9)
    (rows, length), (count, longest) = rounded.tokens.shape, batch.tokens.shape
    assert length <= 9
    assert torch.equal(rounded.tokens[:count, :longest], batch.tokens)
    assert rounded.counted.tolist() == [True] * count + [False] * (rows - count)
    assert rounded.mask[:count].sum() == batch.mask.sum()
    assert rounded.mask[:, 0].all()
