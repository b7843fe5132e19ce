"""Marian as a folder of `transformers`, the form in which a Transformer is saved.

Marian keeps sines in the first half of the features and cosines in the second, where ours alternate. On save and
load every tensor that reads or writes features is permuted; nothing else changes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.data.artifacts import AnyTokenizer, Artifacts
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import RunError, Unrepresentable
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, columns
from regard.foreign.hf_files import (
    GENERATION,
    TOKENIZER_CONFIG,
    generation_file,
    read_decoding,
    text_names,
    tokenizer_file,
)
from regard.foreign.tokenizers import open_text
from regard.layers.positions import sinusoids
from regard.models.transformer import TransformerConfig

halves = columns(lambda places: torch.cat([places[::2], places[1::2]]), -1)
halves_of_rows = columns(lambda places: torch.cat([places[::2], places[1::2]]), 0)
pairs = columns(lambda places: places.view(2, -1).T.flatten(), -1)
pairs_of_rows = columns(lambda places: places.view(2, -1).T.flatten(), 0)


def _into(foreign: str, ours: str) -> list[Part]:
    """A linear layer whose input is features."""
    return [
        Part(f"{foreign}.weight", (f"{ours}.weight",), halves, lambda x: (pairs(x),)),
        Part(f"{foreign}.bias", (f"{ours}.bias",), lambda x: x, lambda x: (x,)),
    ]


def _out_of(foreign: str, ours: str) -> list[Part]:
    """A linear layer or a norm whose output is features."""
    return [
        Part(f"{foreign}.{name}", (f"{ours}.{name}",), halves_of_rows, lambda x: (pairs_of_rows(x),))
        for name in ("weight", "bias")
    ]


def _attention(foreign: str, ours: str) -> list[Part]:
    names = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}
    reads = [_into(f"{foreign}.{theirs}", f"{ours}.{name}") for theirs, name in names.items()]
    return [*(part for layer in reads for part in layer), *_out_of(f"{foreign}.out_proj", f"{ours}.out")]


class MarianForm(Form[TransformerConfig]):
    model = "transformer"
    model_type = "marian"
    architectures = ("MarianMTModel", "MarianModel")
    prefix = "model."
    derived = r"model\.(encoder|decoder)\.embed_positions\.weight"
    optional = "final_logits_bias"

    def lacks(self, config: TransformerConfig) -> str:
        if config.norm != "post":
            kind = {"pre": "is pre-norm", "none": "has no norm", "batch": "has batch norm"}[config.norm]
            return f"Marian is post-norm (model.norm = post), and this model {kind}"
        if not config.residual:
            return "Marian has residual connections (model.residual = true), and this model has none"
        if config.score != "scaled_dot":
            return f"Marian's score is scaled_dot, and this model's is {config.score} (model.score)"
        if not config.ff:
            return "Marian has feed-forward layers, and this model has none (model.ff = 0)"
        if config.positions != "sinusoidal":
            return f"Marian's positions are sinusoidal, and this model's are {config.positions}"
        if config.source_vocabulary:
            return "Marian has one joint vocabulary (tokens.joint = true), and this model has two"
        return ""

    def read_config(self, table: Table) -> tuple[TransformerConfig, Special | None]:
        table.must("share_encoder_decoder_embeddings", True)
        table.must("static_position_embeddings", True)
        table.take("extra_pos_embeddings", 0)  # only for learned positions
        for key in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
            table.must(key, False, 0)
        table.must("add_bias_logits", False, True)  # the bias is read if it is there
        for key in ("encoder_layerdrop", "decoder_layerdrop", "classifier_dropout", "classif_dropout"):
            table.take(key, 0.0, float)  # only used in training, or by heads that we do not have
        layers, heads, ff = (
            table.take(f"encoder_{key}", default)
            for key, default in (("layers", 12), ("attention_heads", 16), ("ffn_dim", 4096))
        )
        vocabulary = table.take("vocab_size", 58101)
        table.must("decoder_vocab_size", vocabulary, None)
        table.must("num_hidden_layers", layers)
        dim = table.take("d_model", 1024)
        table.must("hidden_size", dim)
        table.must("num_attention_heads", heads)
        config = TransformerConfig(
            vocabulary=vocabulary,
            dim=dim,
            layers=layers,
            heads=heads,
            ff=ff,
            decoder_layers=table.count("decoder_layers", 12),
            decoder_heads=table.count("decoder_attention_heads", 16),
            decoder_ff=table.count("decoder_ffn_dim", 4096),
            activation=table.take("activation_function", "gelu"),
            scaled=table.take("scale_embedding", False),
            tied=table.take("tie_word_embeddings", True),
            max_positions=table.take("max_position_embeddings", 1024),
            dropout=table.take("dropout", 0.1),
            attention_dropout=table.take("attention_dropout", 0.0),
            activation_dropout=table.take("activation_dropout", 0.0),
        )
        pad = table.token("pad_token_id", 58100, vocabulary=vocabulary)
        bad = table.table.get("bad_words_ids")
        if bad not in (None, [], [[pad]]):
            raise Unrepresentable(f"bad_words_ids = {bad!r:.80} is not supported, only [[{pad}]], the padding")
        start = table.token("decoder_start_token_id", pad, vocabulary=vocabulary)
        return config, Special(pad, start, table.token("eos_token_id", 0, vocabulary=vocabulary), -1)

    def write_config(self, config: TransformerConfig, special: Special | None) -> Json:
        assert special is not None
        return {
            "vocab_size": config.vocabulary,
            "decoder_vocab_size": config.vocabulary,
            "d_model": config.dim,
            "encoder_layers": config.layers,
            "encoder_attention_heads": config.heads,
            "encoder_ffn_dim": config.ff,
            "decoder_layers": config.decoder_layers or config.layers,
            "decoder_attention_heads": config.decoder_heads or config.heads,
            "decoder_ffn_dim": config.decoder_ff or config.ff,
            "activation_function": config.activation,
            "scale_embedding": config.scaled,
            "tie_word_embeddings": config.tied,
            "share_encoder_decoder_embeddings": True,
            "static_position_embeddings": True,
            "max_position_embeddings": config.max_positions,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.activation_dropout,
            "is_encoder_decoder": True,
            "pad_token_id": special.pad,
            "decoder_start_token_id": special.start,
            "eos_token_id": special.end,
            "bos_token_id": None,
            "forced_eos_token_id": special.end,
            "bad_words_ids": [[special.pad]],
        }

    def parts(self, config: TransformerConfig) -> list[Part]:
        parts = [Part("final_logits_bias", ("out.bias",), lambda x: x[None], lambda x: (x[0],))]
        tables = {"model.shared.weight": "target_embed.weight"}
        if not config.tied:
            tables = {
                "model.encoder.embed_tokens.weight": "source_embed.weight",
                "model.decoder.embed_tokens.weight": "target_embed.weight",
                "lm_head.weight": "out.weight",
            }
            parts.append(Part("model.shared.weight", ("source_embed.weight",), halves, lambda x: (), unused=True))
        parts += [Part(theirs, (ours,), halves, lambda x: (pairs(x),)) for theirs, ours in tables.items()]
        sides = {"encoder": config.layers, "decoder": config.decoder_layers or config.layers}
        for side, count in sides.items():
            for layer in range(count):
                theirs, ours = f"model.{side}.layers.{layer}", f"{side}.{layer}"
                parts += _attention(f"{theirs}.self_attn", f"{ours}.attend")
                parts += _out_of(f"{theirs}.self_attn_layer_norm", f"{ours}.attend_norm")
                if side == "decoder":
                    parts += _attention(f"{theirs}.encoder_attn", f"{ours}.cross")
                    parts += _out_of(f"{theirs}.encoder_attn_layer_norm", f"{ours}.cross_norm")
                parts += _into(f"{theirs}.fc1", f"{ours}.feed.inner")
                parts += _out_of(f"{theirs}.fc2", f"{ours}.feed.outer")
                parts += _out_of(f"{theirs}.final_layer_norm", f"{ours}.feed_norm")
        return parts

    def copies(self, config: TransformerConfig) -> dict[str, str]:
        if not config.tied:
            return {"model.shared.weight": ""}  # each side has its own table; this one is unused
        names = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
        return {f"{name}.weight": "model.shared.weight" for name in names}

    def check_derived(self, where: str, read: Callable[[], Tensor]) -> None:
        """Old files store the sinusoids, which are skipped; other positions are refused."""
        tensor = read()
        if tensor.dim() != 2:
            raise RunError(f"{where} holds no sinusoids; other positions are not supported")
        ours = halves(sinusoids(torch.arange(len(tensor)), tensor.shape[-1])) if tensor.dim() == 2 else tensor[:0]
        if not len(ours) or not torch.allclose(tensor, ours, atol=2e-3):  # bfloat16 is no more precise
            raise RunError(f"{where} holds no sinusoids; other positions are not supported")

    def tokenizer(self, contents: Contents, config: TransformerConfig, special: Special) -> AnyTokenizer:
        return open_text(contents, vocabulary=config.vocabulary, special=special, closes=True)

    def decoding(self, contents: Contents, special: Special) -> Decoding:
        fixed: dict[str, tuple[object, ...]] = {
            "bad_words_ids": (None, [], [[special.pad]]),
            "decoder_start_token_id": (special.start, None),
        }
        return read_decoding(contents, special, fixed)

    def small_files(self, config: TransformerConfig, artifacts: Artifacts, decoding: Decoding) -> dict[str, Json]:
        tokenizer = artifacts.own_tokenizer
        special = tokenizer.special
        generation = {
            **generation_file(special, decoding),
            "decoder_start_token_id": special.start,
            "forced_eos_token_id": special.end,
            "bad_words_ids": [[special.pad]],
            "max_length": config.max_positions,
        }
        return {
            TOKENIZER_CONFIG: tokenizer_file(tokenizer, config.max_positions, text_names(special)),
            GENERATION: generation,
        }


MARIAN = MarianForm()
