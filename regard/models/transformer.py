"""Attention is all you need (Vaswani et al. 2017): attention instead of recurrence.

    encoder  x -> norm(x + attend(x, x)) -> norm(x + feed(x))                                       N times
    decoder  y -> norm(y + attend(y, y up to here)) -> norm(y + attend(y, x)) -> norm(y + feed(y))  N times
    p(y_t) = softmax(W_o y_t + b),  x = sqrt(dim) E[token] + PE(position)

The target is shifted right behind a start token, and all positions train in parallel. Sizes: tiny (as in
Multi30k's published baseline), small, base and big (the paper's table 3). Differences: an output bias, as in
Marian; dropout inside attention and feed-forward layers is an option. With a joint vocabulary the start token is
<pad>, the last id, whose embedding stays 0: this is Marian's form, and such a run (post-norm, sinusoidal) is
saved as a Marian folder. `norm = "pre"` (with a final norm) and other positions do not exist there and are saved
in regard's own form; so are models with parts left out or changed, which are there to be compared: another `score`
in the heads, `norm` "none" or "batch", no residual connections, no feed-forward layers (ff = 0)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.attention import KEY_SCORES, GrowingMemory, Look, Memory, check_score
from regard.base.fields import check, setting
from regard.layers.block import ACTIVATIONS, Block, check_heads
from regard.layers.encoder_decoder import EncoderDecoder
from regard.layers.fused_step import try_embed, try_step
from regard.layers.loss import Loss
from regard.layers.norm import NORMS
from regard.layers.positions import POSITIONS, build_positions
from regard.layers.state import State


@dataclass(frozen=True)
class TransformerConfig:
    """The settings of a Transformer."""

    vocabulary: int = setting(at_least=1)
    source_vocabulary: int = setting(0, at_least=0)  # 0: one vocabulary for both sides
    dim: int = setting(512, at_least=1)  # width of the model
    layers: int = setting(6, at_least=1, layers=True)  # layers of the encoder
    heads: int = setting(8, at_least=1)  # attention heads of an encoder layer
    # width of the encoder's feed-forward layers
    ff: int = setting(2048, at_least=1, or_zero="no feed-forward layers")
    decoder_layers: int = setting(0, at_least=0, layers=True)  # layers of the decoder; 0: as the encoder
    decoder_heads: int = setting(0, at_least=0)  # attention heads of a decoder layer; 0: as the encoder
    decoder_ff: int = setting(0, at_least=0)  # width of the decoder's feed-forward layers; 0: as the encoder
    activation: str = setting("relu", choices=ACTIVATIONS)  # of the feed-forward layers
    # layer norm after each sub-layer (post), as in 2017, or before it (pre); none, or batch norm after it (batch)
    norm: str = setting("post", choices=NORMS)
    residual: bool = setting(True, later=True)  # x + part(x) round each sub-layer; false: part(x) alone
    # how the heads compare query and key; the paper's is scaled_dot, dot is the same without 1 / sqrt(d)
    score: str = setting("scaled_dot", choices=KEY_SCORES, later=True)
    # score = general: the rank of its matrix
    rank: int = setting(0, at_least=1, or_zero="full", later=True)
    # score = cosine: its factor; 1: the plain cosine
    beta: float = setting(0.0, above=0, or_zero="learned", later=True)
    # how positions are told: sines and cosines, a learned table, position / length, the plain number, or not at all
    positions: str = setting("sinusoidal", choices=POSITIONS)
    scaled: bool = True  # multiply embeddings by sqrt(dim)
    tied: bool = True  # one table for target and output embeddings, and the source's with a joint vocabulary
    # most tokens of a text, with learned positions; others have no end
    max_positions: int = setting(512, at_least=1)
    dropout: float = setting(0.1, at_least=0, below=1)  # dropout of embeddings and of each sub-layer's output
    attention_dropout: float = setting(0.0, at_least=0, below=1)  # dropout of attention weights
    activation_dropout: float = setting(0.0, at_least=0, below=1)  # dropout inside the feed-forward layers

    def __post_init__(self) -> None:
        check(self)
        check_score(self.score, rank=self.rank, beta=self.beta)
        for heads in (self.heads, self.decoder_heads or self.heads):
            check_heads(self.dim, heads)
        if self.dim % 2:
            raise ValueError(f"dim must be even (sines and cosines come in pairs), got {self.dim}")

    @property
    def can_capture(self) -> bool:
        """Whether a step can be captured: a batch norm picks out the real tokens."""
        return self.norm != "batch"


class Transformer(EncoderDecoder):
    """A translator of attention and feed-forward layers alone (Vaswani 2017)."""

    paper = "Vaswani et al. 2017, Attention is all you need"
    Config = TransformerConfig
    SIZES: ClassVar = {
        "mini": {"dim": 128, "layers": 2, "heads": 4, "ff": 512},
        "tiny": {"dim": 128, "layers": 4, "heads": 4, "ff": 256},
        "small": {"dim": 256, "layers": 3, "heads": 4, "ff": 1024},
        "base": {"dim": 512, "layers": 6, "heads": 8, "ff": 2048},
        "big": {"dim": 1024, "layers": 6, "heads": 16, "ff": 4096},
    }
    AUTO_SIZES: ClassVar = {"mini": 0, "tiny": 20_000, "small": 50_000}  # by the fewest pairs that they are for
    numbering = "marian"
    padded_side = "right"  # of sources: `start` may be captured with more padding

    def __init__(self, config: TransformerConfig):
        super().__init__(config, width=config.dim, embed=config.dim)
        self.scale = config.dim**0.5 if config.scaled else 1.0
        self.positions = build_positions(config.positions, config.dim, max_positions=config.max_positions)
        shape: dict[str, Any] = {
            "activation": config.activation,
            "norm": config.norm,
            "residual": config.residual,
            "score": config.score,
            "rank": config.rank,
            "beta": config.beta,
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
        pre = config.norm == "pre"  # then the residual stream itself has no norm
        self.encoder_norm = nn.LayerNorm(config.dim) if pre else None
        self.decoder_norm = nn.LayerNorm(config.dim) if pre else None
        for block in (*self.encoder, *self.decoder):
            for part in block.modules():
                if isinstance(part, nn.Linear):
                    nn.init.xavier_uniform_(part.weight)
                    if part.bias is not None:  # a score's have none
                        nn.init.zeros_(part.bias)
        if not config.source_vocabulary:
            for table in {self.source_embed, self.target_embed}:
                _keep_last_row_0(table.weight)
        if config.positions == "learned":
            self.max_target_positions = config.max_positions

    @property
    def max_source_positions(self) -> int:
        """The most tokens it can read: only learned positions have an end."""
        return self.max_target_positions

    @property
    def alignment(self) -> str:
        """Cross-attention of the last layer but one aligns best (Garg et al. 2019)."""
        return f"decoder.{max(0, len(self.decoder) - 2)}.cross"

    def embed(
        self,
        table: nn.Embedding,
        tokens: Tensor,
        first: int | Tensor = 0,
        most: int | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """sqrt(dim) E[token] + PE(position) of tokens (N, T) whose positions start at `first` (N,). `most` is the
        largest position, given so that no GPU sync is needed to check it; `lengths` (N,) are given where known."""
        x = table(tokens) * self.scale
        if self.positions is not None:
            steps = torch.arange(tokens.shape[1], device=tokens.device)
            places = steps + first if isinstance(first, int) else first[:, None] + steps
            most = tokens.shape[1] - 1 if most is None else most
            x = x + self.positions(places, most=most, lengths=lengths).to(x.dtype)
        return self.dropout(x)

    def encode(self, source: Tensor, mask: Tensor) -> tuple[tuple[Memory, ...]]:
        """source (B, S) -> for each decoder layer the memory (B, H, S, D) it looks at"""
        self.check_source(source)
        x = self.embed(self.source_embed, source, lengths=mask.sum(1))
        for block in self.encoder:
            x = block(x, mask=mask)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        return (tuple(block.cross.remember(x, mask=mask) for block in self.decoder),)

    def target_loss(self, target: Tensor, target_mask: Tensor, encoded: Any, **how: Any) -> Loss:
        """A batch norm is told which tokens are real; nothing else looks at padding."""
        real = (target_mask[:, 1:],) if self.config.norm == "batch" else ()
        return super().target_loss(target, target_mask, (*encoded, *real), **how)

    def decode(
        self, target: Tensor, memories: tuple[Memory, ...], real: Tensor | None = None
    ) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> states (B, T, dim) and no looks: nothing is
        sampled. Padding is on the right, where the causal mask hides it; `real` (B, T) says where it is."""
        x = self.embed(self.target_embed, target)
        for block, memory in zip(self.decoder, memories, strict=True):
            x = block(x, mask=real, source=memory)
        return self.normed(x), []

    def normed(self, x: Tensor) -> Tensor:
        """The final norm of a pre-norm decoder; post-norm has none."""
        return x if self.decoder_norm is None else self.decoder_norm(x)

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read the source (B, S); `step` writes the target."""
        place = torch.zeros(len(source), dtype=torch.long, device=source.device)
        (memories,) = self.encode(source, mask)
        # A past of no places, of the shape of what is looked at.
        pasts = (GrowingMemory(memory.keys[..., :0, :], memory.values[..., :0, :]) for memory in memories)
        return State(memories, (tuple(pasts), place))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        before, place = state.rows
        most = before[0].newest
        x, after = try_embed(tokens, place, self.target_embed, self.positions, most, self.scale) or (
            self.embed(self.target_embed, tokens[:, None], place, most)[:, 0],
            place + 1,
        )
        logits = try_step(x, self.decoder, before, self.decoder_norm, self.out, state.memory)
        if logits is not None:
            written = tuple(replace(past, written=True) for past in before)
            return logits, State(state.memory, (written, after), state.width)
        x, pasts = x[:, None], []
        for block, memory, past in zip(self.decoder, state.memory, before, strict=True):
            x, grown = block.step(x, past, source=memory)
            pasts.append(grown)
        return self.out(self.normed(x)[:, 0]), State(state.memory, (tuple(pasts), after), state.width)


def _keep_last_row_0(weight: Tensor) -> None:
    """The row gets no gradient; Adam then leaves it at 0, and so does weight decay."""

    def without(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        gradient[-1] = 0
        return gradient

    with torch.no_grad():
        weight[-1] = 0
    if weight.requires_grad:
        weight.register_hook(without)
