"""BERT: pre-training of deep bidirectional transformers (Devlin et al. 2019): a Transformer's encoder alone.

    x = norm(E[token] + S[segment] + P[position]);  x -> norm(x + attend(x)) -> norm(x + feed(x))  N times
    masked token      p = softmax(E norm(gelu(W_m x_i)) + b)
    next sentence     p = softmax(W_n tanh(W_p x_0)),  class  p = softmax(W_c tanh(W_p x_0))
    answer in a text  p(begins at i) = softmax_i(w_b . x_i),  p(ends at j) = softmax_j(w_e . x_j)

Attention is bidirectional: a masked token is predicted from both sides; x_0, the state of [CLS], stands for the
whole text. An answer is a span of the second text, or [CLS] where there is none (sections 4.2, 4.3). Post-norm,
exact GELU, eps 1e-12, output tied to the embeddings, weights initialised from a normal distribution (std 0.02)
truncated at two standard deviations. Sizes: base and large are the paper's, the smaller ones are from Turc et al.
2019 (Well-read students learn better). Positions count padding too. Left out: the head for token classification.

Not in the paper, and off by default: with `bigrams` a linear classifier of tokens and bigrams (`layers.bigrams`),
[CLS] and [SEP] included, stands beside a classifier, for a few thousand texts and random weights. The attention
says nothing about it. A run is a Hugging Face folder, unless it has that part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.dropout import Dropout
from regard.base.dtype import at_least_float32
from regard.base.fields import check, setting
from regard.base.shared_batch import over_all, rows_of_all
from regard.data.text.masking import MaskedBatch
from regard.data.text.question_windows import QuestionBatch
from regard.data.text.text_encoding import LabelledBatch, PairEncoding
from regard.layers.bigrams import ClassParts, beside, build_bigrams
from regard.layers.block import ACTIVATIONS, Block, check_heads, through
from regard.layers.engine import engine_of
from regard.layers.init import truncated_normal_
from regard.layers.loss import Loss, label_loss, token_loss
from regard.layers.positions import Learned
from regard.models.labels import adopt_weights, check_labels

HEADS = {  # head -> its class in `transformers`
    "none": "BertModel",
    "masked": "BertForMaskedLM",
    "pretrain": "BertForPreTraining",  # masked tokens and next sentence
    "next": "BertForNextSentencePrediction",
    "classify": "BertForSequenceClassification",
    "span": "BertForQuestionAnswering",
}
TASKS = {
    "none": "embed",
    "masked": "fill",
    "pretrain": "fill",
    "next": "follows",
    "classify": "classify",
    "span": "ask",
}


@dataclass(frozen=True)
class BertConfig:
    """The settings of a Bert."""

    vocabulary: int = setting(at_least=1)
    dim: int = setting(768, at_least=1)  # width of the model
    layers: int = setting(12, at_least=1, layers=True)  # how many layers
    heads: int = setting(12, at_least=1)  # attention heads of a layer
    ff: int = setting(0, at_least=0)  # width of the feed-forward layers; 0: four times dim
    max_positions: int = setting(512, at_least=3)  # most tokens of a text, [CLS] and [SEP] included
    segments: int = setting(2, at_least=1)  # how many kinds of segment a token may be in: text A, text B
    activation: str = setting("gelu", choices=ACTIVATIONS)  # of the feed-forward layers
    eps: float = setting(1e-12, above=0, below=1)  # added to the variance in layer norms
    # what it is for: states alone, masked words, masked words and next sentences, next sentences alone, classes,
    # or where in a text the answer to a question stands
    head: str = setting("pretrain", choices=HEADS)
    pooler: bool = True  # tanh layer on [CLS]; pretrain, next and classify need it, masked and span have none
    labels: tuple[str, ...] = setting((), words="a tuple of class names")  # () until the data has been read
    tied: bool = True  # one table for input and output
    initializer_range: float = setting(
        0.02, above=0, later=True
    )  # standard deviation of new weights; 0.1: small models
    dropout: float = setting(0.1, at_least=0, below=1)  # dropout of embeddings and of each sub-layer's output
    attention_dropout: float = setting(0.1, at_least=0, below=1)  # dropout of attention weights
    # classifier: rows of hashed bigrams in a linear part beside it, with its own loss; attention shows the other
    bigrams: int = setting(0, at_least=1, or_zero="no such part", later=True)
    # with bigrams: how fast these learn, beside words
    bigram_scale: float = setting(1.0, above=0, later=True)
    # with bigrams: powers of the probabilities of BERT and of the linear part, whose product is the answer
    bigram_shares: tuple[float, float] = setting((0.3, 2.0), at_least=0, later=True)

    def __post_init__(self) -> None:
        check(self)
        check_heads(self.dim, self.heads)
        if self.labels and self.head != "classify":
            raise ValueError(f"labels are for head = 'classify', and head is {self.head!r}")
        if len(self.labels) == 1:
            raise ValueError(f"labels must name two classes or more, got {self.labels[0]!r:.80} alone")
        check_labels(self.labels)
        if self.head in ("pretrain", "next", "classify") and not self.pooler:
            raise ValueError(f"head {self.head!r} reads the pooled state: pooler must be true")

    @property
    def task(self) -> str:
        return TASKS[self.head]

    @property
    def can_capture(self) -> bool:
        """Whether a training step can be captured: predicted words are picked out, by how many there are."""
        return self.head == "classify"

    @property
    def classes(self) -> int:
        return max(len(self.labels), 1)

    @property
    def pools(self) -> bool:
        return self.pooler and self.head not in ("masked", "span")

    @property
    def has_linear_part(self) -> bool:
        return self.bigrams > 0 and self.head == "classify"

    @property
    def predicts_words(self) -> bool:
        return self.head in ("masked", "pretrain")

    @property
    def predicts_next(self) -> bool:
        return self.head in ("pretrain", "next")


class TextBatch(Protocol):
    """Texts, or pairs of texts, as a classifier reads them."""

    @property
    def tokens(self) -> Tensor: ...  # (B, T)

    @property
    def segments(self) -> Tensor: ...  # (B, T): 0 in the first text, 1 in the second

    @property
    def mask(self) -> Tensor: ...  # (B, T), True = a real token


class Bert(nn.Module):
    """An encoder of text; `config.head` says what it predicts: masked words, next sentences, classes or answers."""

    paper = "Devlin et al. 2019, BERT: pre-training of deep bidirectional transformers for language understanding"
    Config = BertConfig
    SIZES: ClassVar = {
        "tiny": {"dim": 128, "layers": 2, "heads": 2},
        "mini": {"dim": 256, "layers": 4, "heads": 4},
        "small": {"dim": 512, "layers": 4, "heads": 8},
        "medium": {"dim": 512, "layers": 8, "heads": 8},
        "base": {"dim": 768, "layers": 12, "heads": 12},
        "large": {"dim": 1024, "layers": 24, "heads": 16},
    }
    task = "fill"  # by default; config.task depends on the head
    numbering = "bert"
    # Set by the recipe, even when training starts from another run.
    OF_RECIPE = ("head", "pooler", "bigrams", "bigram_scale", "bigram_shares")

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        dim, eps = config.dim, config.eps
        self.embed = nn.Embedding(config.vocabulary, dim)
        self.segments = nn.Embedding(config.segments, dim)
        self.positions = Learned(dim, max_positions=config.max_positions)
        self.norm, self.dropout = nn.LayerNorm(dim, eps), Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                dim,
                config.heads,
                config.ff or 4 * dim,
                activation=config.activation,
                norm="post",
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                eps=eps,
            )
            for _ in range(config.layers)
        )
        if config.pools:
            self.pooler = nn.Linear(dim, dim)
        if config.predicts_words:
            self.masked, self.masked_norm = nn.Linear(dim, dim), nn.LayerNorm(dim, eps)
            self.out = nn.Linear(dim, config.vocabulary)
        if config.predicts_next:
            self.next = nn.Linear(dim, 2)
        if config.head == "classify":
            self.classify = nn.Linear(dim, config.classes)
        if config.head == "span":
            self.span = nn.Linear(dim, 2)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                truncated_normal_(part.weight, config.initializer_range)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)
        if config.predicts_words and config.tied:
            self.out.weight = self.embed.weight
        self.bigrams = None
        if config.has_linear_part:
            self.bigrams = build_bigrams(config, config.classes, dropout=config.dropout)

    @property
    def alignment(self) -> str:
        """The attention that is shown by default."""
        return f"blocks.{len(self.blocks) - 1}.attend"

    @property
    def encoding(self) -> PairEncoding:
        """How it reads texts: between [CLS] and [SEP], in segments."""
        return PairEncoding(segments=self.config.segments, max_positions=self.config.max_positions)

    def states(self, tokens: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> (B, T, dim). Segments default to 0. States at padding are meaningless."""
        engine = engine_of(self)
        if engine is not None:
            return engine.states(tokens, segments, mask)
        return through(self.blocks, self._embedded(tokens, segments), mask)

    def _embedded(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        which = self.segments.weight[0] if segments is None else self.segments(segments)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens) + which + self.positions(places, most=tokens.shape[1] - 1)
        return self.dropout(self.norm(x))

    @property
    def state_dim(self) -> int:
        """The size of a token's state."""
        return self.config.dim

    def text_states(self, batch: TextBatch) -> Tensor:
        """The last layer's states of texts or pairs of texts: (B, T, dim)"""
        return self.states(batch.tokens, batch.segments, batch.mask)

    def states_of_layers(self, batch: TextBatch) -> Tensor:
        """(B, layers + 1, T, dim); layer 0 is what the first block reads."""
        states = [self._embedded(batch.tokens, batch.segments)]
        for block in self.blocks:
            states.append(through([block], states[-1], batch.mask))
        return torch.stack(states, 1)

    def state_mask(self, batch: TextBatch) -> Tensor:
        """(B, T), True = a real token"""
        return batch.mask

    def forward(self, tokens: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.states(tokens, segments, mask)

    def pooled(self, states: Tensor) -> Tensor:
        """tanh(W x_0 + b): states (B, T, dim) -> (B, dim)"""
        if not self.config.pools:
            raise ValueError(f"this BERT (head {self.config.head!r}) has no pooler; read its states, or their mean")
        return self.pooler(states[:, 0]).tanh()

    def masked_logits(self, states: Tensor) -> Tensor:
        """Logits of the masked token: states (.., dim) -> (.., V)"""
        states = self._predicted_states(states)
        return self.out(states)

    def next_logits(self, states: Tensor) -> Tensor:
        """(B, T, dim) -> (B, 2): 0 = the second part follows the first, 1 = it comes from elsewhere"""
        self._must_be("predicts the next sentence", "pretrain", "next")
        return self.next(self.pooled(states))

    def class_logits(self, batch: TextBatch) -> Tensor:
        """Texts or pairs of texts -> (B, classes)"""
        return self.class_parts(batch).logits()

    def class_parts(self, batch: TextBatch) -> ClassParts:
        """The logits of the pooled state, and those of the linear part if there is one."""
        self._must_be("classifies", "classify")
        own = self.classify(self.dropout(self.pooled(self.text_states(batch))))
        return beside(own, self.bigrams, batch.tokens, batch.mask)

    def span_logits(self, batch: TextBatch) -> Tensor:
        """Where the answer begins and where it ends: (B, T, 2). -inf at places that may be neither: all but [CLS]
        and the tokens of the second text."""
        self._must_be("finds answers", "span")
        logits = at_least_float32(self.span(self.text_states(batch)))
        may = (batch.segments == 1) & batch.mask
        may &= F.pad(batch.mask[:, 1:], (0, 1))  # the last token is [SEP]
        may[:, 0] = True
        return logits.masked_fill(~may[..., None], -torch.inf)

    def _predicted_states(self, states: Tensor) -> Tensor:
        self._must_be("predicts words", "masked", "pretrain")
        return self.masked_norm(ACTIVATIONS[self.config.activation](self.masked(states)))

    def _must_be(self, what: str, *heads: str) -> None:
        if self.config.head not in heads:
            raise ValueError(
                f"a BERT that {what} has the head {' or '.join(heads)}, this one has {self.config.head}; "
                f"train one with model.head = {heads[0]!r}"
            )

    def loss(self, batch: MaskedBatch | LabelledBatch | QuestionBatch, *, label_smoothing: float = 0.0) -> Loss:
        """The loss of masked tokens and next sentences, of classes, or of where answers stand."""
        if isinstance(batch, QuestionBatch):
            return self._span_loss(batch)
        if isinstance(batch, LabelledBatch):
            return self.class_parts(batch).loss(batch, label_smoothing=label_smoothing)
        if self.config.head == "next":  # of whole texts, without masks
            assert batch.follows is not None
            states = self.states(batch.targets, batch.segments, batch.mask)
            return label_loss(self.next_logits(states), batch.follows, label_smoothing=label_smoothing)
        states = self.states(batch.tokens, batch.segments, batch.mask)
        predicted = batch.predicted
        answers = self._predicted_states(states[predicted])[:, None]  # (n, 1, dim), predicted tokens only
        total, likelihoods = token_loss(
            answers,
            self.out.weight,
            self.out.bias,
            batch.targets[predicted][:, None],
            torch.ones_like(answers[..., 0], dtype=torch.bool),
            label_smoothing=label_smoothing,
        )
        zeros = torch.zeros_like(predicted, dtype=likelihoods.dtype)
        likelihood = zeros.masked_scatter(predicted, likelihoods[:, 0]).sum(1)
        if batch.follows is not None:  # the paper adds a mean over rows to a mean over tokens
            logits = at_least_float32(self.next_logits(states))
            apart = F.cross_entropy(logits, batch.follows, label_smoothing=label_smoothing, reduction="sum")
            words = over_all(predicted.sum())  # both means are over the whole batch
            total = total + apart / rows_of_all(len(logits)) * words
        return Loss(
            total, likelihood, predicted.sum().clamp(min=1)
        )  # nothing is predicted where every token is unknown

    def _span_loss(self, batch: QuestionBatch) -> Loss:
        """The mean of the losses of beginning and end."""
        assert batch.begins is not None
        assert batch.ends is not None
        logits = self.span_logits(batch)
        begins, ends = (label_loss(logits[..., side], at) for side, at in enumerate((batch.begins, batch.ends)))
        return Loss((begins.total + ends.total) / 2, begins.likelihood + ends.likelihood, begins.tokens)

    def adopt(self, other: Bert) -> list[str]:
        """Copy the weights of another BERT; returns the names of those that stay new. A head for other classes is
        not copied."""
        return adopt_weights(self, other, head=("classify", "bigrams"))
