"""Neural machine translation by jointly learning to align and translate (Bahdanau, Cho & Bengio 2015).

    h_i = [forward_i; backward_i]                      the memory: states of a bidirectional encoder
    c_t = sum_i a_ti h_i,  a_t from score(s_{t-1}, h)  the read: before each word the decoder looks at the source
    s_t = f(s_{t-1}, y_{t-1}, c_t)
    p(y_t) = softmax(W_o maxout(U_o s_t + V_o y_{t-1} + C_o c_t))

The score is additive in the paper; any other, and hard or local attention, may stand in its place.
Where we depart: the output is read from s_t, as in the paper's eq. 4 (its appendix A.2.2 writes s_{t-1}); the
GRU is torch's (see `layers.recurrent.Cell`); LSTM cells, dropout and more layers are options. Of several decoder
layers the first one looks, the others follow it (as in GNMT, Wu 2016), so that they run over all steps at once.
One vocabulary serves both languages.

Out of the time loop: W y_{t-1} of all steps, U h_i of all positions, the upper layers and all of the output.
Inside remain what needs s_{t-1}: the read and the cell."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import WAYS, Attend, Hard, Look, Memory, Question, build_score, build_weigh
from regard.data.batch import PairBatch
from regard.layers.loss import Loss, token_loss
from regard.layers.recurrent import Cell, CellState, Encoder, Stack, check_kind
from regard.layers.state import State


@dataclass(frozen=True)
class BahdanauConfig:
    vocabulary: int
    embed: int = 256
    encoder: int = 256  # states of each direction; a memory slot is twice as wide
    decoder: int = 512
    readout: int = 256  # width of the maxout layer before the softmax
    cell: str = "gru"
    encoder_layers: int = 1
    decoder_layers: int = 1
    score: str = "additive"
    weigh: str = "soft"
    window: int = 5  # half-width of local attention
    straight_through: bool = False  # hard attention: learn through the soft weights instead of REINFORCE
    longest: int = 256  # most source tokens, the end token included
    dropout: float = 0.1
    tied: bool = False  # one table for source, target and output embeddings

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "embed", "encoder", "decoder", "readout", "encoder_layers", "decoder_layers")
        for name in (*sizes, "window", "longest"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout}")
        if self.tied and self.readout != self.embed:
            raise ValueError(f"tied embeddings need readout = embed, got {self.readout} and {self.embed}")
        if self.weigh not in WAYS:
            raise ValueError(f"unknown way to weigh {self.weigh!r}; there are {', '.join(WAYS)}")
        check_kind(self.cell)


class Bahdanau(nn.Module):
    paper = "Bahdanau, Cho & Bengio 2015, Neural machine translation by jointly learning to align and translate"
    Config = BahdanauConfig
    alignment = "attend"  # the site whose weights align target with source

    def __init__(self, config: BahdanauConfig):
        super().__init__()
        self.config = config
        memory = 2 * config.encoder
        self.source_embed = nn.Embedding(config.vocabulary, config.embed)
        self.target_embed = self.source_embed if config.tied else nn.Embedding(config.vocabulary, config.embed)
        self.encoder = Encoder(
            config.cell, config.embed, config.encoder, layers=config.encoder_layers, dropout=config.dropout
        )
        self.attend = Attend(
            build_score(config.score, config.decoder, memory, longest=config.longest),
            build_weigh(
                config.weigh, config.decoder, window=config.window, straight_through=config.straight_through
            ),
        )
        self.first = nn.Linear(config.encoder, config.decoder)
        self.cell = Cell(config.cell, config.embed, config.decoder)
        self.context = nn.Linear(memory, self.cell.input.out_features, bias=False)
        self.upper = (
            Stack(config.cell, config.decoder, layers=config.decoder_layers - 1, dropout=config.dropout)
            if config.decoder_layers > 1
            else None
        )
        self.deep = nn.Linear(config.decoder + config.embed + memory, 2 * config.readout)
        self.out = nn.Linear(config.readout, config.vocabulary)
        self.dropout = nn.Dropout(config.dropout)
        for table in (self.source_embed, self.target_embed):
            nn.init.normal_(table.weight, std=config.embed**-0.5)
        if config.tied:
            self.out.weight = self.target_embed.weight

    def encode(self, source: Tensor, mask: Tensor) -> tuple[Memory, CellState]:
        """source (B, S) -> the memory (B, S, 2 encoder), and s_0 = tanh(W backward_1)"""
        if source.shape[1] > self.config.longest:
            raise ValueError(
                f"a source of {source.shape[1]} tokens is longer than the {self.config.longest} this model takes; "
                "shorten or split it, or train with a larger model.longest"
            )
        states = self.encoder(self.dropout(self.source_embed(source)), mask)
        memory = self.attend.remember(states, mask=mask)
        first = self.first(states[:, 0, self.config.encoder :]).tanh()
        return memory, (first, torch.zeros_like(first)) if self.config.cell == "lstm" else (first,)

    def move(self, ahead: Tensor, state: CellState, memory: Memory, time: Tensor) -> tuple[Look, CellState]:
        """One step of N = B W rows, the W beams of a sentence asking one memory: the read, then the cell."""
        query, position = (
            x.unflatten(0, (len(memory.keys), -1)) for x in (state[0], time.expand(len(state[0])))
        )  # (B, W, D) and (B, W)
        look = self.attend.look(Question(query, position), memory)
        return look, self.cell(ahead + self.context(look.read.flatten(0, 1)), state)

    def read_out(self, states: Tensor, embedded: Tensor, reads: Tensor) -> Tensor:
        """maxout(U s_t + V y_{t-1} + C c_t)   (.., readout)"""
        pairs = self.deep(torch.cat([self.dropout(states), embedded, reads], -1))
        return self.dropout(pairs.unflatten(-1, (-1, 2)).amax(-1))

    def decode(self, target: Tensor, memory: Memory, state: CellState) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> read-out states (B, T, readout), the looks"""
        embedded = self.dropout(self.target_embed(target))  # (B, T, E)
        ahead = self.cell.input(embedded).unbind(1)
        times = torch.arange(target.shape[1], device=target.device).unbind()
        looks, states = [], []
        for known, time in zip(ahead, times, strict=True):
            look, state = self.move(known, state, memory, time)
            looks.append(look)
            states.append(state[0])
        hidden = torch.stack(states, 1)  # (B, T, D)
        if self.upper is not None:
            hidden, _ = self.upper(self.dropout(hidden), self.upper.begin(hidden))
        return self.read_out(hidden, embedded, torch.cat([look.read for look in looks], 1)), looks

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of a target already shifted right."""
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        return self.out(self.decode(target, *self.encode(source, mask))[0])

    def loss(self, batch: PairBatch, *, smoothing: float = 0.0) -> Loss:
        mask = batch.target_mask[:, 1:]
        states, looks = self.decode(batch.target[:, :-1], *self.encode(batch.source, batch.source_mask))
        total, likelihood = token_loss(
            states, self.out.weight, self.out.bias, batch.target[:, 1:], mask, smoothing=smoothing
        )
        if not isinstance(self.attend.weigh, Hard) or self.attend.weigh.straight_through:
            return Loss(total, likelihood, mask.sum())
        chosen, entropy = (
            (torch.cat(parts, 1) * mask).sum(1)
            for parts in (
                [look.log_probability for look in looks if look.log_probability is not None],
                [look.entropy for look in looks if look.entropy is not None],
            )
        )
        return Loss(total, likelihood, mask.sum(), chosen, entropy)

    def start(self, source: Tensor, mask: Tensor) -> State:
        memory, state = self.encode(source, mask)
        upper = () if self.upper is None else self.upper.begin(state[0])
        return State(memory, (state, upper, torch.zeros(len(source), dtype=torch.long, device=source.device)))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        cell, upper, time = state.rows
        embedded = self.target_embed(tokens)
        look, cell = self.move(self.cell.input(embedded), cell, state.memory, time)
        hidden = cell[0]
        if self.upper is not None:
            out, upper = self.upper(hidden[:, None], upper)
            hidden = out[:, 0]
        logits = self.out(self.read_out(hidden, embedded, look.read.flatten(0, 1)))
        return logits, State(state.memory, (cell, upper, time + 1), state.width)
