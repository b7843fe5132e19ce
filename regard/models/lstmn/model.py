"""Long short-term memory-networks for machine reading (Cheng, Dong & Lapata 2016): an LSTM that looks back at all
its states before it reads a word. A language model or, by `head`, a classifier of texts.

    a_i = v . tanh(W_h h_i + W_x x_t + W_r h~_{t-1});  s = softmax(a)     the words before x_t only: i < t
    h~_t = sum_i s_i h_i,  c~_t = sum_i s_i c_i                           in place of h_{t-1} and c_{t-1}
    h_t, c_t = LSTM cell of x_t with the state (h~_t, c~_t)               both are appended to the tape
    generate   p = softmax(W h_t + b) of the next word
    classify   p = softmax(W_c mean_t(h_t) + b_c)

The tape and its gradients are those of `tape.py`. The first word has nothing to look at and reads 0. Layers are
stacked: each has a tape of its own and reads the states of the layer below. Differences: upper layers do not read
x_t as well (the paper's skip connections), so that the layers are those of `rnnlm` with a look back in addition;
the classifier is one linear layer, as that of `pooling` (the paper has two with a ReLU between them), and the
pooling is an option, and so is a linear classifier of words and bigrams beside it (`bigrams`, see
`layers.bigrams`), about which the attention says nothing. Left out: the attention between two texts (the paper's
section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.base.dropout import Dropout, drop
from regard.base.fields import check, setting
from regard.data.text.text_encoding import PlainEncoding, TokenBatch
from regard.data.text.windows import TextBatch
from regard.layers.bigrams import ClassParts, beside, build_bigrams
from regard.layers.encoder_decoder import check_tied
from regard.layers.loss import Loss, check_one_document, next_token_loss
from regard.layers.pooling import WordEmbedding, build_pool
from regard.layers.replay import must_not_sync
from regard.layers.state import State
from regard.models.labels import adopt_weights, check_classes
from regard.models.lstmn.tape import TapeLSTM

HEADS = ("generate", "classify")  # named after their tasks
POOLS = ("mean", "max", "last")


@dataclass(frozen=True)
class LSTMNConfig:
    """The settings of an LSTMN."""

    vocabulary: int = setting(at_least=1)
    embed: int = setting(300, at_least=1)  # size of the embeddings
    dim: int = setting(300, at_least=1)  # size of the states
    layers: int = setting(1, at_least=1, layers=True)  # layers, each with a tape of its own
    attention: int = setting(0, at_least=0)  # size of v in the additive score; 0: as dim
    # most tokens of a text; a recurrent model has no limit of its own
    max_positions: int = setting(1 << 20, at_least=1)
    head: str = setting("generate", choices=HEADS)  # what it is for: continue texts, or classify them
    labels: tuple[str, ...] = setting((), words="a tuple of class names")  # () until the data has been read
    pool: str = setting("mean", choices=POOLS)  # classifier: how states become one vector
    tied: bool = False  # one table for input and output
    dropout: float = setting(0.5, at_least=0, below=1)  # dropout of embeddings and states
    locked: bool = setting(False, later=True)  # dropout has one mask for all words of a row (Gal & Ghahramani 2016)
    word_dropout: float = setting(0.0, at_least=0, below=1)  # dropout of whole words
    # dropout of recurrent weights (Merity 2018)
    weight_dropout: float = setting(0.0, at_least=0, below=1, later=True)
    # classifier: rows of hashed bigrams in a linear part beside it, with its own loss; attention shows the other
    bigrams: int = setting(0, at_least=1, or_zero="no such part", later=True)
    # with bigrams: how fast these learn, beside words
    bigram_scale: float = setting(1.0, above=0, later=True)
    # with bigrams: powers of the probabilities of the states and of the linear part, whose product is the answer
    bigram_shares: tuple[float, float] = setting((1.0, 1.0), at_least=0, later=True)

    def __post_init__(self) -> None:
        check(self)
        check_classes(self.labels)
        if self.labels and self.head != "classify":
            raise ValueError(f"labels are for head = 'classify', and head is {self.head!r}")
        if self.head == "generate":
            check_tied(self, width="dim")

    @property
    def task(self) -> str:
        return self.head


class LSTMN(nn.Module):
    """An LSTM with a tape of its states; `config.head` says what it predicts: the next word or classes."""

    paper = "Cheng, Dong & Lapata 2016, Long short-term memory-networks for machine reading"
    Config = LSTMNConfig
    task = "generate"  # by default; config.task depends on the head
    numbering = "gpt2"
    padded_side = "left"  # of prompts: `start` may be captured with more padding
    # Set by the recipe, even when training starts from another run.
    OF_RECIPE = ("head", "pool", "bigrams", "bigram_scale", "bigram_shares")

    def __init__(self, config: LSTMNConfig):
        super().__init__()
        self.config = config
        self.max_target_positions = config.max_positions
        self.embed = WordEmbedding(
            config.vocabulary,
            config.embed,
            dropout=config.dropout,
            word_dropout=config.word_dropout,
            locked=config.locked,
        )
        widths = [config.embed, *[config.dim] * (config.layers - 1)]
        self.layers: Any = nn.ModuleList(
            TapeLSTM(width, config.dim, config.attention or config.dim, weight_dropout=config.weight_dropout)
            for width in widths
        )
        self.dropout = Dropout(config.dropout, shared=1 if config.locked else None)
        if config.head == "classify":
            self.pool = build_pool(config.pool, config.dim, hidden=config.dim)
            classes = max(len(config.labels), 1)
            self.classify = nn.Linear(config.dim, classes)
            self.bigrams = build_bigrams(config, classes)
            return
        self.out = nn.Linear(config.dim, config.vocabulary)
        if config.tied:
            self.out.weight = self.embed.table.weight

    @property
    def alignment(self) -> str:
        """The attention that is shown by default."""
        return f"layers.{len(self.layers) - 1}.attend"

    @property
    def encoding(self) -> PlainEncoding:
        """How a classifier reads texts: as one row of tokens."""
        return PlainEncoding()

    @property
    def word_table(self) -> nn.Embedding:
        """The embeddings."""
        return self.embed.table

    def states(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, T, dim). Padding (mask False) may be on either side; at the right it needs no mask."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = self.dropout(layer(x, mask))
        return x

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits: (B, T, V) of each next token, or (B, classes) of texts padded on the right"""
        if self.config.head == "classify":
            mask = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
            return self._parts(tokens, mask).logits()
        return self.out(self.states(tokens, mask))

    def _parts(self, tokens: Tensor, mask: Tensor) -> ClassParts:
        self._must("classify")
        pooled = self.pool(self.states(tokens), mask)  # (B, dim): no words that could share a mask
        own = self.classify(drop(pooled, self.config.dropout, self.training))
        return beside(own, self.bigrams, tokens, mask)

    def class_logits(self, batch: TokenBatch) -> Tensor:
        """(B, classes)"""
        return self._parts(batch.tokens, batch.mask).logits()

    def loss(self, batch: TextBatch | TokenBatch, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy of each next token, or of the classes."""
        if isinstance(batch, TextBatch):
            return self._token_loss(batch, label_smoothing)
        return self._parts(batch.tokens, batch.mask).loss(batch, label_smoothing=label_smoothing)

    def _token_loss(self, batch: TextBatch, label_smoothing: float) -> Loss:
        self._must("generate")
        check_one_document(batch, "lstmn")
        states = self.states(batch.tokens[:, :-1])
        return next_token_loss(states, self.out, batch, label_smoothing=label_smoothing)

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read a prompt (B, S), padded on the left, without its last token, which is the first given to `step`."""
        self._must("generate")
        padded = None if not must_not_sync() and bool(mask.all()) else mask
        x, tapes = self.embed(source), []
        for layer in self.layers:
            x, tape = layer.read(x, padded)
            tapes.append(tape)
        return State((), tuple(tapes))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        x, tapes = self.embed(tokens), []
        for layer, before in zip(self.layers, state.rows, strict=True):
            x, tape = layer.step(x, before)
            tapes.append(tape)
        return self.out(x), State((), tuple(tapes), state.width)

    def _must(self, head: str) -> None:
        if self.config.head != head:
            raise ValueError(
                f"an LSTMN that is to {head} has the head {head}, this one has {self.config.head}; "
                f"train one with model.head = {head!r}"
            )

    def adopt(self, other: LSTMN) -> list[str]:
        """Copy the weights of another; returns the names of those that stay new. A head for other classes is not
        copied."""
        return adopt_weights(self, other, head=("classify", "bigrams"))
