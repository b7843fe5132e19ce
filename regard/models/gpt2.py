"""Language models are unsupervised multitask learners (Radford et al. 2019): a Transformer's decoder alone.

    x = E[token] + P[position];  x -> x + look back(norm(x)) -> x + feed(norm(x))  N times;  p = softmax(E norm(x))

Pre-norm with a last norm, GELU (its tanh form), learned positions, the output tied to the embeddings, the weights
that write into the residual path drawn smaller by sqrt(2 N). Sizes: small, medium, large and xl of table 2.
A text begins after <|endoftext|>, which also parts documents. Nothing is left out. A run is a folder of
`transformers`; its weights are input-first there and output-first here, which a single token reads faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.attention import Past
from regard.attention.kernels.dropout import Dropout
from regard.data.stream import TextBatch
from regard.data.text import Special
from regard.layers.block import Block, check_block
from regard.layers.encoder_decoder import check_numbers
from regard.layers.loss import Loss, token_loss
from regard.layers.positions import Learned
from regard.layers.state import State
from regard.models.foreign import Form, Part, Table, same


@dataclass(frozen=True)
class GPT2Config:
    vocabulary: int
    dim: int = 768
    layers: int = 12
    heads: int = 12
    ff: int = 0  # 0: four times dim
    longest: int = 1024  # positions
    activation: str = "gelu_new"
    eps: float = 1e-5  # of the norms
    tied: bool = True  # one table for input and output
    dropout: float = 0.1
    embed_dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(self, may_be_0=("ff",))
        check_block(dim=self.dim, heads=self.heads, activation=self.activation, norm="pre")
        if not 0 < self.eps < 1:
            raise ValueError(f"eps must lie in (0, 1), got {self.eps}")


class GPT2(nn.Module):
    paper = "Radford et al. 2019, Language models are unsupervised multitask learners"
    Config = GPT2Config
    SIZES: ClassVar = {
        "small": {"dim": 768, "layers": 12, "heads": 12},
        "medium": {"dim": 1024, "layers": 24, "heads": 16},
        "large": {"dim": 1280, "layers": 36, "heads": 20},
        "xl": {"dim": 1600, "layers": 48, "heads": 25},
    }
    task = "generate"
    layout = "gpt2"

    def __init__(self, config: GPT2Config):
        super().__init__()
        self.config = config
        dim = config.dim
        self.embed = nn.Embedding(config.vocabulary, dim)
        self.positions = Learned(dim, longest=config.longest)
        self.embed_dropout = Dropout(config.embed_dropout)
        self.blocks = nn.ModuleList(
            Block(
                dim,
                config.heads,
                config.ff or 4 * dim,
                activation=config.activation,
                norm="pre",
                causal=True,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                eps=config.eps,
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(dim, config.eps)
        self.out = nn.Linear(dim, config.vocabulary, bias=False)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)
        for name, weight in self.blocks.named_parameters():
            if name.endswith(("attend.out.weight", "feed.outer.weight")):
                nn.init.normal_(weight, std=0.02 / (2 * config.layers) ** 0.5)
        if config.tied:
            self.out.weight = self.embed.weight

    @property
    def alignment(self) -> str:
        """The look that is shown unless another is asked for."""
        return f"blocks.{len(self.blocks) - 1}.attend"

    def states(self, tokens: Tensor, mask: Tensor | None = None, since: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> what the output reads (B, T, dim). Padding, where the mask is False, may be on either
        side: real tokens count their positions among themselves, or from the start of their document (`since`)."""
        x = self.embedded(tokens, mask, since)
        for block in self.blocks:
            x, _ = block(x, mask=mask, since=since)
        return self.norm(x)

    def embedded(self, tokens: Tensor, mask: Tensor | None, since: Tensor | None = None) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        if mask is not None:
            places = (mask.cumsum(1) - 1).clamp_min(0)
        if since is not None:
            places = places - since
        most = tokens.shape[1] - 1
        if mask is not None and most >= self.config.longest:  # with so much padding it may still fit
            most = int(places.max())
        return self.embed_dropout(self.embed(tokens) + self.positions(places, most=most))

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of what follows each token"""
        return self.out(self.states(tokens, mask))

    def loss(self, batch: TextBatch, *, smoothing: float = 0.0) -> Loss:
        states = self.states(batch.tokens[:, :-1], since=batch.since)
        total, likelihood = token_loss(
            states, self.out.weight, None, batch.tokens[:, 1:], batch.counted, smoothing=smoothing
        )
        return Loss(total, likelihood, batch.counted.sum())

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read a prompt (B, S), padded at the left, all but its last token: that is the first to be stepped on."""
        pasts = [Past() for _ in self.blocks]
        if source.shape[1]:
            padded = None if bool(mask.all()) else mask
            x = self.embedded(source, padded)
            for number, block in enumerate(self.blocks):
                x, pasts[number] = block(x, mask=padded, past=pasts[number])
        return State((), (tuple(pasts), mask.sum(1)))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        pasts, place = state.rows
        x = (self.embed(tokens) + self.positions(place, most=pasts[0].size))[:, None]
        grown = []
        for block, past in zip(self.blocks, pasts, strict=True):
            x, longer = block(x, past=past)
            grown.append(longer)
        return self.out(self.norm(x)[:, 0]), State((), (tuple(grown), place + 1), state.width)


# ---- the form of `transformers`: weights input-first, and query, key and value in one


def _transposed(foreign: str, ours: str) -> list[Part]:
    return [
        Part(f"{foreign}.weight", (f"{ours}.weight",), lambda x: x.T, lambda x: (x.T,)),
        same(f"{foreign}.bias", f"{ours}.bias"),
    ]


def _together(foreign: str, ours: str) -> list[Part]:
    def names(kind: str) -> tuple[str, ...]:
        return tuple(f"{ours}.{name}.{kind}" for name in ("query", "key", "value"))

    return [
        Part(f"{foreign}.weight", names("weight"), lambda *x: torch.cat(x).T, lambda x: x.T.chunk(3)),
        Part(f"{foreign}.bias", names("bias"), lambda *x: torch.cat(x), lambda x: x.chunk(3)),
    ]


def _parts(config: GPT2Config) -> list[Part]:
    parts = [
        same("transformer.wte.weight", "embed.weight"),
        same("transformer.wpe.weight", "positions.table.weight"),
    ]
    norms = {"transformer.ln_f": "norm"}
    for layer in range(config.layers):
        theirs, ours = f"transformer.h.{layer}", f"blocks.{layer}"
        parts += _together(f"{theirs}.attn.c_attn", f"{ours}.attend")
        parts += _transposed(f"{theirs}.attn.c_proj", f"{ours}.attend.out")
        parts += _transposed(f"{theirs}.mlp.c_fc", f"{ours}.feed.inner")
        parts += _transposed(f"{theirs}.mlp.c_proj", f"{ours}.feed.outer")
        norms |= {f"{theirs}.ln_1": f"{ours}.attend_norm", f"{theirs}.ln_2": f"{ours}.feed_norm"}
    for theirs, ours in norms.items():
        parts += [same(f"{theirs}.{kind}", f"{ours}.{kind}") for kind in ("weight", "bias")]
    if not config.tied:
        parts.append(same("lm_head.weight", "out.weight"))
    return parts


SUMMARY = ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")  # of a head that is not this one


def _read_config(table: Table) -> tuple[GPT2Config, Special]:
    table.must("scale_attn_weights", True)
    table.must("scale_attn_by_inverse_layer_idx", False)
    table.must("reorder_and_upcast_attn", False, True)  # another order of the same sums
    table.must("add_cross_attention", False)
    for key in SUMMARY:
        table.left.discard(f"summary_{key}")
    dim, longest = table.take("n_embd", 768), table.take("n_positions", 1024)
    table.must("n_ctx", longest)
    ff = table.count("n_inner", 4 * dim)
    config = GPT2Config(
        vocabulary=table.take("vocab_size", 50257),
        dim=dim,
        layers=table.take("n_layer", 12),
        heads=table.take("n_head", 12),
        ff=0 if ff == 4 * dim else ff,
        longest=longest,
        activation=table.take("activation_function", "gelu_new"),
        eps=table.take("layer_norm_epsilon", 1e-5),
        tied=table.take("tie_word_embeddings", True),
        dropout=table.take("resid_pdrop", 0.1),
        embed_dropout=table.take("embd_pdrop", 0.1),
        attention_dropout=table.take("attn_pdrop", 0.1),
    )
    end, start = table.token("eos_token_id", 50256), table.table.get("bos_token_id")
    if type(start) is not int or not 0 <= start < config.vocabulary:
        start = end  # nobody could have begun with it
    if table.table.get("bad_words_ids") not in (None, []):
        table.left.add("bad_words_ids")
    return config, Special(end, start, end, -1)


def _write_config(config: GPT2Config, special: Special) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary,
        "n_embd": config.dim,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.ff or None,
        "n_positions": config.longest,
        "activation_function": config.activation,
        "layer_norm_epsilon": config.eps,
        "tie_word_embeddings": config.tied,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.embed_dropout,
        "attn_pdrop": config.attention_dropout,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
        "pad_token_id": special.pad,
    }


GPT2_FORM = Form(
    "gpt2",
    ("GPT2LMHeadModel", "GPT2Model"),
    _read_config,
    _write_config,
    _parts,
    lambda config: "",
    prefix="transformer.",
    computed=r"transformer\.h\.\d+\.attn\.(masked_)?bias",
    copies=lambda config: {"lm_head.weight": "transformer.wte.weight"} if config.tied else {},
)
