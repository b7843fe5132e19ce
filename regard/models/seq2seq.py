"""Sequence to sequence learning with neural networks (Sutskever, Vinyals & Le 2014), and the RNN encoder-decoder of
Learning phrase representations (Cho et al. 2014): the whole source becomes one fixed vector.

    c = the encoder's final states                    all the decoder knows about the source
    s_0 = c,  s_t = f(s_{t-1}, y_{t-1})
    p(y_t) = softmax(W_o s_t)                         Sutskever 2014
    s_t = f(s_{t-1}, [y_{t-1}; c]),  p(y_t) = softmax(W_o tanh(W [s_t; y_{t-1}; c]))     Cho 2014: `remind`
    c = mean_i h_i,  s_0 = tanh(V c)                  `summary = "mean"`

No attention: this is the bottleneck that attention was invented to remove. `reverse` reverses the source words,
which Sutskever found better: the first source words are then close to the first target words. Differences: one
layer by default (Sutskever has four). In Cho's variant c is the top layer's final state itself, not tanh(V h); it
is the decoder's initial state as it is; and the output uses tanh instead of maxout. `summary = "mean"` is ours: c
is the mean of the top layer's states, the end token's included. Every decoder layer starts from tanh(V c) with a V
of its own, as Cho's does, and an LSTM's cell from 0.

No step depends on attention at the step before, so teacher forcing runs all steps at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Look
from regard.base.fields import check, setting
from regard.layers.encoder_decoder import EncoderDecoder, check_tied
from regard.layers.recurrent import KINDS, CellState, Encoder, Stack
from regard.layers.state import State

SUMMARIES = ("last", "mean")


@dataclass(frozen=True)
class Seq2seqConfig:
    """The settings of a Seq2seq."""

    vocabulary: int = setting(at_least=1)
    source_vocabulary: int = setting(0, at_least=0)  # 0: one vocabulary for both sides
    embed: int = setting(256, at_least=1)  # size of the embeddings
    dim: int = setting(512, at_least=1)  # size of the states of encoder and decoder
    cell: str = setting("lstm", choices=KINDS)  # plain RNN (tanh), GRU or LSTM
    layers: int = setting(1, at_least=1, layers=True)  # recurrent layers of encoder and decoder
    # gates start by keeping states for up to so many steps (Tallec & Ollivier 2018); 0: off
    chrono_steps: int = setting(0, at_least=0, later=True)
    reverse: bool = False  # read the source backwards (Sutskever 2014, sec. 3.3)
    remind: bool = False  # c is an input of every step, not only the initial state (Cho 2014)
    # what the source becomes: the last state, or the mean of all
    summary: str = setting("last", choices=SUMMARIES, later=True)
    max_positions: int = setting(256, at_least=1)  # most source tokens, the end token included
    dropout: float = setting(0.2, at_least=0, below=1)  # dropout of embeddings and states
    tied: bool = False  # one table for target and output embeddings, and the source's with a joint vocabulary

    def __post_init__(self) -> None:
        check(self)
        check_tied(self, width="dim")


class Seq2seq(EncoderDecoder):
    """A translator without attention: the source is one fixed vector."""

    paper = "Sutskever, Vinyals & Le 2014, Sequence to sequence learning with neural networks; Cho et al. 2014"
    Config = Seq2seqConfig
    alignment = ""  # no attention
    padded_side = "right"  # of sources: `start` may be captured with more padding

    def __init__(self, config: Seq2seqConfig):
        super().__init__(config, width=config.dim, embed=config.embed)
        dim, inputs = config.dim, config.embed + (config.dim if config.remind else 0)
        self.encoder = Encoder(
            config.cell,
            config.embed,
            dim,
            layers=config.layers,
            dropout=config.dropout,
            bidirectional=False,
            chrono_steps=config.chrono_steps,
        )
        self.decoder = Stack(config.cell, inputs, dim, layers=config.layers, dropout=config.dropout)
        self.combine = nn.Linear(2 * dim + config.embed, dim) if config.remind else None
        self.first = nn.Linear(dim, config.layers * dim) if config.summary == "mean" else None

    def encode(self, source: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """source (B, S) -> c (B, dim) and the states (B, layers, dim) where decoding starts"""
        if self.config.reverse:
            source = reverse(source, mask)
        states, last = self.encoder(self.embed_source(source), mask)
        if self.first is None:
            return last[0][:, -1], last
        mean = states.sum(1) / mask.sum(1, keepdim=True)  # padding is 0
        first = self.first(mean).tanh().unflatten(-1, (self.config.layers, -1))
        return mean, (first, *(torch.zeros_like(first) for _ in last[1:]))

    def run(self, target: Tensor, vector: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """target (N, T) of N = B W rows (W beams per sentence share one vector) -> (N, T, dim)"""
        inputs = embedded = self.dropout(self.target_embed(target))  # (N, T, E)
        if self.combine is None:
            states, state = self.decoder(inputs, state)
            return self.dropout(states), state
        beams = target.shape[0] // vector.shape[0]
        vectors = vector.repeat_interleave(beams, 0)[:, None].expand(-1, target.shape[1], -1)  # (N, T, dim)
        states, state = self.decoder(torch.cat([embedded, vectors], -1), state)
        return self.dropout(self.combine(torch.cat([states, embedded, vectors], -1)).tanh()), state

    def decode(self, target: Tensor, vector: Tensor, state: CellState) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> states (B, T, dim) and no looks"""
        return self.run(target, vector, state)[0], []

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read the source (B, S); `step` writes the target."""
        return State(*self.encode(source, mask))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        states, rows = self.run(tokens[:, None], state.memory, state.rows)
        return self.out(states[:, 0]), State(state.memory, rows, state.width)


def reverse(source: Tensor, mask: Tensor) -> Tensor:
    """a b c </s> <pad> -> c b a </s> <pad>: the end token and padding keep their positions."""
    last = mask.sum(1, keepdim=True) - 1  # (B, 1)
    place = torch.arange(source.shape[1], device=source.device)
    return source.gather(1, torch.where(place < last, last - 1 - place, place))
