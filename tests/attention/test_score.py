"""Each score against its formula in float64, written out pair by pair."""

import copy
import math
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.attention import (
    SCORES,
    Additive,
    Attend,
    Cosine,
    Dot,
    General,
    GrowingMemory,
    Location,
    Question,
    ScaledDot,
    TemperedQuestion,
    build_score,
)

B, Q, K, D, E = 2, 3, 4, 5, 7  # E: the size of keys, where a score takes another than the query's
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
PRECISION = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}  # against the largest entry


def pair(name, p, q, k, place):
    """One score of one query and one key, as systems.md writes it; p: the score's parameters."""
    if name == "dot":
        return sum(q[d] * k[d] for d in range(len(q)))
    if name == "scaled_dot":
        return sum(q[d] * k[d] for d in range(len(q))) / math.sqrt(len(q))
    if name == "general":
        w = p["weight.weight"]
        return sum(q[i] * w[i, j] * k[j] for i in range(len(q)) for j in range(len(k)))
    if name == "additive":
        inner = p["query_weight.weight"] @ q + p["key_weight.weight"] @ k
        return sum(p["v"][d] * torch.tanh(inner[d]) for d in range(len(inner)))
    if name == "cosine":
        beta = torch.log(1 + torch.exp(p["free"]))
        return beta * (q @ k) / (torch.sqrt(q @ q) * torch.sqrt(k @ k))
    return sum(p["weight.weight"][place, d] * q[d] for d in range(len(q)))  # location


def formula(name, p, q, k):
    """(B, Q, D), (B, K, E) -> (B, Q, K)"""
    return torch.stack(
        [
            torch.stack([torch.stack([pair(name, p, qi, kj, j) for j, kj in enumerate(kb)]) for qi in qb])
            for qb, kb in zip(q, k, strict=True)
        ]
    )


def doubles(tensors):
    return [x.detach().double().requires_grad_() for x in tensors]


def off(ours, truth):
    """The largest error against the largest entry."""
    truth = truth.detach()
    return float((ours.detach().double() - truth).abs().max() / truth.abs().max().clamp_min(1e-30))


def make(name, dtype=torch.float32):
    torch.manual_seed(list(SCORES).index(name))
    size = E if name in ("general", "additive", "location") else D
    score = build_score(name, D, size, max_positions=6).to(dtype)
    q = torch.randn(B, Q, D).to(dtype).requires_grad_()
    k = torch.randn(B, K, size).to(dtype).requires_grad_()
    return score, q, k


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("name", SCORES)
def test_value_and_gradient(name, dtype):
    score, q, k = make(name, dtype)
    names, weights = zip(*score.named_parameters(), strict=True) if list(score.parameters()) else ((), ())
    inputs = [q, *([] if name == "location" else [k]), *weights]
    ours = score.compare(score.query(Question(q)), score.keys(k))
    assert ours.shape == (B, Q, K)
    assert ours.dtype == dtype
    q64, k64, *weights64 = doubles([q, k, *weights])
    truth = formula(name, dict(zip(names, weights64, strict=True)), q64, k64)
    assert off(ours, truth) < PRECISION[dtype]
    upstream = torch.randn(B, Q, K).to(dtype)
    inputs64 = [q64, *([] if name == "location" else [k64]), *weights64]
    grads = torch.autograd.grad(ours, inputs, upstream)
    for got, want in zip(grads, torch.autograd.grad(truth, inputs64, upstream.double()), strict=True):
        assert off(got, want) < PRECISION[dtype]


@pytest.mark.parametrize("name", SCORES)
def test_a_few_places_only(name):
    """compare_at is compare, picked: in value and gradient; a place outside does no harm (the mask hides it)."""
    score, q, k = make(name)
    places = torch.tensor([[0, 2], [3, 3], [1, 0]]).expand(B, Q, 2)
    weights = list(score.parameters())
    inputs = [q, *([] if name == "location" else [k]), *weights]
    all_of = score.compare(score.query(Question(q)), score.keys(k)).gather(-1, places)
    few = score.compare_at(score.query(Question(q)), score.keys(k), places)
    assert torch.allclose(few, all_of, atol=1e-6)
    upstream = torch.randn(B, Q, 2)
    for got, want in zip(
        torch.autograd.grad(few, inputs, upstream), torch.autograd.grad(all_of, inputs, upstream), strict=True
    ):
        assert torch.allclose(got, want, atol=2e-6)
    outside = score.compare_at(score.query(Question(q)), score.keys(k), places.clone().fill_(-5))
    assert outside.isfinite().all()


QUERY = torch.tensor([[[1.0, 2.0]]])
KEYS = torch.tensor([[[3.0, 4.0], [-1.0, 0.5]]])
SQUARE = torch.tensor([[1.0, 2.0], [0.0, -1.0]])


@pytest.mark.parametrize(
    ("score", "weights", "worked"),
    [
        (Dot(2, 2), {}, [11.0, 0.0]),
        (ScaledDot(2, 2), {}, [7.7781746, 0.0]),  # 11 / 1.4142136
        (General(2, 2), {"weight.weight": SQUARE}, [3.0, -1.0]),  # W k = (11, -4) and (0, -0.5)
        (
            General(2, 2, rank=1),  # U q = 5, V k = 5 and -3.5
            {"query_weight.weight": torch.tensor([[1.0, 2.0]]), "weight.weight": torch.tensor([[3.0, -1.0]])},
            [25.0, -17.5],
        ),
        (
            Additive(2, 2),  # tanh 4 - 2 tanh 6 and tanh 0 - 2 tanh 2.5
            {
                "query_weight.weight": torch.eye(2),
                "key_weight.weight": torch.eye(2),
                "v": torch.tensor([1.0, -2.0]),
            },
            [-1.0006461, -1.9732286],
        ),
        (Cosine(2, 2, beta=2.0), {}, [1.9677398, 0.0]),  # 2 * 11 / (sqrt(5) * 5)
        (Cosine(2, 2, beta=1.0), {}, [0.9838699, 0.0]),
        (
            Location(2, 2, max_positions=3),
            {"weight.weight": torch.tensor([[1.0, 0.0], [0.5, 0.5], [9.0, 9.0]])},
            [1.0, 1.5],
        ),
    ],
    ids=["dot", "scaled_dot", "general", "rank", "additive", "cosine", "plain cosine", "location"],
)
def test_worked_by_hand(score, weights, worked):
    score.load_state_dict(weights)
    ours = score.compare(score.query(Question(QUERY)), score.keys(KEYS))
    assert ours[0, 0].tolist() == pytest.approx(worked, abs=2e-6)


def test_beta_of_each_query():
    torch.manual_seed(0)
    q, k = torch.randn(B, Q, D, requires_grad=True), torch.randn(B, K, D)
    beta = torch.rand(B, Q).mul(5).requires_grad_()
    score = Cosine(D, D)
    ours = score.compare(score.query(TemperedQuestion(q, beta=beta)), score.keys(k))
    q64, k64, beta64 = doubles([q, k, beta])
    cosines = (q64 @ k64.mT) / (q64.norm(dim=-1)[..., None] * k64.norm(dim=-1)[:, None])
    truth = beta64[..., None] * cosines
    assert off(ours, truth) < 2e-6
    for got, want in zip(
        torch.autograd.grad(ours.square().sum(), [q, beta]),
        torch.autograd.grad(truth.square().sum(), [q64, beta64]),
        strict=True,
    ):
        assert off(got, want) < 3e-6


def test_beta_learned_or_given():
    assert list(dict(Cosine(2, 2).named_parameters())) == ["free"]
    same = torch.ones(1, 1, 2)
    learned, given, none = Cosine(2, 2), Cosine(2, 2, beta=3.0), Cosine(2, 2, beta=0.0)
    assert not list(given.parameters())
    for score, beta in [(learned, 10.0), (given, 3.0), (none, 0.0)]:
        got = score.compare(score.query(Question(same)), score.keys(same)).detach().item()
        assert got == pytest.approx(beta, abs=1e-5)


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
def test_cosine_of_long_vectors(dtype):
    """A length beyond float16, and its square long before."""
    score = Cosine(2, 2, beta=1.0)
    q = torch.tensor([[[300.0, 400.0]]]).to(dtype)
    k = torch.tensor([[[600.0, 800.0], [-3e4, 4e4], [6e4, 6e4]]]).to(dtype)
    ours = score.compare(score.query(Question(q)), score.keys(k))
    assert ours[0, 0].tolist() == pytest.approx([1.0, 0.28, 0.98995], abs=5e-3)


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
def test_cosine_of_nothing(dtype):
    """The zero vector has no direction: its cosine is 0 and its gradient finite."""
    score = Cosine(2, 2, beta=1.0)
    q = torch.tensor([[[3.0, 4.0]]]).to(dtype)
    k = torch.zeros(1, 1, 2).to(dtype).requires_grad_()
    ours = score.compare(score.query(Question(q)), score.keys(k))
    assert ours.detach().item() == 0
    assert torch.autograd.grad(ours.sum(), k)[0].isfinite().all()


@pytest.mark.parametrize("score", [Dot, ScaledDot, Cosine])
def test_unequal_sizes_are_refused(score):
    with pytest.raises(ValueError, match=r"got 3 and 4; make them equal, or use general or additive"):
        score(3, 4)


@torch.no_grad()
def test_a_rank_is_that_of_the_matrix():
    """(U q) . (V k) = q^T (U^T V) k; as many numbers are learned as U and V have."""
    torch.manual_seed(0)
    score, q, k = build_score("general", D, E, max_positions=1, rank=2), torch.randn(B, Q, D), torch.randn(B, K, E)
    u, v = score.query_weight.weight, score.weight.weight
    assert (u.shape, v.shape) == ((2, D), (2, E))
    whole = General(D, E)
    whole.weight.weight.copy_(u.mT @ v)
    assert torch.linalg.matrix_rank(whole.weight.weight) == 2
    attend, other = Attend(score), Attend(whole)
    assert attend.remember(k).keys.shape == (B, K, 2)
    torch.testing.assert_close(attend.look(q, attend.remember(k)).scores, other.look(q, other.remember(k)).scores)
    torch.testing.assert_close(attend(q, attend.remember(k)), other(q, other.remember(k)))


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("general", {"rank": 6}, r"the rank of a matrix of 5 x 7 lies in \[1, 5\], got 6"),
        (
            "general",
            {"beta": 1.0},
            "beta is the factor of score = cosine, and this score is general; leave beta at 0",
        ),
        ("cosine", {"beta": -1.0}, r"beta must be above 0, or 0 \(learned\), got -1.0"),
        ("additive", {"rank": 2}, "rank is of the matrix of score = general, and this score is additive"),
    ],
)
def test_a_setting_that_a_score_does_not_have_is_refused(name, settings, words):
    with pytest.raises(ValueError, match=words):
        build_score(name, D, E, max_positions=1, **settings)


def test_unknown_name_is_refused():
    with pytest.raises(
        ValueError, match=r"'concat'; there are dot, scaled_dot, general, additive, cosine, location"
    ):
        build_score("concat", 3, 3, max_positions=9)


def test_location_refuses_a_longer_memory():
    attend = Attend(Location(D, D, max_positions=4))
    q = torch.randn(1, 1, D)
    assert attend(q, attend.remember(torch.randn(1, 4, D))).shape == (1, 1, D)
    with pytest.raises(ValueError, match=r"has 4 positions, this memory has 5; shorten"):
        attend.remember(torch.randn(1, 5, D))


@pytest.mark.parametrize("gradients", [True, False])
def test_location_refuses_a_memory_that_grew_too_long(gradients):
    attend, memory = Attend(Location(D, D, max_positions=4)), GrowingMemory()
    with torch.set_grad_enabled(gradients):
        for size in (4, 1):
            memory = memory.append(attend.remember(torch.randn(1, size, D)))
        with pytest.raises(ValueError, match=r"has 4 positions"):
            attend(torch.randn(1, 1, D), memory.memory)


def usual(score, q, k):
    """The additive score as everyone writes it: it makes and keeps B x Q x K x D."""
    return torch.tanh(score.query_weight(q)[:, :, None] + score.key_weight(k)[:, None]) @ score.v


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("asked", "size"), [(1, 16), (8, 16), (33, 70)])
def test_additive_is_within_2e_6_of_float64(device, asked, size):
    """At D = 512 with the weights it starts from; its gradients follow."""
    torch.manual_seed(0)
    score = Additive(512, 512).to(device)
    q, k = (torch.randn(2, n, 512, device=device, requires_grad=True) for n in (asked, size))
    ours = score.compare(score.query(Question(q)), score.keys(k))
    double = copy.deepcopy(score).double()
    q64, k64 = doubles([q, k])
    truth = usual(double, q64, k64)
    assert (ours - truth).abs().max() < 2e-6
    upstream = torch.randn(2, asked, size, device=device)
    got = torch.autograd.grad(ours, [q, k, *score.parameters()], upstream)
    want = torch.autograd.grad(truth, [q64, k64, *double.parameters()], upstream.double())
    for one, other in zip(got, want, strict=True):
        assert off(one, other) < 5e-6


@pytest.mark.parametrize("device", DEVICES)
def test_additive_of_large_inputs(device):
    """|W q| up to 100 with |U k| up to 30, or the other way round: right, not merely finite; gradients too."""
    torch.manual_seed(0)
    score = Additive(32, 32).to(device)
    torch.nn.init.eye_(score.query_weight.weight)
    torch.nn.init.eye_(score.key_weight.weight)
    double = copy.deepcopy(score).double()
    large = torch.empty(1, 50, 32, device=device).uniform_(-100, 100).requires_grad_()
    small = torch.empty(1, 40, 32, device=device).uniform_(-30, 30).requires_grad_()
    for queries, keys in [(large, small), (small, large)]:
        ours = score.compare(score.query(Question(queries)), score.keys(keys))
        q64, k64 = doubles([queries, keys])
        truth = usual(double, q64, k64)
        assert (ours - truth).abs().max() < 5e-6
        got = torch.autograd.grad(ours.sum(), [queries, keys, *score.parameters()])
        want = torch.autograd.grad(truth.sum(), [q64, k64, *double.parameters()])
        for one, other in zip(got, want, strict=True):
            assert one.isfinite().all()
            assert off(one, other) < 1e-5


def additive_case():
    torch.manual_seed(0)
    score = Additive(64, 64, dim=128)
    return score, torch.randn(16, 32, 64, requires_grad=True), torch.randn(16, 64, 64, requires_grad=True)


def ours(score, q, k):
    return score.compare(score.query(Question(q)), score.keys(k))


def test_additive_keeps_no_pairs_for_the_backward_pass():
    def kept(form):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: (sizes.append(x.numel()), x)[1], lambda x: x):
            form(score, q, k)
        return sizes

    score, q, k = additive_case()
    pairs = 16 * 32 * 64 * 128
    assert max(kept(usual)) >= pairs  # the measure sees what it should
    assert max(kept(ours)) < pairs / 8
    assert sum(kept(ours)) < pairs / 4


class Live(TorchDispatchMode):
    """The most bytes alive at once in tensors made meanwhile."""

    def __init__(self, *before):
        super().__init__()
        self.before = {x.untyped_storage()._cdata for x in before}
        self.alive, self.now, self.peak = {}, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if not isinstance(x, torch.Tensor):
                continue
            storage = x.untyped_storage()
            if storage._cdata in self.before or storage._cdata in self.alive:
                continue
            self.alive[storage._cdata] = storage.nbytes()
            self.now += storage.nbytes()
            weakref.finalize(storage, self.gone, storage._cdata)
        self.peak = max(self.peak, self.now)
        return out

    def gone(self, key):
        self.now -= self.alive.pop(key)


def test_additive_takes_under_a_quarter_of_the_memory():
    def peak(form):
        score.zero_grad(set_to_none=True)
        q.grad = k.grad = None
        with Live(q, k, *score.parameters()) as live:
            form(score, q, k).square().sum().backward()
        return live.peak

    score, q, k = additive_case()
    most = peak(usual)
    assert most >= 2 * 4 * 16 * 32 * 64 * 128  # the pairs and their gradient, at least
    assert peak(ours) < most / 4
