import errno
import os
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text import windows as windows_module
from regard.data.text.documents import read_documents
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.windows import TextBatch, TextData, encode_documents, windows

END = 2
texts = st.lists(st.integers(END, 6), min_size=1, max_size=60).map(lambda ids: np.array(ids, np.int32))


class Letters:
    """A tokenizer as stream.py asks for one: a letter a token, from 10 on."""

    special = Special(0, 1, END, -1)

    def split_stream(self, chunks):
        return chunks

    def encode(self, text):
        return [ord(letter) - ord("a") + 10 for letter in text]


def documents():
    return iter([iter(["ab", "c"]), iter([]), iter(["", "d"])])


IDS = [10, 11, 12, END, END, 13, END]


def test_an_end_follows_every_document(tmp_path):
    ids = encode_documents(documents(), Letters(), folder=tmp_path / "none", budget=4 * len(IDS))
    assert ids.tolist() == IDS
    assert ids.dtype == np.int32
    assert not isinstance(ids, np.memmap)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("characters", [1, 2, 100])
def test_documents_are_tokenised_in_parts_of_about_so_many_characters(tmp_path, monkeypatch, characters):
    monkeypatch.setattr(windows_module, "PART", characters)
    ids = encode_documents(documents(), Letters(), folder=tmp_path / "none", budget=4 * len(IDS))
    assert ids.tolist() == IDS
    parts = list(windows_module._parts(documents(), Letters()))
    assert [part for each in parts for part in each] == ["ab", "c", None, None, "", "d", None]
    assert len(parts) == {1: 7, 2: 4, 100: 1}[characters]


@pytest.mark.parametrize("kind", ["character", "bpe"])
@pytest.mark.parametrize("budget", [1, 10**6])
def test_from_a_file_to_ids_and_back(tmp_path, kind, budget):
    lines = ["To be, or not to be:", "", "that is the question."] * 5
    path = tmp_path / "text"
    path.write_text("\n".join(lines) + "\n")
    tokenizer = Tokenizer.train(lines, kind=kind)
    found = read_documents(path, documents="line")
    ids = encode_documents(found, tokenizer, folder=tmp_path, budget=budget)
    expected = [id for line in lines for id in (*tokenizer.encode(line), tokenizer.special.end)]
    assert ids.tolist() == expected


@pytest.mark.parametrize("write", [1, 3, 100])
@pytest.mark.parametrize("budget", [1, 4 * len(IDS) - 1])
def test_beyond_the_budget_ids_lie_in_a_file(tmp_path, monkeypatch, budget, write):
    monkeypatch.setattr(windows_module, "WRITE", write)
    folder = tmp_path / "new" / "text"
    ids = encode_documents(documents(), Letters(), folder=folder, budget=budget)
    assert ids.tolist() == IDS
    assert isinstance(ids, np.memmap)
    assert os.listdir(folder) == [windows_module.FILE]
    data = TextData(ids, length=3, batch_tokens=3, seed=0, end=END)
    assert data.batch(np.array([2])).tokens.tolist() == [IDS[2:6]]
    assert encode_documents([["a"]], Letters(), folder=folder, budget=100).tolist() == [10, END]
    assert os.listdir(folder) == []  # it was of no more use


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device; the text takes 4 bytes per token"):
        encode_documents(documents(), Letters(), folder=tmp_path, budget=1)
    assert os.listdir(tmp_path) == []


def test_an_error_among_the_documents_leaves_nothing(tmp_path):
    def broken():
        yield ["abc"]
        raise ValueError("line 2 is not UTF-8")

    with pytest.raises(ValueError, match="line 2"):
        encode_documents(broken(), Letters(), folder=tmp_path, budget=1)
    assert os.listdir(tmp_path) == []


def test_no_documents_and_no_budget_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there must be at least one document"):
        encode_documents([], Letters(), folder=tmp_path, budget=100)
    with pytest.raises(ValueError, match="budget must be at least 1 byte, got 0"):
        encode_documents(documents(), Letters(), folder=tmp_path, budget=0)


def numbered(count, **options):
    options = {"length": 8, "batch_tokens": 32, "seed": 0, "end": -1} | options
    return TextData(np.arange(count, dtype=np.int32), **options)


def same(left, right):
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@settings(deadline=None)
@given(
    count=st.integers(2, 200),
    length=st.integers(1, 40),
    batch_tokens=st.integers(1, 200),
    seed=st.integers(0, 9),
    epoch=st.integers(0, 9),
)
def test_an_epoch_has_every_full_window_once(count, length, batch_tokens, seed, epoch):
    data = numbered(count, length=length, batch_tokens=batch_tokens, seed=seed)
    order, length = data.order(epoch), min(length, count - 1)
    assert same(order, data.order(epoch))
    assert same(order, numbered(count, length=length, batch_tokens=batch_tokens, seed=seed).order(epoch))
    rows = max(1, batch_tokens // length)
    assert all(len(starts) == rows for starts in order[:-1])
    assert 1 <= len(order[-1]) <= rows
    batches = [data.batch(starts) for starts in order]
    fed = torch.cat([batch.tokens[:, :-1].flatten() for batch in batches]).sort().values
    said = torch.cat([batch.tokens[:, 1:].flatten() for batch in batches]).sort().values
    assert torch.equal(said, fed + 1)
    # One stretch without gaps, each id once; less than a window is left out before it and behind it.
    assert torch.equal(fed, torch.arange(int(fed[0]), int(fed[-1]) + 1))
    assert fed[0] < length
    assert count - 1 - said[-1] < length
    for batch in batches:
        assert batch.tokens.dtype == torch.long
        assert batch.counted.dtype == torch.bool
        assert batch.counted.shape == batch.tokens[:, 1:].shape
        assert batch.counted.all()
        assert batch.since is None


def test_epochs_and_seeds_differ():
    data = numbered(1000)
    orders = [data.order(epoch) for epoch in range(20)] + [numbered(1000, seed=1).order(0)]
    assert all(not same(orders[0], other) for other in orders[1:])
    offsets = {min(starts.min() for starts in order) for order in orders}
    assert len(offsets) > 5  # of 8: windows fall elsewhere
    assert len(data) == 1000


def test_a_short_text_is_one_window():
    data = numbered(5)
    [starts] = data.order(3)
    assert data.batch(starts).tokens.tolist() == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (1, {}, "at least 2 tokens, an input and one to predict, got 1"),
        (9, {"length": 0}, "length must be at least 1, got 0"),
        (9, {"batch_tokens": 0}, "batch_tokens must be at least 1"),
        (9, {"seed": -1}, "seed must not be negative"),
    ],
)
def test_settings_of_the_data_are_checked(count, options, message):
    with pytest.raises(ValueError, match=message):
        numbered(count, **options)


def check_since(batch):
    """Against the definition: the last end token fed so far opens the document, else it is cut at the left."""
    for row, since in zip(batch.tokens[:, :-1].tolist(), batch.since.tolist(), strict=True):
        assert since == [max((j for j in range(i + 1) if row[j] == END), default=0) for i in range(len(row))]


@settings(deadline=None)
@given(ids=texts.filter(lambda ids: len(ids) > 1), length=st.integers(1, 20))
def test_since_in_training(ids, length):
    data = TextData(ids, length=length, batch_tokens=50, seed=0, end=END, separate_documents=True)
    for starts in data.order(0):
        check_since(data.batch(starts))


def test_since_by_hand():
    ids = np.array([5, END, END, 6, 7, END, 8], np.int32)
    [batch] = windows(ids, length=9, stride=9, batch_tokens=9, end=END, separate_documents=True)
    assert batch.tokens.tolist() == [[END, 5, END, END, 6, 7, END, 8]]
    assert batch.since.tolist() == [[0, 0, 2, 3, 3, 3, 6]]


@settings(deadline=None)
@given(ids=texts, length=st.integers(1, 20), stride=st.integers(1, 20), batch_tokens=st.integers(1, 99))
def test_windows_count_each_id_once_and_keep_the_promise(ids, length, stride, batch_tokens):
    stride = min(stride, length)
    text, counts, seen = [END, *ids.tolist()], [0] * len(ids), 0
    batches = list(
        windows(ids, length=length, stride=stride, batch_tokens=batch_tokens, end=END, separate_documents=True)
    )
    width, first = min(length, len(ids)), True
    for batch in batches:
        check_since(batch)
        assert batch.tokens.shape[1] == width + 1
        assert len(batch.tokens) <= max(1, batch_tokens // width)
        for tokens, counted in zip(batch.tokens.tolist(), batch.counted.tolist(), strict=True):
            # What a window counts are its last tokens, and they follow on what was counted before.
            new = sum(counted)
            assert 1 <= new <= (width if first else stride)
            assert counted == [False] * (width - new) + [True] * new
            seen += new
            assert tokens == text[seen - width : seen + 1]
            for place in range(seen - new, seen):
                counts[place] += 1
            if not first:
                assert width - new >= length - stride
            first = False
    assert counts == [1] * len(ids)


def test_windows_check_their_settings_at_once():
    ids = np.arange(9, dtype=np.int32)
    for change, message in [
        ({"stride": 0}, "stride must lie in 1 to 4, the length of a window, got 0"),
        ({"stride": 5}, "got 5"),
        ({"length": 0}, "length must be at least 1"),
        ({"batch_tokens": 0}, "batch_tokens"),
        ({"ids": ids[:0]}, "at least one token"),
    ]:
        with pytest.raises(ValueError, match=message):
            windows(**({"ids": ids, "length": 4, "stride": 2, "batch_tokens": 8, "end": END} | change))


def test_a_batch_moves_whole():
    ids = torch.ones(2, 4, dtype=torch.long)
    batch = TextBatch(ids, ids[:, 1:] > 0, ids[:, 1:]).to("meta")
    assert (batch.tokens.device.type, batch.counted.device.type, batch.since.device.type) == ("meta",) * 3
    assert TextBatch(ids, ids[:, 1:] > 0, None).to("meta").since is None


def test_batches_come_faster_than_a_card_can_train():
    data = numbered(2_000_000, length=1024, batch_tokens=16 * 1024, end=END, separate_documents=True)
    order = data.order(0)
    begin = time.perf_counter()
    for starts in order:
        data.batch(starts)
    assert len(data) / (time.perf_counter() - begin) > 2e6  # tokens a second; tens of millions on a free core
