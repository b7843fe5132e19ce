import time
import tracemalloc
from array import array
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches.batch import Batch, Filter, PairBatch, PairData, Rows, pad, send
from regard.data.images.caption_batches import CaptionBatch
from regard.data.images.episodes import EpisodeBatch
from regard.data.images.image_batches import ImageBatch
from regard.data.made.environments import Experience, Seeds
from regard.data.made.sequences import BitBatch
from regard.data.text.characters import CharacterBatch
from regard.data.text.document_encoding import DocumentBatch
from regard.data.text.masking import MaskedBatch
from regard.data.text.question_windows import QuestionBatch
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import LabelledBatch, TokenBatch
from regard.data.text.windows import TextBatch


def random_data(count, *, batch_tokens=2048, seed=0):
    """Lengths like those of sentences and their translations."""
    generator = np.random.default_rng(3)
    sources = np.clip(generator.lognormal(2.8, 0.6, count), 1, 200).astype(int)
    targets = np.clip(sources * generator.normal(1.05, 0.15, count), 1, 220).astype(int)
    rows = [[[4 + i % 50] * n for i, n in enumerate(lengths.tolist())] for lengths in (sources, targets)]
    return PairData(*rows, batch_tokens=batch_tokens, seed=seed)


def same(left, right):
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_pad():
    ids, mask = pad([[5, 6, 7], [], [8]], 9)
    assert ids.tolist() == [[5, 6, 7], [9, 9, 9], [8, 9, 9]]
    assert mask.tolist() == [[True, True, True], [False, False, False], [True, False, False]]
    assert (ids.dtype, mask.dtype) == (torch.long, torch.bool)
    assert pad([[], []], 0)[0].shape == (2, 0)
    with pytest.raises(ValueError, match="at least one row"):
        pad([], 0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=9), max_size=20))
def test_rows_are_the_lists_they_were_made_of(lists):
    rows = Rows(iter(lists[:5]))
    for row in lists[5:]:
        rows.append(row)
    assert [rows[i].tolist() for i in range(len(rows))] == [row.tolist() for row in rows] == lists
    assert rows.lengths().tolist() == [len(row) for row in lists]


def test_rows_take_four_bytes_an_id():
    lists = [list(range(1000, 1030)) for _ in range(10_000)]
    tracemalloc.start()
    try:
        rows = Rows(lists)
        assert tracemalloc.get_traced_memory()[0] < 1.1 * (4 * 30 + 8) * len(rows)
    finally:
        tracemalloc.stop()
    with pytest.raises(IndexError, match="there are 10000 rows"):
        rows[-1]


def test_batch_adds_the_special_tokens():
    data = PairData([[5, 6], [7]], [[8], [9, 10, 11]], batch_tokens=100, seed=0)
    batch = data.batch(np.array([1, 0]))
    assert batch.source.tolist() == [[7, 2, 0], [5, 6, 2]]
    assert batch.source_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.target.tolist() == [[1, 9, 10, 11, 2], [1, 8, 2, 0, 0]]
    assert batch.target_mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert [row.tolist() for row in data.sources] == [[5, 6], [7]]
    assert data.longest_source == 3


def test_batch_has_the_special_tokens_it_is_told():
    special = Special(pad=20, start=20, end=0, unknown=1)
    batch = PairData([[5, 6], [7]], [[8], [9]], batch_tokens=100, seed=0, special=special).batch(np.array([1, 0]))
    assert batch.source.tolist() == [[7, 0, 20], [5, 6, 0]]
    assert batch.target.tolist() == [[20, 9, 0], [20, 8, 0]]
    assert batch.target_mask.all()
    assert batch.source_mask.tolist() == [[True, True, False], [True] * 3]


def test_batch_moves_whole():
    moved = PairData([[5]], [[6]], batch_tokens=9, seed=0).batch(np.array([0])).to("meta")
    assert isinstance(moved, PairBatch)
    assert {x.device.type for x in vars(moved).values()} == {"meta"}


def test_batches_hold_the_ids_bit_for_bit():
    generator = np.random.default_rng(2)
    sources, targets = (
        [generator.integers(4, 2**31, n).tolist() for n in generator.integers(0, 30, 300)] for _ in range(2)
    )
    data = PairData(sources, targets, batch_tokens=200, seed=4)
    for rows in data.order(1):
        batch = data.batch(rows)
        for place, row in enumerate(rows):
            assert batch.source[place][batch.source_mask[place]].tolist() == [*sources[row], 2]
            assert batch.target[place][batch.target_mask[place]].tolist() == [1, *targets[row], 2]
        assert not batch.source[~batch.source_mask].any()
        assert not batch.target[~batch.target_mask].any()


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=80),
    st.integers(1, 200),
    st.integers(0, 5),
)
def test_every_row_once_and_no_batch_too_large(lengths, batch_tokens, epoch):
    data = PairData([[4] * s for s, _ in lengths], [[4] * t for _, t in lengths], batch_tokens=batch_tokens, seed=1)
    batches = data.order(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths))) == list(range(len(data)))
    for rows in batches:
        batch = data.batch(rows)
        longest = max(batch.source.shape[1], batch.target.shape[1])
        assert len(rows) == 1 or len(rows) * longest <= batch_tokens


def test_order_is_a_pure_function_of_seed_and_epoch():
    data = random_data(2000)
    first = data.order(0)
    data.order(7)
    np.random.default_rng().random()
    assert same(first, data.order(0))
    assert same(first, random_data(2000).order(0))
    assert not same(first, data.order(1))
    assert not same(first, random_data(2000, seed=1).order(0))


def test_batches_are_mixed_anew_each_epoch():
    data = random_data(5000)
    first, second = ({frozenset(rows.tolist()) for rows in data.order(epoch)} for epoch in (0, 1))
    assert len(first & second) < len(first) / 10  # the few longest rows may meet again
    # Batches do not come by length.
    longest = [int(data.source_lengths[rows].max()) for rows in data.order(0)]
    assert longest != sorted(longest)
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.4


def test_batches_are_well_filled_and_hardly_padded():
    data = random_data(5000)
    batches = [data.batch(rows) for rows in data.order(0)]
    masks = [mask for batch in batches for mask in (batch.source_mask, batch.target_mask)]
    assert sum(int((~mask).sum()) for mask in masks) / sum(mask.numel() for mask in masks) < 0.10
    slots = [
        len(rows) * max(int(data.source_lengths[rows].max()), int(data.target_lengths[rows].max()))
        for rows in data.order(0)
    ]
    assert np.mean(slots) > 0.85 * data.batch_tokens


def test_a_pair_too_long_is_a_batch_alone():
    data = PairData([[4] * 50, [4], [4]], [[4], [4], [4]], batch_tokens=10, seed=0)
    assert sorted(sorted(rows.tolist()) for rows in data.order(0)) == [[0], [1, 2]]


def test_quick_for_many_pairs():
    rows = Rows()
    rows.ends.extend(np.random.default_rng(0).integers(1, 60, 200_000).cumsum().tolist())
    rows.ids = array("i", [4]) * rows.ends[-1]
    data = PairData(rows, rows, batch_tokens=4096, seed=0)
    begin = time.process_time()
    data.order(0)
    assert time.process_time() - begin < 2  # a tenth of a second; far more if it were quadratic


def test_errors():
    with pytest.raises(ValueError, match="got 2 sources, 1 targets"):
        PairData([[1], [2]], [[1]], batch_tokens=10, seed=0)
    with pytest.raises(ValueError, match="at least one pair"):
        PairData([], [], batch_tokens=10, seed=0)
    with pytest.raises(ValueError, match="batch_tokens must be at least 1, got 0"):
        PairData([[1]], [[1]], batch_tokens=0, seed=0)
    with pytest.raises(ValueError, match="seed must not be negative, got -1"):
        PairData([[1]], [[1]], batch_tokens=10, seed=-1)


def test_filter_drops_and_says_what():
    lengths = [(3, 3), (7, 5), (5, 7), (2, 5), (4, 2), (0, 3), (6, 6), (9, 1)]
    pairs = [([4] * source, [5] * target) for source, target in lengths]
    keep = Filter(drop_longer=6, max_ratio=2)
    assert list(keep(iter(pairs))) == [pairs[0], pairs[4], pairs[6]]
    assert keep.report() == (
        "Dropped 5 of 8 pairs: 3 for a side of more than 6 tokens, 1 for a side more than 2 times as long as the "
        "other, 1 for a side without tokens; the first was pair 2, with 7 tokens to 5."
    )


def test_filter_lets_all_pass_that_has_tokens():
    keep = Filter()
    assert keep.report() == ""
    assert len(list(keep([([4] * 1000, [4]), ([4], [4])]))) == 2
    assert keep.report() == ""
    assert list(keep([([4], [])])) == []
    assert keep.report().startswith("Dropped 1 of 3 pairs: 1 for a side without tokens; the first was pair 3,")
    with pytest.raises(ValueError, match="drop_longer must be at least 1, or 0 for no limit, got -1"):
        Filter(drop_longer=-1)
    for ratio in (0.5, -1, float("nan")):
        with pytest.raises(ValueError, match="max_ratio must be at least 1, or 0 for no limit"):
            Filter(max_ratio=ratio)


IDS, MASK = torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([[True] * 3, [True, False, False]])
BATCHES = {
    "pairs": PairBatch(IDS, MASK, IDS + 1, MASK),
    "text": TextBatch(IDS, MASK[:, 1:], IDS[:, 1:].int()),
    "text without since": TextBatch(IDS, MASK[:, 1:], None),
    "masked": MaskedBatch(IDS, IDS % 2, MASK, ~MASK, IDS + 1, torch.tensor([0, 1])),
    "masked without follows": MaskedBatch(IDS, IDS % 2, MASK, ~MASK, IDS + 1, None),
    "labelled": LabelledBatch(IDS, IDS % 2, MASK, torch.tensor([1, 0])),
    "tokens": TokenBatch(IDS, MASK, torch.tensor([1, 0])),
    "questions": QuestionBatch(IDS, IDS % 2, MASK, torch.tensor([1, 0]), torch.tensor([2, 0])),
    "documents": DocumentBatch(IDS, MASK, IDS % 2, MASK, torch.tensor([1, 0])),
    "characters": CharacterBatch(IDS, IDS % 2, MASK, IDS + 1),
    "labelled characters": CharacterBatch(IDS, IDS % 2, MASK, labels=torch.tensor([1, 0])),
    "captions": CaptionBatch(torch.rand(2, 3, 4, 4), IDS, MASK),
    "images": ImageBatch(torch.rand(2, 3, 4, 4), torch.eye(2)),
    "episodes": EpisodeBatch(torch.rand(2, 4, 1, 4, 4), IDS % 2, IDS[:, :1] % 2),
    "environments": Seeds(torch.tensor([3, 1])),
    "trials": Experience(
        torch.rand(2, 3, 4),
        torch.randint(4, (2, 3)),
        *(torch.rand(2, 3) for _ in range(3)),
        torch.rand(2, 3, 2),
        torch.rand(2, 3),
    ),
    "sequences": BitBatch(torch.rand(2, 3, 4), torch.rand(2, 3, 2), MASK),
    "images in half": ImageBatch(torch.rand(2, 3, 4, 4).bfloat16(), torch.eye(2)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_every_batch_moves_as_it_is(name):
    """Class, types of numbers and what is not there; at home, nothing is even copied."""
    batch = BATCHES[name]
    assert isinstance(batch, Batch)
    assert is_dataclass(batch)
    away, home = batch.to("meta"), batch.to(torch.device("cpu"))
    assert type(away) is type(home) is type(batch)
    for field in fields(batch):
        value, there, here = (getattr(each, field.name) for each in (batch, away, home))
        if value is None:
            assert there is here is None
            continue
        assert (there.device.type, there.dtype, there.shape) == ("meta", value.dtype, value.shape)
        assert here is value
        assert value.device.type == "cpu", "the batch itself stays"


def test_every_kind_of_batch_is_tested():
    kinds = {kind for kind in Batch.__subclasses__() if kind.__module__.startswith("regard.")}
    assert {type(batch) for batch in BATCHES.values()} == kinds


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card")
@pytest.mark.parametrize("name", BATCHES)
def test_a_card_gets_what_was_sent(name):
    batch = BATCHES[name]
    moved = batch.to("cuda")
    for key, value in vars(batch).items():
        there = getattr(moved, key)
        assert (there is None) == (value is None)
        assert value is None or (there.is_cuda and there.dtype == value.dtype and torch.equal(there.cpu(), value))


def test_what_is_sent_may_be_a_view_or_empty():
    whole = torch.arange(12).view(3, 4)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for part in (whole[:, 1:3], whole.T, whole[:0], whole[:1].expand(5, 4), torch.tensor(5)):
        assert torch.equal(send(part, device).cpu(), part)
        assert send(part, "meta").shape == part.shape


def test_what_is_pinned_has_a_place_for_each_element(monkeypatch):
    """Torch refuses to pin an expanded tensor; here without a GPU, where nothing can be pinned at all."""
    pinned = []

    def pin(tensor):
        pinned.append(tensor)
        raise InterruptedError

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    mask, images = torch.ones(1, 4, dtype=torch.bool).expand(3, 4), torch.zeros(2, 3, 4, 4)
    for tensor in (mask, images.to(memory_format=torch.channels_last)):
        with pytest.raises(InterruptedError):
            send(tensor, "cuda")
        assert torch._debug_has_internal_overlap(pinned[-1]) == 0
        assert torch.equal(pinned[-1], tensor)
    assert pinned[-1].is_contiguous(memory_format=torch.channels_last), "other views stay as they are"


def test_twice_is_every_row_again_behind_the_last():
    data = PairData([[5, 6], [7]], [[8], [9, 10, 11]], batch_tokens=100, seed=0)
    batch = data.batch(np.array([1, 0]))
    twice = batch.twice()
    assert type(twice) is PairBatch
    assert twice.source.tolist() == [[7, 2, 0], [5, 6, 2]] * 2
    assert twice.target.tolist() == [[1, 9, 10, 11, 2], [1, 8, 2, 0, 0]] * 2
    for key, value in vars(batch).items():
        assert torch.equal(getattr(twice, key), torch.cat([value, value]))
        assert getattr(twice, key).dtype == value.dtype
    assert len(batch.source) == 2, "the batch itself stays"


def test_what_no_answer_depends_on_is_left_out():
    batch = TokenBatch(torch.ones(2, 3), MASK, torch.ones(2), torch.ones(2))
    assert list(batch.unlabelled().tensors()) == ["tokens", "mask"]
    assert list(batch.tensors()) == ["tokens", "mask", "labels", "counted"]
    seeds = Seeds(torch.tensor([3, 1]))
    assert seeds.unlabelled() is seeds
