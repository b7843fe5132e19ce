"""Recurrent neural network based language model (Mikolov et al. 2010), as Zaremba, Sutskever & Vinyals 2014 made it
large: LSTM layers with dropout between them and never along time. What GPT-2 is measured against.

    s_t = f(s_{t-1}, E[token]);  p = softmax(W s_t + b)

It looks at nothing: all that it knows of the text is in s_t. Where we depart: GRU cells are an option, output and
input embeddings may be tied (Press & Wolf 2017), and each window of training begins with an empty state, where
Zaremba carries the last one on, so that it learns from just what GPT-2 learns from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.kernels.dropout import Dropout
from regard.data.stream import TextBatch
from regard.layers.encoder_decoder import check_numbers
from regard.layers.loss import Loss, token_loss
from regard.layers.recurrent import Stack, check_kind
from regard.layers.state import State


@dataclass(frozen=True)
class RNNLMConfig:
    vocabulary: int
    embed: int = 512
    dim: int = 512
    layers: int = 2
    cell: str = "lstm"
    longest: int = 1 << 20  # it could go on for ever
    tied: bool = False
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(self)
        check_kind(self.cell)
        if self.tied and self.dim != self.embed:
            raise ValueError(f"tied embeddings need dim = embed, got {self.dim} and {self.embed}")


class RNNLM(nn.Module):
    paper = "Mikolov et al. 2010, Recurrent neural network based language model; Zaremba et al. 2014"
    Config = RNNLMConfig
    task = "generate"
    layout = "gpt2"
    alignment = ""  # it never looks back

    def __init__(self, config: RNNLMConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, config.embed)
        self.stack = Stack(config.cell, config.embed, config.dim, layers=config.layers, dropout=config.dropout)
        self.out = nn.Linear(config.dim, config.vocabulary)
        self.dropout = Dropout(config.dropout)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        if config.tied:
            self.out.weight = self.embed.weight

    def states(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.embed(tokens))
        return self.dropout(self.stack(x, self.stack.begin(x))[0])

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of what follows each token"""
        states = self.states(tokens) if mask is None else self.dropout(self.walk(tokens, mask)[0])
        return self.out(states)

    def walk(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Step by step, passing over padding wherever it is: states (B, T, dim), and the state after the last."""
        state = self.stack.begin(self.embed.weight.new_zeros(len(tokens), 1))
        found = [self.embed.weight.new_zeros(len(tokens), 0, self.config.dim)]
        for now, real in zip(tokens.unbind(1), mask.unbind(1), strict=True):
            out, after = self.stack(self.dropout(self.embed(now))[:, None], state)
            state = tuple(torch.where(real[:, None, None], *both) for both in zip(after, state, strict=True))
            found.append(out)
        return torch.cat(found, 1), state

    def loss(self, batch: TextBatch, *, smoothing: float = 0.0) -> Loss:
        if batch.since is not None:
            raise ValueError(
                "rnnlm reads a row from left to right and cannot keep its documents apart; unset data.apart"
            )
        total, likelihood = token_loss(
            self.states(batch.tokens[:, :-1]),
            self.out.weight,
            self.out.bias,
            batch.tokens[:, 1:],
            batch.counted,
            smoothing=smoothing,
        )
        return Loss(total, likelihood, batch.counted.sum())

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read a prompt (B, S), padded at the left, all but its last token: that is the first to be stepped on."""
        return State((), self.walk(source, mask)[1])

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        out, rows = self.stack(self.embed(tokens)[:, None], state.rows)
        return self.out(out[:, 0]), State((), rows, state.width)
