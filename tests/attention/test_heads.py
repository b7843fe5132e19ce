"""MultiHead beside torch.nn.MultiheadAttention with the same weights."""

import pytest
import torch

from regard.attention import Additive, Attend, Cosine, GrowingMemory, MultiHead, Question, ScaledDot
from regard.errors import BadInput

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


@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_heads_of_another_width(causal):
    """12 features, 5 heads of 4: each head by its own rows of W^Q, W^K and W^V, and W^O of (20, 12)."""
    torch.manual_seed(0)
    ours, mask = MultiHead(D, 5, head_dim=4, causal=causal), padding()
    assert [tuple(getattr(ours, name).weight.shape) for name in LINEARS] == [(20, D)] * 3 + [(D, 20)]
    q, k = torch.randn(B, Q, D), torch.randn(B, K, D)
    reads = []
    for head in range(5):
        rows = slice(4 * head, 4 * head + 4)
        query, key, value = (
            x @ getattr(ours, name).weight[rows].mT + getattr(ours, name).bias[rows]
            for name, x in (("query", q), ("key", k), ("value", k))
        )
        scores = (query @ key.mT / 2).masked_fill(~mask[:, None], -torch.inf)  # sqrt(4) = 2
        scores = scores.masked_fill(torch.ones(Q, K).triu(1).bool(), -torch.inf) if causal else scores
        reads.append(scores.softmax(-1) @ value)
    wanted = torch.cat(reads, -1) @ ours.out.weight.mT + ours.out.bias
    torch.testing.assert_close(ours(q, k, mask=mask), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.look(q, k, mask=mask).read, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(BadInput, match="head_dim must lie in"):
        MultiHead(D, 5, head_dim=0)


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


# ---------------------------------------------------------------- as nn.MultiheadAttention


def mapped(theirs, arguments):
    """torch's arguments as ours: masks the other way round, attn_mask as query_mask or bias."""
    ours = {}
    if (hidden := arguments.get("key_padding_mask")) is not None:
        ours["mask"] = ~hidden
    if (mask := arguments.get("attn_mask")) is not None and not arguments.get("is_causal"):
        mask = mask.view(B, H, Q, K) if mask.dim() == 3 else mask
        ours["query_mask" if mask.dtype == torch.bool else "bias"] = ~mask if mask.dtype == torch.bool else mask
    return MultiHead.from_torch(theirs, causal=bool(arguments.get("is_causal"))), ours


def spots(*shape):
    """Hidden places; every query may look at the first place."""
    return (torch.rand(*shape) < 0.4).index_fill(-1, torch.tensor(0), False)


FUTURE = torch.ones(Q, K, dtype=torch.bool).triu(1)
MASKS = {
    "none": dict,
    "bool": lambda: {"attn_mask": spots(Q, K)},
    "bool of each head": lambda: {"attn_mask": spots(B * H, Q, K)},
    "float": lambda: {"attn_mask": torch.randn(Q, K).masked_fill(spots(Q, K), -torch.inf)},
    "float of each head": lambda: {"attn_mask": torch.randn(B * H, Q, K)},
    "padding": lambda: {"key_padding_mask": ~padding()},
    "padding and bool": lambda: {"key_padding_mask": ~padding(), "attn_mask": spots(Q, K)},
    "causal": lambda: {"attn_mask": FUTURE, "is_causal": True},
    "causal and padding": lambda: {"attn_mask": FUTURE, "is_causal": True, "key_padding_mask": ~padding()},
}


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    "shape", [{}, {"bias": False}, {"kdim": 7, "vdim": 9}, {"vdim": 8, "bias": False}], ids=str
)
def test_loads_torchs_weights(shape, batch_first, masks):
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=batch_first, **shape).eval()
    if theirs.in_proj_bias is not None:
        torch.nn.init.normal_(theirs.in_proj_bias)
    arguments = MASKS[masks]()
    ours, options = mapped(theirs, arguments)
    q, k, v = (torch.randn(B, n, shape.get(x, D)) for n, x in ((Q, ""), (K, "kdim"), (K, "vdim")))
    given = (q, k, v) if batch_first else [x.transpose(0, 1) for x in (q, k, v)]
    with torch.no_grad():
        want, weights = theirs(*given, average_attn_weights=False, **arguments)
        want = want if batch_first else want.transpose(0, 1)
        look = ours.look(q, k, v, **options)
        torch.testing.assert_close(ours(q, k, v, **options), want, atol=1e-6, rtol=0)
    torch.testing.assert_close(look.read, want, atol=1e-6, rtol=0)
    torch.testing.assert_close(look.weights, weights, atol=1e-6, rtol=0)


def test_what_is_loaded_is_a_copy_in_the_same_mode():
    theirs = torch.nn.MultiheadAttention(D, H, dropout=0.25, dtype=torch.float64)
    ours = MultiHead.from_torch(theirs)
    assert (ours.dropout, ours.training, ours.query.weight.dtype) == (0.25, True, torch.float64)
    assert not MultiHead.from_torch(theirs.eval()).training
    torch.nn.init.zeros_(theirs.in_proj_weight)
    assert ours.query.weight.abs().sum() > 0
    for option in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(ValueError, match="add_bias_kv and add_zero_attn"):
            MultiHead.from_torch(torch.nn.MultiheadAttention(D, H, **option))


def test_keys_are_the_values_unless_given():
    ours, _ = twins()
    q, k = torch.randn(B, Q, D), torch.randn(B, K, D)
    want = ours(q, ours.remember(k, mask=padding()))
    assert torch.equal(ours(q, k, mask=padding()), want)
    assert torch.equal(ours(q, k, k, mask=padding()), want)
    with pytest.raises(ValueError, match="a Memory has its values and mask already"):
        ours(q, ours.remember(k), k)
    with pytest.raises(ValueError, match="a Question has its own mask"):
        ours(Question(q), k, query_mask=FUTURE)


def test_gradients_of_masks_and_bias():
    """Through the fused kernel and beside it; a bias that is learned gets a gradient."""
    ours, _ = twins()
    q, k = torch.randn(B, Q, D), torch.randn(B, K, D)
    bias = torch.randn(H, Q, K).requires_grad_()
    options = {"mask": padding(), "query_mask": ~spots(B, Q, K)}
    fused, exact = (
        torch.autograd.grad(read.square().sum(), [bias, *ours.parameters()])
        for read in (ours(q, k, bias=bias[None], **options), ours.look(q, k, bias=bias[None], **options).read)
    )
    for one, other in zip(fused, exact, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_query_that_may_look_nowhere_reads_nothing():
    ours, _ = twins()
    q, k = torch.randn(B, Q, D), torch.randn(B, K, D)
    nowhere = torch.zeros(Q, K, dtype=torch.bool)
    for options in ({"query_mask": nowhere}, {"bias": torch.zeros(Q, K).masked_fill(~nowhere, -torch.inf)}):
        for read in (ours(q, k, **options), ours.look(q, k, **options).read):
            assert torch.equal(read, ours.out.bias.expand(B, Q, D))


def test_wrong_shapes_are_said_in_words():
    ours = MultiHead(D, H, memory_dim=7)
    q, k = torch.randn(B, Q, D), torch.randn(B, K, 7)
    with pytest.raises(ValueError, match=r"the query must have the shape \(batch, places, 12\), got \(3, 5, 11\)"):
        ours(q[..., 1:], k)
    with pytest.raises(ValueError, match=r"the keys must have the shape \(batch, places, 7\), got \(3, 5, 12\)"):
        ours(q, q)
    with pytest.raises(ValueError, match=r"the values must have the shape \(batch, places, 7\), got \(3, 5, 12\)"):
        ours(q, k, q)
    with pytest.raises(ValueError, match=r"one value for each key; got keys \(3, 5, 7\) and values \(3, 4, 7\)"):
        ours(q, k, k[:, 1:])
    with pytest.raises(ValueError, match=r"a query of shape \(3, 3, 5, 4\) cannot look at .* \(2, 3, 5, 4\)"):
        ours(q, k[1:])
    with pytest.raises(ValueError, match=r"mask must have the shape \(5, 5\) .*, got \(4, 5\)"):
        ours(q, k, query_mask=FUTURE[1:])
    with pytest.raises(ValueError, match=r"mask must have the shape \(3, 3, 5, 5\) .*, got \(3, 2, 5, 5\)"):
        ours(q, k, query_mask=torch.ones(B, 2, Q, K, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"a query's mask is boolean.*got torch.float32 as mask"):
        ours(q, k, query_mask=torch.ones(Q, K))
    with pytest.raises(ValueError, match=r"its bias is a float; got torch.bool as bias"):
        ours(q, k, bias=FUTURE)


@pytest.mark.parametrize("shape", [{}, {"kdim": 5, "vdim": 7}, {"bias": False}])
@pytest.mark.parametrize("frozen", ["in_proj", "out_proj.weight", "k_proj_weight", ""])
def test_from_torch_keeps_what_learns(shape, frozen):
    theirs = torch.nn.MultiheadAttention(D, H, **shape)
    for name, parameter in theirs.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    with torch.no_grad():
        ours = MultiHead.from_torch(theirs)
    for name, parameter in ours.named_parameters():
        linear, kind = name.split(".")
        joint = f"in_proj_{kind}" if kind == "bias" or "kdim" not in shape else f"{linear[0]}_proj_{kind}"
        assert (
            parameter.requires_grad
            == theirs.get_parameter(f"out_proj.{kind}" if linear == "out" else joint).requires_grad
        )


def test_from_torch_refuses_another_module_by_name():
    for other in (torch.nn.Linear(D, D), torch.nn.TransformerEncoderLayer(D, H, batch_first=True), MultiHead(D, H)):
        with pytest.raises(BadInput, match=f"nn.MultiheadAttention, got .*{type(other).__name__}"):
            MultiHead.from_torch(other)
