"""Fixed and growing memories: reading cannot tell them apart."""

from itertools import pairwise, product

import pytest
import torch

from regard.attention import (
    SCORES,
    WAYS,
    Attend,
    GrowingMemory,
    Memory,
    Question,
    ScaledDot,
    build_score,
    build_weigh,
)

B, K, D, V = 2, 7, 4, 3


def grow(attend, k, v, mask, cuts, gradients=True):
    """A memory of the places between each cut and the next, part by part."""
    memory = GrowingMemory()
    with torch.set_grad_enabled(gradients):
        for first, last in pairwise(cuts):
            part = slice(first, last)
            own = None if mask is None else mask[:, part]
            memory = memory.append(attend.remember(k[:, part], v[:, part], own))
    return memory.memory


@pytest.mark.parametrize("name", SCORES)
def test_grown_and_fixed_read_alike(name):
    """With gradients, without gradients and made at once, for every way to weigh."""
    for way, masked in product(WAYS, (False, True)):
        case = f"{way}, masked {masked}"
        torch.manual_seed(0)
        attend = Attend(build_score(name, D, D, max_positions=K + 4), build_weigh(way, D, window=2)).eval()
        k, v = torch.randn(B, K, D, requires_grad=True), torch.randn(B, K, V, requires_grad=True)
        mask = torch.arange(K) < torch.tensor([[K], [K - 2]]) if masked else None
        question = Question(torch.randn(B, 3, D, requires_grad=True), position=torch.tensor([1, 3, 6]))
        results = []
        for cuts, gradients in [((0, K), True), *product([(0, 3, 4, K), (0, 1, 6, K)], (True, False))]:
            memory = grow(attend, k, v, mask, cuts, gradients)
            look, read = attend.look(question, memory), attend(question, memory)
            found = [read, look.read, look.dense(K), memory.lengths()]
            if gradients:
                inputs = [v] if way == "hard" else [question.query, v]
                found += torch.autograd.grad(read.square().sum() + look.read.sum(), inputs)
            results.append(found)
        for other in results[1:]:
            for one, another in zip(results[0], other, strict=False):  # without gradients there are fewer
                assert torch.allclose(one, another, atol=1e-6), case


def test_stepping_is_all_at_once():
    """A decoder that appends its own place and asks, step by step, reads what the causal pass reads."""
    torch.manual_seed(0)
    x = torch.randn(B, K, D)
    for strict, gradients in product((False, True), (False, True)):
        attend = Attend(ScaledDot(D, D), causal=True, strict=strict)
        whole, memory = attend(x, attend.remember(x)), GrowingMemory()
        with torch.set_grad_enabled(gradients):
            for t in range(K):
                memory = memory.append(attend.remember(x[:, t : t + 1]))
                read = attend(Question(x[:, t : t + 1], position=torch.tensor([t])), memory.memory)
                assert torch.allclose(read[:, 0], whole[:, t], atol=1e-6), (strict, gradients, t)


def test_with_gradients_growth_is_functional():
    """Reads at every step reach all the places seen so far; earlier memories stay as they were and may branch."""
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D))
    k = torch.randn(B, 4, D, requires_grad=True)
    memory, steps = GrowingMemory(), []
    for t in range(3):
        memory = memory.append(attend.remember(k[:, t : t + 1]))
        steps.append(memory)
    branch = steps[1].append(attend.remember(k[:, 3:]))
    assert [step.size for step in steps] == [1, 2, 3]
    assert torch.equal(memory.memory.keys, k[:, :3])
    assert torch.equal(branch.memory.keys, k[:, [0, 1, 3]])
    reads = sum(attend(torch.randn(B, 1, D), step.memory).sum() for step in (*steps, branch))
    assert (torch.autograd.grad(reads, k)[0].abs().sum(-1) > 0).all()


def test_a_buffer_is_not_written_to_once_autograd_reads_it():
    """A past made without gradients, gone on from with them, and again without: nobody's places are changed."""
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D))
    x, query = torch.randn(B, 5, D), torch.randn(B, 1, D, requires_grad=True)
    with torch.no_grad():
        start = grown = GrowingMemory().append(attend.remember(x[:, :1])).append(attend.remember(x[:, 1:2]))
    reads = []
    for t in (2, 3):
        grown = grown.append(attend.remember(x[:, t : t + 1]))
        reads.append(attend(query, grown.memory).sum())
    with torch.no_grad():
        last = grown.append(attend.remember(x[:, 4:]))
    assert torch.equal(start.memory.keys, x[:, :2])
    assert torch.equal(grown.memory.keys, x[:, :4])
    assert torch.equal(last.memory.keys, x)
    assert torch.autograd.grad(sum(reads), query)[0].isfinite().all()


def test_lengths():
    keys, values = torch.randn(B, K, D), torch.randn(B, K, V)
    assert Memory(keys, values).lengths().tolist() == [K, K]
    mask = torch.arange(K) < torch.tensor([[4], [0]])
    assert Memory(keys, values, mask).lengths().tolist() == [4, 0]
    new = Memory(torch.randn(B, 2, D), torch.randn(B, 2, V), torch.tensor([[True, True], [True, False]]))
    grown = GrowingMemory().append(Memory(keys, values, mask)).append(new)
    assert grown.memory.lengths().tolist() == [6, 1]


def test_select():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    memory = Memory(torch.randn(B, 3, D), torch.randn(B, 3, V), mask)
    places = torch.tensor([[[-1, 0, 1, 2, 3]]]).expand(B, 1, 5)
    assert memory.select(places).int().tolist() == [[[0, 1, 1, 0, 0]], [[0, 1, 0, 0, 0]]]
    assert Memory(memory.keys, memory.values).select(places).int().tolist() == [[[0, 1, 1, 1, 0]]] * 2


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


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("heads", [(), (2,)], ids=str)
def test_a_past_grows_place_by_place(heads, gradients):
    parts, past = pieces(60, heads=heads), GrowingMemory()
    with torch.set_grad_enabled(gradients):
        for count, part in enumerate(parts, 1):
            past = past.append(part)
            holds(past, parts[:count])


@torch.no_grad()
def test_a_past_seldom_moves():
    """It has spare capacity, so that a long text is not copied at every token."""
    past, places = GrowingMemory(), set()
    for part in pieces(400):
        past = past.append(part)
        places.add(past.keys.data_ptr())
    assert len(places) < 20
    view = past.memory
    assert view.keys.data_ptr() == past.keys.data_ptr(), "reading copies nothing"
    assert past.keys.shape[-2] < 2 * 400


@pytest.mark.parametrize("gradients", [True, False])
def test_several_places_at_once(gradients):
    parts, past = pieces(9), GrowingMemory()
    with torch.set_grad_enabled(gradients):
        for first, last in [(0, 4), (4, 5), (5, 9)]:
            past = past.append(Memory(*joined(parts[first:last])))
    holds(past, parts)


@torch.no_grad()
def test_rows_of_a_past_are_chosen_without_its_spare_capacity():
    parts, past = pieces(5, rows=3), GrowingMemory()
    for part in parts:
        past = past.append(part)
    order = torch.tensor([2, 0, 0, 1])
    chosen = past.change_rows(lambda x: x.index_select(0, order))
    assert chosen.keys.shape == (4, 2, 5, D)
    holds(chosen, parts, order)
    more = Memory(torch.ones(4, 2, 1, D), torch.ones(4, 2, 1, V))
    assert torch.equal(chosen.append(more).memory.keys[:, :, :5], joined(parts, order)[0])
    holds(past, parts)
    nothing = GrowingMemory()
    assert nothing.change_rows(lambda x: x[:1]) is nothing
    assert nothing.select(order) is nothing


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_rows_of_a_past_are_reordered_with_room_for_the_next_place(masked, gradients):
    mask = torch.tensor([[False, True, True], [True, True, True]])
    keys, values = torch.randn(2, 4, 3, D), torch.randn(2, 4, 3, V)
    past = GrowingMemory().append(Memory(keys, values, mask if masked else None))
    order = torch.tensor([1, 1, 0])
    with torch.set_grad_enabled(gradients):
        moved = past.select(order)
        assert torch.equal(moved.memory.keys, keys[order])
        assert torch.equal(moved.memory.values, values[order])
        assert moved.memory.mask is None if not masked else torch.equal(moved.memory.mask, mask[order])
        more = Memory(torch.ones(3, 4, 1, D), torch.ones(3, 4, 1, V))
        longer = moved.append(more)
    assert (longer.keys.data_ptr() == moved.keys.data_ptr()) != gradients  # nothing was copied again
    assert torch.equal(longer.memory.keys, torch.cat([keys[order], more.keys], 2))
    assert torch.equal(past.memory.keys, keys)


@torch.no_grad()
def test_the_first_memory_of_a_past_is_left_alone():
    """It may belong to someone else: a prompt's keys."""
    first, second, third = pieces(3)
    keys, before = first.keys, first.keys.clone()
    one, other = GrowingMemory().append(first).append(second), GrowingMemory().append(first).append(third)
    holds(one, [first, second])
    holds(other, [first, third])
    assert torch.equal(keys, before)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("masked", ["first", "later", "both"])
def test_a_past_remembers_what_may_not_be_seen(masked, gradients):
    parts, seen, past = pieces(20, rows=2), [], GrowingMemory()
    for count, part in enumerate(parts):
        hidden = {"first": count == 0, "later": count == 7, "both": count in (0, 7)}[masked]
        mask = torch.tensor([[False], [True]]) if hidden else None
        seen.append(torch.ones(2, 1, dtype=torch.bool) if mask is None else mask)
        with torch.set_grad_enabled(gradients):
            past = past.append(Memory(part.keys, part.values, mask))
        wanted = torch.cat(seen, 1)
        found = past.memory.mask
        assert found is None if wanted.all() else torch.equal(found, wanted)
    assert torch.equal(past.change_rows(lambda x: x.flip(0)).memory.mask, torch.cat(seen, 1).flip(0))


def test_stepping_over_a_past_is_all_at_once():
    """With a prompt padded at the left, then singly, then two at once."""
    torch.manual_seed(0)
    x, mask = torch.randn(B, K, D), torch.arange(K) >= torch.tensor([[0], [2]])
    for strict, gradients in product((False, True), (False, True)):
        attend = Attend(ScaledDot(D, D), causal=True, strict=strict)
        whole = attend(x, attend.remember(x, mask=mask))
        past, found = GrowingMemory(), []
        with torch.set_grad_enabled(gradients):
            for part in (slice(0, 4), slice(4, 5), slice(5, 7)):
                past = past.append(attend.remember(x[:, part], mask=mask[:, part]))
                found.append(attend(Question(x[:, part], newest=True), past.memory))
        assert torch.allclose(torch.cat(found, 1), whole, atol=1e-6), (strict, gradients)
