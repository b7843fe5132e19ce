"""Attention as a function: torch's own, and the same as the modules."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from regard.attention import (
    Additive,
    Attend,
    Cosine,
    Dot,
    Hard,
    LocalMonotonic,
    Look,
    Question,
    ScaledDot,
    TemperedQuestion,
    attention,
    look,
    trace,
)

B, Q, K, D, V = 3, 5, 7, 12, 9


def inputs(heads=()):
    torch.manual_seed(0)
    mask = torch.arange(K) < torch.tensor([[K], [3], [1]])
    q, k, v = (torch.randn(B, *heads, n, d) for n, d in ((Q, D), (K, D), (K, V)))
    return q, k, v, mask


@pytest.mark.parametrize("heads", [(), (4,)], ids=["flat", "heads"])
def test_is_torchs_own(heads):
    q, k, v, mask = inputs(heads)
    places = mask.view(B, *[1] * len(heads), 1, K)
    want = F.scaled_dot_product_attention(q, k, v, places)
    torch.testing.assert_close(attention(q, k, v, mask=mask), want, atol=1e-6, rtol=0)
    bias = torch.randn(B, Q, K)
    spread = bias.view(B, *[1] * len(heads), Q, K)
    want = F.scaled_dot_product_attention(q, k, v, spread.masked_fill(~places, -torch.inf))
    torch.testing.assert_close(attention(q, k, v, mask=mask, bias=bias), want, atol=1e-6, rtol=0)
    want = F.scaled_dot_product_attention(q, k[..., :Q, :], v[..., :Q, :], is_causal=True)
    torch.testing.assert_close(attention(q, k[..., :Q, :], v[..., :Q, :], causal=True), want, atol=1e-6, rtol=0)


def test_the_additive_score_by_hand():
    """sum_d tanh(q_d + k_d), softmax over the allowed places."""
    q, k, v, mask = inputs()
    scores = (q[:, :, None] + k[:, None]).tanh().sum(-1).masked_fill(~mask[:, None], -torch.inf)
    seen = look(q, k, v, score="additive", mask=mask)
    assert isinstance(seen, Look)
    torch.testing.assert_close(seen.weights, scores.softmax(-1), atol=1e-6, rtol=0)
    torch.testing.assert_close(attention(q, k, v, score="additive", mask=mask), scores.softmax(-1) @ v)


def test_the_plain_cosine():
    """cos of (3, 4) with (6, 8) is 1, with (4, -3) 0, with (0, -5) -0.8, whatever their lengths."""
    query, keys = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[6.0, 8.0], [4.0, -3.0], [0.0, -5.0]]])
    seen = look(query, keys, score="cosine")
    torch.testing.assert_close(seen.scores[0, 0], torch.tensor([1.0, 0.0, -0.8]))
    powers = [math.exp(x) for x in (1.0, 0.0, -0.8)]
    weights = [x / sum(powers) for x in powers]
    assert seen.weights[0, 0].tolist() == pytest.approx(weights, abs=1e-6)
    read = [6 * weights[0] + 4 * weights[1], 8 * weights[0] - 3 * weights[1] - 5 * weights[2]]
    assert attention(query, keys, score="cosine")[0, 0].tolist() == pytest.approx(read, abs=1e-5)
    sharper = look(query, keys, score=Cosine(2, 2, beta=5.0))
    torch.testing.assert_close(sharper.scores[0, 0], torch.tensor([5.0, 0.0, -4.0]))


def test_is_the_module():
    """With scores and weighings of either kind, and the keys as values."""
    q, k, v, mask = inputs()
    ways = [(name, module(D, D)) for name, module in (("dot", Dot), ("scaled_dot", ScaledDot))]
    additive = Additive(D, D)
    for score, module in [*ways, (additive, additive)]:
        attend = Attend(module)
        assert torch.equal(attention(q, k, v, score=score, mask=mask), attend(q, attend.remember(k, v, mask)))
        assert torch.equal(attention(q, k, score=score), attend(q, attend.remember(k)))
    hard = Attend(ScaledDot(D, D), Hard()).eval()
    seen = look(q, k, v, weigh="hard", mask=mask)
    assert torch.equal(seen.read, hard.look(q, hard.remember(k, v, mask)).read)
    assert seen.chosen is not None
    local = LocalMonotonic(window=1)
    attend = Attend(ScaledDot(D, D), local)
    assert torch.equal(attention(q, k, v, weigh=local), attend(q, attend.remember(k, v)))


def test_masks_and_bias_in_a_window():
    """Local attention gathers the entries of its places."""
    q, k, v, mask = inputs()
    bias, some = torch.randn(Q, K), torch.rand(B, Q, K) < 0.7
    found = look(q, k, v, weigh=LocalMonotonic(window=1), mask=mask, query_mask=some, bias=bias)
    near = (torch.arange(K) - torch.arange(Q)[:, None]).abs() <= 1
    wanted = look(q, k, v, mask=mask, query_mask=some & near, bias=bias)
    torch.testing.assert_close(found.dense(K), wanted.weights, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.read, wanted.read, atol=1e-6, rtol=0)


def test_a_trace_sees_masks_and_bias_too():
    q, k, v, mask = inputs((2,))
    attend = Attend(ScaledDot(D, D))
    question = Question(q, mask=torch.rand(B, 2, Q, K) < 0.6, bias=torch.randn(Q, K))
    memory = attend.remember(k, v, mask)
    with trace(attend, heads=[1], rows=[0, 3]) as seen:
        attend(question, memory)
    exact = attend.look(question, memory).weights[:, [1]][:, :, [0, 3]]
    torch.testing.assert_close(seen[""], exact, atol=1e-6, rtol=0)
    assert torch.equal(seen["", "mask"], (question.mask[:, 1] & mask[:, None])[:, [0, 3]])


def test_what_has_weights_is_refused_with_the_remedy():
    q, k, v, _ = inputs()
    for name in ("general", "location"):
        with pytest.raises(ValueError, match=rf"{name!r} has weights to learn.*build_score\('{name}', 12, 12"):
            attention(q, k, v, score=name)
    with pytest.raises(ValueError, match=r"unknown score 'dit'; there are dot, scaled_dot, additive, cosine"):
        attention(q, k, v, score="dit")
    with pytest.raises(ValueError, match=r"'local-m' needs a window.*build_weigh\('local-m'"):
        attention(q, k, v, weigh="local-m")
    with pytest.raises(ValueError, match="unknown way to weigh 'max'; there are soft and hard"):
        attention(q, k, v, weigh="max")


def test_wrong_shapes_are_said_in_words():
    q, k, v, mask = inputs()
    with pytest.raises(ValueError, match="queries and keys of the same size, got 12 and 9"):
        attention(q, v, v)
    with pytest.raises(ValueError, match=r"a query of shape \(2, 5, 12\) cannot look at .* \(3, 7, 12\)"):
        attention(q[1:], k, v, score="additive")
    with pytest.raises(ValueError, match=r"got keys \(3, 7, 12\) and values \(3, 6, 9\)"):
        attention(q, k, v[:, 1:])
    with pytest.raises(ValueError, match=r"of shape \(3, 7\); got torch.bool of shape \(2, 7\)"):
        attention(q, k, v, mask=mask[1:])
    with pytest.raises(ValueError, match=r"the query of this score must have the shape \(batch, places, 12\)"):
        attention(q[0], k, v)
    attend = Attend(Additive(D, V))
    with pytest.raises(ValueError, match=r"the keys of this score must have the shape \(batch, places, 9\), got"):
        attend.remember(k)
    memory = attend.remember(v)
    with pytest.raises(ValueError, match=r"got keys \(3, 7, 12\) and values \(3, 6, 9\)"):
        attend(q, replace(memory, values=v[:, 1:]))
    for name, wrong in (
        ("position", torch.arange(Q + 1)),
        ("since", torch.zeros(B, 1)),
        ("beta", torch.ones(2, Q)),
    ):
        kind = TemperedQuestion if name == "beta" else Question
        with pytest.raises(ValueError, match=f"{name} must have the shape"):
            attend(kind(q, **{name: wrong}), memory)
