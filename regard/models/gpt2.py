"""Language models are unsupervised multitask learners (Radford et al. 2019): a Transformer's decoder alone.

    x = E[token] + P[position];  x -> x + attend(norm(x)) -> x + feed(norm(x))  N times;  p = softmax(E norm(x))

Causal self-attention, pre-norm with a final norm, tanh-approximated GELU, learned positions, output tied to the
embeddings. Projections into the residual stream are initialised smaller by sqrt(2 N). Sizes: small, medium, large
and xl of table 2. <|endoftext|> starts a text and separates documents. Nothing is left out. One difference:
positions are initialised with std 0.02 like every other table, as in `transformers`, and not with the 0.01 of the
authors' code. `positions = "sinusoidal"` is an option: x = sqrt(dim) E[token] + PE(position), as in 2017, so
that the waves do not drown the embeddings; a text of any length is then seen at once. A run with learned positions
is a Hugging Face folder; its Conv1D weights are (in, out) there and (out, in) here, which is faster for a single
token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.attention import BufferedMemory, GrowingMemory
from regard.base.dropout import Dropout
from regard.base.fields import check, setting
from regard.data.text.windows import TextBatch
from regard.layers.block import ACTIVATIONS, Block, check_heads
from regard.layers.encoder_decoder import NO_LIMIT
from regard.layers.fused_step import try_embed, try_step
from regard.layers.loss import Loss, next_token_loss
from regard.layers.positions import build_positions
from regard.layers.replay import must_not_sync
from regard.layers.state import State


@dataclass(frozen=True)
class GPT2Config:
    """The settings of a GPT2."""

    vocabulary: int = setting(at_least=1)
    dim: int = setting(768, at_least=1)  # width of the model
    layers: int = setting(12, at_least=1, layers=True)  # how many layers
    heads: int = setting(12, at_least=1)  # attention heads of a layer
    ff: int = setting(0, at_least=0)  # width of the feed-forward layers; 0: four times dim
    # how positions are told: a learned table, or sines and cosines, which have no end
    positions: str = setting("learned", choices=("learned", "sinusoidal"), later=True)
    max_positions: int = setting(1024, at_least=1)  # most tokens that are seen at once, with learned positions
    activation: str = setting("gelu_new", choices=ACTIVATIONS)  # of the feed-forward layers
    eps: float = setting(1e-5, above=0, below=1)  # added to the variance in layer norms
    tied: bool = True  # one table for input and output
    dropout: float = setting(0.1, at_least=0, below=1)  # dropout of each sub-layer's output
    embed_dropout: float = setting(0.1, at_least=0, below=1)  # dropout of the embeddings
    attention_dropout: float = setting(0.1, at_least=0, below=1)  # dropout of attention weights

    def __post_init__(self) -> None:
        check(self)
        check_heads(self.dim, self.heads)


class GPT2(nn.Module):
    """A language model: a stack of causal blocks."""

    paper = "Radford et al. 2019, Language models are unsupervised multitask learners"
    Config = GPT2Config
    SIZES: ClassVar = {
        "small": {"dim": 768, "layers": 12, "heads": 12},
        "medium": {"dim": 1024, "layers": 24, "heads": 16},
        "large": {"dim": 1280, "layers": 36, "heads": 20},
        "xl": {"dim": 1600, "layers": 48, "heads": 25},
    }
    task = "generate"
    numbering = "gpt2"
    padded_side = "left"  # of prompts: `start` may be captured with more padding

    def __init__(self, config: GPT2Config):
        super().__init__()
        self.config = config
        learned, dim = config.positions == "learned", config.dim
        self.max_target_positions = config.max_positions if learned else NO_LIMIT
        self.embed = nn.Embedding(config.vocabulary, dim)
        self.scale = 1.0 if learned else dim**0.5
        self.positions: Any = build_positions(config.positions, dim, max_positions=config.max_positions)
        self.embed_dropout = Dropout(config.embed_dropout)
        self.blocks: Any = nn.ModuleList(
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
        """The attention that is shown by default."""
        return f"blocks.{len(self.blocks) - 1}.attend"

    def states(self, tokens: Tensor, mask: Tensor | None = None, since: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> states (B, T, dim). Padding (mask False) may be on either side: positions count real
        tokens only. With `since` (B, T), where each token's document starts, they count from there."""
        x = self.embedded(tokens, mask, since)
        for block in self.blocks:
            x = block(x, mask=mask, since=since)
        return self.norm(x)

    def embedded(self, tokens: Tensor, mask: Tensor | None, since: Tensor | None = None) -> Tensor:
        """E[token] + P[position]: (B, T) -> (B, T, dim)"""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        if mask is not None:
            places = (mask.cumsum(1) - 1).clamp_min(0)
        if since is not None:
            places = places - since
        most = tokens.shape[1] - 1
        if mask is not None and most >= self.max_target_positions:
            most = int(places.max())  # may still fit once padding is left out; costs a GPU sync
        return self.embed_dropout(self.placed(tokens, places, most))

    def placed(self, tokens: Tensor, places: Tensor, most: int) -> Tensor:
        """E[token] + P[position] (.., dim), before dropout. `most`: the largest position."""
        x = self.embed(tokens) if self.scale == 1 else self.embed(tokens) * self.scale
        return x + self.positions(places, most=most).to(x.dtype)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of each next token."""
        return self.out(self.states(tokens, mask))

    def loss(self, batch: TextBatch, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy of each next token."""
        states = self.states(batch.tokens[:, :-1], since=batch.since)
        return next_token_loss(states, self.out, batch, label_smoothing=label_smoothing)

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read a prompt (B, S), padded on the left, without its last token, which is the first given to `step`."""
        padded = None if not must_not_sync() and bool(mask.all()) else mask
        x, pasts = self.embedded(source, padded), []
        for block in self.blocks:
            if source.shape[1]:
                x, past = block.step(x, GrowingMemory(), mask=padded)
            else:
                past = GrowingMemory().append(block.attend.remember(x))
            pasts.append(past)
        return State((), (tuple(pasts), mask.sum(1)))

    def read_on(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """As `step`, of several tokens (N, T) -> logits (N, T, V) of what follows each of them"""
        pasts, place = state.rows
        places, grown = place[:, None] + torch.arange(tokens.shape[1], device=tokens.device), []
        most = min(pasts[0].newest + tokens.shape[1], self.max_target_positions) - 1
        x = self.placed(tokens, places, most)
        if isinstance(pasts[0], BufferedMemory):  # of one row
            fan, x = pasts[0].fan(tokens.shape[1]), x.transpose(0, 1)
            for block, past in zip(self.blocks, pasts, strict=True):
                x, _ = block.step(x, replace(fan, past=past))
            x, grown = x.transpose(0, 1), pasts
        else:
            for block, past in zip(self.blocks, pasts, strict=True):
                x, longer = block.step(x, past)
                grown.append(longer)
        return self.out(self.norm(x)), State((), (tuple(grown), place + tokens.shape[1]), state.width)

    def cut_back(self, state: State, count: int | Tensor) -> State:
        """The state without its last tokens. Of pasts in buffers the search moves the place back."""
        pasts, place = state.rows
        shorter = tuple(past.cut_back(count) for past in pasts)
        return State(state.memory, (shorter, place - count), state.width)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        pasts, place = state.rows
        most = pasts[0].newest
        x, after = try_embed(tokens, place, self.embed, self.positions, most, self.scale) or (
            self.placed(tokens, place, most),
            place + 1,
        )
        logits = try_step(x, self.blocks, pasts, self.norm, self.out)
        if logits is not None:
            grown = [replace(past, written=True) for past in pasts]
            return logits, State((), (tuple(grown), after), state.width)
        x, grown = x[:, None], []
        for block, past in zip(self.blocks, pasts, strict=True):
            x, longer = block.step(x, past)
            grown.append(longer)
        return self.out(self.norm(x)[:, 0]), State((), (tuple(grown), after), state.width)
