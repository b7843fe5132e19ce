"""Neural machine translation by jointly learning to align and translate (Bahdanau, Cho & Bengio 2015).

    h_i = [forward_i; backward_i]                      the memory: states of a bidirectional encoder
    c_t = sum_i a_ti h_i,  a_t from score(s_{t-1}, h)  the read: the decoder looks at the source before each word
    s_t = f(s_{t-1}, y_{t-1}, c_t)
    p(y_t) = softmax(W_o maxout(U_o s_t + V_o y_{t-1} + C_o c_t))

The score is additive in the paper; other scores, and hard or local attention, are options.
Differences: the output uses s_t, as in the paper's eq. 4 (its appendix A.2.2 writes s_{t-1}); the GRU is torch's
(see `layers.recurrent.Cell`); LSTM and plain RNN cells, dropout and more layers are options. With several
decoder layers only the first attends (as in GNMT, Wu 2016), so the layers above run over all steps at once.

Only the read and the cell need s_{t-1} and stay in the time loop. W y_{t-1}, U h_i, the upper layers and the output
are computed for all steps at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import SCORES, WAYS, Look, Memory, Question, check_score
from regard.base.exporting import exporting
from regard.base.fields import check, setting
from regard.base.shared_steps import steps_share
from regard.layers.encoder_decoder import EncoderDecoder, build_attend, check_tied, first_time, next_time
from regard.layers.recurrent import KINDS, Cell, CellState, Encoder, Stack
from regard.layers.scan import apart, scan_steps
from regard.layers.state import State


@dataclass(frozen=True)
class BahdanauConfig:
    """The settings of a Bahdanau."""

    vocabulary: int = setting(at_least=1)
    source_vocabulary: int = setting(0, at_least=0)  # 0: one vocabulary for both sides
    embed: int = setting(256, at_least=1)  # size of the embeddings
    # size of the encoder's states in each direction; a place of the memory is twice as wide
    encoder: int = setting(256, at_least=1)
    decoder: int = setting(512, at_least=1)  # size of the decoder's states
    readout: int = setting(256, at_least=1)  # width of the maxout layer before the softmax
    cell: str = setting("gru", choices=KINDS)  # plain RNN (tanh), GRU or LSTM
    encoder_layers: int = setting(1, at_least=1, layers=True)  # recurrent layers of the encoder
    # recurrent layers of the decoder; only the first attends
    decoder_layers: int = setting(1, at_least=1, layers=True)
    # gates start by keeping states for up to so many steps (Tallec & Ollivier 2018); 0: off
    chrono_steps: int = setting(0, at_least=0, later=True)
    score: str = setting("additive", choices=SCORES)  # how query and key are compared; the paper's is additive
    # score = general: the rank of its matrix
    rank: int = setting(0, at_least=1, or_zero="full", later=True)
    # score = cosine: its factor; 1: the plain cosine
    beta: float = setting(0.0, above=0, or_zero="learned", later=True)
    weigh: str = setting("soft", choices=WAYS)  # from scores to weights: soft, hard (one place) or local (a window)
    window: int = setting(5, at_least=1)  # half-width of the window of local attention
    # hard attention: share of the looks in training that stay soft
    soft_share: float = setting(0.5, at_least=0, below=1, later=True)
    straight_through: bool = False  # hard attention: learn through the soft weights instead of REINFORCE
    max_positions: int = setting(256, at_least=1)  # most source tokens, the end token included
    dropout: float = setting(0.1, at_least=0, below=1)  # dropout of embeddings and states
    tied: bool = False  # one table for target and output embeddings, and the source's with a joint vocabulary

    def __post_init__(self) -> None:
        check(self)
        check_tied(self, width="readout")
        check_score(self.score, rank=self.rank, beta=self.beta)


class Bahdanau(EncoderDecoder):
    """A translator whose decoder looks at the source before each word (Bahdanau 2015)."""

    paper = "Bahdanau, Cho & Bengio 2015, Neural machine translation by jointly learning to align and translate"
    Config = BahdanauConfig
    alignment = "attend"  # the site whose weights align target with source
    padded_side = "right"  # of sources: `start` may be captured with more padding

    def __init__(self, config: BahdanauConfig):
        super().__init__(config, width=config.readout, embed=config.embed)
        memory = 2 * config.encoder
        self.encoder = Encoder(
            config.cell,
            config.embed,
            config.encoder,
            layers=config.encoder_layers,
            dropout=config.dropout,
            chrono_steps=config.chrono_steps,
        )
        self.attend = build_attend(config, config.decoder, memory)
        self.first = nn.Linear(config.encoder, config.decoder)
        self.cell = Cell(config.cell, config.embed, config.decoder)
        self.context = nn.Linear(memory, self.cell.input.out_features, bias=False)
        width, more = config.decoder, config.decoder_layers - 1
        self.upper = Stack(config.cell, width, width, layers=more, dropout=config.dropout) if more else None
        self.deep = nn.Linear(config.decoder + config.embed + memory, 2 * config.readout)

    def encode(self, source: Tensor, mask: Tensor) -> tuple[Memory, CellState]:
        """source (B, S) -> the memory (B, S, 2 encoder), and s_0 = tanh(W backward_1)"""
        states, _ = self.encoder(self.embed_source(source), mask)
        memory = self.attend.remember(self.dropout(states), mask=mask)
        first = self.first(states[:, 0, self.config.encoder :]).tanh()
        return memory, (first, torch.zeros_like(first)) if self.config.cell == "lstm" else (first,)

    def move(
        self, ahead: Tensor | None, state: CellState, memory: Memory, time: Tensor, *words: Tensor
    ) -> tuple[Look, CellState]:
        """One step of N = B W rows (W beams per sentence share one memory): the read, then the cell. `words` are
        embedded ones (N, embed), where `ahead` is not made of them."""
        query, position = (
            x.unflatten(0, (memory.keys.shape[0], -1)) for x in (state[0], time.expand(state[0].shape[0]))
        )  # (B, W, D) and (B, W)
        look = self.attend.look(Question(query, position), memory)
        inputs = [(self.cell.input, x) for x in words]
        return look, self.cell(ahead, state, *inputs, (self.context, look.read.flatten(0, 1)))

    def read_out(self, states: Tensor, embedded: Tensor, reads: Tensor) -> Tensor:
        """maxout(U s_t + V y_{t-1} + C c_t)   (.., readout)"""
        pairs = self.deep(torch.cat([self.dropout(states), embedded, reads], -1))
        return self.dropout(pairs.unflatten(-1, (-1, 2)).amax(-1))

    def decode(self, target: Tensor, memory: Memory, state: CellState) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> read-out states (B, T, readout) and the looks"""
        embedded = self.dropout(self.target_embed(target))  # (B, T, E)
        inputs, times = self.cell.input(embedded), torch.arange(target.shape[1], device=target.device)
        looks: list[Look] = []
        if exporting():
            hidden, reads = self._scan(inputs, times, memory, state)
        else:
            states = []
            with steps_share(memory.keys, memory.values):
                for ahead, time in zip(inputs.unbind(1), times.unbind(), strict=True):
                    look, state = self.move(ahead, state, memory, time)
                    looks.append(look)
                    states.append(state[0])
            hidden, reads = torch.stack(states, 1), torch.cat([look.read for look in looks], 1)  # (B, T, ..)
        if self.upper is not None:
            hidden, _ = self.upper(self.dropout(hidden), self.upper.begin(hidden))
        return self.read_out(hidden, embedded, reads), looks

    def _scan(self, inputs: Tensor, times: Tensor, memory: Memory, state: CellState) -> tuple[Tensor, Tensor]:
        """The states and reads of all steps (B, T, ..), for `torch.export`."""
        memory = apart(memory)

        def step(state: CellState, ahead: Tensor, time: Tensor) -> tuple[CellState, tuple[Tensor, ...]]:
            look, state = self.move(ahead, state, memory, time)
            return state, (state[0], look.read[:, 0])

        _, (hidden, reads) = scan_steps(step, state, (inputs.transpose(0, 1), times))
        return hidden.transpose(0, 1), reads.transpose(0, 1)

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read the source (B, S); `step` writes the target."""
        memory, state = self.encode(source, mask)
        upper = () if self.upper is None else self.upper.begin(state[0])
        return State(memory, (state, upper, first_time(self.config.weigh, source)))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        cell, upper, time = state.rows
        embedded = self.target_embed(tokens)
        look, cell = self.move(None, cell, state.memory, time, embedded)
        hidden = cell[0]
        if self.upper is not None:
            out, upper = self.upper(hidden[:, None], upper)
            hidden = out[:, 0]
        logits = self.out(self.read_out(hidden, embedded, look.read.flatten(0, 1)))
        return logits, State(state.memory, (cell, upper, next_time(time)), state.width)
