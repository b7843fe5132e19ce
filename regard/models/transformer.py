"""Attention is all you need (Vaswani et al. 2017): no recurrence; every place looks at every other.

    encoder  x -> norm(x + look(x)) -> norm(x + feed(x))                                N times
    decoder  y -> norm(y + look back(y)) -> norm(y + look at source(y)) -> norm(y + feed(y))
    p(y_t) = softmax(W_o y_t + b),  x = sqrt(dim) E[token] + PE(position)

The target is shifted right behind a start token, and all its places learn at once. Sizes: tiny (the settings of
Multi30k's published baseline), small, base and big (the paper's table 3).
Where we depart: an output bias, as Marian has it; dropout inside attention and feed-forward layers is an option.
With a joint vocabulary the start token is <pad>, the last one, whose embedding is and stays 0: that is Marian's
form, in which such a run (post-norm, sinusoidal) is saved. `norm = "pre"` (with a last norm of its own) and learned
positions have no such form and are saved as regard's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.attention import Look, Memory, Past
from regard.data.text import Special
from regard.layers.block import Block, check_block
from regard.layers.encoder_decoder import EncoderDecoder, check_numbers
from regard.layers.positions import POSITIONS, build_positions
from regard.layers.state import State
from regard.models.foreign import Form, Part, Table, Unrepresentable, columns


@dataclass(frozen=True)
class TransformerConfig:
    vocabulary: int
    source_vocabulary: int = 0  # 0: one vocabulary for both sides
    dim: int = 512
    layers: int = 6
    heads: int = 8
    ff: int = 2048
    decoder_layers: int = 0  # 0: as the encoder; so too for the next two
    decoder_heads: int = 0
    decoder_ff: int = 0
    activation: str = "relu"
    norm: str = "post"
    positions: str = "sinusoidal"
    scaled: bool = True  # embeddings times sqrt(dim), so that positions do not drown them
    tied: bool = True  # one table for target and output embeddings, and the source's with a joint vocabulary
    longest: int = 512  # most source tokens, the end token included; with learned positions target tokens too
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self, may_be_0=("source_vocabulary", "decoder_layers", "decoder_heads", "decoder_ff"))
        for heads in (self.heads, self.decoder_heads or self.heads):
            check_block(dim=self.dim, heads=heads, activation=self.activation, norm=self.norm)
        if self.positions not in POSITIONS:
            raise ValueError(f"positions must be one of {', '.join(POSITIONS)}, got {self.positions!r}")
        if self.dim % 2:
            raise ValueError(f"dim must be even (sines and cosines come in pairs), got {self.dim}")


class Transformer(EncoderDecoder):
    paper = "Vaswani et al. 2017, Attention is all you need"
    Config = TransformerConfig
    SIZES: ClassVar = {
        "tiny": {"dim": 128, "layers": 4, "heads": 4, "ff": 256},
        "small": {"dim": 256, "layers": 3, "heads": 4, "ff": 1024},
        "base": {"dim": 512, "layers": 6, "heads": 8, "ff": 2048},
        "big": {"dim": 1024, "layers": 6, "heads": 16, "ff": 4096},
    }
    layout = "marian"

    def __init__(self, config: TransformerConfig):
        super().__init__(config, width=config.dim, embed=config.dim)
        self.scale = config.dim**0.5 if config.scaled else 1.0
        self.positions = build_positions(config.positions, config.dim, longest=config.longest)
        shape: dict[str, Any] = {
            "activation": config.activation,
            "norm": config.norm,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.activation_dropout,
        }
        self.encoder = nn.ModuleList(
            Block(config.dim, config.heads, config.ff, **shape) for _ in range(config.layers)
        )
        self.decoder: Any = nn.ModuleList(
            Block(
                config.dim,
                config.decoder_heads or config.heads,
                config.decoder_ff or config.ff,
                causal=True,
                cross=True,
                **shape,
            )
            for _ in range(config.decoder_layers or config.layers)
        )
        last = config.norm == "pre"  # its residual path is never normed inside
        self.encoder_norm = nn.LayerNorm(config.dim) if last else None
        self.decoder_norm = nn.LayerNorm(config.dim) if last else None
        for block in (*self.encoder, *self.decoder):
            for part in block.modules():
                if isinstance(part, nn.Linear):
                    nn.init.xavier_uniform_(part.weight)
                    nn.init.zeros_(part.bias)
        if not config.source_vocabulary:
            for table in {self.source_embed, self.target_embed}:
                _keep_last_row_0(table.weight)
        if config.positions == "learned":
            self.longest_target = config.longest

    @property
    def alignment(self) -> str:
        """Of the looks at the source, those of the last layer but one align best (Garg et al. 2019)."""
        return f"decoder.{max(0, len(self.decoder) - 2)}.cross"

    def embed(
        self, table: nn.Embedding, tokens: Tensor, first: int | Tensor = 0, most: int | None = None
    ) -> Tensor:
        """sqrt(dim) E[token] + PE(position), of tokens (N, T) that stand from place `first` (N,) on."""
        x = table(tokens) * self.scale
        if self.positions is not None:
            steps = torch.arange(tokens.shape[1], device=tokens.device)
            places = steps + first if isinstance(first, int) else first[:, None] + steps
            x = x + self.positions(places, most=tokens.shape[1] - 1 if most is None else most).to(x.dtype)
        return self.dropout(x)

    def encode(self, source: Tensor, mask: Tensor) -> tuple[tuple[Memory, ...]]:
        """source (B, S) -> for each layer of the decoder the memory (B, H, S, D) that it looks at"""
        self.check_source(source)
        x = self.embed(self.source_embed, source)
        for block in self.encoder:
            x, _ = block(x, mask=mask)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        return (tuple(block.cross.remember(x, mask=mask) for block in self.decoder),)

    def decode(self, target: Tensor, memories: tuple[Memory, ...]) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> states (B, T, dim); no look is drawn by chance.

        Padding is at the right, where causality hides it."""
        x = self.embed(self.target_embed, target)
        for block, memory in zip(self.decoder, memories, strict=True):
            x, _ = block(x, source=memory)
        return self.last(x), []

    def last(self, x: Tensor) -> Tensor:
        return x if self.decoder_norm is None else self.decoder_norm(x)

    def start(self, source: Tensor, mask: Tensor) -> State:
        return State(*self.encode(source, mask), tuple(Past() for _ in self.decoder))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        done = state.rows[0].size
        x = self.embed(self.target_embed, tokens[:, None], done, done)
        pasts = []
        for block, memory, past in zip(self.decoder, state.memory, state.rows, strict=True):
            x, grown = block(x, past=past, source=memory)
            pasts.append(grown)
        return self.out(self.last(x)[:, 0]), State(state.memory, tuple(pasts), state.width)


def _keep_last_row_0(weight: Tensor) -> None:
    """Adam moves by gradients alone, and weight decay leaves a 0 as it is: without a gradient it stays."""

    def without(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        gradient[-1] = 0
        return gradient

    with torch.no_grad():
        weight[-1] = 0
    if weight.requires_grad:
        weight.register_hook(without)


# ---- Marian's form in `transformers`: sines in the first half of the features and cosines in the second, where
# ours alternate. So every tensor that touches the features has them in another order; nothing else changes.

halves = columns(lambda places: torch.cat([places[::2], places[1::2]]), -1)
halves_of_rows = columns(lambda places: torch.cat([places[::2], places[1::2]]), 0)
pairs = columns(lambda places: places.view(2, -1).T.flatten(), -1)
pairs_of_rows = columns(lambda places: places.view(2, -1).T.flatten(), 0)


def _into(foreign: str, ours: str) -> list[Part]:
    """A linear layer that reads features."""
    return [
        Part(f"{foreign}.weight", (f"{ours}.weight",), halves, lambda x: (pairs(x),)),
        Part(f"{foreign}.bias", (f"{ours}.bias",), lambda x: x, lambda x: (x,)),
    ]


def _out_of(foreign: str, ours: str) -> list[Part]:
    """One that writes features; norms do, too."""
    return [
        Part(f"{foreign}.{name}", (f"{ours}.{name}",), halves_of_rows, lambda x: (pairs_of_rows(x),))
        for name in ("weight", "bias")
    ]


def _attention(foreign: str, ours: str) -> list[Part]:
    names = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}
    reads = [_into(f"{foreign}.{theirs}", f"{ours}.{name}") for theirs, name in names.items()]
    return [*(part for one in reads for part in one), *_out_of(f"{foreign}.out_proj", f"{ours}.out")]


def _parts(config: TransformerConfig) -> list[Part]:
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


def _copies(config: TransformerConfig) -> dict[str, str]:
    if not config.tied:
        return {"model.shared.weight": ""}  # each side has a table of its own, and this one is left over
    names = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    return {f"{name}.weight": "model.shared.weight" for name in names}


def _lacks(config: TransformerConfig) -> str:
    if config.norm != "post":
        return "Marian norms after each part (model.norm = post), this model before it"
    if config.positions != "sinusoidal":
        return f"Marian's positions are sinusoidal, this model's are {config.positions}"
    if config.source_vocabulary:
        return "Marian has one joint vocabulary here (tokens.joint = true), this model has two"
    return ""


def _read_config(table: Table) -> tuple[TransformerConfig, Special]:
    table.must("share_encoder_decoder_embeddings", True)
    table.must("static_position_embeddings", True)
    table.take("extra_pos_embeddings", 0)  # of learned positions, and these are not
    for key in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        table.must(key, False, 0)
    table.must("add_bias_logits", False, True)  # the bias is read if it is there
    for key in ("encoder_layerdrop", "decoder_layerdrop", "classifier_dropout", "classif_dropout"):
        table.take(key, 0.0, float)  # of training, and of a head that is not this one
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
        longest=table.take("max_position_embeddings", 1024),
        dropout=table.take("dropout", 0.1),
        attention_dropout=table.take("attention_dropout", 0.0),
        activation_dropout=table.take("activation_dropout", 0.0),
    )
    pad = table.token("pad_token_id", 58100)
    bad = table.table.get("bad_words_ids")
    if bad not in (None, [], [[pad]]):
        raise Unrepresentable(f"bad_words_ids = {bad!r:.80} has no counterpart here, only [[{pad}]], the padding")
    return config, Special(pad, table.token("decoder_start_token_id", pad), table.token("eos_token_id", 0), -1)


def _write_config(config: TransformerConfig, special: Special) -> dict[str, Any]:
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
        "max_position_embeddings": config.longest,
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


MARIAN = Form(
    "marian",
    ("MarianMTModel", "MarianModel"),
    _read_config,
    _write_config,
    _parts,
    _lacks,
    prefix="model.",
    computed=r"model\.(encoder|decoder)\.embed_positions\.weight",
    copies=_copies,
    may_lack=frozenset({"final_logits_bias"}),
)
