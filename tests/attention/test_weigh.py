"""Each way to weigh against its formula in float64, written out query by query."""

import math
from itertools import product

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import (
    SCORES,
    WAYS,
    Additive,
    Attend,
    Dot,
    General,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    MultiHead,
    Question,
    ScaledDot,
    build_score,
    build_weigh,
)
from regard.layers.loss import Loss, Sampled
from regard.learn.reinforce import objective
from regard.learn.settings import Training

B, Q, K, D, V, W = 4, 4, 9, 6, 5, 2
LENGTHS = [9, 6, 1, 0]  # the last row has nothing to look at
PRECISION = {torch.float32: 3e-6, torch.bfloat16: 4e-2, torch.float16: 6e-3}


def right_padding():
    return torch.arange(K) < torch.tensor(LENGTHS)[:, None]


def off(ours, truth):
    """The largest error against the largest entry."""
    truth = truth.detach()
    return float((ours.detach().double() - truth).abs().max() / truth.abs().max().clamp_min(1e-30))


def formula(way, q, k, v, hidden, out):
    """Weights (B, Q, K) and reads (B, Q, V) of scaled dot scores, and the centres of local-p."""
    weights, reads, centres = [], [], []
    for b, n in enumerate(LENGTHS):
        for t in range(Q):
            if way == "local-p":  # both matrices are kept sqrt(D) times as large as they act
                inner = torch.tanh(hidden / math.sqrt(D) @ q[b, t])
                centre = n * torch.sigmoid(out[0] / math.sqrt(D) @ inner)
            else:
                centre = torch.tensor(t)
            near = round(float(centre.detach()))
            places = [i for i in range(n) if way in ("soft", "hard") or abs(i - near) <= W]
            exps = {i: torch.exp(q[b, t] @ k[b, i] / math.sqrt(D)) for i in places}
            row = {i: e / sum(exps.values()) for i, e in exps.items()}
            if way == "hard" and row:
                best = max(row, key=lambda i: float(row[i].detach()))
                row = {best: torch.ones((), dtype=torch.float64)}
            if way == "local-p":
                sigma = W / 2
                row = {i: a * torch.exp(-((i - centre) ** 2) / (2 * sigma**2)) for i, a in row.items()}
            zero = torch.zeros((), dtype=torch.float64)
            weights.append(torch.stack([row.get(i, zero) for i in range(K)]))
            reads.append(sum((a * v[b, i] for i, a in row.items()), torch.zeros(V, dtype=torch.float64)))
            centres.append(centre)
    return (
        torch.stack(weights).unflatten(0, (B, Q)),
        torch.stack(reads).unflatten(0, (B, Q)),
        torch.stack(centres).unflatten(0, (B, Q)),
    )


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_value_and_gradient(way, dtype):
    torch.manual_seed(1)
    attend = Attend(ScaledDot(D, D), build_weigh(way, D, window=W)).to(dtype).eval()
    q, k, v = (torch.randn(B, n, d).to(dtype).requires_grad_() for n, d in [(Q, D), (K, D), (K, V)])
    look = attend.look(q, attend.remember(k, v, right_padding()))
    ours = look.dense(K)
    weights = list(attend.weigh.parameters())
    q64, k64, v64, *weights64 = (x.detach().double().requires_grad_() for x in (q, k, v, *weights))
    hidden, out = weights64 or (None, None)
    truth, read, centre = formula(way, q64, k64, v64, hidden, out)
    assert way != "local-p" or ((centre[:3] % 1 - 0.5).abs() > 0.02).all()  # no window sits on the fence
    assert off(ours, truth) < PRECISION[dtype]
    assert off(look.read, read) < PRECISION[dtype]
    assert look.read.dtype == dtype
    if way == "local-p":
        assert off(look.places.centre, centre) < PRECISION[dtype]
    assert (ours[~right_padding()[:, None].expand_as(ours)] == 0).all()
    upstream = torch.randn(B, Q, V).to(dtype)
    inputs, inputs64 = ([v], [v64]) if way == "hard" else ([q, k, v, *weights], [q64, k64, v64, *weights64])
    got = torch.autograd.grad(look.read, inputs, upstream)
    for one, other in zip(got, torch.autograd.grad(read, inputs64, upstream.double()), strict=True):
        assert off(one, other) < PRECISION[dtype]


@pytest.mark.parametrize("name", SCORES)
def test_mixed_precision_reads_the_type_of_its_values(name):
    for way, training in product(WAYS, (False, True)):
        attend = Attend(build_score(name, D, D, max_positions=K), build_weigh(way, D, window=W)).train(training)
        q, states = torch.randn(B, Q, D), torch.randn(B, K, D)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            memory = attend.remember(states.bfloat16(), mask=right_padding())
            reads = [attend(q.bfloat16(), memory), attend.look(q.bfloat16(), memory).read]
        assert [read.dtype for read in reads] == [torch.bfloat16] * 2, (way, training)
        attend.eval()
        exact = attend(q.bfloat16().float(), attend.remember(states.bfloat16().float(), mask=right_padding()))
        if way == "soft":
            assert (reads[0] - exact).abs().max() < 0.1, training


def test_local_p_is_not_renormalised_and_learns_its_centre():
    torch.manual_seed(0)
    attend = Attend(Dot(D, D), LocalPredictive(D, window=W))
    with torch.no_grad():
        attend.weigh.out.weight.zero_()  # p_t = n / 2, halfway between two places of row 0
    k, v = torch.zeros(1, 5, D), torch.randn(1, 5, V)
    look = attend.look(torch.randn(1, 1, D), attend.remember(k, v))
    worked = [0.2 * math.exp(-((i - 2.5) ** 2) / 2) for i in range(5)]  # sigma = 1, equal scores
    assert look.dense(5)[0, 0].tolist() == pytest.approx(worked, abs=1e-6)
    (slope,) = torch.autograd.grad(look.read.sum(), attend.weigh.out.weight)
    assert slope.abs().sum() > 0


def test_masked_places_weigh_exactly_nothing_however_low_the_others():
    for dtype, low in [(torch.float32, -1e37), (torch.float16, -6e4), (torch.bfloat16, -1e37)]:
        scores = torch.full((1, 1, 3), low, dtype=dtype)
        mask = torch.tensor([[[True, False, True]]])
        for way in ("soft", "hard"):
            weights = build_weigh(way, D, window=1)(scores, mask, None, Question(scores)).weights
            assert weights[0, 0, 1] == 0
            assert weights.sum() == 1


# ---------------------------------------------------------------- rows with nothing, and what lies in the padding

PATHS = {
    "fused": lambda: Attend(ScaledDot(D, D)),
    "general": lambda: Attend(General(D, D)),
    "cosine": lambda: Attend(build_score("cosine", D, D, max_positions=K)),
    "additive": lambda: Attend(Additive(D, D)),
    "location": lambda: Attend(build_score("location", D, D, max_positions=K)),
    "local-m": lambda: Attend(ScaledDot(D, D), LocalMonotonic(window=W)),
    "local-m additive": lambda: Attend(Additive(D, D), LocalMonotonic(window=W)),
    "local-p": lambda: Attend(General(D, D), LocalPredictive(D, window=W)),
    "hard": lambda: Attend(ScaledDot(D, D), Hard()),
    "hard eval": lambda: Attend(ScaledDot(D, D), Hard()).eval(),
    "straight-through": lambda: Attend(Additive(D, D), Hard(straight_through=True)),
    "causal": lambda: Attend(ScaledDot(D, D), causal=True),
    "strict": lambda: Attend(ScaledDot(D, D), causal=True, strict=True),
    "strict additive": lambda: Attend(Additive(D, D), causal=True, strict=True),
    "strict local": lambda: Attend(ScaledDot(D, D), LocalPredictive(D, window=W), causal=True, strict=True),
    "heads": lambda: MultiHead(D, 2),
    "heads strict": lambda: MultiHead(D, 2, causal=True, strict=True),
}


def read_both_ways(attend, question, memory):
    """What the call reads and what the exact look reads, with all else a look gives a gradient to."""
    torch.manual_seed(7)
    look = attend.look(question, memory)
    torch.manual_seed(7)
    extra = [x for x in (look.log_probability, look.entropy) if x is not None]
    return [("called", attend(question, memory), []), ("look", look.read, extra)]


def gradients(attend, read, extra, *inputs):
    total = read.float().square().sum() + read.float().sum() + sum(x.sum() for x in extra)
    return torch.autograd.grad(total, [*inputs, *attend.parameters()], allow_unused=True, retain_graph=True)


@pytest.mark.parametrize("count", [Q, K], ids=["asked apart", "asked of itself"])
@pytest.mark.parametrize("path", PATHS)
def test_a_row_with_nothing_reads_zero(path, count):
    torch.manual_seed(0)
    attend = PATHS[path]()
    q = torch.randn(B, count, D, requires_grad=True)
    k = torch.randn(B, K, D, requires_grad=True)
    for _, read, extra in read_both_ways(attend, q, attend.remember(k, mask=right_padding())):
        out = attend.out.bias if isinstance(attend, MultiHead) else torch.zeros(1)
        assert torch.equal(read[3], out.expand_as(read[3]))  # the wholly masked row
        if attend.strict:
            assert torch.equal(read[:, 0], out.expand_as(read[:, 0]))
        if read.requires_grad:
            got = gradients(attend, read, extra, q, k)
            assert all(g.isfinite().all() for g in got if g is not None)
            assert got[0] is None or (got[0][3] == 0).all()
            assert got[1] is None or (got[1][~right_padding()] == 0).all()


@pytest.mark.parametrize("padding", ["left", "holes"])
@pytest.mark.parametrize("path", ["causal", "strict", "strict additive", "heads strict"])
def test_nothing_but_padding_before_it(path, padding):
    """Causal rows whose past is all padding read 0, though their future is not."""
    torch.manual_seed(0)
    attend = PATHS[path]()
    mask = torch.ones(2, K, dtype=torch.bool)
    mask[0, :3] = False
    if padding == "holes":
        mask[0, 5:7] = False
    x = torch.randn(2, K, D, requires_grad=True)
    out = attend.out.bias if isinstance(attend, MultiHead) else torch.zeros(1)
    for _, read, extra in read_both_ways(attend, x, attend.remember(x, mask=mask)):
        blind = 4 if attend.strict else 3
        assert torch.equal(read[0, :blind], out.expand_as(read[0, :blind]))
        assert all(g.isfinite().all() for g in gradients(attend, read, extra, x) if g is not None)


def test_a_window_beyond_the_memory_reads_zero():
    attend = Attend(ScaledDot(D, D), LocalMonotonic(window=W))
    q, k = torch.randn(1, 2, D, requires_grad=True), torch.randn(1, 5, D, requires_grad=True)
    question = Question(q, position=torch.tensor([3, 40]))
    read = attend(question, attend.remember(k))
    assert read[0, 0].abs().sum() > 0
    assert (read[0, 1] == 0).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(read.sum(), [q, k]))


@pytest.mark.parametrize("path", [path for path in PATHS if "heads" not in path])
def test_an_empty_memory_reads_zero(path):
    """A tape before its first entry."""
    attend = PATHS[path]()
    q = torch.randn(2, 1, D, requires_grad=True)
    memory = attend.remember(torch.zeros(2, 0, D))
    for _, read, _extra in read_both_ways(attend, q, memory):
        assert torch.equal(read, torch.zeros(2, 1, D))
    if path == "hard":  # nothing was drawn, for certain: as in any other row with nothing
        look = attend.look(q, memory)
        assert torch.equal(look.log_probability, torch.zeros(2, 1))
        assert torch.equal(look.entropy, torch.zeros(2, 1))


@pytest.mark.parametrize("path", PATHS)
def test_nothing_leaks_from_the_padding(path):
    torch.manual_seed(0)
    attend = PATHS[path]()
    q = torch.randn(B, Q, D, requires_grad=True)
    clean, values = torch.randn(B, K, D), torch.randn(B, K, D)
    hidden = ~right_padding()[..., None]
    results = {}
    for fill in (0.0, math.nan, math.inf, -math.inf):
        k = clean.masked_fill(hidden, fill).requires_grad_()
        v = values.masked_fill(hidden, fill).requires_grad_()
        results[fill] = found = []
        for _, read, extra in read_both_ways(attend, q, attend.remember(k, v, right_padding())):
            found.append(read.detach())
            if read.requires_grad:
                found += gradients(attend, read, extra, q, k, v)
    for fill, spoilt in results.items():
        for one, other in zip(results[0.0], spoilt, strict=True):
            assert (one is None) == (other is None), fill
            assert one is None or (other.isfinite().all() and torch.equal(one, other)), fill


# ---------------------------------------------------------------- hard attention


def test_hard_draws_by_probability_and_runs_by_the_most_likely():
    torch.manual_seed(0)
    scores = torch.tensor([0.3, -1.0, 1.2, 9.0, 0.3])
    mask = torch.tensor([True, True, True, False, True])
    p = torch.where(mask, scores.exp(), 0.0)
    p = p / p.sum()
    draws = 20_000
    weighed = Hard(soft_share=0)(scores.expand(1, draws, 5), mask, None, Question(scores))
    counts = weighed.chosen.flatten().bincount(minlength=5)
    assert counts[3] == 0
    spread = (draws * p * (1 - p)).sqrt()
    assert ((counts - draws * p).abs() <= 4 * spread).all()
    assert torch.equal(weighed.weights.argmax(-1), weighed.chosen)
    assert torch.equal(weighed.weights.sum(-1), torch.ones(1, draws))
    assert Hard().eval()(scores.expand(1, 3, 5), mask, None, Question(scores)).chosen.tolist() == [[2, 2, 2]]


def test_hard_tells_log_probability_and_entropy():
    torch.manual_seed(0)
    scores = torch.randn(3, 4, 5, requires_grad=True)
    mask = torch.ones(3, 1, 5, dtype=torch.bool)
    mask[1, :, 2:], mask[2] = False, False
    weighed = Hard(soft_share=0)(scores, mask, None, Question(scores))
    exact = scores.detach().double().requires_grad_()
    log = exact.masked_fill(~mask, -1e9).log_softmax(-1)
    picked = log.gather(-1, weighed.chosen[..., None]).squeeze(-1)[:2]
    entropy = -(log.exp() * log).sum(-1)[:2]
    for got, want in [(weighed.log_probability, picked), (weighed.entropy, entropy)]:
        assert off(got[:2], want) < 2e-6
        assert (got[2] == 0).all()
        ours = torch.autograd.grad(got.sum(), scores, retain_graph=True)[0]
        truth = torch.autograd.grad(want.sum(), exact, retain_graph=True)[0]
        assert off(ours, truth) < 2e-6


def test_half_of_the_looks_in_training_read_the_expectation():
    torch.manual_seed(0)
    scores = torch.tensor([0.3, -1.0, 1.2]).expand(1, 10_000, 3).clone().requires_grad_()
    weighed = Hard()(scores, None, None, Question(scores))
    expected = weighed.weights.amax(-1) < 1
    assert abs(expected.float().mean() - 0.5) < 0.02
    assert torch.equal(weighed.weights[expected], scores.softmax(-1)[expected])
    assert (weighed.log_probability[expected] == 0).all(), "nothing was sampled there"
    assert (weighed.log_probability[~expected] < 0).all()
    gradient = torch.autograd.grad(weighed.weights[..., 0].sum(), scores)[0].abs().sum(-1) > 0
    assert torch.equal(gradient, expected)
    with pytest.raises(ValueError, match=r"soft_share must lie in \[0, 1\), got 1"):
        Hard(soft_share=1)


def test_a_question_says_which_rows_read_the_expectation():
    torch.manual_seed(0)
    attend = Attend(Dot(D, D), Hard())
    soft = torch.tensor([True, False, True])
    query, memory = torch.randn(3, 50, D), attend.remember(torch.randn(3, K, D))
    expected = attend.look(Question(query, soft=soft), memory).weights.amax(-1) < 1
    assert torch.equal(expected, soft[:, None].expand(3, 50))
    assert not (attend.eval().look(Question(query, soft=soft), memory).weights.amax(-1) < 1).any()


def test_hard_reads_the_one_value():
    torch.manual_seed(0)
    for attend in (Attend(Dot(D, D), Hard(soft_share=0)), Attend(Dot(D, D), Hard()).eval()):
        k, v = torch.randn(2, K, D), torch.randn(2, K, V)
        look = attend.look(torch.randn(2, 3, D), attend.remember(k, v))
        for b in range(2):
            assert torch.equal(look.read[b], v[b, look.chosen[b]])


def test_reinforce_gradient_is_the_exact_expectation():
    """Two looks of one row, every pair of places: p(s) times the gradient of the surrogate adds up to the
    gradient of -E[log p(y | s)] - entropy_weight H. A second row, rewarded with 0, makes the baseline 0."""
    torch.manual_seed(0)
    attend = Attend(ScaledDot(3, 3), Hard(soft_share=0))
    q, k, v = (torch.randn(1, n, 3, requires_grad=True) for n in (2, 3, 3))
    mask = torch.tensor([[True, True, True]])
    toward = torch.randn(2, 3)
    settings = Training(steps=1, reinforce_weight=1.0, entropy_weight=0.4)
    inputs, found = [q, k, v], {}
    for _ in range(500):
        look = attend.look(q, attend.remember(k, v, mask))
        places = tuple(look.chosen[0].tolist())
        if places in found:
            continue
        known = -(look.read - toward).square().sum(2)  # (B, T)
        nothing = torch.zeros_like(known)
        both = (torch.cat([x, nothing]) for x in (known.detach(), look.log_probability, look.entropy))
        sampled = Sampled(*both, torch.ones(2, 2, dtype=torch.bool))
        loss = Loss(-known.sum(), known.detach().sum(1), torch.tensor(2), sampled)
        found[places] = torch.autograd.grad(objective(loss, settings), inputs)
    assert len(found) == 9
    exact = [x.detach().double().requires_grad_() for x in inputs]
    p = (exact[0] @ exact[1].mT / math.sqrt(3)).softmax(-1)[0]  # (2, 3)
    expected = torch.zeros((), dtype=torch.float64)
    for one, other in found:
        reward = -(exact[2][0, [one, other]] - toward).square().sum()
        expected = expected + p[0, one] * p[1, other] * reward
    entropy = -(p * p.log()).sum()
    truth = torch.autograd.grad(-(expected + 0.4 * entropy) / 2, exact)
    for i, want in enumerate(truth):
        total = sum(
            float(p[0, one].detach() * p[1, other].detach()) * grads[i].double()
            for (one, other), grads in found.items()
        )
        assert off(total, want) < 1e-5


def test_straight_through_has_the_soft_gradient():
    """Forwards one place, backwards as if soft: the slope of sum_i w_i c_i is that of the soft weights."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, D, requires_grad=True), torch.randn(2, K, D, requires_grad=True)
    v = torch.randn(2, K, V)
    grads = []
    for way in (Hard(straight_through=True), None):
        attend = Attend(ScaledDot(D, D), way)
        look = attend.look(q, attend.remember(k, v))
        grads.append(torch.autograd.grad((look.read * torch.arange(V)).sum(), [q, k]))
        if way is not None:
            chosen = torch.gather(v, 1, look.chosen[..., None].expand(-1, -1, V))
            assert torch.allclose(look.read, chosen, atol=1e-6)
    for one, other in zip(*grads, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


# ---------------------------------------------------------------- local attention costs by the window


class Tally(TorchDispatchMode):
    """Elements of everything made meanwhile that is not a view of what was there before."""

    def __init__(self, *before):
        super().__init__()
        self.before = {x.untyped_storage().data_ptr() for x in before}
        self.largest = self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in self.before:
                self.largest = max(self.largest, x.numel())
                self.total += x.numel()
        return out


FAR, ASKED, HALF, DIM = 32_768, 16, 10, 32
SEEN = 2 * HALF + 1


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("way", ["local-m", "local-p"])
@pytest.mark.parametrize("name", [*SCORES, "heads"])
def test_local_attention_costs_by_the_window(name, way, masked):
    """Nothing larger than Q x 21 keys is made, and no more work is done than for them."""
    torch.manual_seed(0)
    weigh = build_weigh(way, DIM // 2 if name == "heads" else DIM, window=HALF)
    if name == "heads":
        attend = MultiHead(DIM, 2, weigh=weigh)
    else:
        attend = Attend(build_score(name, DIM, DIM, max_positions=FAR if name == "location" else 1), weigh)
    states = torch.randn(1, FAR, DIM)
    memory = attend.remember(states, mask=torch.arange(FAR)[None] < FAR - 5 if masked else None)
    question = Question(torch.randn(1, ASKED, DIM), position=torch.arange(ASKED) * 2000)
    there = [x for x in (memory.keys, memory.values, memory.mask) if x is not None]
    with Tally(*there, states, *attend.parameters()) as tally, FlopCounterMode(display=False) as flops:
        attend(question, memory)
    window = ASKED * SEEN * DIM
    # The location score's query is itself one score per place: W q.
    beside = ASKED * FAR if name == "location" else 0
    assert tally.largest <= max(window, beside)
    assert tally.total <= 16 * window + 2 * beside  # views count too; one pass over the memory would be 97
    projections = 2 * 2 * ASKED * DIM * DIM + 2 * ASKED * DIM * (DIM + 1)
    assert flops.get_total_flops() <= 2 * 2 * window + projections + 2 * beside * DIM


def test_the_tally_sees_soft_attention():
    """The measure itself: what is not local is seen to cost by the length."""
    attend = Attend(Additive(DIM, DIM))
    memory = attend.remember(torch.randn(1, 2048, DIM))
    with Tally(memory.keys, memory.values, *attend.parameters()) as tally:
        attend(torch.randn(1, ASKED, DIM), memory)
    assert tally.total >= ASKED * 2048 * DIM


def test_names_and_windows_are_checked():
    with pytest.raises(ValueError, match=r"'loud'; there are soft, hard, local-m, local-p"):
        build_weigh("loud", D, window=1)
    with pytest.raises(ValueError, match=r"window must be at least 1, got 0"):
        build_weigh("local-m", D, window=0)
