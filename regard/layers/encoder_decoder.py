"""What translators share: tables of embeddings, teacher forcing, and the loss of its states."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import WAYS, Attend, Look, build_score, build_weigh
from regard.attention.kernels.dropout import Dropout
from regard.data.batch import PairBatch
from regard.layers.loss import Loss, token_loss
from regard.layers.recurrent import check_kind

NO_LIMIT = 1 << 30


def check_numbers(config: Any, *, may_be_0: tuple[str, ...] = ("source_vocabulary",)) -> None:
    """What holds for the settings of every model: whole numbers count something, and dropout is a share."""
    for field in dataclasses.fields(config):
        value, least = getattr(config, field.name), 0 if field.name in may_be_0 else 1
        if field.type == "int" and value < least:
            raise ValueError(f"{field.name} must be at least {least}, got {value}")
        if field.name.endswith("dropout") and not 0 <= value < 1:
            raise ValueError(f"{field.name} must lie in [0, 1), got {value}")


def check_config(config: Any, *, width: str) -> None:
    """What holds for the settings of every recurrent translator; `width` names that of the states before `out`."""
    check_numbers(config)
    if config.tied and getattr(config, width) != config.embed:
        raise ValueError(f"tied embeddings need {width} = embed, got {getattr(config, width)} and {config.embed}")
    check_kind(config.cell)
    if hasattr(config, "weigh") and config.weigh not in WAYS:
        raise ValueError(f"unknown way to weigh {config.weigh!r}; there are {', '.join(WAYS)}")


def build_attend(config: Any, query: int, memory: int) -> Attend:
    """The attention that `score`, `weigh`, `window`, `straight_through` and `longest` ask for."""
    return Attend(
        build_score(config.score, query, memory, longest=config.longest),
        build_weigh(config.weigh, query, window=config.window, straight_through=config.straight_through),
    )


class EncoderDecoder(nn.Module):
    """A paper's file adds `encode(source, mask)`, which gives a memory and the decoder's first state, and
    `decode(target, memory, state)`, which gives the states (B, T, D) that `out` reads words from, and the looks."""

    encode: Any
    decode: Any
    out: nn.Linear

    task = "translate"
    layout = "regard"  # how a tokenizer numbers the special tokens for it
    longest_target = NO_LIMIT  # the most tokens it can write

    def __init__(self, config: Any, *, width: int, embed: int):
        """width: how wide the states are that `out` reads; embed: how wide the tables are."""
        super().__init__()
        self.config = config
        self.target_embed = nn.Embedding(config.vocabulary, embed)
        shared = config.tied and not config.source_vocabulary
        self.source_embed = (
            self.target_embed if shared else nn.Embedding(config.source_vocabulary or config.vocabulary, embed)
        )
        self.out = nn.Linear(width, config.vocabulary)
        self.dropout = Dropout(config.dropout)
        for table in (self.source_embed, self.target_embed):
            nn.init.normal_(table.weight, std=embed**-0.5)
        if config.tied:
            self.out.weight = self.target_embed.weight

    def check_source(self, source: Tensor) -> None:
        if source.shape[1] > self.config.longest:
            raise ValueError(
                f"a source of {source.shape[1]} tokens is longer than the {self.config.longest} this model takes; "
                "shorten or split it, or train with a larger model.longest"
            )

    def embed_source(self, source: Tensor) -> Tensor:
        self.check_source(source)
        return self.dropout(self.source_embed(source))

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of a target already shifted right."""
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        return self.out(self.decode(target, *self.encode(source, mask))[0])

    def loss(self, batch: PairBatch, *, smoothing: float = 0.0, agreement: float = 0.0) -> Loss:
        """With `agreement` every row goes through twice, see `token_loss`."""
        batch = batch.twice() if agreement else batch
        mask = batch.target_mask[:, 1:]
        states, looks = self.decode(batch.target[:, :-1], *self.encode(batch.source, batch.source_mask))
        total, likelihood = token_loss(
            states,
            self.out.weight,
            self.out.bias,
            batch.target[:, 1:],
            mask,
            smoothing=smoothing,
            agreement=agreement,
        )
        return Loss(total, likelihood, mask.sum(), *_sampled(looks, mask))


def _sampled(looks: list[Look], mask: Tensor) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """What REINFORCE needs of the places that hard attention drew: log-probability and entropy of each row."""
    chosen = [look.log_probability for look in looks if look.log_probability is not None]
    entropy = [look.entropy for look in looks if look.entropy is not None]
    if not chosen:
        return None, None
    return (torch.cat(chosen, 1) * mask).sum(1), (torch.cat(entropy, 1) * mask).sum(1)
