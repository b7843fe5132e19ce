"""A linear classifier of words and bigrams, to stand beside the layers of a classifier of texts.

Each of the two learns by a loss of its own: a network soon knows a few thousand texts by heart, and by the loss of
the sum of the logits it would leave the linear part nothing to learn. Then both are asked:

    p = softmax(a own + b linear)       the product of their probabilities, each to a power: the `shares` (a, b)

A network is too sure of texts that it has not seen, the linear part not sure enough."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.dropout import Dropout
from regard.layers.loss import Loss, label_loss

# Adam moves a row by about the learning rate at each step, so this scales the learning rate of the rows. 10 was
# best of 5 to 20 for texts of one sentence (pooling), and of 1 to 10 for documents of 250 and 750 words (han).
SCALE = 10.0
FACTORS, PRIME = (1_640_531_527, 805_306_457), 2_147_483_647  # two random numbers below a prime: a universal hash


class ClassParts(NamedTuple):
    """The logits of a classifier's own layers and of the linear part beside them, if there is one (B, C)."""

    own: Tensor
    linear: Tensor | None = None
    shares: tuple[float, float] = (1.0, 1.0)

    def logits(self) -> Tensor:
        """Of both together."""
        return self.own if self.linear is None else self.shares[0] * self.own + self.shares[1] * self.linear

    def loss(self, batch: Any, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy of the classes, of two parts the mean of their losses."""
        assert batch.labels is not None
        given: dict[str, Any] = {"counted": batch.counted, "label_smoothing": label_smoothing}
        own = label_loss(self.own, batch.labels, **given)
        if self.linear is None:
            return own
        linear = label_loss(self.linear, batch.labels, **given)
        both = label_loss(self.logits().detach(), batch.labels, counted=batch.counted)
        return Loss((own.total + linear.total) / 2, both.likelihood, both.tokens)


class BigramClassifier(nn.Module):
    """logits = SCALE / sqrt(n) * sum_i (L[w_i] + scale B[hash(w_{i-1}, w_i)])

    The wide part of a wide and deep classifier (Cheng et al. 2016), with bigrams hashed to the rows of a table as
    in fastText (Joulin et al. 2017), so that they need no vocabulary. A row has the logits of one word, or of all
    bigrams that share it, and is 0 at the beginning. w_0 stands for the beginning of the text. Vectors of counts of
    n words have a length of about sqrt(n)."""

    def __init__(
        self,
        vocabulary: int,
        bigrams: int,
        classes: int,
        *,
        dropout: float,
        scale: float = 1.0,
        shares: tuple[float, float] = (1.0, 1.0),
    ):
        super().__init__()
        self.scale, self.shares = scale, shares
        self.words = nn.Embedding(vocabulary, classes)
        self.pairs = nn.Embedding(bigrams, classes)
        self.dropout = Dropout(dropout, shared=-1)
        nn.init.zeros_(self.words.weight)
        nn.init.zeros_(self.pairs.weight)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """tokens (B, T), padded on the right -> logits (B, C)"""
        return scaled(self.sums(tokens, mask))

    def sums(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The sums of the rows, and behind them the number of words (B, C + 1), so that sentences can be added."""
        real = mask[..., None].to(self.words.weight.dtype)
        rows = self.dropout(self.words(tokens)) + self.scale * self.dropout(
            self.pairs(self.hashed(tokens))
        )  # (B, T, C)
        return torch.cat([rows * real, real], -1).sum(1)

    def hashed(self, tokens: Tensor) -> Tensor:
        """The row of each word with the one before it (B, T)."""
        first, second = FACTORS
        before = F.pad(tokens[:, :-1], (1, 0), value=self.words.num_embeddings)
        return (before * first + tokens * second) % PRIME % self.pairs.num_embeddings


def build_bigrams(config: Any, classes: int, *, dropout: float | None = None) -> BigramClassifier | None:
    """As the settings of a model ask for it; None: with the dropout of its words."""
    if not config.bigrams:
        return None
    return BigramClassifier(
        config.vocabulary,
        config.bigrams,
        classes,
        dropout=config.word_dropout if dropout is None else dropout,
        scale=config.bigram_scale,
        shares=config.bigram_shares,
    )


def beside(own: Tensor, linear: BigramClassifier | None, tokens: Tensor, mask: Tensor) -> ClassParts:
    """The logits (B, C) of a classifier, and those of the linear part, if it has one, of the same texts."""
    return ClassParts(own) if linear is None else ClassParts(own, linear(tokens, mask), linear.shares)


def scaled(sums: Tensor) -> Tensor:
    """(B, C + 1) -> (B, C)"""
    rows, words = sums[:, :-1], sums[:, -1:]
    return rows * (SCALE * words.clamp(min=1).rsqrt())
