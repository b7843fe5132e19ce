"""Fixed, growing and rewritten memories: reading cannot tell them apart."""

from itertools import pairwise

import pytest
import torch

from regard.attention import (
    SCORES,
    WAYS,
    Attend,
    Cosine,
    Memory,
    Past,
    Question,
    ScaledDot,
    build_score,
    build_weigh,
)
from regard.attention.memory import rewrite

B, K, D, V = 2, 7, 4, 3


def parts_of(attend, k, v, mask, cuts):
    for first, last in pairwise(cuts):
        part = slice(first, last)
        yield attend.remember(k[:, part], v[:, part], None if mask is None else mask[:, part])


def grow(attend, k, v, mask, cuts, capacity):
    first, *rest = parts_of(attend, k, v, mask, cuts)
    memory = first if capacity is None else first.reserve(capacity)
    for part in rest:
        memory = memory.append(part)
    return memory


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCORES)
def test_appended_reserved_and_fixed_read_alike(name, way, masked):
    torch.manual_seed(0)
    attend = Attend(build_score(name, D, D, longest=K + 4), build_weigh(way, D, window=2)).eval()
    k, v = torch.randn(B, K, D, requires_grad=True), torch.randn(B, K, V, requires_grad=True)
    mask = torch.arange(K) < torch.tensor([[K], [K - 2]]) if masked else None
    question = Question(torch.randn(B, 3, D, requires_grad=True), position=torch.tensor([1, 3, 6]))
    results = []
    for cuts, capacity in [((0, K), None), ((0, 3, 4, K), None), ((0, 3, 4, K), K), ((0, 1, 6, K), K + 4)]:
        memory = grow(attend, k, v, mask, cuts, capacity)
        look = attend.look(question, memory)
        read = attend(question, memory)
        inputs = [v] if way == "hard" else [question.query, v]
        grads = torch.autograd.grad(read.square().sum() + look.read.sum(), inputs)
        results.append([read, look.read, look.dense(memory.size)[..., :K], memory.lengths(), *grads])
    for other in results[1:]:
        for one, another in zip(results[0], other, strict=True):
            assert torch.allclose(one, another, atol=1e-6)


def test_stepping_is_all_at_once():
    """A decoder that appends its own place and asks, step by step, reads what the causal pass reads."""
    torch.manual_seed(0)
    x = torch.randn(B, K, D)
    for strict in (False, True):
        attend = Attend(ScaledDot(D, D), causal=True, strict=strict)
        whole = attend(x, attend.remember(x))
        for capacity in (None, K, K + 3):
            memory = attend.remember(x[:, :1])
            memory = memory if capacity is None else memory.reserve(capacity)
            for t in range(K):
                if t:
                    memory = memory.append(attend.remember(x[:, t : t + 1]))
                read = attend(Question(x[:, t : t + 1], position=torch.tensor([t])), memory)
                assert torch.allclose(read[:, 0], whole[:, t], atol=1e-6)


def test_reserved_buffers_stay_where_they_are():
    attend = Attend(ScaledDot(D, D))
    memory = attend.remember(torch.randn(B, 2, D)).reserve(5)
    grown = memory.append(attend.remember(torch.randn(B, 2, D)))
    assert grown.keys.data_ptr() == memory.keys.data_ptr()
    assert grown.values.data_ptr() == memory.values.data_ptr()
    assert grown.size == memory.size == 5
    assert (int(memory.filled), int(grown.filled)) == (2, 4)


def test_reserve_leaves_the_first_memory_alone():
    attend = Attend(ScaledDot(D, D))
    first = attend.remember(torch.randn(B, 2, D), mask=torch.ones(B, 2, dtype=torch.bool))
    keys, mask = first.keys.clone(), first.mask.clone()
    first.reserve(2)
    first.reserve(4).append(attend.remember(torch.randn(B, 2, D)))
    assert torch.equal(first.keys, keys)
    assert torch.equal(first.mask, mask)


def test_append_is_functional_and_autograd_sees_it():
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D))
    k = torch.randn(B, 3, D, requires_grad=True)
    first = attend.remember(k[:, :2])
    second = first.append(attend.remember(k[:, 2:]))
    assert (first.size, second.size) == (2, 3)
    reads = attend(torch.randn(B, 1, D), first).sum() + attend(torch.randn(B, 1, D), second).sum()
    assert (torch.autograd.grad(reads, k)[0].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("masked", [(False, True), (True, False), (True, True)])
def test_masks_of_either_part_are_kept(masked):
    mask = torch.tensor([[True, False], [True, True]])
    one, other = (Memory(torch.randn(B, 2, D), torch.randn(B, 2, V), mask if m else None) for m in masked)
    want = torch.cat([mask if m else torch.ones_like(mask) for m in masked], 1)
    assert torch.equal(one.append(other).mask, want)
    reserved = one.reserve(5).append(other)
    assert torch.equal(reserved.mask[:, :4], want)
    assert not reserved.mask[:, 4].any()


def test_lengths():
    keys, values = torch.randn(B, K, D), torch.randn(B, K, V)
    assert Memory(keys, values).lengths().tolist() == [K, K]
    mask = torch.arange(K) < torch.tensor([[4], [0]])
    assert Memory(keys, values, mask).lengths().tolist() == [4, 0]
    memory = Memory(keys, values, mask).reserve(12)
    assert memory.lengths().tolist() == [4, 0]
    new = Memory(torch.randn(B, 2, D), torch.randn(B, 2, V), torch.tensor([[True, True], [True, False]]))
    assert memory.append(new).lengths().tolist() == [6, 1]


def test_select():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    memory = Memory(torch.randn(B, 3, D), torch.randn(B, 3, V), mask)
    places = torch.tensor([[[-1, 0, 1, 2, 3]]]).expand(B, 1, 5)
    assert memory.select(places).int().tolist() == [[[0, 1, 1, 0, 0]], [[0, 1, 0, 0, 0]]]
    assert Memory(memory.keys, memory.values).select(places).int().tolist() == [[[0, 1, 1, 1, 0]]] * 2


def test_capacity_below_the_size_is_refused():
    with pytest.raises(ValueError, match=r"capacity must be at least the 7 places already there, got 6"):
        Memory(torch.randn(B, K, D), torch.randn(B, K, V)).reserve(6)


def test_a_full_memory_refuses_more():
    """And says how much room there is; what it held stays as it was."""
    memory = Memory(torch.randn(B, 3, D), torch.randn(B, 3, V)).reserve(4)
    keys, values, mask = memory.keys.clone(), memory.values.clone(), memory.mask.clone()
    new = Memory(torch.randn(B, 2, D), torch.randn(B, 2, V))
    with pytest.raises(ValueError, match=r"\b4\b"):
        memory.append(new)
    assert torch.equal(memory.keys, keys)
    assert torch.equal(memory.values, values)
    assert torch.equal(memory.mask, mask)


# ---------------------------------------------------------------- rewritten


def graves(matrix, weights, erase, add):
    """Eq. 3 for each head in turn, then eq. 4 for each head: element by element."""
    matrix = matrix.clone()
    rows, heads, places = weights.shape
    for b in range(rows):
        for i in range(places):
            for d in range(matrix.shape[-1]):
                kept = matrix[b, i, d].clone()
                for h in range(heads):
                    kept = kept * (1 - weights[b, h, i] * erase[b, h, d])
                for h in range(heads):
                    kept = kept + weights[b, h, i] * add[b, h, d]
                matrix[b, i, d] = kept
    return matrix


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_rewrite_is_graves_formula(heads):
    torch.manual_seed(0)
    parts = [
        torch.randn(B, K, D, dtype=torch.float64),
        torch.randn(B, heads, K, dtype=torch.float64).softmax(-1),
        torch.rand(B, heads, D, dtype=torch.float64),
        torch.randn(B, heads, D, dtype=torch.float64),
    ]
    ours = [x.float().requires_grad_() for x in parts]
    exact = [x.float().double().requires_grad_() for x in parts]
    got, want = rewrite(*ours), graves(*exact)
    assert torch.allclose(got.double(), want, atol=2e-6)
    upstream = torch.randn(B, K, D)
    for one, other in zip(
        torch.autograd.grad(got, ours, upstream), torch.autograd.grad(want, exact, upstream.double()), strict=True
    ):
        assert torch.allclose(one.double(), other, atol=5e-6)


def test_a_rewritten_memory_is_read_anew():
    """Keys follow the values: after everything was erased and one row written, that row is found."""
    torch.manual_seed(0)
    attend = Attend(Cosine(D, D, beta=50.0))
    start = torch.randn(1, K, D)
    memory = attend.remember(start)
    row, word = torch.eye(K)[2][None, None], torch.randn(1, 1, D)
    after = attend.rewrite(memory, row, torch.ones(1, 1, D), word)
    assert torch.allclose(after.values[0, 2], word[0, 0], atol=1e-6)
    kept = [i for i in range(K) if i != 2]
    assert torch.equal(after.values[:, kept], start[:, kept])
    assert torch.equal(memory.values, start)  # the old one is still there, for autograd
    assert attend.look(word, after).weights[0, 0].argmax() == 2
    fresh = attend.remember(after.values)
    assert torch.allclose(attend(word, after), attend(word, fresh), atol=1e-6)


# ---------------------------------------------------------------- a decoder's own past


def pieces(count, *, heads=(2,), rows=B):
    """Memories of one place each."""
    torch.manual_seed(0)
    return [Memory(torch.randn(rows, *heads, 1, D), torch.randn(rows, *heads, 1, V)) for _ in range(count)]


def joined(parts, rows=slice(None)):
    return [torch.cat([getattr(part, name) for part in parts], -2)[rows] for name in ("keys", "values")]


def holds(past, parts, rows=slice(None)):
    keys, values = joined(parts, rows)
    assert past.size == past.memory.size == len(parts)
    assert torch.equal(past.memory.keys, keys)
    assert torch.equal(past.memory.values, values)
    assert past.memory.mask is None


@pytest.mark.parametrize("heads", [(), (2,)], ids=str)
def test_a_past_grows_place_by_place(heads):
    parts, past = pieces(60, heads=heads), Past()
    for count, part in enumerate(parts, 1):
        past = past.append(part)
        holds(past, parts[:count])


def test_a_past_seldom_moves():
    """It has room ahead, so that a long text is not copied at every token."""
    past, places = Past(), set()
    for part in pieces(400):
        past = past.append(part)
        places.add(past.keys.data_ptr())
    assert len(places) < 20
    view = past.memory
    assert view.keys.data_ptr() == past.keys.data_ptr(), "reading copies nothing"
    assert past.keys.shape[-2] < 2 * 400


def test_several_places_at_once():
    parts, past = pieces(9), Past()
    for first, last in [(0, 4), (4, 5), (5, 9)]:
        past = past.append(Memory(*joined(parts[first:last])))
    holds(past, parts)


def test_rows_of_a_past_are_chosen_without_its_room():
    parts, past = pieces(5, rows=3), Past()
    for part in parts:
        past = past.append(part)
    order = torch.tensor([2, 0, 0, 1])
    chosen = past.each(lambda x: x.index_select(0, order))
    assert chosen.keys.shape == (4, 2, 5, D)
    holds(chosen, parts, order)
    more = Memory(torch.ones(4, 2, 1, D), torch.ones(4, 2, 1, V))
    assert torch.equal(chosen.append(more).memory.keys[:, :, :5], joined(parts, order)[0])
    holds(past, parts)
    nothing = Past()
    assert nothing.each(lambda x: x[:1]) is nothing


def test_the_first_memory_of_a_past_is_left_alone():
    """It may belong to someone else: a prompt's keys."""
    first, second, third = pieces(3)
    keys, before = first.keys, first.keys.clone()
    one, other = Past().append(first).append(second), Past().append(first).append(third)
    holds(one, [first, second])
    holds(other, [first, third])
    assert torch.equal(keys, before)


@pytest.mark.parametrize("masked", ["first", "later", "both"])
def test_a_past_remembers_what_may_not_be_seen(masked):
    parts, seen, past = pieces(20, rows=2), [], Past()
    for count, part in enumerate(parts):
        hidden = {"first": count == 0, "later": count == 7, "both": count in (0, 7)}[masked]
        mask = torch.tensor([[False], [True]]) if hidden else None
        seen.append(torch.ones(2, 1, dtype=torch.bool) if mask is None else mask)
        past = past.append(Memory(part.keys, part.values, mask))
        wanted = torch.cat(seen, 1)
        found = past.memory.mask
        assert found is None if wanted.all() else torch.equal(found, wanted)
    assert torch.equal(past.each(lambda x: x.flip(0)).memory.mask, torch.cat(seen, 1).flip(0))


def test_stepping_over_a_past_is_all_at_once():
    """With a prompt padded at the left, then singly, then two at once."""
    torch.manual_seed(0)
    x, mask = torch.randn(B, K, D), torch.arange(K) >= torch.tensor([[0], [2]])
    for attend in (Attend(ScaledDot(D, D), causal=True), Attend(ScaledDot(D, D), causal=True, strict=True)):
        whole = attend(x, attend.remember(x, mask=mask))
        past, found = Past(), []
        for part in (slice(0, 4), slice(4, 5), slice(5, 7)):
            past = past.append(attend.remember(x[:, part], mask=mask[:, part]))
            found.append(attend(Question(x[:, part], newest=True), past.memory))
        assert torch.allclose(torch.cat(found, 1), whole, atol=1e-6)
