"""What models that write a text share, its embeddings, teacher forcing and the loss; and what translators add."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attend, Look, build_score, build_weigh
from regard.base.dropout import Dropout
from regard.data.batches.batch import PairBatch
from regard.layers.loss import Loss, Sampled, shapes_stay, token_loss

NO_LIMIT = 1 << 30


def check_tied(config: Any, *, width: str) -> None:
    """`width` is the field with the size of the states that the output layer reads."""
    if config.tied and getattr(config, width) != config.embed:
        raise ValueError(f"tied embeddings need {width} = embed, got {getattr(config, width)} and {config.embed}")


def build_attend(config: Any, query: int, memory: int) -> Attend:
    """The attention described by the settings score, rank, beta, weigh, window, soft_share, straight_through,
    max_positions."""
    weigh = build_weigh(
        config.weigh,
        query,
        window=config.window,
        soft_share=config.soft_share,
        straight_through=config.straight_through,
    )
    score = build_score(
        config.score, query, memory, max_positions=config.max_positions, rank=config.rank, beta=config.beta
    )
    return Attend(score, weigh)


def first_time(weigh: str, source: Tensor) -> Tensor:
    """The number of the first step, of each row (B,) where looks depend on it, else a scalar that stays."""
    return source.new_zeros((len(source),) if weigh == "local-m" else (), dtype=torch.long)


def next_time(time: Tensor) -> Tensor:
    return time + 1 if time.dim() else time


class TargetSide(nn.Module):
    """Base class of models that write a text: its embeddings, the output layer, teacher forcing and the loss. What
    the text is written from is up to the subclass, which adds `decode(target, *encoded)`: it returns the states
    (B, T, D) that `out` turns into logits, and the looks."""

    decode: Any
    out: nn.Linear

    numbering = "regard"  # how the tokenizer numbers the special tokens
    max_target_positions = NO_LIMIT  # most tokens it can write
    fixed_shapes = False  # a GPU computes the loss of padding too, so that a training step can be captured

    def __init__(self, config: Any, *, width: int, embed: int):
        """width: the size of the states that `out` reads; embed: the size of the embeddings."""
        super().__init__()
        self.config = config
        self.target_embed = nn.Embedding(config.vocabulary, embed)
        tables = [*self.add_source(embed), self.target_embed]  # here, as a seed gives weights in this order
        self.out = nn.Linear(width, config.vocabulary)
        self.dropout = Dropout(config.dropout)
        for table in tables:
            nn.init.normal_(table.weight, std=embed**-0.5)
        if config.tied:
            self.out.weight = self.target_embed.weight

    def add_source(self, embed: int) -> list[nn.Embedding]:
        """Add the embeddings of the source, where it is a text."""
        return []

    def penalty(self, looks: list[Look], mask: Tensor) -> Tensor | None:
        """A scalar that training adds to the loss, for where all the looks at a batch went; None: nothing.
        mask (B, T): True = a target token."""
        return None

    def target_loss(
        self, target: Tensor, target_mask: Tensor, encoded: Any, *, label_smoothing: float, r_drop: float
    ) -> Loss:
        """target (B, T) is <s> ... </s>: the model reads target[:, :-1] and predicts target[:, 1:]."""
        mask = target_mask[:, 1:]
        states, looks = self.decode(target[:, :-1], *encoded)
        total, likelihoods = token_loss(
            states,
            self.out.weight,
            self.out.bias,
            target[:, 1:],
            mask,
            label_smoothing=label_smoothing,
            r_drop=r_drop,
            fixed_shapes=shapes_stay() or (self.fixed_shapes and states.device.type != "cpu"),
        )
        return Loss(
            total, likelihoods.sum(1), mask.sum(), _sampled(looks, likelihoods, mask), self.penalty(looks, mask)
        )


class EncoderDecoder(TargetSide):
    """Base class of translators. A subclass adds `encode(source, mask)`, which returns a memory and the decoder's
    first state, and `decode(target, memory, state)`."""

    encode: Any

    task = "translate"

    def add_source(self, embed: int) -> list[nn.Embedding]:
        config = self.config
        shared = config.tied and not config.source_vocabulary
        self.source_embed = (
            self.target_embed if shared else nn.Embedding(config.source_vocabulary or config.vocabulary, embed)
        )
        return [self.source_embed]

    @property
    def max_source_positions(self) -> int:
        """The most tokens it can read."""
        return int(self.config.max_positions)

    def check_source(self, source: Tensor) -> None:
        """ValueError where a source has more tokens than the model takes."""
        if source.shape[1] > self.max_source_positions:
            raise ValueError(
                f"a source of {source.shape[1]} tokens is longer than the {self.max_source_positions} this model "
                "takes; shorten or split it, or train with a larger model.max_positions"
            )

    def embed_source(self, source: Tensor) -> Tensor:
        """(B, S) -> (B, S, embed)"""
        self.check_source(source)
        return self.dropout(self.source_embed(source))

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of a target already shifted right."""
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        return self.out(self.decode(target, *self.encode(source, mask))[0])

    def loss(self, batch: PairBatch, *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> Loss:
        """With `r_drop` every row is run twice, see `token_loss`."""
        batch = batch.twice() if r_drop else batch
        encoded = self.encode(batch.source, batch.source_mask)
        return self.target_loss(
            batch.target, batch.target_mask, encoded, label_smoothing=label_smoothing, r_drop=r_drop
        )


def _sampled(looks: list[Look], likelihoods: Tensor, mask: Tensor) -> Sampled | None:
    """For REINFORCE: one look for each target token, rewarded by the log-probability of that token."""
    chosen = [look.log_probability for look in looks if look.log_probability is not None]
    entropy = [look.entropy for look in looks if look.entropy is not None]
    return Sampled(likelihoods, torch.cat(chosen, 1), torch.cat(entropy, 1), mask) if chosen else None
