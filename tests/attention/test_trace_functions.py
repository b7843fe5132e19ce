"""Modules of one's own that call F.scaled_dot_product_attention, layers of transformers that call softmax, and
modules that are called several times in a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import MultiHead, trace
from regard.attention.trace import sites_of
from regard.errors import NoAttention

B, H, T, D = 2, 2, 5, 8
SMALL = {"vocab_size": 20, "hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2}


def split(x: Tensor) -> Tensor:
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def attended(query: Tensor, key: Tensor, **options: Any) -> Tensor:
    """As people write it: a function beside the module, with the name imported."""
    return scaled_dot_product_attention(query, key, key, **options)


class Layer(nn.Module):
    """Self-attention by hand, with whatever options."""

    def __init__(self, **options: Any):
        super().__init__()
        self.query, self.out, self.options = nn.Linear(D, D), nn.Linear(D, D), options

    def forward(self, x: Tensor) -> Tensor:
        read = F.scaled_dot_product_attention(split(self.query(x)), split(x), split(x), **self.options)
        return self.out(read.transpose(1, 2).flatten(2))


class WithHelper(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return attended(self.query(x), x)


class SelfAndCross(Layer):
    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = torch.ones(B, 3, D) if memory is None else memory
        return attended(attended(self.query(x), x), memory)


class Stacked(nn.Module):
    def __init__(self, *layers: nn.Module, times: int = 1):
        super().__init__()
        self.layers, self.times = nn.ModuleList(layers), times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            for layer in self.layers:
                x = x + (layer(x, x, x)[0] if isinstance(layer, nn.MultiheadAttention) else layer(x))
        return x


class Shared(nn.Module):
    """Regard's heads, shared by three depths."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = MultiHead(D, H)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + self.attend(x, x)
        return x


@pytest.fixture
def x() -> Tensor:
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(0))


MASK = torch.rand(B, 1, T, T, generator=torch.Generator().manual_seed(1)) > 0.4
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "masked": {"attn_mask": MASK},
    "biased": {"attn_mask": torch.randn(T, T, generator=torch.Generator().manual_seed(2))},
    "hidden": {"attn_mask": torch.zeros(B, 1, T, T).masked_fill(~MASK, float("-inf"))},
    "scaled": {"scale": 0.1},
}


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_the_weights_of_ones_own_call(x: Tensor, options: str) -> None:
    """What it reads are these weights times the values, to the last bit of what it gave without a trace."""
    layer = Layer(**OPTIONS[options])
    model = Stacked(layer).eval()
    plain = model(x)
    with trace(model) as seen:
        assert torch.equal(model(x), plain)
    assert sites_of(model) == seen.sites == ["layers.0"]
    weights, allowed = seen["layers.0"], seen["layers.0", "mask"]
    assert weights.shape == (B, H, T, T)
    given = OPTIONS[options]
    mask = given.get("attn_mask", torch.ones(T, T, dtype=torch.bool))
    mask = mask.tril() if options == "causal" else mask
    some = (mask if mask.dtype == torch.bool else ~mask.isneginf()).expand(B, 1, T, T)[:, 0]
    assert torch.equal(allowed, some)
    read = F.scaled_dot_product_attention(split(layer.query(x)), split(x), torch.eye(T).expand(B, H, T, T), **given)
    torch.testing.assert_close(weights, read.nan_to_num(), atol=1e-6, rtol=0)
    with trace(model, heads=[1], rows=[0, 3]) as part:
        model(x)
    assert torch.equal(part["layers.0"], weights[:, [1]][:, :, [0, 3]])
    assert seen.picture(list("abcde")).save is not None


@torch.no_grad()
def test_helpers_imported_names_and_grouped_queries(x: Tensor) -> None:
    model = Stacked(WithHelper()).eval()
    with trace(model) as seen:
        model(x)
    assert seen["layers.0"].shape == (B, 1, T, T)

    class Grouped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            heads = split(x)
            return F.scaled_dot_product_attention(heads, heads[:, :1], heads[:, :1], enable_gqa=True)

    grouped = Grouped()
    with trace(grouped) as seen:
        grouped(x)
    wanted = (split(x) @ split(x)[:, :1].mT / 2).softmax(-1)
    torch.testing.assert_close(seen[""], wanted, atol=1e-6, rtol=0)


@torch.no_grad()
def test_two_kinds_of_attention_in_one_module(x: Tensor) -> None:
    """Each call of a forward has its entry, and steps of a decoder add up in each."""
    model = Stacked(SelfAndCross()).eval()
    with trace(model) as whole:
        model(x)
    assert whole.sites == ["layers.0#1", "layers.0#2"]
    assert (whole["layers.0#1"].shape[-1], whole["layers.0#2"].shape[-1]) == (T, 3)
    with pytest.raises(KeyError, match=r"called 2 times in one pass; ask for one of 'layers.0#1' to 'layers.0#2'"):
        whole["layers.0"]
    with trace(model, rows=[1]) as steps:
        for place in range(3):
            model(x[:, place : place + 1])
    assert steps["layers.0#2"].shape == (B, 1, 1, 3)


def albert() -> nn.Module:
    config = transformers.AlbertConfig(**SMALL, embedding_size=4, intermediate_size=8)
    return transformers.AlbertModel(config).eval()


def in_a_loop() -> nn.Module:
    return Stacked(nn.MultiheadAttention(D, H, batch_first=True), times=3).eval()


@pytest.mark.parametrize(
    ("made", "site", "count"),
    [
        (albert, "encoder.albert_layer_groups.0.albert_layers.0.attention", 2),
        (in_a_loop, "layers.0", 3),
        (lambda: Stacked(Layer(), times=3).eval(), "layers.0", 3),
        (Shared, "attend", 3),
    ],
)
@torch.no_grad()
def test_a_shared_layer_has_an_entry_for_each_call(
    made: Callable[[], Any], site: str, count: int, x: Tensor
) -> None:
    torch.manual_seed(0)
    model = made()
    given = torch.arange(B * T).view(B, T) if made is albert else x
    with trace(model) as seen:
        model(given)
    entries = [f"{site}#{number + 1}" for number in range(count)]
    assert seen.sites == entries == seen.having("weights")
    assert len({float(seen[entry][0, 0, 1, 2]) for entry in entries}) == count
    for entry in entries:
        assert seen[entry].shape == (B, H, T, T)
        assert seen.kinds(entry) == ["weights", "mask"]
    assert len(seen.picture(list("abcde")).panels) == count
    with trace(model, site, rows=[1]) as twice:
        model(given)
        model(given)  # another pass goes on with the rows of the same calls
    assert twice.sites == entries
    with trace(model, site, rows=[1]) as once:
        model(given)
    assert torch.equal(twice[entries[-1]], once[entries[-1]])
    # The last bit of a product of one row may be another than that of all rows, by processor.
    torch.testing.assert_close(once[entries[-1]], seen[entries[-1]][:, :, [1]], rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_decoder_of_ones_own_in_steps(x: Tensor) -> None:
    """One query after another over what has grown, in one pass or in many."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = nn.MultiheadAttention(D, H, batch_first=True)

        def forward(self, x: Tensor) -> None:
            for place in range(1, T + 1):
                self.attend(x[:, place - 1 : place], x[:, :place], x[:, :place])

    model = Decoder()
    with trace(model) as seen:
        model(x)
    future = torch.ones(T, T).triu(1).bool()
    wanted = model.attend(x, x, x, attn_mask=future, average_attn_weights=False)[1]
    torch.testing.assert_close(seen["attend"], wanted, atol=1e-6, rtol=0)


KINDS: dict[str, tuple[str, Any, str]] = {
    "deberta": ("DebertaV2Model", lambda: transformers.DebertaV2Config(
        **SMALL, intermediate_size=8, relative_attention=True, pos_att_type=["c2p", "p2c"]
    ), "encoder.layer.{}.attention.self"),
    "bloom": ("BloomForCausalLM", lambda: transformers.BloomConfig(
        vocab_size=20, hidden_size=D, n_head=H, n_layer=2
    ), "transformer.h.{}.self_attention"),
    "xlnet": ("XLNetModel", lambda: transformers.XLNetConfig(
        vocab_size=20, d_model=D, n_head=H, n_layer=2, d_inner=8
    ), "layer.{}.rel_attn"),
    "imagegpt": ("ImageGPTModel", lambda: transformers.ImageGPTConfig(  # nn.Softmax, a module
        vocab_size=20, n_embd=D, n_head=H, n_layer=2
    ), "h.{}.attn"),
    "xglm": ("XGLMModel", lambda: transformers.XGLMConfig(  # (B H, Q, K)
        vocab_size=20, d_model=D, attention_heads=H, num_layers=2, ffn_dim=8
    ), "layers.{}.self_attn"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # of transformers' own import
@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_layers_of_transformers_without_an_interface(name: str) -> None:
    kind, config, site = KINDS[name]
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config()).eval()
    tokens = torch.randint(3, 20, (B, T))
    given = {"input_ids": tokens, "attention_mask": torch.arange(T) < torch.tensor([[T], [3]])}
    given["attention_mask"] = given["attention_mask"].long()
    plain = model(**given)[0]
    with trace(model) as seen:
        assert torch.equal(model(**given)[0], plain)
    assert seen.sites == [site.format(layer) for layer in range(2)]
    wanted = model(**given, output_attentions=True).attentions
    for layer, weights in enumerate(wanted):
        ours, allowed = seen[site.format(layer)], seen[site.format(layer), "mask"]
        weights = weights[0] if isinstance(weights, tuple) else weights
        weights = weights.permute(2, 3, 0, 1) if weights.shape[0] != B else weights  # XLNet has them last
        some = allowed.any(-1)[:, None, :, None]
        torch.testing.assert_close(ours * some, weights * some, atol=1e-6, rtol=0)
        assert not allowed[1, 0, 3:].any()
    with trace(model, site.format(1), heads=[1], rows=[2]) as part:
        model(**given)
    assert torch.equal(part[site.format(1)], seen[site.format(1)][:, [1]][:, :, [2]])


@torch.no_grad()
def test_bloom_generates_with_a_cache() -> None:
    kind, config, site = KINDS["bloom"]
    model = getattr(transformers, kind)(config()).eval()
    tokens = torch.randint(3, 20, (B, T))
    options = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(tokens, **options)
    with trace(model, site.format(1)) as seen:
        assert torch.equal(model.generate(tokens, **options), plain)
    with trace(model, site.format(1)) as at_once:
        model(plain[:, :-1])
    torch.testing.assert_close(seen[site.format(1)], at_once[site.format(1)], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["Longformer", "BigBird"])
def test_windows_and_blocks_are_not_taken_for_heads_and_queries(name: str) -> None:
    config = getattr(transformers, f"{name}Config")(**SMALL, intermediate_size=8)
    model = getattr(transformers, f"{name}Model")(config)
    with pytest.raises(NoAttention, match="softmax over all places"), trace(model):
        pass


def test_what_can_be_seen_is_said() -> None:
    with pytest.raises(
        NoAttention,
        match=r"no attention that a trace sees; it sees regard's attention.*scaled_dot_product_attention",
    ):
        trace(nn.Linear(2, 2)).__enter__()


@torch.no_grad()
def test_nothing_stays_hooked_after_an_error(x: Tensor) -> None:
    model = Stacked(Layer()).eval()
    with pytest.raises(RuntimeError), trace(model):
        model(torch.zeros(B, T, D + 1))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with trace(model) as seen:
        model(x)
    assert seen.sites == ["layers.0"]
    with trace(model) as later:
        pass
    model(x)
    assert later.sites == []
