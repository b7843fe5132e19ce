"""Watching models of `transformers`, with the weights that they give themselves when their attention is eager."""

import copy
import subprocess
import sys
import threading
from functools import cache

import pytest
import torch
from torch import nn

from regard.attention import trace
from regard.errors import NoAttention

transformers = pytest.importorskip("transformers")

B, T, V = 2, 6, 40
MASK = torch.tensor([[1] * T, [1, 1, 1, 1, 0, 0]])
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20}
LLAMA = {"vocab_size": V, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2} | SMALL
SEQ2SEQ = {"vocab_size": V, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
LAYERS = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
T5 = {"d_model": 16, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 4}
MODELS = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(vocab_size=V, **SMALL)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=V, n_embd=16, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
    ),
    "vit": lambda: transformers.ViTModel(transformers.ViTConfig(image_size=6, patch_size=2, **SMALL)),
    "marian": lambda: transformers.MarianMTModel(
        transformers.MarianConfig(
            d_model=16, encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=32, **SEQ2SEQ, **LAYERS
        )
    ),
    "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5, **SEQ2SEQ)),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)),
    "sliding": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(sliding_window=3, head_dim=4, **LLAMA)
    ),
    "capped": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(head_dim=4, attn_logit_softcapping=2.0, **LLAMA)
    ),
}
COUNTS = {"marian": 6, "t5": 6}


def build(name, implementation=None):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform weights
            parameter.add_(0.3 * torch.randn_like(parameter))
    if implementation is not None:
        model.set_attn_implementation(implementation)
    return model


built = cache(build)  # for tests that only read it


def inputs(name, side):
    torch.manual_seed(1)
    if name == "vit":
        return {"pixel_values": torch.randn(B, 3, 6, 6)}
    given = {"input_ids": torch.randint(3, V, (B, T))}
    if side != "none":
        given["attention_mask"] = MASK if side == "right" else MASK.flip(1)
    if name in COUNTS:
        given["decoder_input_ids"] = torch.randint(3, V, (B, 5))
    return given


def attentions(output):
    """In the order of the sites."""
    if "encoder_attentions" in output:
        pairs = zip(output.decoder_attentions, output.cross_attentions, strict=True)
        return [*output.encoder_attentions, *(weights for pair in pairs for weights in pair)]
    return output.attentions


@pytest.mark.parametrize("side", ["none", "right", "left"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_the_weights_are_their_own(name, implementation, side):
    if name == "capped" and implementation == "sdpa":
        pytest.skip("transformers has no soft cap in sdpa")
    model, given = built(name, implementation), inputs(name, side)
    plain = model(**given)[0]
    with trace(model) as seen:
        watched = model(**given)[0]
    assert torch.equal(watched, plain)
    wanted = attentions(built(name, "eager")(**given, output_attentions=True))
    assert len(seen.sites) == len(wanted) == COUNTS.get(name, 2)
    for site, weights in zip(seen.sites, wanted, strict=True):
        allowed = seen[site, "mask"]
        some = allowed.any(-1)[:, None, :, None]  # padding before a text has nowhere to look
        torch.testing.assert_close(seen[site] * some, weights * some, atol=5e-6, rtol=0)  # other kernels before it
        assert (seen[site].amax(1)[~allowed & some[:, 0]] == 0).all()
        assert torch.equal(allowed & some[:, 0], (weights.amax(1) > 0) & some[:, 0])
    with trace(model, seen.sites[-1], heads=[2, 0], rows=[1, 3]) as part:
        model(**given)
    assert part.sites == seen.sites[-1:]
    exact = seen[seen.sites[-1]][:, [2, 0]][:, :, [1, 3]]
    torch.testing.assert_close(part[seen.sites[-1]], exact, atol=1e-6, rtol=0)


def test_the_read_is_these_weights_times_the_values():
    """Of sdpa itself, also where a query may look nowhere."""
    model, reads = build("llama", "sdpa"), []
    site = model.model.layers[0].self_attn
    site.o_proj.register_forward_pre_hook(lambda _, args: reads.append(args[0]))
    site.v_proj.register_forward_hook(lambda *args: reads.append(args[-1]))
    with torch.no_grad(), trace(model, "model.layers.0.self_attn") as seen:
        model(**inputs("llama", "left"))
    values, read = reads
    values = values.view(B, T, 2, 4).transpose(1, 2).repeat_interleave(2, 1)  # grouped queries
    weights = seen["model.layers.0.self_attn"]
    torch.testing.assert_close((weights @ values).transpose(1, 2).reshape(read.shape), read, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["gpt2", "llama", "sliding", "t5"])
@torch.no_grad()
def test_generation_adds_a_row_each_step(name):
    model, given = build(name), inputs(name, "none")
    given.pop("decoder_input_ids", None)
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(**given, **options)
    site = {"gpt2": "transformer.h.1.attn", "t5": "decoder.block.1.layer.0.SelfAttention"}.get(
        name, "model.layers.1.self_attn"
    )
    with trace(model, site) as seen:
        assert torch.equal(model.generate(**given, **options), plain)
    written = plain[:, :-1]  # the last token is never read
    whole = {"decoder_input_ids": written, **given} if name == "t5" else {"input_ids": written}
    with trace(model, site) as at_once:
        model(**whole)
    if name == "sliding":  # its cache drops what lies outside the window
        assert seen[site].shape[-2] == at_once[site].shape[-2]
        return
    torch.testing.assert_close(seen[site], at_once[site], atol=1e-5, rtol=0)


def test_training_draws_the_same_dropout():
    model, given = build("bert").train(), inputs("bert", "right")

    def run():
        torch.manual_seed(3)
        model.zero_grad()
        model(**given)[0].square().sum().backward()
        return [torch.rand(3), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    plain = run()
    with trace(model) as seen:
        watched = run()
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert torch.allclose(seen[seen.sites[0]].sum(-1), torch.ones(()), atol=1e-5)  # before dropout


def test_nothing_stays_patched():
    original = transformers.AttentionInterface.get_interface
    model, given = build("bert"), inputs("bert", "none")
    with torch.no_grad(), trace(model) as outer, trace(model, "*.1.*", rows=[0]) as inner:
        model(**given)
        assert transformers.AttentionInterface.get_interface is not original
    assert transformers.AttentionInterface.get_interface is original
    assert [len(seen.sites) for seen in (outer, inner)] == [2, 1]
    assert inner[inner.sites[0]].shape == (B, 4, 1, T)
    with pytest.raises(RuntimeError, match="on purpose"), trace(model) as seen:
        raise RuntimeError("on purpose")
    assert transformers.AttentionInterface.get_interface is original
    model(**given)
    assert seen.sites == []


@torch.no_grad()
def test_other_threads_and_other_models_are_not_watched():
    model, other, given = build("bert"), build("gpt2"), inputs("bert", "none")
    with trace(model) as seen:
        thread = threading.Thread(target=lambda: model(**given))
        thread.start()
        thread.join()
        other(**given)
    assert seen.sites == []


@torch.no_grad()
def test_inside_ones_own_model():
    """With torch's attention on top; the whole is compiled or not."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.reader, self.top = build("bert"), nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, tokens):
            x = self.reader(tokens)[0]
            return self.top(x[:, :1], x, x, need_weights=False)[0]

    model, tokens = Own().eval(), inputs("bert", "none")["input_ids"]
    plain = model(tokens)
    with trace(model, "top", "reader.*") as seen:
        torch.testing.assert_close(model(tokens), plain, atol=1e-6, rtol=0)
    assert seen.sites == ["reader.encoder.layer.0.attention.self", "reader.encoder.layer.1.attention.self", "top"]
    assert seen["top"].shape == (B, 2, 1, T)


def test_what_cannot_be_seen_is_said():
    model = build("bert")
    with (
        pytest.raises(NoAttention, match=r"'blocks\.\*'.*'encoder\.layer\.0\.attention\.self'"),
        trace(model, "blocks.*"),
    ):
        pass
    odd = copy.deepcopy(model)
    odd.config._attn_implementation = "flash_attention_2"
    refused = pytest.raises(
        ValueError, match=r"has 'flash_attention_2'; call model\.set_attn_implementation\(\"sdpa\"\)"
    )
    with refused, torch.no_grad(), trace(odd):
        odd(**inputs("bert", "none"))


def test_transformers_is_not_imported_for_a_trace():
    code = (
        "import sys, torch; from regard.attention import trace\n"
        "with trace(torch.nn.MultiheadAttention(4, 2)): pass\n"
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
