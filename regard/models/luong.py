"""Effective approaches to attention-based neural machine translation (Luong, Pham & Manning 2015).

    s_t = f(s_{t-1}, [y_{t-1}; z_{t-1}])               input feeding: the last attentional state is an input
    c_t = sum_i a_ti h_i,  a_t from score(s_t, h)      the query is the new state, not the previous
    z_t = tanh(W_c [c_t; s_t])                         the attentional state
    p(y_t) = softmax(W_o z_t)

Global attention (`weigh = "soft"`) with any score; the paper's concat is `additive`. Local attention with a window
centred at the step (`local-m`) or at a predicted position (`local-p`).
Differences: one layer by default (the paper has four); GRU and plain RNN cells, hard attention and a bidirectional
encoder, each direction half as wide, are options. The decoder starts from the encoder's final states. Three forms
that lectures draw are options too:

    readout = "plain"      p(y_t) = softmax(W_o [c_t; s_t]), and z_t = [c_t; s_t]
    fed = "context"        s_t = f(s_{t-1}, [y_{t-1}; c_{t-1}])
    words = false          s_t = f(s_{t-1}, z_{t-1}), or c_{t-1}: no word is an input, so that each is chosen
                           without knowing the one before

With input feeding the decoder runs step by step; without it, all steps run at once, with one look for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import SCORES, WAYS, Look, Memory, Question, check_score
from regard.base.exporting import exporting
from regard.base.fields import check, setting
from regard.base.shared_steps import linear, steps_share
from regard.layers.encoder_decoder import EncoderDecoder, build_attend, check_tied, first_time, next_time
from regard.layers.recurrent import KINDS, Cell, CellState, Encoder, Stack, by_layer, of_layer
from regard.layers.scan import apart, scan_steps
from regard.layers.state import State


@dataclass(frozen=True)
class LuongConfig:
    """The settings of a Luong."""

    vocabulary: int = setting(at_least=1)
    source_vocabulary: int = setting(0, at_least=0)  # 0: one vocabulary for both sides
    embed: int = setting(256, at_least=1)  # size of the embeddings
    dim: int = setting(512, at_least=1)  # size of the states of encoder and decoder
    cell: str = setting("lstm", choices=KINDS)  # plain RNN (tanh), GRU or LSTM
    layers: int = setting(1, at_least=1, layers=True)  # recurrent layers of encoder and decoder
    # gates start by keeping states for up to so many steps (Tallec & Ollivier 2018); 0: off
    chrono_steps: int = setting(0, at_least=0, later=True)
    bidirectional: bool = False  # the encoder reads in two directions of dim / 2 each
    feeding: bool = True  # input feeding: the last attentional state is an input of the next step
    # what input feeding feeds: the last attentional state z (attentional), or what was read, c (context)
    fed: str = setting("attentional", choices=("attentional", "context"), later=True)
    # the last word is an input of each step; false: the decoder is fed by input feeding alone
    words: bool = setting(True, later=True)
    # what the softmax reads: tanh(W_c [c; s]), or [c; s] as it is (plain)
    readout: str = setting("tanh", choices=("tanh", "plain"), later=True)
    # how query and key are compared; the paper's concat is additive
    score: str = setting("general", choices=SCORES)
    # score = general: the rank of its matrix
    rank: int = setting(0, at_least=1, or_zero="full", later=True)
    # score = cosine: its factor; 1: the plain cosine
    beta: float = setting(0.0, above=0, or_zero="learned", later=True)
    # from scores to weights: soft (the paper's global), hard (one place) or local (a window)
    weigh: str = setting("soft", choices=WAYS)
    window: int = setting(10, at_least=1)  # half-width of the window of local attention
    # hard attention: share of the looks in training that stay soft
    soft_share: float = setting(0.5, at_least=0, below=1, later=True)
    straight_through: bool = False  # hard attention: learn through the soft weights instead of REINFORCE
    max_positions: int = setting(256, at_least=1)  # most source tokens, the end token included
    dropout: float = setting(0.2, at_least=0, below=1)  # dropout of embeddings and states
    tied: bool = False  # one table for target and output embeddings, and the source's with a joint vocabulary

    def __post_init__(self) -> None:
        check(self)
        if self.readout == "tanh":
            check_tied(self, width="dim")
        elif self.tied and self.read_width != self.embed:
            raise ValueError(
                f"tied embeddings need embed = 2 dim with readout = plain, got {self.embed} and dim {self.dim}"
            )
        if not self.feeding and (self.fed != "attentional" or not self.words):
            raise ValueError(
                "fed and words are about input feeding, and feeding is false; set feeding = true, or leave out both"
            )
        check_score(self.score, rank=self.rank, beta=self.beta)
        if self.bidirectional and self.dim % 2:
            raise ValueError(
                f"dim must be even with bidirectional = true (half for each direction), got {self.dim}"
            )

    @property
    def read_width(self) -> int:
        """Numbers that the softmax reads."""
        return self.dim if self.readout == "tanh" else 2 * self.dim


class Luong(EncoderDecoder):
    """A translator whose new decoder state looks at the source (Luong 2015)."""

    paper = "Luong, Pham & Manning 2015, Effective approaches to attention-based neural machine translation"
    Config = LuongConfig
    alignment = "attend"  # the site whose weights align target with source
    padded_side = "right"  # of sources: `start` may be captured with more padding

    def __init__(self, config: LuongConfig):
        super().__init__(config, width=config.read_width, embed=config.embed)
        dim, layers = config.dim, config.layers
        if not (config.words or config.tied):
            self.target_embed: Any = None  # no word is read, and the softmax has a table of its own
        self.encoder = Encoder(
            config.cell,
            config.embed,
            dim // 2 if config.bidirectional else dim,
            layers=layers,
            dropout=config.dropout,
            bidirectional=config.bidirectional,
            chrono_steps=config.chrono_steps,
        )
        if config.feeding:
            fed = dim if config.fed == "context" else config.read_width
            inputs = [config.embed if config.words else fed, *[dim] * (layers - 1)]
            self.cells: Any = nn.ModuleList(Cell(config.cell, width, dim) for width in inputs)
            gates = len(KINDS[config.cell][1]) * dim
            self.feed = nn.Linear(fed, gates, bias=False) if config.words else None
        else:
            self.decoder = Stack(config.cell, config.embed, dim, layers=layers, dropout=config.dropout)
        self.attend = build_attend(config, dim, dim)
        self.combine = nn.Linear(2 * dim, dim) if config.readout == "tanh" else None

    def encode(self, source: Tensor, mask: Tensor) -> tuple[Memory, CellState]:
        """source (B, S) -> the memory (B, S, dim) and the final states (B, layers, dim), where decoding starts"""
        states, last = self.encoder(self.embed_source(source), mask)
        return self.attend.remember(self.dropout(states), mask=mask), last

    def attentional(self, states: Tensor, position: Tensor, memory: Memory) -> tuple[Tensor, Look]:
        """z = tanh(W_c [c; s]), or [c; s], of states (N, T, dim) at steps position (N, T); N = B W rows (W beams
        per sentence share one memory)"""
        query, position = (x.reshape(memory.keys.shape[0], -1, *x.shape[2:]) for x in (states, position))
        look = self.attend.look(Question(query, position), memory)
        reads = look.read.view_as(states)
        both = torch.cat([reads, states], -1)
        return both if self.combine is None else linear(self.combine, self.dropout(both)).tanh(), look

    def inputs(self, target: Tensor) -> Tensor:
        """Of input feeding: what the words (N, T) add to each step; a placeholder where they add nothing."""
        if self.feed is None:
            return target.new_zeros(*target.shape, 1, dtype=self.out.weight.dtype)
        return self.cells[0].input(self.dropout(self.target_embed(target)))

    def nothing_fed(self, state: CellState) -> Tensor:
        """What the first step is fed (N, fed)."""
        first = self.cells[0].input if self.feed is None else self.feed
        return state[0].new_zeros(state[0].shape[0], first.in_features)

    def move(
        self, ahead: Tensor | None, fed: Tensor, state: CellState, memory: Memory, time: Tensor, *words: Tensor
    ) -> tuple[Tensor, Tensor, CellState, Look]:
        """One step with input feeding: all layers, then the look. z_t, and what is fed to the next step. `words`
        are embedded ones (N, embed), where `ahead` is not made of them yet."""
        inputs = [(self.cells[0].input, x) for x in (*words, *([fed] if self.feed is None else []))]
        if self.feed is None:
            ahead = None  # a placeholder
        else:
            inputs.append((self.feed, fed))
        after: list[CellState] = []
        for number, cell in enumerate(self.cells):
            if number:
                ahead, inputs = None, [(cell.input, self.dropout(after[-1][0]))]
            after.append(cell(ahead, of_layer(state, number), *inputs))
        states = after[-1][0][:, None]  # (N, 1, dim)
        attentional, look = self.attentional(states, time.expand(states.shape[0])[:, None], memory)
        attentional = attentional.squeeze(1)  # [:, 0] would fill a tensor with zeros in the backward pass
        read = look.read.flatten(0, 1) if self.config.fed == "context" else attentional
        return attentional, read, by_layer(after), look

    def decode(self, target: Tensor, memory: Memory, state: CellState) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> attentional states (B, T, dim) and the looks"""
        times = torch.arange(target.shape[1], device=target.device)
        if not self.config.feeding:
            states, _ = self.decoder(self.dropout(self.target_embed(target)), state)
            attentional, look = self.attentional(states, times.expand_as(target), memory)
            return self.dropout(attentional), [look]
        inputs, fed = self.inputs(target), self.nothing_fed(state)
        if exporting():
            return self.dropout(self._scan(inputs, times, fed, memory, state)), []
        looks, states = [], []
        with steps_share(memory.keys, memory.values):
            for ahead, time in zip(inputs.unbind(1), times.unbind(), strict=True):
                attentional, fed, state, look = self.move(ahead, fed, state, memory, time)
                looks.append(look)
                states.append(attentional)
        return self.dropout(torch.stack(states, 1)), looks

    def _scan(self, inputs: Tensor, times: Tensor, first: Tensor, memory: Memory, state: CellState) -> Tensor:
        """The attentional states (B, T, read) of all steps with input feeding, for `torch.export`."""
        memory = apart(memory)

        def step(before: CellState, ahead: Tensor, time: Tensor) -> tuple[CellState, tuple[Tensor, ...]]:
            attentional, fed, state, _ = self.move(ahead, before[0], before[1:], memory, time)
            return (fed, *state), (attentional,)

        _, (states,) = scan_steps(step, (first, *state), (inputs.transpose(0, 1), times))
        return states.transpose(0, 1)

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read the source (B, S); `step` writes the target."""
        memory, state = self.encode(source, mask)
        fed = self.nothing_fed(state) if self.config.feeding else ()
        return State(memory, (state, fed, first_time(self.config.weigh, source)))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        cell, fed, time = state.rows
        if self.config.feeding:
            words = [] if self.feed is None else [self.dropout(self.target_embed(tokens))]
            attentional, fed, cell, _ = self.move(None, fed, cell, state.memory, time, *words)
        else:
            states, cell = self.decoder(self.target_embed(tokens)[:, None], cell)
            attentional = self.attentional(states, time.expand(len(tokens))[:, None], state.memory)[0][:, 0]
        return self.out(attentional), State(state.memory, (cell, fed, next_time(time)), state.width)
