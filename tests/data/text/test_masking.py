"""Rows for masked words and following sentences: how often, what, and from where."""

import numpy as np
import pytest
import torch

from regard.data.text import masking
from regard.data.text.documents import read_documents, read_sentences
from regard.data.text.masking import MaskedData, encode_sentences, ordinary_ids
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.wordpiece import NAMES, word_pieces

TOKENIZER = Tokenizer.train(["abc abd bcd cab dab abcd badcab"] * 50, kind="wordpiece", size=40, numbering="bert")
SPECIAL = TOKENIZER.special
FIRST = 5  # the first ordinary id


def make(documents, *, length=64, batch_tokens=4096, seed=1, tokenizer=TOKENIZER, **options):
    return MaskedData(
        documents, tokenizer=tokenizer, length=length, batch_tokens=batch_tokens, seed=seed, **options
    )


def counting(size):
    """A tokenizer of so many ids, of which every third begins a word: its texts can be told by their numbers."""
    pieces = [*NAMES, *(f"{'##' if i % 3 else ''}{i}" for i in range(FIRST, size))]
    return Tokenizer(word_pieces({piece: i for i, piece in enumerate(pieces)}, lowercase=True), SPECIAL)


def numbered(counts, sizes=(3, 12)):
    """Documents of so many sentences. The ids count up, with a gap between documents; and a tokenizer for them."""
    generator, documents, place = np.random.default_rng(0), [], FIRST
    for count in counts:
        sentences = []
        for size in generator.integers(*sizes, size=count):
            sentences.append(list(range(place, place + int(size))))
            place += int(size)
        documents.append(sentences)
        place += 1
    return documents, counting(place)


def rows_of(data, epoch=0):
    """(A, B, follows, the batch, its row) of every row, by what truly stands there."""
    for item in data.order(epoch):
        batch = data.batch(item)
        for row in range(len(batch.tokens)):
            real, parts = (side[row][batch.mask[row]].tolist() for side in (batch.targets, batch.segments))
            assert real[0] == SPECIAL.start
            assert real[-1] == SPECIAL.end
            border = parts.count(0)
            assert parts == [0] * border + [1] * (len(parts) - border)
            first, second = real[1 : border - 1], real[border:-1]
            assert real[border - 1] == SPECIAL.end
            yield first, second, None if batch.follows is None else int(batch.follows[row]), batch, row


@pytest.fixture(scope="module")
def large():
    """Some 300,000 tokens, all batches of one epoch."""
    generator = np.random.default_rng(0)
    words = ordinary_ids(TOKENIZER)
    documents = [
        [generator.choice(words, generator.integers(4, 20)).tolist() for _ in range(generator.integers(2, 40))]
        for _ in range(1250)
    ]
    data = make(documents, length=128, batch_tokens=8192)
    assert data.tokens > 280_000
    return data, [data.batch(item) for item in data.order(0)]


def test_the_proportions_on_a_large_sample(large):
    _, batches = large
    real = chosen = hidden = swapped = kept = 0
    for batch in batches:
        ordinary = batch.mask & (batch.targets >= FIRST)
        at = batch.predicted
        assert not (at & ~ordinary).any()
        assert torch.equal(batch.tokens[~at], batch.targets[~at])
        counts = (0.15 * ordinary.sum(1)).round().clamp(min=1)
        assert torch.equal(at.sum(1).float(), counts)  # in every row, to the token
        real, chosen = real + int(ordinary.sum()), chosen + int(at.sum())
        is_hidden, is_kept = batch.tokens == SPECIAL.mask, batch.tokens == batch.targets
        assert not (is_hidden & ~at).any()
        hidden, kept = hidden + int((at & is_hidden).sum()), kept + int((at & is_kept).sum())
        swapped += int((at & ~is_hidden & ~is_kept).sum())
        assert (batch.tokens[at & ~is_hidden] >= FIRST).all()
    assert real > 200_000
    assert chosen / real == pytest.approx(0.15, abs=0.003)
    # Of those drawn at random, one in 35 is by chance what stood there.
    same = 0.1 / len(ordinary_ids(TOKENIZER))
    assert hidden / chosen == pytest.approx(0.8, abs=0.006)
    assert kept / chosen == pytest.approx(0.1 + same, abs=0.005)
    assert swapped / chosen == pytest.approx(0.1 - same, abs=0.005)


def test_every_second_pair_is_from_elsewhere(large):
    follows = torch.cat([batch.follows for batch in large[1]])
    assert len(follows) > 3000
    assert set(follows.tolist()) == {0, 1}
    assert follows.float().mean() == pytest.approx(0.5, abs=0.03)


def test_places_and_random_tokens_are_drawn_evenly(large):
    data, batches = large
    at, drawn = torch.zeros(128), torch.zeros(len(TOKENIZER))
    full = 0
    for batch in batches:
        whole = batch.mask.sum(1) == 128
        if batch.mask.shape[1] == 128:
            at, full = at + batch.predicted[whole].sum(0), full + int(whole.sum())
        swapped = batch.predicted & (batch.tokens != SPECIAL.mask) & (batch.tokens != batch.targets)
        drawn += torch.bincount(batch.tokens[swapped], minlength=len(TOKENIZER))
    assert at[0] == at[127] == 0
    # One place in 125 is [SEP], here or there; and no place is asked for more often than chance has it.
    assert full > 1000
    assert (abs(at[3:125] / full - 19 / 126) < 5 * (0.15 * 0.85 / full) ** 0.5).all()
    assert drawn[:FIRST].sum() == 0
    even = drawn.sum() / len(data.ordinary)
    assert (abs(drawn[FIRST:] - even) < 6 * even**0.5).all()


COUNTS = [30, 2, 1, 45, 7, 3, 60, 2, 19] * 4


def test_what_follows_follows_and_what_does_not_is_from_another_document(monkeypatch):
    monkeypatch.setattr(masking, "SHORT", 0.0)
    documents, tokenizer = numbered(COUNTS)
    data = make(documents, tokenizer=tokenizer)
    number_of = {i: number for number, document in enumerate(documents) for ids in document for i in ids}
    starts = {ids[0] for document in documents for ids in document}
    ends = {ids[-1] for document in documents for ids in document}
    seen, uncut = set(), 0
    for first, second, follows, *_ in (row for epoch in range(4) for row in rows_of(data, epoch)):
        assert first == list(range(first[0], first[-1] + 1))
        assert second == list(range(second[0], second[-1] + 1))
        assert len(first) + len(second) <= 61
        seen |= {*first, *second}
        one, other = ({number_of[i] for i in part} for part in (first, second))
        assert len(one) == len(other) == 1
        assert (one != other) == follows
        assert follows or first[-1] < second[0]
        if len(first) + len(second) < 61:  # there was room for all
            assert {first[0], second[0]} <= starts
            assert {first[-1], second[-1]} <= ends
            assert follows or second[0] == first[-1] + 1
            uncut += 1
    assert uncut > 50
    texts = {i for document in documents if len(document) > 1 for ids in document for i in ids}
    assert seen <= texts  # a document of one sentence is left out
    assert len(seen) > 0.95 * len(texts)  # of the others, what was cut off


def test_both_sorts_are_as_likely_in_documents_of_any_length():
    """Where the last sentence is alone, too: a document's length must not tell."""
    documents, tokenizer = numbered([2] * 4000)
    told = [follows for *_, follows, _, _ in rows_of(make(documents, tokenizer=tokenizer))]
    assert len(told) > 4000
    assert np.mean(told) == pytest.approx(0.5, abs=0.03)


def test_what_is_too_long_is_cut_at_both_ends_of_the_longer_part(monkeypatch):
    monkeypatch.setattr(masking, "SHORT", 0.0)
    documents, tokenizer = numbered([40] * 40, sizes=(20, 30))
    starts = {ids[0] for document in documents for ids in document}
    ends = {ids[-1] for document in documents for ids in document}
    fronts, backs, rows = [], [], list(rows_of(make(documents, tokenizer=tokenizer)))
    for first, second, *_ in rows:
        if len(first) + len(second) == 61:
            for part, other in ((first, second), (second, first)):
                fronts.append(part[0] not in starts)
                backs.append(part[-1] not in ends)
                # What is shorter than the other was not touched, but for the last token of a tie.
                assert len(part) >= len(other) - 1 or not (fronts[-1] or backs[-1])
    assert len(fronts) > 1000
    assert 0.1 < np.mean(fronts) < 0.9
    assert np.mean(fronts) == pytest.approx(np.mean(backs), abs=0.05)


def test_some_rows_are_short(monkeypatch):
    documents, tokenizer = numbered([60] * 60)

    def short():
        return np.mean([len(first) + len(second) < 50 for first, second, *_ in rows_of(data)])

    data = make(documents, tokenizer=tokenizer)
    some = short()
    monkeypatch.setattr(masking, "SHORT", 0.0)
    assert 0.04 < some - short() < 0.14  # the others stand at a document's end


def test_a_sentence_longer_than_half_a_row_is_cut_in_two():
    documents = [[list(range(FIRST, FIRST + 1000))], [list(range(2000, 2500))]]
    data = make(documents, tokenizer=counting(3000), length=35)
    assert data.tokens == 1500
    assert data.sentences.lengths().max() == 16
    assert sum(follows == 0 for *_, follows, _, _ in rows_of(data)) > 10


def test_one_document_alone_gives_something_from_far_away():
    [document], tokenizer = numbered([200])
    sentence = {i: number for number, ids in enumerate(document) for i in ids}
    data, told = make([document], tokenizer=tokenizer), []
    for epoch in range(10):
        for first, second, follows, *_ in rows_of(data, epoch):
            told.append(follows)
            assert not set(first) & set(second)
            if follows:  # as if the document were a ring
                assert (sentence[second[0]] - sentence[first[-1]]) % 200 > 30
                assert (sentence[first[0]] - sentence[second[-1]]) % 200 > 20
    assert np.mean(told) == pytest.approx(0.5, abs=0.06)


def test_the_smallest_document_alone(monkeypatch):
    monkeypatch.setattr(masking, "SHORT", 0.0)
    data, told = make([[[5, 6], [7, 8], [9, 10], [11, 12]]]), set()
    for epoch in range(50):
        for first, second, follows, *_ in rows_of(data, epoch):
            assert (second[0] != first[-1] + 1) == follows
            assert not set(first) & set(second)
            told.add(follows)
    assert told == {0, 1}


def test_the_same_seed_gives_the_same_batches_and_epochs_differ(large):
    documents, tokenizer = numbered(COUNTS)

    def batches(seed, epoch, **options):
        data = make(documents, tokenizer=tokenizer, seed=seed, **options)
        return [data.batch(item) for item in data.order(epoch)]

    for options in ({}, {"pairs": False}, {"whole_words": True}):
        one, again = batches(3, 2, **options), batches(3, 2, **options)
        for a, b in zip(one, again, strict=True):
            for name in vars(a):
                assert getattr(a, name) is getattr(b, name) is None or torch.equal(
                    getattr(a, name), getattr(b, name)
                )
        for other in (batches(3, 1, **options), batches(4, 2, **options)):
            texts, others = ([row for b in side for row in b.targets.tolist()] for side in (one, other))
            assert sum(row in others for row in texts) < len(texts) / 2
    # A batch does not hang on those asked for before it; and the same row hides other words in another epoch.
    data, first = large
    item = data.order(0)[3]
    assert torch.equal(data.batch(item).tokens, first[3].tokens)
    later = data.batch((1, *item[1:]))
    assert torch.equal(later.targets, first[3].targets)
    assert (later.predicted & first[3].predicted).sum() < 0.3 * later.predicted.sum()


def test_batches_keep_to_their_size_and_hold_every_row_once():
    documents, tokenizer = numbered(COUNTS)
    data = make(documents, tokenizer=tokenizer, batch_tokens=640)
    items = data.order(5)
    spans = np.concatenate([item[2] for item in items])
    assert len(np.unique(spans, axis=0)) == len(spans)
    for item in items:
        batch = data.batch(item)
        assert batch.tokens.numel() <= 640
        assert batch.mask[:, 0].all()
        assert (batch.tokens[~batch.mask] == SPECIAL.pad).all()
        assert (batch.segments[~batch.mask] == 0).all()
        assert not batch.predicted[~batch.mask].any()


def test_without_pairs_rows_are_whole_sentences():
    documents, tokenizer = numbered(COUNTS)
    data = make(documents, tokenizer=tokenizer, pairs=False)
    starts = {ids[0] for document in documents for ids in document}
    ends = {ids[-1] for document in documents for ids in document}
    seen, sizes = [], []
    for item in data.order(0):
        batch = data.batch(item)
        assert batch.follows is None
        assert not batch.segments.any()
        for row, mask in zip(batch.targets, batch.mask, strict=True):
            ids = row[mask].tolist()
            assert (ids[0], ids[-1]) == (SPECIAL.start, SPECIAL.end)
            assert ids[1] in starts
            assert ids[-2] in ends
            seen += ids[1:-1]
            sizes.append(len(ids))
    assert max(sizes) <= 64
    assert sorted(seen) == [i for document in documents for ids in document for i in ids]  # each once


def test_whole_words_are_chosen_whole():
    documents, tokenizer = numbered([20] * 60)
    data = make(documents, tokenizer=tokenizer, length=128, whole_words=True)
    hidden = some = chosen = real = 0
    for item in data.order(0):
        batch = data.batch(item)
        for ids, at, tokens in zip(
            batch.targets.tolist(), batch.predicted.tolist(), batch.tokens.tolist(), strict=True
        ):
            real += sum(i >= FIRST for i in ids)
            chosen += sum(at)
            for place in range(1, len(ids)):
                if ids[place] >= FIRST and ids[place] % 3 and ids[place - 1] == ids[place] - 1:
                    assert at[place] == at[place - 1]  # pieces of one word share their lot
                    hidden += at[place] and tokens[place] == tokens[place - 1] == SPECIAL.mask
                    some += at[place] and (tokens[place] == SPECIAL.mask) != (tokens[place - 1] == SPECIAL.mask)
            count, least = sum(at), max(1, round(0.15 * sum(i >= FIRST for i in ids)))
            assert least <= count <= least + 2
    assert chosen / real == pytest.approx(0.16, abs=0.012)
    # But each piece is hidden, swapped or kept for itself.
    assert some / (hidden + some) == pytest.approx(0.32 / 0.96, abs=0.05)


def test_unknown_words_are_not_asked_for():
    text = [[1, 6, 7], [8, 1, 9, 10], [1, 1, 1]]
    data = make([text, text])
    for item in (item for epoch in range(20) for item in data.order(epoch)):
        batch = data.batch(item)
        assert not (batch.predicted & (batch.targets == SPECIAL.unknown)).any()
        asked = (batch.targets >= FIRST).any(1)
        assert torch.equal(batch.predicted.any(1), asked)


def test_a_batch_moves_whole():
    data = make([[[5, 6], [7, 8], [9]]] * 3)
    batch = data.batch(data.order(0)[0]).to("meta")
    assert {getattr(batch, name).device.type for name in vars(batch)} == {"meta"}
    lone = make([[[5, 6]]], pairs=False)
    assert lone.batch(lone.order(0)[0]).to("meta").follows is None


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        ([], {}, "at least one document with two sentences; choose longer documents"),
        ([[[5, 6]], [[7]]], {}, "at least one document with two sentences"),
        ([[]], {"pairs": False}, "at least one document with tokens in it"),
        (
            [[[5], [6], [7]]],
            {},
            "one document, of 3 sentences; there must be two documents, or one of at least four",
        ),
        ([[[5], [6]]], {"length": 4}, "length must be at least 5, got 4"),
        ([[[5], [6]]], {"mask_probability": 1.0}, r"mask_probability must lie in \(0, 1\), got 1.0"),
        ([[[5], [6]]], {"batch_tokens": 0}, "batch_tokens must be at least 1"),
        (
            [[[5], [6]]],
            {"tokenizer": Tokenizer.train(["a b"], kind="word")},
            r"no mask token; wordpiece tokenizers have one, \[MASK\]",
        ),
    ],
)
def test_what_is_wrong_is_said(documents, options, message):
    with pytest.raises(ValueError, match=message):
        make(documents, **options)


# Sentences


def sentences(*documents):
    return [list(found) for found in read_sentences(iter(document) for document in documents)]


def test_lines_are_sentences_where_there_are_several():
    assert sentences(["One. Two\n\n", "thr", "ee four\n  \nfi", "ve"]) == [["One. Two", "three four", "five"]]
    assert sentences(["a\nb"], [""], ["c\n"]) == [["a", "b"], [], ["c"]]


def test_a_full_stop_that_stands_alone_ends_a_sentence():
    wiki = " = Lobster = \n It is a lobster . It grows to 60 cm ( 24 in ) . H. americanus is blue ! \n"
    assert sentences([wiki]) == [
        ["= Lobster =", "It is a lobster .", "It grows to 60 cm ( 24 in ) .", "H. americanus is blue !"]
    ]


def test_one_line_is_split_before_capitals_and_quotes():
    line = 'He came. "Why?" she said. He (Mr. X) paid 3.5 dollars... and left! Ärger. so it ended. “Fin.” Done'
    assert sentences([line]) == [
        [
            "He came.",
            '"Why?" she said.',
            "He (Mr.",  # a simple rule
            "X) paid 3.5 dollars... and left!",
            "Ärger. so it ended.",
            "“Fin.”",
            "Done",
        ]
    ]
    assert sentences(["No end"], ["Two . words"]) == [["No end"], ["Two .", "words"]]


def test_sentences_are_read_as_they_come():
    def chunks():
        yield "a\nb\n"
        yield "c"
        raise AssertionError("read too far")

    found = next(read_sentences([chunks()]))
    assert [next(found), next(found)] == ["a", "b"]


def test_documents_of_a_file_are_encoded(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("abc abd\nbcd\n\n\ncab\n\x7f\n\n\x7f\n", encoding="utf-8")
    found = encode_sentences(read_documents(path, documents="blank"), TOKENIZER)
    assert [[list(ids) for ids in (rows[i] for i in range(len(rows)))] for rows in found] == [
        [TOKENIZER.encode("abc abd"), TOKENIZER.encode("bcd")],
        [TOKENIZER.encode("cab")],
    ]
    assert make(found, pairs=False).tokens == len(TOKENIZER.encode("abc abd bcd cab"))
