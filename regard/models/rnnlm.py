"""Recurrent neural network based language model (Mikolov et al. 2010), as scaled up by
Zaremba, Sutskever & Vinyals 2014: LSTM layers with dropout between them, none along time. The baseline for GPT-2.

    s_t = f(s_{t-1}, E[token]);  p = softmax(W s_t + b)

No attention: everything known about the text so far is in s_t. Differences: GRU and plain RNN cells are options
(Mikolov's network is a plain RNN, with a sigmoid for the tanh), output and input embeddings may be tied (Press &
Wolf 2017), and each training window starts from a zero state (Zaremba carries the last state over), so that it
trains on exactly the same examples as GPT-2."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.base.dropout import Dropout
from regard.base.exporting import exporting
from regard.base.fields import check, setting
from regard.data.text.windows import TextBatch
from regard.layers.encoder_decoder import check_tied
from regard.layers.loss import Loss, check_one_document, next_token_loss
from regard.layers.recurrent import KINDS, Stack
from regard.layers.replay import must_not_sync
from regard.layers.state import State


@dataclass(frozen=True)
class RNNLMConfig:
    """The settings of a RNNLM."""

    vocabulary: int = setting(at_least=1)
    embed: int = setting(512, at_least=1)  # size of the embeddings
    dim: int = setting(512, at_least=1)  # size of the states
    layers: int = setting(2, at_least=1, layers=True)  # recurrent layers
    cell: str = setting("lstm", choices=KINDS)  # plain RNN (tanh), GRU or LSTM
    # gates start by keeping states for up to so many steps (Tallec & Ollivier 2018); 0: off
    chrono_steps: int = setting(0, at_least=0, later=True)
    # most tokens of a text; a recurrent model has no limit of its own
    max_positions: int = setting(1 << 20, at_least=1)
    tied: bool = False  # one table for input and output
    dropout: float = setting(0.5, at_least=0, below=1)  # dropout between layers, none along time
    locked: bool = setting(False, later=True)  # dropout has one mask for all words of a row (Gal & Ghahramani 2016)
    word_dropout: float = setting(0.0, at_least=0, below=1, later=True)  # dropout of whole words
    # dropout of recurrent weights (Merity 2018)
    weight_dropout: float = setting(0.0, at_least=0, below=1, later=True)

    def __post_init__(self) -> None:
        check(self)
        check_tied(self, width="dim")


class RNNLM(nn.Module):
    """A recurrent language model, without attention."""

    paper = "Mikolov et al. 2010, Recurrent neural network based language model; Zaremba et al. 2014"
    Config = RNNLMConfig
    task = "generate"
    numbering = "gpt2"
    padded_side = "left"  # of prompts: `start` may be captured with more padding
    alignment = ""  # no attention

    def __init__(self, config: RNNLMConfig):
        super().__init__()
        self.config = config
        self.max_target_positions = config.max_positions
        self.embed = nn.Embedding(config.vocabulary, config.embed)
        self.stack = Stack(
            config.cell,
            config.embed,
            config.dim,
            layers=config.layers,
            dropout=config.dropout,
            chrono_steps=config.chrono_steps,
            locked=config.locked,
            weight_dropout=config.weight_dropout,
        )
        self.out = nn.Linear(config.dim, config.vocabulary)
        self.dropout = Dropout(config.dropout, shared=1 if config.locked else None)
        self.word_dropout = Dropout(config.word_dropout, shared=-1)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        if config.tied:
            self.out.weight = self.embed.weight

    def inputs(self, tokens: Tensor) -> Tensor:
        """Embeddings (B, T) -> (B, T, embed), with dropout."""
        return self.word_dropout(self.dropout(self.embed(tokens)))

    def states(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, dim), from a zero state on."""
        x = self.inputs(tokens)
        return self.dropout(self.stack(x, self.stack.begin(x))[0])

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of each next token."""
        states = self.states(tokens) if mask is None else self.dropout(self.walk(tokens, mask)[0])
        return self.out(states)

    def walk(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Step by step, skipping padding on either side: states (B, T, dim) and the final state."""
        if exporting():
            out, last = self.stack.run(self.stack.rnn, self.inputs(tokens), None, mask)
            return out, tuple(part.transpose(0, 1) for part in last)
        state = self.stack.begin(self.embed.weight.new_zeros(tokens.shape[0], 1))
        states = [self.embed.weight.new_zeros(tokens.shape[0], 0, self.config.dim)]
        for now, real in zip(self.inputs(tokens).unbind(1), mask.unbind(1), strict=True):
            out, after = self.stack(now[:, None], state)
            state = tuple(torch.where(real[:, None, None], *both) for both in zip(after, state, strict=True))
            states.append(out)
        return torch.cat(states, 1), state

    def loss(self, batch: TextBatch, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy of each next token."""
        check_one_document(batch, "rnnlm")
        states = self.states(batch.tokens[:, :-1])
        return next_token_loss(states, self.out, batch, label_smoothing=label_smoothing)

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read a prompt (B, S), padded on the left, without its last token, which is the first given to `step`."""
        if must_not_sync():
            empty = (~mask).sum(1, keepdim=True)  # to the right, where `Stack.run` has padding
            order = (torch.arange(source.shape[1], device=source.device) + empty) % source.shape[1]
            _, last = self.stack.run(
                self.stack.rnn, self.embed(source.gather(1, order)), None, mask.gather(1, order)
            )
            return State((), tuple(part.transpose(0, 1) for part in last))
        return State((), self.walk(source, mask)[1])

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        out, rows = self.stack(self.embed(tokens)[:, None], state.rows)
        return self.out(out[:, 0]), State((), rows, state.width)
