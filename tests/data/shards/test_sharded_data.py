"""Batches of data in shards: every token once, an order that is a function of (seed, epoch), bounded memory."""

from __future__ import annotations

import tracemalloc
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from regard.data.batches.batch import PairData, Rows
from regard.data.shards import sharded_data
from regard.data.shards.reading import RunningText, ShardRows
from regard.data.shards.sharded_data import ShardedRows, ShardedText
from regard.data.shards.token_files import Shard, ShardWriter, open_shard
from regard.data.text.windows import TextData, windows
from regard.learn.checkpoint import Standing
from regard.learn.loop import _walk


def text_shard(folder: Path, ids: np.ndarray, kind: str = "H") -> Shard:
    folder.mkdir()
    writer = ShardWriter(folder, {"ids": kind})
    writer.add("ids", ids.tolist())
    writer.finish(documents=1)
    shard = open_shard(folder)
    assert shard is not None
    return shard


@pytest.fixture
def text(tmp_path: Path) -> RunningText:
    """0, 1, 2, ... over three shards, one of them without a token."""
    sizes = (0, 700, 700, 1203)
    return RunningText([text_shard(tmp_path / str(n), np.arange(sizes[n], sizes[n + 1])) for n in range(3)])


def data_of(text: RunningText, **options: int) -> ShardedText:
    return ShardedText(text, **({"length": 10, "batch_tokens": 40, "seed": 3, "end": 0} | options))


def test_running_text_is_read_across_shards(text: RunningText) -> None:
    assert len(text) == 1203
    assert text.read(695, 705).tolist() == list(range(695, 705))
    assert np.asarray(text[690:720])[5:15].tolist() == list(range(695, 705))
    assert text[690:720][5:].read(0, 3).tolist() == [695, 696, 697]
    assert text[np.array([[698, 699, 700], [0, 0, 1]])].tolist() == [[698, 699, 700], [0, 0, 1]]


def test_every_window_comes_once_in_another_order_each_epoch(text: RunningText) -> None:
    data = data_of(text)
    orders = [np.concatenate(list(data.order(epoch))) for epoch in range(3)]
    for starts in orders:
        first = int(starts.min())
        assert first < 10
        assert sorted(starts.tolist()) == list(range(first, 1193, 10))
    assert orders[0].tolist() != orders[1].tolist()
    assert all(len(starts) == 4 for starts in list(data.order(0))[:-1])


def test_a_batch_is_that_of_the_same_text_in_memory(text: RunningText) -> None:
    whole = TextData(np.arange(1203, dtype=np.int32), length=10, batch_tokens=40, seed=3, end=0)
    starts = next(iter(data_of(text).order(0)))
    mine, theirs = data_of(text).batch(starts), whole.batch(starts)
    assert mine.tokens.equal(theirs.tokens)
    assert mine.counted.equal(theirs.counted)


def test_the_order_goes_on_from_any_place_and_does_not_depend_on_what_is_computed_at_once(
    text: RunningText, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [starts.tolist() for starts in data_of(text).order(5)]
    monkeypatch.setattr(sharded_data, "TOGETHER", 8)
    assert [starts.tolist() for starts in data_of(text).order(5)] == whole
    for index in (1, 7, len(whole)):
        first, rest = data_of(text).order_from(5, index)
        assert (first, [starts.tolist() for starts in rest]) == (index, whole[index:])


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_share_the_same_batches(text: RunningText, processes: int) -> None:
    """Process r of n takes the rows r, r + n, ... of each batch, and reads no others."""
    alone = data_of(text)
    shares = [data_of(text) for _ in range(processes)]
    for starts in list(alone.order(1))[:3]:
        parts = [data.batch(starts[rank::processes]).tokens for rank, data in enumerate(shares)]
        whole = alone.batch(starts).tokens
        assert all(part.equal(whole[rank::processes]) for rank, part in enumerate(parts))


def test_evaluation_windows_of_kept_tokens(text: RunningText) -> None:
    options = {"length": 16, "stride": 8, "batch_tokens": 64, "end": 0, "separate_documents": True}
    mine, theirs = windows(text, **options), windows(np.arange(1203), **options)
    for first, second in zip(mine, theirs, strict=True):
        assert first.tokens.equal(second.tokens)
        assert first.counted.equal(second.counted)


# ---- rows


@pytest.fixture
def rows(tmp_path: Path) -> ShardRows:
    """Pairs (n), (n, n) in two shards, a chunk for about every three of them."""
    shards = []
    for number, (begin, end) in enumerate([(0, 120), (120, 301)]):
        folder = tmp_path / f"rows{number}"
        folder.mkdir()
        writer = ShardWriter(folder, {"source": "H", "target": "H"})
        for row in range(begin, end):
            writer.row(source=[row], target=[row, row])
            writer.end_chunk(9)
        writer.finish()
        shards.append(open_shard(folder))
    return ShardRows([shard for shard in shards if shard])


def make(columns: dict[str, Rows], seed: int) -> PairData:
    return PairData(columns["source"], columns["target"], batch_tokens=16, seed=seed)


def sharded(rows: ShardRows, monkeypatch: pytest.MonkeyPatch) -> ShardedRows:
    monkeypatch.setattr(sharded_data, "CHUNK", 9)
    monkeypatch.setattr(sharded_data, "BLOCK", 90)
    monkeypatch.setattr(sharded_data, "BATCHES", 1)
    return ShardedRows(rows, make, batch_tokens=16, seed=4)


def test_every_row_comes_once_in_blocks_of_chunks_from_everywhere(
    rows: ShardRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = sharded(rows, monkeypatch)
    assert data.blocks == 11
    epochs = []
    for epoch in range(2):
        batches = [data.batch(item) for item in data.order(epoch)]
        sources = [int(token) for batch in batches for token in batch.source[:, 0]]
        assert sorted(sources) == list(range(301))
        epochs.append(sources)
    assert epochs[0] != epochs[1]
    first = epochs[0][:28]  # the first block
    assert max(first) - min(first) > 150


def test_the_order_of_rows_is_a_function_of_seed_and_epoch(
    rows: ShardRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was read before: a training that goes on, or a process of several, has the same batches."""
    data, later = sharded(rows, monkeypatch), sharded(rows, monkeypatch)
    whole = [data.batch(item) for item in data.order(1)]
    items = list(later.order(1))
    assert len(items) == len(whole)
    for place in (40, 2, 41):
        assert later.batch(items[place]).source.equal(whole[place].source)
    for processes in (2, 4):
        place = next(place for place, (*_, numbers) in enumerate(items) if len(numbers) >= 4)
        *where, numbers = items[place]
        parts = [later.batch((*where, numbers[rank::processes])).source for rank in range(processes)]
        assert all(part.equal(whole[place].source[rank::processes]) for rank, part in enumerate(parts))


def test_a_training_goes_on_without_reading_the_blocks_before(
    rows: ShardRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, loaded = sharded(rows, monkeypatch), []
    items = list(data.order(1))
    monkeypatch.setattr(rows, "load", lambda chunks, load=rows.load: loaded.append(chunks) or load(chunks))
    places = _walk(data, Standing(epoch=1, index=41, bookmark=data.bookmark(items[40])))
    epoch, index, item = next(places)
    assert (epoch, index, item[:3]) == (1, 41, items[41][:3])
    assert item[3].tolist() == items[41][3].tolist()
    assert len(loaded) <= 2  # that of batch 40, and the next if 40 is its last
    assert sum(1 for epoch, *_ in takewhile(lambda place: place[0] == 1, places)) == len(items) - 42
    without = _walk(data, Standing(epoch=1, index=41))  # a checkpoint of an older version
    assert next(without)[:2] == (1, 41)


def test_memory_does_not_grow_with_the_number_of_tokens(tmp_path: Path) -> None:
    """Training windows of ten times as many tokens take no more memory."""
    peaks = []
    for number, size in enumerate((1 << 18, 10 << 18)):
        folder = tmp_path / str(number)
        folder.mkdir()
        writer = ShardWriter(folder, {"ids": "H"})
        part = [0] * (1 << 16)
        for _ in range(size >> 16):
            writer.add("ids", part)
        writer.finish()
        shard = open_shard(folder)
        assert shard is not None
        tracemalloc.start()
        data = ShardedText(RunningText([shard]), length=64, batch_tokens=1024, seed=0, end=0)
        for place, starts in enumerate(data.order(0)):
            if place < 50:
                data.batch(starts)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
