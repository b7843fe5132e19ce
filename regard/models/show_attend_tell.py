"""Show, attend and tell: neural image caption generation with visual attention (Xu et al. 2015).

    a_1 .. a_L = the grid of a convolutional network   the memory: one state for each place of the image
    h_0 = tanh(W_h mean_i a_i),  c_0 = tanh(W_c mean_i a_i)
    z_t = beta_t sum_i w_ti a_i,  w_t from score(h_{t-1}, a),  beta_t = sigmoid(W_b h_{t-1})
    h_t = LSTM(h_{t-1}, [E y_{t-1}; z_t])
    p(y_t) = softmax(L_o (E y_{t-1} + L_h h_t + L_z z_t))                           eq. 7, the deep output layer

Soft attention reads all places. Its loss is -log p(y) + penalty sum_i (1 - sum_t w_ti)^2 (eq. 14, the doubly
stochastic penalty; lambda there), so that a caption looks at all parts of the image. The penalty acts in training
only, and not on hard attention; where there are many more places than words it makes looks even, so its default is
0, as in the authors' code. Hard attention reads one place, sampled in training and the most likely one in eval
mode, where no other place is read. It learns by REINFORCE (see `learn.reinforce`); of `soft_share` of the images,
all looks read the expectation as soft attention does (end of sec. 4.1).

Differences: the network is a ResNet or an Inception with squeeze-and-excitation, trained with the captions or
frozen, where the paper has a frozen VGG; y_0 is a start token, where the authors' code has a vector of 0; h_0 and
c_0 have one layer each; the output layers have biases, and no tanh (the authors' code has it after the sum); the
score is that of Bahdanau, other scores are options; dropout acts on words, on h_t before L_h and on what L_o reads.

Only the read and the cell need h_{t-1} and stay in the time loop. E y_{t-1} and the output are computed for all
steps at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import KEY_SCORES, Attend, Look, Memory, Question, build_score, build_weigh, check_score
from regard.attention.record import record
from regard.base.dtype import at_least_float32
from regard.base.exporting import exporting
from regard.base.fields import setting
from regard.base.shared_batch import draw
from regard.base.shared_steps import linear, steps_share
from regard.layers.recurrent import Cell, CellState
from regard.layers.scan import apart, scan_steps
from regard.layers.state import State
from regard.models.captioner import CaptionerConfig, ImageCaptioner


@dataclass(frozen=True)
class ShowAttendTellConfig(CaptionerConfig):
    """The settings of a ShowAttendTell."""

    # how query and key are compared; the paper's is additive
    score: str = setting("additive", choices=KEY_SCORES)
    # score = general: the rank of its matrix
    rank: int = setting(0, at_least=1, or_zero="full", later=True)
    # score = cosine: its factor; 1: the plain cosine
    beta: float = setting(0.0, above=0, or_zero="learned", later=True)
    # from scores to weights: soft (all places) or hard (one place)
    weigh: str = setting("soft", choices=("soft", "hard"))
    gate: bool = True  # beta_t, how far the image is used for a word; without it, all of what was read is
    # soft attention: weight of the doubly stochastic penalty (lambda in the paper), so that all parts of an image
    # are looked at
    penalty: float = setting(0.0, at_least=0)
    # hard attention: share of the images in training of which all looks are soft
    soft_share: float = setting(0.5, at_least=0, below=1)
    straight_through: bool = False  # hard attention: learn through the soft weights instead of REINFORCE

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.score, rank=self.rank, beta=self.beta)


class Beta(nn.Module):
    """beta_t = sigmoid(W h_{t-1}), one number for each word. A trace sees it as "gate" (N, T, 1)."""

    traced = ("gate",)

    def __init__(self, dim: int):
        super().__init__()
        self.out = nn.Linear(dim, 1)

    def forward(self, state: Tensor) -> Tensor:
        gate = linear(self.out, state).sigmoid()
        record(self, "gate", gate[:, None], axis=1)
        return gate


class ShowAttendTell(ImageCaptioner):
    """A captioner that looks at the image before each word, at all of it (soft) or at one place (hard)."""

    paper = "Xu et al. 2015, Show, attend and tell: neural image caption generation with visual attention"
    Config = ShowAttendTellConfig
    alignment = "attend"  # the site of the looks
    MAY_DIFFER = (*ImageCaptioner.MAY_DIFFER, "weigh", "penalty", "soft_share", "straight_through")

    def __init__(self, config: ShowAttendTellConfig):
        super().__init__(config, width=config.embed)
        embed, dim, memory = config.embed, config.decoder, self.eye.width
        weigh = build_weigh(
            config.weigh,
            dim,
            window=1,
            soft_share=config.soft_share,
            straight_through=config.straight_through,
        )
        score = build_score(config.score, dim, memory, max_positions=1, rank=config.rank, beta=config.beta)
        self.attend = Attend(score, weigh)
        self.beta = Beta(dim) if config.gate else None
        self.first_hidden, self.first_cell = nn.Linear(memory, dim), nn.Linear(memory, dim)
        self.cell = Cell("lstm", embed, dim)
        self.context = nn.Linear(memory, self.cell.input.out_features, bias=False)
        self.out_hidden = nn.Linear(dim, embed)
        self.out_read = nn.Linear(memory, embed, bias=False)

    def begin(self, places: Tensor) -> tuple[Memory, CellState]:
        """places (B, places, D) -> the memory, and h_0 and c_0"""
        mean = places.mean(1)
        first = self.first_hidden(mean).tanh(), self.first_cell(mean).tanh()
        return self.attend.remember(places), first

    def move(
        self, ahead: Tensor | None, state: CellState, memory: Memory, soft: Tensor | None = None, *words: Tensor
    ) -> tuple[Look, Tensor, CellState]:
        """One step of N = B W rows (W beams per image share one memory): the look, z_t, and the cell's state.
        `words` are embedded ones (N, embed), where `ahead` is not made of them."""
        query = state[0].unflatten(0, (memory.keys.shape[0], -1))  # (B, W, D)
        look = self.attend.look(Question(query, soft=soft), memory)
        read = look.read.flatten(0, 1)
        if self.beta is not None:
            read = self.beta(state[0]) * read
        inputs = [(self.cell.input, x) for x in words]
        return look, read, self.cell(ahead, state, *inputs, (self.context, read))

    def read_out(self, states: Tensor, embedded: Tensor, reads: Tensor) -> Tensor:
        """E y_{t-1} + L_h h_t + L_z z_t   (.., embed)"""
        return self.dropout(embedded + self.out_hidden(self.dropout(states)) + self.out_read(reads))

    def decode(self, target: Tensor, memory: Memory, state: CellState) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> what L_o reads (B, T, embed) and the looks"""
        embedded = self.dropout(self.target_embed(target))  # (B, T, E)
        inputs = self.cell.input(embedded)
        if exporting():
            return self.read_out(*self._scan(inputs, embedded, memory, state)), []
        soft = self.toss(target.shape[0], target.device)
        looks, reads, states = [], [], []
        with steps_share(memory.keys, memory.values):
            for ahead in inputs.unbind(1):
                look, read, state = self.move(ahead, state, memory, soft)
                looks.append(look)
                reads.append(read)
                states.append(state[0])
        return self.read_out(torch.stack(states, 1), embedded, torch.stack(reads, 1)), looks

    def _scan(
        self, inputs: Tensor, embedded: Tensor, memory: Memory, state: CellState
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What `read_out` reads of all steps (B, T, ..), for `torch.export`."""
        memory = apart(memory)

        def step(state: CellState, ahead: Tensor) -> tuple[CellState, tuple[Tensor, ...]]:
            _, read, state = self.move(ahead, state, memory)
            return state, (state[0], read)

        _, (states, reads) = scan_steps(step, state, (inputs.transpose(0, 1),))
        return states.transpose(0, 1), embedded, reads.transpose(0, 1)

    def toss(self, rows: int, device: torch.device) -> Tensor | None:
        """(B,) hard attention: the images of which all looks are soft."""
        share = self.config.soft_share
        if self.config.weigh != "hard" or not share or not self.training:
            return None
        return draw(self.out.weight.new_empty(rows, device=device), Tensor.uniform_) < share

    def penalty(self, looks: list[Look], mask: Tensor) -> Tensor | None:
        """lambda sum_i (1 - sum_t w_ti)^2 over the words of each caption"""
        if self.config.weigh != "soft" or not self.config.penalty or not self.training:
            return None
        weights = (
            at_least_float32(torch.cat([look.weights for look in looks], 1)) * mask[..., None]
        )  # (B, T, places)
        return self.config.penalty * (1 - weights.sum(1)).square().sum()

    def start(self, images: Tensor, mask: Tensor | None = None) -> State:
        """Read the images (B, C, H, W); `step` writes the captions."""
        return State(*self.encode(images))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        embedded = self.target_embed(tokens)
        _, read, rows = self.move(None, state.rows, state.memory, None, embedded)
        logits = self.out(self.read_out(rows[0], embedded, read))
        return logits, State(state.memory, rows, state.width)
