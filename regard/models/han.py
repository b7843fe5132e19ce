"""Hierarchical attention networks for document classification (Yang et al. 2016).

    words      h_it = [forward; backward] of a GRU over the words of sentence i
               u_it = tanh(W_w h_it + b_w);  a_it = softmax_t(u_it . u_w);  s_i = sum_t a_it h_it
    sentences  h_i = [forward; backward] of a GRU over s_1, s_2, ...
               u_i = tanh(W_s h_i + b_s);  a_i = softmax_i(u_i . u_s);  v = sum_i a_i h_i
    p = softmax(W_c v + b_c)

u_w and u_s are learned: "what is an informative word?", "what is an informative sentence?". With pool = mean or max
these take the place of attention at both levels, as in the paper's HN-AVE and HN-MAX. The sentences of all
documents of a batch are rows of one table, so that every layer computes real words and little else.

Differences from the paper: embeddings are learned with the rest, unless data.vectors names a file of vectors that
they begin with (the paper learns these by word2vec from its training texts); dropout, which the paper has none of;
LSTM cells are an option, and so is a linear classifier of words and bigrams beside the network (`bigrams`, see
`layers.bigrams`), about which the attention says nothing. A document without words reads 0."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.dropout import Dropout
from regard.base.exporting import exporting
from regard.base.fields import check, setting
from regard.data.text.document_encoding import DocumentBatch, DocumentEncoding, cut_rows
from regard.data.text.sentences import WAYS
from regard.layers.bigrams import ClassParts, build_bigrams, scaled
from regard.layers.pooling import PooledEncoder, WordEmbedding
from regard.layers.recurrent import KINDS, PADDING_GATES
from regard.layers.replay import must_not_sync
from regard.models.labels import WordClassifier, check_classes


@dataclass(frozen=True)
class HANConfig:
    """The settings of a HAN."""

    vocabulary: int = setting(at_least=1)
    labels: tuple[str, ...] = setting((), words="a tuple of class names")  # () until the data has been read
    embed: int = setting(200, at_least=1)  # size of the embeddings
    dim: int = setting(50, at_least=1)  # size of the states in each direction
    layers: int = setting(1, at_least=1, layers=True)  # recurrent layers at each level
    cell: str = setting("gru", choices=KINDS)  # plain RNN (tanh), GRU or LSTM
    # how words become a sentence, and sentences a document
    pool: str = setting("attention", choices=("attention", "mean", "max"))
    attention: int = setting(0, at_least=0)  # size of u_it and u_i; 0: as the states
    # how a text becomes sentences: by rules of punctuation, or by its lines
    split: str = setting("rules", choices=WAYS)
    max_sentences: int = setting(64, at_least=1)  # most sentences of a document; the rest is not read
    max_words: int = setting(64, at_least=1)  # most tokens of a sentence; a longer sentence becomes several
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
        return self.cell in PADDING_GATES


class HAN(WordClassifier):
    """A classifier of documents: words are weighed within their sentence, sentences within their document."""

    paper = "Yang et al. 2016, Hierarchical attention networks for document classification"
    Config = HANConfig
    task = "classify"
    numbering = "regard"
    MAY_DIFFER = ("split", "max_sentences", "max_words")  # from the run that training starts from

    def __init__(self, config: HANConfig):
        super().__init__()
        self.config = config
        self.embed = WordEmbedding(
            config.vocabulary, config.embed, dropout=config.dropout, word_dropout=config.word_dropout
        )
        self.words = self._level(config.embed)
        self.sentences = self._level(self.words.dim)
        self.dropout = Dropout(config.dropout)
        classes = max(len(config.labels), 1)
        self.classify = nn.Linear(self.sentences.dim, classes)
        self.bigrams = build_bigrams(config, classes)

    def _level(self, inputs: int) -> PooledEncoder:
        config = self.config
        return PooledEncoder(
            config.cell,
            inputs,
            config.dim,
            layers=config.layers,
            pool=config.pool,
            hidden=config.attention,
            dropout=config.dropout,
        )

    @property
    def encoding(self) -> DocumentEncoding:
        """How it reads texts: as sentences of words."""
        config = self.config
        return DocumentEncoding(split=config.split, max_sentences=config.max_sentences, max_words=config.max_words)

    @property
    def levels(self) -> tuple[str, ...]:
        """Where a trace sees the weights of words and of sentences."""
        return ("words.pool.attend", "sentences.pool.attend") if self.config.pool == "attention" else ()

    def forward(self, batch: DocumentBatch) -> Tensor:
        """Logits (B, classes)."""
        return self.class_logits(batch)

    def class_parts(self, batch: DocumentBatch) -> ClassParts:
        """Of documents."""
        read = self.read_sentences(batch.tokens, batch.mask)  # (R, D)
        # An embedding lookup, whose backward pass is deterministic.
        vectors = F.embedding(batch.sentences, read)  # (B, S, D)
        own = self.classify(self.dropout(self.sentences(vectors, batch.document_mask)))
        if self.bigrams is None:
            return ClassParts(own)
        sums = F.embedding(batch.sentences, self.bigrams.sums(batch.tokens, batch.mask))  # (B, S, C + 1)
        linear = scaled((sums * batch.document_mask[..., None]).sum(1))
        return ClassParts(own, linear, self.bigrams.shares)

    def read_sentences(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Tokens (R, W), the longest row first -> a vector for each row (R, D)"""
        groups = row_groups(mask)
        if len(groups) > 1 and not torch.is_grad_enabled():  # packed rows need no groups, but pooling does
            states, _ = self.words.states(tokens, mask, self.embed)
            read = [self.words.pooled(states[a:b, :width], (), mask[a:b, :width]) for a, b, width in groups]
        else:
            read = [self.words(tokens[a:b, :width], mask[a:b, :width], self.embed) for a, b, width in groups]
        return torch.cat(read) if len(read) > 1 else read[0]


def row_groups(mask: Tensor) -> list[tuple[int, int, int]]:
    """First and last row and width of each group of rows (R, W) that is computed at once.

    On a CPU padding costs time, so rows of similar length go together. On a GPU the steps of the recurrence cost
    time, whatever the number of rows: all go at once, and the lengths need not be known, which would be a sync."""
    if mask.device.type != "cpu" or must_not_sync() or exporting():
        return [(0, *mask.shape)]
    lengths = mask.sum(1).clamp(min=1).tolist()
    return [(first, last, lengths[first]) for first, last in cut_rows(lengths)]
