"""MultiHead beside torch.nn.MultiheadAttention with the same weights."""

import pytest
import torch

from regard.attention import Additive, Attend, Cosine, GrowingMemory, MultiHead, Question, ScaledDot

B, Q, K, D, H = 3, 5, 5, 12, 3
LINEARS = ("query", "key", "value", "out")


def twins(*, memory_dim=None, bias=True, causal=False):
    torch.manual_seed(0)
    ours = MultiHead(D, H, memory_dim=memory_dim, bias=bias, causal=causal)
    theirs = torch.nn.MultiheadAttention(D, H, bias=bias, kdim=memory_dim, vdim=memory_dim, batch_first=True)
    with torch.no_grad():
        if bias:
            for linear in LINEARS:
                torch.nn.init.normal_(getattr(ours, linear).bias)
            theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
            theirs.out_proj.bias.copy_(ours.out.bias)
        if memory_dim is None:
            theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        else:
            for name in ("q", "k", "v"):
                linear = {"q": ours.query, "k": ours.key, "v": ours.value}[name]
                getattr(theirs, f"{name}_proj_weight").copy_(linear.weight)
        theirs.out_proj.weight.copy_(ours.out.weight)
    return ours, theirs


def padding():
    return torch.arange(K) < torch.tensor([[K], [3], [1]])


def ask_them(theirs, q, k, *, mask, causal, weights=False):
    future = torch.ones(Q, K, dtype=torch.bool).triu(1) if causal else None
    return theirs(
        q,
        k,
        k,
        key_padding_mask=None if mask is None else ~mask,
        attn_mask=future,
        need_weights=weights,
        average_attn_weights=False,
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("memory_dim", [None, 7])
@pytest.mark.parametrize("bias", [False, True])
def test_is_torchs_own(bias, memory_dim, masked, causal):
    """Values and gradients of the call, and reads and weights of the look."""
    ours, theirs = twins(memory_dim=memory_dim, bias=bias, causal=causal)
    mask = padding() if masked else None
    q = torch.randn(B, Q, D, requires_grad=True)
    k = torch.randn(B, K, memory_dim or D, requires_grad=True)
    memory = ours.remember(k, mask=mask)
    read, look = ours(q, memory), ours.look(q, memory)
    want, weights = ask_them(theirs, q, k, mask=mask, causal=causal, weights=True)
    assert torch.allclose(read, want, atol=2e-6)
    assert torch.allclose(look.read, want, atol=2e-6)
    assert look.weights.shape == (B, H, Q, K)
    assert torch.allclose(look.weights, weights, atol=2e-6)
    assert torch.allclose(ask_them(theirs, q, k, mask=mask, causal=causal)[0], want, atol=2e-6)
    upstream = torch.randn(B, Q, D)
    expected = torch.autograd.grad(want, [q, k, *theirs.parameters()], upstream)
    named = dict(zip(["q", "k", *(name for name, _ in theirs.named_parameters())], expected, strict=True))
    linears = [getattr(ours, name) for name in LINEARS]
    tensors = [q, k, *(x.weight for x in linears), *(x.bias for x in linears if bias)]
    projections = (
        list(named["in_proj_weight"].chunk(3))
        if memory_dim is None
        else [named[f"{x}_proj_weight"] for x in ("q", "k", "v")]
    )
    biases = [*named["in_proj_bias"].chunk(3), named["out_proj.bias"]] if bias else []
    wanted = [named["q"], named["k"], *projections, named["out_proj.weight"], *biases]
    for got in (read, look.read):
        grads = torch.autograd.grad(got, tensors, upstream, retain_graph=True)
        for one, other in zip(grads, wanted, strict=True):
            assert torch.allclose(one, other, atol=2e-5)


def test_heads_are_attend_on_slices():
    """head_j = attend(X W_j^Q, Y W_j^K, Y W_j^V), side by side, times W^O: with any score."""
    torch.manual_seed(0)
    size = D // H
    q, k = torch.randn(B, Q, D), torch.randn(B, K, D)
    for score in (ScaledDot(size, size), Cosine(size, size), Additive(size, size)):
        ours = MultiHead(D, H, score=score)
        one = Attend(score)
        reads = []
        for j in range(H):
            part = slice(j * size, (j + 1) * size)
            memory = one.remember(ours.key(k)[..., part], ours.value(k)[..., part], padding())
            reads.append(one(ours.query(q)[..., part], memory))
        merged = ours.out(torch.cat(reads, -1))
        memory = ours.remember(k, mask=padding())
        assert torch.allclose(ours(q, memory), merged, atol=2e-6)
        assert torch.allclose(ours.look(q, memory).read, merged, atol=2e-6)


def test_as_many_weights_whatever_the_heads():
    counts = {sum(p.numel() for p in MultiHead(D, heads).parameters()) for heads in (1, 2, 3, 12)}
    assert counts == {4 * D * D + 4 * D}


def test_values_apart_from_keys():
    ours, theirs = twins()
    q, k, v = (torch.randn(B, n, D) for n in (Q, K, K))
    want = theirs(q, k, v, key_padding_mask=~padding())[0]
    assert torch.allclose(ours(q, ours.remember(k, v, padding())), want, atol=2e-6)


def test_one_step_at_a_time():
    """The keys of each step are projected once and kept; stepping reads what the whole pass reads."""
    ours, theirs = twins(causal=True)
    x = torch.randn(B, K, D)
    whole = ask_them(theirs, x, x, mask=None, causal=True)[0]
    for gradients in (True, False):
        memory = GrowingMemory()
        with torch.set_grad_enabled(gradients):
            for t in range(K):
                memory = memory.append(ours.remember(x[:, t : t + 1]))
                read = ours(Question(x[:, t : t + 1], position=torch.tensor([t])), memory.memory)
                assert torch.allclose(read[:, 0], whole[:, t], atol=2e-6), (gradients, t)


@pytest.mark.parametrize("heads", [5, 0, -3])
def test_heads_must_divide(heads):
    with pytest.raises(ValueError, match=rf"dim must be a multiple of heads, got dim 12 and {heads} heads"):
        MultiHead(D, heads)


@pytest.mark.parametrize("junk", [float("nan"), float("inf")])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_does_not_leak(causal, junk):
    """Nor through the projections' gradients."""
    ours, _ = twins(causal=causal)
    q, states = torch.randn(B, Q, D, requires_grad=True), torch.randn(B, K, D)
    results = []
    for fill in (0.0, junk):
        k = states.masked_fill(~padding()[..., None], fill).requires_grad_()
        memory = ours.remember(k, mask=padding())
        for read in (ours(q, memory), ours.look(q, memory).read):
            grads = torch.autograd.grad(read.square().sum(), [q, k, *ours.parameters()], retain_graph=True)
            results.append([read, *grads])
    for one, other in zip(results[:2], results[2:], strict=True):
        for pure, spoilt in zip(one, other, strict=True):
            assert torch.equal(pure, spoilt)
