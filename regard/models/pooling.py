"""A text classifier by pooling: how much is gained where attention takes the place of a plain mean?

    h_i = [forward_i; backward_i] of a GRU or LSTM over the embeddings, or the embeddings themselves (layers = 0)
    mean       read = sum_i h_i / n
    max        read_d = max_i h_id
    last       read = [forward_n; backward_1]
    attention  u_i = tanh(W h_i + b);  a = softmax(u_i . u_w);  read = sum_i a_i h_i
    p = softmax(W_c read + b_c)

Attention pooling is that of Yang et al. 2016 (see `han`) over the words of the whole text; mean pooling of
embeddings is the deep averaging network of Iyyer et al. 2015 without hidden layers. An empty text reads 0.

In none of these papers, and off by default: with `bigrams` a linear classifier of words and bigrams stands beside
it (`layers.bigrams`); from a few thousand texts both know more than either alone. The attention says nothing about
that part."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.base.dropout import Dropout
from regard.base.fields import check, setting
from regard.data.text.text_encoding import PlainEncoding, TokenBatch
from regard.layers.bigrams import ClassParts, beside, build_bigrams
from regard.layers.pooling import POOLS, PooledEncoder, WordEmbedding
from regard.layers.recurrent import KINDS, PADDING_GATES
from regard.models.labels import WordClassifier, check_classes


@dataclass(frozen=True)
class PoolingConfig:
    """The settings of a Pooling."""

    vocabulary: int = setting(at_least=1)
    labels: tuple[str, ...] = setting((), words="a tuple of class names")  # () until the data has been read
    embed: int = setting(200, at_least=1)  # size of the embeddings
    dim: int = setting(50, at_least=1)  # size of the states in each direction
    layers: int = setting(1, at_least=1, or_zero="the embeddings are pooled", layers=True)  # recurrent layers
    cell: str = setting("gru", choices=KINDS)  # plain RNN (tanh), GRU or LSTM
    pool: str = setting("attention", choices=POOLS)  # how states become one vector
    attention: int = setting(0, at_least=0)  # attention pooling: size of u_i; 0: as the states
    dropout: float = setting(0.5, at_least=0, below=1)  # dropout of embeddings, states and what is read
    word_dropout: float = setting(0.0, at_least=0, below=1)  # dropout of whole words
    # rows of hashed bigrams in a linear part beside it, with its own loss; what attention shows is the other part
    bigrams: int = setting(0, at_least=1, or_zero="no such part", later=True)
    # with bigrams: how fast these learn, beside words
    bigram_scale: float = setting(1.0, above=0, later=True)
    # with bigrams: powers of the probabilities of the states and of the linear part, whose product is the answer
    bigram_shares: tuple[float, float] = setting((1.0, 1.0), at_least=0, later=True)

    def __post_init__(self) -> None:
        check(self)
        check_classes(self.labels)

    @property
    def can_capture(self) -> bool:
        """Whether a step can be captured: a plain RNN needs packed rows, whose lengths must be read on the host."""
        return self.layers == 0 or self.cell in PADDING_GATES


class Pooling(WordClassifier):
    """A classifier of texts: states, pooled."""

    paper = (
        "Yang et al. 2016, Hierarchical attention networks (attention pooling); Iyyer et al. 2015 (mean pooling)"
    )
    Config = PoolingConfig
    task = "classify"
    numbering = "regard"

    def __init__(self, config: PoolingConfig):
        super().__init__()
        self.config = config
        self.embed = WordEmbedding(
            config.vocabulary, config.embed, dropout=config.dropout, word_dropout=config.word_dropout
        )
        self.text = PooledEncoder(
            config.cell,
            config.embed,
            config.dim,
            layers=config.layers,
            pool=config.pool,
            hidden=config.attention,
            dropout=config.dropout,
        )
        self.dropout = Dropout(config.dropout)
        classes = max(len(config.labels), 1)
        self.classify = nn.Linear(self.text.dim, classes)
        self.bigrams = build_bigrams(config, classes)

    @property
    def encoding(self) -> PlainEncoding:
        """How it reads texts: as one row of tokens."""
        return PlainEncoding()

    @property
    def levels(self) -> tuple[str, ...]:
        """Where a trace sees the weights of words."""
        return ("text.pool.attend",) if self.config.pool == "attention" else ()

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """tokens (B, T), padded on the right -> logits (B, classes)"""
        mask = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        return self._parts(tokens, mask).logits()

    def _parts(self, tokens: Tensor, mask: Tensor) -> ClassParts:
        own = self.classify(self.dropout(self.text(tokens, mask, self.embed)))
        return beside(own, self.bigrams, tokens, mask)

    def class_parts(self, batch: TokenBatch) -> ClassParts:
        """Of texts."""
        return self._parts(batch.tokens, batch.mask)
