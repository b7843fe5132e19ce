"""Sequence to sequence learning with neural networks (Sutskever, Vinyals & Le 2014), and the RNN encoder-decoder of
Learning phrase representations (Cho et al. 2014): the whole source in one fixed vector.

    c = the encoder's last states                     all that is known of the source
    s_0 = c,  s_t = f(s_{t-1}, y_{t-1})
    p(y_t) = softmax(W_o s_t)                         Sutskever 2014
    s_t = f(s_{t-1}, [y_{t-1}; c]),  p(y_t) = softmax(W_o tanh(W [s_t; y_{t-1}; c]))     Cho 2014: `remind`

There is nothing to look at: this is the bottleneck that attention was invented to remove. `reverse` turns the words
of the source round, as Sutskever found better: the first ones then stand near the words they become.
Where we depart: one layer unless told (Sutskever has four). Of Cho's model: c is the top layer's last state itself
and not tanh(V h), it starts the decoder as it is, and the output has tanh for his maxout.

Nothing depends on what was read at a step, so that all steps of teacher forcing run at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Look
from regard.layers.encoder_decoder import EncoderDecoder, check_config
from regard.layers.recurrent import CellState, Encoder, Stack
from regard.layers.state import State


@dataclass(frozen=True)
class Seq2seqConfig:
    vocabulary: int
    source_vocabulary: int = 0  # 0: one vocabulary for both sides
    embed: int = 256
    dim: int = 512  # states of encoder and decoder
    cell: str = "lstm"
    layers: int = 1
    reverse: bool = False  # read the source backwards (Sutskever 2014, sec. 3.3)
    remind: bool = False  # give the vector to every step, not to the first alone (Cho 2014)
    longest: int = 256  # most source tokens, the end token included
    dropout: float = 0.2
    tied: bool = False  # one table for target and output embeddings, and the source's with a joint vocabulary

    def __post_init__(self) -> None:
        check_config(self, width="dim")


class Seq2seq(EncoderDecoder):
    paper = "Sutskever, Vinyals & Le 2014, Sequence to sequence learning with neural networks; Cho et al. 2014"
    Config = Seq2seqConfig
    alignment = ""  # it never looks back

    def __init__(self, config: Seq2seqConfig):
        super().__init__(config, width=config.dim, embed=config.embed)
        dim, inputs = config.dim, config.embed + (config.dim if config.remind else 0)
        self.encoder = Encoder(
            config.cell, config.embed, dim, layers=config.layers, dropout=config.dropout, bidirectional=False
        )
        self.decoder = Stack(config.cell, inputs, dim, layers=config.layers, dropout=config.dropout)
        self.combine = nn.Linear(2 * dim + config.embed, dim) if config.remind else None

    def encode(self, source: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """source (B, S) -> c (B, dim), and the last states (B, layers, dim), where decoding begins"""
        if self.config.reverse:
            source = reverse(source, mask)
        _, last = self.encoder(self.embed_source(source), mask)
        return last[0][:, -1], last

    def run(self, target: Tensor, vector: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """target (N, T) of N = B W rows, the W beams of a sentence sharing one vector -> (N, T, dim)"""
        inputs = embedded = self.dropout(self.target_embed(target))  # (N, T, E)
        if self.combine is None:
            states, state = self.decoder(inputs, state)
            return self.dropout(states), state
        beams = len(target) // len(vector)
        vectors = vector.repeat_interleave(beams, 0)[:, None].expand(-1, target.shape[1], -1)  # (N, T, dim)
        states, state = self.decoder(torch.cat([embedded, vectors], -1), state)
        return self.dropout(self.combine(torch.cat([states, embedded, vectors], -1)).tanh()), state

    def decode(self, target: Tensor, vector: Tensor, state: CellState) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> states (B, T, dim); no looks"""
        return self.run(target, vector, state)[0], []

    def start(self, source: Tensor, mask: Tensor) -> State:
        return State(*self.encode(source, mask))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        states, rows = self.run(tokens[:, None], state.memory, state.rows)
        return self.out(states[:, 0]), State(state.memory, rows, state.width)


def reverse(source: Tensor, mask: Tensor) -> Tensor:
    """a b c </s> -> c b a </s>: the end token stays where it is, and so does padding."""
    last = mask.sum(1, keepdim=True) - 1  # (B, 1)
    place = torch.arange(source.shape[1], device=source.device)
    return source.gather(1, torch.where(place < last, last - 1 - place, place))
