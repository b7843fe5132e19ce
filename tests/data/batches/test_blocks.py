import gzip
import resource
import tracemalloc
from itertools import chain, islice

import numpy as np
import pytest

from regard.data.batches.batch import PairData
from regard.data.batches.blocks import OVERHEAD, BlockData, gather
from regard.data.text.pairs import read_pairs
from regard.data.text.special_tokens import Special
from regard.learn.checkpoint import Standing
from regard.learn.loop import _walk

COUNT, BUDGET = 6_000, 150_000


def made(count, *, seed=0):
    """Pairs that begin with their number, sorted by length as the worst of files are."""
    generator = np.random.default_rng(seed)
    lengths = np.sort(generator.integers(1, 30, (count, 2)), axis=0).tolist()
    for number, (source, target) in enumerate(lengths):
        yield [10 + number, *[5] * source], [10 + number, *[6] * target]


def size(pairs):
    return sum(4 * (len(source) + len(target)) + OVERHEAD for source, target in pairs)


def numbers(data, epoch):
    """The pairs' numbers batch by batch; also that a pair's sides come together, and whole."""
    pairs, found = dict(enumerate(made(len(data)))), []
    for item in data.order(epoch):
        batch = data.batch(item)
        ids = (batch.source[:, 0] - 10).tolist()
        for place, number in enumerate(ids):
            source, target = pairs[number]
            assert batch.source[place][batch.source_mask[place]].tolist() == [*source, 2]
            assert batch.target[place][batch.target_mask[place]].tolist() == [1, *target, 2]
        found.append(ids)
    return found


def order_of(data, epoch):
    """The pairs' numbers batch by batch."""
    return [(data.batch(item).source[:, 0] - 10).tolist() for item in data.order(epoch)]


def blocks_of(folder, count=2000, budget=40_000, **options):
    options = {"batch_tokens": 500, "seed": 0} | options
    return gather(made(count), folder=folder, budget=budget, **options)


def test_a_file_larger_than_the_budget(tmp_path):
    """From a packed file to every batch of an epoch, never holding more than the budget and a little."""
    path, total = tmp_path / "pairs.tsv.gz", size(made(COUNT))
    with gzip.open(path, "wt") as file:
        for pair in made(COUNT):
            file.write("\t".join(" ".join(map(str, side)) for side in pair) + "\n")
    assert total > 8 * BUDGET

    def peaks(number):
        encoded = ([[int(word) for word in text.split()] for text in pair] for pair in read_pairs(path))
        seen, folder = np.zeros(COUNT, dtype=int), tmp_path / f"blocks{number}"
        tracemalloc.start()
        try:
            data = gather(encoded, folder=folder, budget=BUDGET, batch_tokens=1000, seed=0)
            gathering = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            for item in data.order(0):
                batch = data.batch(item)
                assert max(batch.source.numel(), batch.target.numel()) <= 1000
                assert bool((batch.source[:, 0] == batch.target[:, 1]).all())
                seen[batch.source[:, 0].numpy() - 10] += 1
            running = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert isinstance(data, BlockData)
        assert (seen == 1).all()
        assert len(data) == COUNT
        return gathering, running

    # What the reader and the writer need, however long the file. What other tests left in this process may allocate
    # too: then it is measured once more.
    most = BUDGET + 150_000
    assert most < total / 4
    assert max(peaks(0)) < most or max(peaks(1)) < most


def test_what_fits_stays_in_memory(tmp_path):
    exact = size(made(300))
    data = gather(made(300), folder=tmp_path / "blocks", budget=exact, batch_tokens=500, seed=3)
    same = PairData(*zip(*made(300), strict=True), batch_tokens=500, seed=3)
    assert isinstance(data, PairData)
    assert all(np.array_equal(a, b) for a, b in zip(data.order(1), same.order(1), strict=True))
    assert not list(tmp_path.iterdir())
    less = gather(made(300), folder=tmp_path / "blocks", budget=exact - 1, batch_tokens=500, seed=3)
    assert isinstance(less, BlockData)
    assert less.longest_source == data.longest_source


@pytest.mark.parametrize("budget", [10_000, 40_000, 150_000])
def test_every_pair_once_and_every_block_within_the_budget(tmp_path, budget):
    data = blocks_of(tmp_path / "blocks", budget=budget)
    assert sorted(chain(*numbers(data, 0))) == list(range(2000))
    assert data.blocks >= 2 * size(made(2000)) / budget
    for block in range(data.blocks):
        lengths = [
            np.fromfile(tmp_path / "blocks" / f"{block}.{side}.lengths", np.int32) for side in ("source", "target")
        ]
        assert 4 * sum(int(side.sum()) for side in lengths) + OVERHEAD * len(lengths[0]) <= budget
    # Only what is in use lies there: no pile, no folder half written.
    assert len(list((tmp_path / "blocks").iterdir())) == 4 * data.blocks
    assert [path.name for path in tmp_path.iterdir()] == ["blocks"]


def test_blocks_that_overflow_are_distributed_anew(tmp_path):
    pairs = [([10 + number, 5, 5, 5, 5], [6] * 5) for number in range(480)]
    budget = size(pairs[:16])
    data = gather(pairs, folder=tmp_path / "blocks", budget=budget, batch_tokens=100, seed=1)
    assert data.blocks == 2 * 2 * size(pairs) / budget  # at half the number one block would hold 17 pairs or more
    sizes = [path.stat().st_size // 4 for path in (tmp_path / "blocks").glob("*.source.lengths")]
    assert (len(sizes), sum(sizes)) == (data.blocks, 480)
    assert max(sizes) <= 16
    assert len(list((tmp_path / "blocks").iterdir())) == 4 * data.blocks
    assert sorted(int(i) for item in data.order(0) for i in data.batch(item).source[:, 0]) == list(range(10, 490))


@pytest.mark.parametrize("budget", [40_000, 10**9])
def test_batches_have_the_special_tokens_they_are_told(tmp_path, budget):
    special = Special(pad=1, start=1, end=0, unknown=2)
    data = blocks_of(tmp_path / "blocks", budget=budget, special=special)
    assert isinstance(data, BlockData) == (budget == 40_000)
    for item in islice(data.order(0), 20):
        batch = data.batch(item)
        assert (batch.target[:, 0] == 1).all()
        for ids, mask in ((batch.source, batch.source_mask), (batch.target, batch.target_mask)):
            assert (ids[~mask] == 1).all()
            assert ids[range(len(ids)), mask.sum(1) - 1].tolist() == [0] * len(ids)


def test_blocks_are_fair_samples_of_a_sorted_file(tmp_path):
    data = blocks_of(tmp_path / "blocks", budget=100_000)
    means = {}
    for item in data.order(0):
        means.setdefault(item[0], []).extend((data.batch(item).source[:, 0] - 10).tolist())
    assert len(means) == data.blocks > 4
    for drawn in means.values():
        assert abs(np.mean(drawn) - 1000) < 5 * 577 / np.sqrt(len(drawn))  # five standard errors


def test_order_is_a_pure_function_of_seed_and_epoch(tmp_path):
    data = blocks_of(tmp_path / "a")
    first, second = order_of(data, 0), order_of(data, 1)
    assert first == order_of(data, 0) == order_of(blocks_of(tmp_path / "b"), 0)
    assert first != second
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    orders = [list(dict.fromkeys(block for block, *_ in data.order(epoch))) for epoch in (0, 1)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(data.blocks))
    assert first != order_of(blocks_of(tmp_path / "c", seed=1), 0)


def test_batch_is_a_pure_function_of_the_item(tmp_path):
    data = blocks_of(tmp_path / "blocks")
    items = list(data.order(0))
    forward = [data.batch(item).source.tolist() for item in items]
    mixed = np.random.default_rng(0).permutation(len(items))
    assert all(data.batch(items[i]).source.tolist() == forward[i] for i in mixed[:60])


def test_skipping_reads_lengths_alone(tmp_path):
    data = blocks_of(tmp_path / "blocks")
    before = [(block, rows.tolist()) for block, _, rows in data.order(2)]
    for path in (tmp_path / "blocks").glob("*.ids"):
        path.unlink()
    again = islice(data.order(2), len(before) // 2, None)
    assert [(block, rows.tolist()) for block, _, rows in again] == before[len(before) // 2 :]


def test_a_training_goes_on_without_the_blocks_before(tmp_path):
    data = blocks_of(tmp_path / "blocks")
    items = list(data.order(2))
    place = next(place for place, item in enumerate(items) if item[0] != items[0][0]) + 1
    for path in (tmp_path / "blocks").glob(f"{items[0][0]}.*"):
        path.unlink()
    standing = Standing(epoch=2, index=place + 1, bookmark=data.bookmark(items[place]))
    for index, (epoch, found, item) in zip(range(place + 1, len(items)), _walk(data, standing), strict=False):
        assert (epoch, found, item[0]) == (2, index, items[index][0])
        assert item[2].tolist() == items[index][2].tolist()
    data = blocks_of(tmp_path / "again")
    without = _walk(data, Standing(epoch=2, index=place + 1))  # a checkpoint of an older version
    assert next(without)[:2] == (2, place + 1)


def test_an_earlier_set_is_replaced(tmp_path):
    folder = tmp_path / "blocks"
    many = blocks_of(folder, budget=10_000).blocks
    data = blocks_of(folder, budget=40_000)
    assert data.blocks < many
    assert len(list(folder.iterdir())) == 4 * data.blocks
    gather(made(10), folder=folder, budget=10**6, batch_tokens=500, seed=0)
    assert not folder.exists()


def test_what_broke_off_leaves_nothing_behind(tmp_path):
    def broken():
        yield from made(1500)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather(broken(), folder=tmp_path / "blocks", budget=20_000, batch_tokens=500, seed=0)
    assert not list(tmp_path.iterdir())
    # A process that was killed could not tidy up; the next one does.
    (tmp_path / ".tmp-blocks").mkdir()
    (tmp_path / ".tmp-blocks" / "all.source.ids").write_bytes(b"half")
    assert sorted(chain(*numbers(blocks_of(tmp_path / "blocks"), 0))) == list(range(2000))


def test_a_full_disk_is_explained(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"blocks of training data need about [\d,]+ bytes") as caught:
            blocks_of(tmp_path / "blocks")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / "blocks")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "0.source.ids").write_bytes(b"")
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(OSError, match=r"thesis\.txt is in it"):
        blocks_of(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_errors(tmp_path):
    folder = tmp_path / "blocks"
    with pytest.raises(ValueError, match="budget must be at least 1 byte, got 0"):
        blocks_of(folder, budget=0)
    with pytest.raises(ValueError, match="batch_tokens must be at least 1, got 0"):
        blocks_of(folder, batch_tokens=0)
    with pytest.raises(ValueError, match="seed must not be negative, got -1"):
        blocks_of(folder, seed=-1)
    with pytest.raises(ValueError, match="there must be at least one pair"):
        gather([], folder=folder, budget=10, batch_tokens=10, seed=0)
    for pairs in ([([4] * 3000, [4])] * 9, [*made(2000), ([4] * 3000, [4]), *made(2000)]):
        with pytest.raises(ValueError, match=r"a pair takes 12,100 bytes of a budget of 40,000; .* least 193,600"):
            gather(pairs, folder=folder, budget=40_000, batch_tokens=500, seed=0)
    assert not list(tmp_path.iterdir())
    data = blocks_of(folder)
    item = next(data.order(0))
    with open(folder / f"{item[0]}.target.ids", "r+b") as file:
        file.truncate(8)
    with pytest.raises(OSError, match=r"target\.ids was truncated"):
        data.batch(item)
