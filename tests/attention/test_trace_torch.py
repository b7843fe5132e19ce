"""Watching torch's own attention: in layers, in eval mode, with every mask it takes."""

import threading

import pytest
import torch
from torch import nn

from regard.attention import trace

B, T, S, D, H = 3, 5, 7, 16, 4
# torch warns of its own nested tensors.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
]
REAL = torch.arange(S) < torch.tensor([[S], [4], [2]])


def attention(**options):
    torch.manual_seed(0)
    made = nn.MultiheadAttention(D, H, **options)
    if made.in_proj_bias is not None:
        nn.init.normal_(made.in_proj_bias)
    return made.eval()


def encoder(**options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D, H, 20, batch_first=True, dropout=0.3, **options)
    return nn.TransformerEncoder(layer, 2).eval()


def spots(*shape):
    return (torch.rand(*shape) < 0.4).index_fill(-1, torch.tensor(0), False)


MASKS = {
    "none": dict,
    "bool": lambda: {"attn_mask": spots(T, S)},
    "bool of each head": lambda: {"attn_mask": spots(B * H, T, S)},
    "float": lambda: {"attn_mask": torch.randn(T, S).masked_fill(spots(T, S), -torch.inf)},
    "padding": lambda: {"key_padding_mask": ~REAL},
    "float padding": lambda: {"key_padding_mask": torch.zeros(B, S).masked_fill(~REAL, -torch.inf)},
    "both": lambda: {"key_padding_mask": ~REAL, "attn_mask": spots(T, S)},
    "causal": lambda: {"attn_mask": torch.ones(T, S, dtype=torch.bool).triu(1), "is_causal": True},
}


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", [{}, {"kdim": 6, "vdim": 9, "bias": False}, {"add_bias_kv": True}], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
@torch.no_grad()
def test_the_weights_are_torchs(batch_first, options, masks):
    module = attention(batch_first=batch_first, **options)
    q, k, v = (torch.randn(B, n, options.get(x, D)) for n, x in ((T, ""), (S, "kdim"), (S, "vdim")))
    given = [q, k, v] if batch_first else [x.transpose(0, 1) for x in (q, k, v)]
    masks = MASKS[masks]()
    plain, _ = module(*given, need_weights=False, **masks)
    _, want = module(*given, average_attn_weights=False, **masks)
    with trace(module) as seen:
        watched, none = module(*given, need_weights=False, **masks)
    assert none is None
    torch.testing.assert_close(watched, plain, atol=1e-6, rtol=0)
    torch.testing.assert_close(seen[""], want, atol=1e-6, rtol=0)
    assert torch.equal(seen["", "mask"], (want > 0).any(1))
    with trace(module, heads=[3, 1], rows=[1, 4]) as some:
        module(*given, **masks)
    torch.testing.assert_close(some[""], want[:, [3, 1]][:, :, [1, 4]], atol=1e-6, rtol=0)


def test_without_a_batch_and_with_nowhere_to_look():
    module = attention()
    q, k = torch.randn(T, D), torch.randn(S, D)
    nowhere = torch.zeros(T, S, dtype=torch.bool)
    nowhere[2] = True
    with torch.no_grad(), trace(module) as seen:
        module(q, k, k, attn_mask=nowhere)
    assert seen[""].shape == (1, H, T, S)
    assert (seen[""][:, :, 2] == 0).all()
    assert torch.allclose(seen[""].sum(-1)[..., [0, 1, 3, 4]], torch.ones(()))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_in_both_modes(norm_first, training):
    """In eval mode without gradients torch would take its fast path, which calls no attention module."""
    model = encoder(norm_first=norm_first).train(training)
    x, hidden = torch.randn(B, S, D), ~REAL

    def run():
        torch.manual_seed(1)
        return model(x, src_key_padding_mask=hidden)

    with torch.set_grad_enabled(training):
        plain = run()
        with trace(model, "layers.*.self_attn") as seen:
            watched = run()
    real = REAL[:, : plain.shape[1]]
    torch.testing.assert_close(watched[real], plain[real], atol=1e-6, rtol=0)
    assert training <= torch.equal(watched, plain)
    assert seen.sites == ["layers.0.self_attn", "layers.1.self_attn"]
    assert torch.equal(seen["layers.1.self_attn", "mask"], REAL[:, None].expand(-1, S, -1))
    weights = seen["layers.0.self_attn"]
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
    if not norm_first:  # the first layer reads x itself
        _, want = attention_of(model)(x, x, x, key_padding_mask=hidden, average_attn_weights=False)
        torch.testing.assert_close(weights, want, atol=1e-6, rtol=0)


def attention_of(model):
    copy = nn.MultiheadAttention(D, H, batch_first=True).eval()
    copy.load_state_dict(model.layers[0].self_attn.state_dict())
    return copy


@torch.no_grad()
def test_a_whole_transformer():
    torch.manual_seed(0)
    model = nn.Transformer(D, H, 1, 2, 20, batch_first=True).eval()
    source, target = torch.randn(B, S, D), torch.randn(B, T, D)
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    masks = {"tgt_mask": future, "src_key_padding_mask": ~REAL, "memory_key_padding_mask": ~REAL}
    plain = model(source, target, **masks)
    with trace(model) as seen:
        torch.testing.assert_close(model(source, target, **masks), plain, atol=1e-6, rtol=0)
    layers = [f"decoder.layers.{layer}.{name}" for layer in (0, 1) for name in ("self_attn", "multihead_attn")]
    assert seen.sites == ["encoder.layers.0.self_attn", *layers]
    assert torch.equal(seen["decoder.layers.1.self_attn", "mask"], ~future.expand(B, -1, -1))
    assert seen["decoder.layers.0.multihead_attn"].shape == (B, H, T, S)
    assert (seen["decoder.layers.0.multihead_attn"].sum(1)[~REAL[:, None].expand(-1, T, -1)] == 0).all()


def left_over(model):
    return [module for module in model.modules() if module._forward_hooks or module._forward_pre_hooks]


def test_nothing_stays_hooked():
    model, x = encoder(), torch.randn(B, S, D)
    assert torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        with trace(model), trace(model, "layers.0.*"):
            assert not torch.backends.mha.get_fastpath_enabled()
        with pytest.raises(RuntimeError, match="on purpose"), trace(model) as seen:
            raise RuntimeError("on purpose")
        assert torch.backends.mha.get_fastpath_enabled()
        model(x)
    assert not left_over(model)
    assert seen.sites == []
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with trace(model):
            pass
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


@torch.no_grad()
def test_nested_and_one_after_another():
    """Each trace sees its own sites; calls add up."""
    model, x = encoder(), torch.randn(B, S, D)
    with trace(model, "layers.0.*") as outer:
        model(x)
        with trace(model, rows=[0]) as inner:
            model(x[:, :4])
    assert outer.sites == ["layers.0.self_attn"]
    assert outer["layers.0.self_attn"].shape == (B, H, S + 4, S)
    assert inner["layers.1.self_attn"].shape == (B, H, 1, 4)


@torch.no_grad()
def test_other_threads_are_not_watched():
    model, x = encoder(), torch.randn(B, S, D)
    with trace(model) as seen:
        thread = threading.Thread(target=model, args=(x,))
        thread.start()
        thread.join()
        assert seen.sites == []
        model(x)
    assert seen["layers.0.self_attn"].shape == (B, H, S, S)


@torch.no_grad()
def test_a_compiled_encoder():
    torch._dynamo.reset()
    model, x = encoder(), torch.randn(B, S, D)
    compiled = torch.compile(model, backend="eager")
    plain = compiled(x)
    with trace(compiled, "layers.1.self_attn") as seen:
        torch.testing.assert_close(compiled(x), plain, atol=1e-6, rtol=0)
    with trace(model, "layers.1.self_attn") as eager:
        model(x)
    torch.testing.assert_close(seen["layers.1.self_attn"], eager["layers.1.self_attn"], atol=1e-6, rtol=0)
    torch._dynamo.reset()
