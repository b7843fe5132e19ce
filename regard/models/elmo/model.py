"""ELMo: deep contextualized word representations (Peters et al. 2018): a language model in both directions.

    x_k = CNN(characters of word k);  h_kj = [forward_kj; backward_kj],  h_k0 = [x_k; x_k]
    log p = sum_k log p(w_k | w_1 .. w_{k-1}) + log p(w_k | w_{k+1} .. w_n)
    a task's vector of word k  =  gamma sum_j softmax(s)_j h_kj

Words are read as characters, so that any word has a vector; only predicted words are from a vocabulary. Both
directions share the CNN and the softmax; their LSTMs are apart (see `projected_lstm.py`), and one direction of
a layer reads the same direction of the layer below. A sentence is <s> w_1 .. w_n </s>; forward, <s> predicts w_1
and w_n predicts </s>; backward, </s> predicts w_n and w_1 predicts <s>.

The published networks carry the LSTMs' states over from batch to batch, row by row; `read` does so where it gets a
state, everything else begins each sentence with zeros. Differences: they were trained with a sampled softmax, here
it is a full or an adaptive softmax (Grave et al. 2017), and on a stream of text cut into pieces of 20 words.

A classifier (`head = "classify"`) reads a mix of the layers, beside its own vectors of words ([x_k; ELMo_k], sec.
3.3; `word_dim`), with an LSTM in both directions and a pooling, over a language model that stays as it is
(`frozen`) or learns too. Not in the paper, and off by default: with `bigrams` a linear classifier of words and
bigrams stands beside it (`layers.bigrams`), about which the weights of the layers say nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.dropout import Dropout
from regard.base.dtype import at_least_float32
from regard.base.fields import check, setting
from regard.data.text.characters import CHARACTERS, CharacterBatch, CharacterEncoding
from regard.layers.bigrams import ClassParts, beside, build_bigrams
from regard.layers.loss import Loss, token_loss
from regard.layers.pooling import POOLS, PooledEncoder, WordEmbedding
from regard.models.elmo.characters import ACTIVATIONS, CharacterCNN
from regard.models.elmo.projected_lstm import BiState, ProjectedStack
from regard.models.elmo.scalar_mix import ScalarMix
from regard.models.labels import adopt_weights, check_classes

MOST_FILTERS = 1 << 20  # of all widths: more than any real network has
TASKS = {"none": "embed", "predict": "embed", "classify": "classify"}  # head -> task


@dataclass(frozen=True)
class ELMoConfig:
    """The settings of an ELMo."""

    vocabulary: int = setting(at_least=1)  # of predicted words
    max_characters: int = setting(50, at_least=3)  # most characters of a word
    character_dim: int = setting(16, at_least=1)  # size of the embeddings of characters
    widths: tuple[int, ...] = setting((1, 2, 3, 4, 5, 6, 7), at_least=1)  # widths of the filters, in characters
    # how many filters of each width
    filters: tuple[int, ...] = setting((32, 32, 64, 128, 256, 512, 1024), at_least=1)
    activation: str = setting("relu", choices=ACTIVATIONS)  # after the filters
    highways: int = setting(1, at_least=1, or_zero="none", layers=True)  # highway layers after the filters
    dim: int = setting(128, at_least=1)  # size of the words' vectors and of the states, in each direction
    cell: int = setting(0, at_least=0)  # size of an LSTM's cell before its projection to dim; 0: eight times dim
    layers: int = setting(2, at_least=1, layers=True)  # LSTM layers in each direction
    cell_clip: float = setting(3.0, at_least=0)  # cells are clipped to this range; 0: not
    projection_clip: float = setting(3.0, at_least=0)  # projected states are clipped to this range; 0: not
    skip: bool = True  # from the second layer on, a layer adds to the layer below
    # borders of the clusters of an adaptive softmax; empty: a full softmax
    cutoffs: tuple[int, ...] = setting((), at_least=1)
    head: str = setting("predict", choices=TASKS)  # what it is for: vectors alone, a language model, or classes
    labels: tuple[str, ...] = setting((), words="a tuple of class names")  # () until the data has been read
    # classifier: the layers that it reads, 0 being the words; empty: all
    mix: tuple[int, ...] = setting((), at_least=0)
    frozen: bool = True  # classifier: the language model below is not trained
    # classifier: size of its own vectors of words, beside ELMo's
    word_dim: int = setting(0, at_least=1, or_zero="none", later=True)
    reader: int = setting(128, at_least=1)  # classifier: size of its LSTM's states in each direction
    # classifier: layers of its LSTM
    reader_layers: int = setting(1, at_least=1, or_zero="the mix is pooled", layers=True)
    pool: str = setting("max", choices=POOLS)  # classifier: how states become one vector
    # dropout of what is trained: language model, mix, classifier
    dropout: float = setting(0.1, at_least=0, below=1)
    # classifier: rows of hashed bigrams in a linear part beside it, with its own loss; the mix is of the other part
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
        if not self.widths or len(self.widths) != len(self.filters):
            raise ValueError(
                f"each of {len(self.widths)} widths needs a number of filters, got {self.filters!r:.80}"
            )
        if sum(self.filters) > MOST_FILTERS:
            raise ValueError(f"filters must add up to at most {MOST_FILTERS:,}, got {sum(self.filters):,}")
        if max(self.widths) > self.max_characters:
            raise ValueError(f"widths must be at most max_characters = {self.max_characters}, got {self.widths}")
        if self.cell and self.cell <= self.dim:
            raise ValueError(f"cell must be above dim = {self.dim}, to which it is projected; got {self.cell}")
        if any(layer > self.layers for layer in self.mix) or len(set(self.mix)) < len(self.mix):
            raise ValueError(f"mix must name layers from 0 to {self.layers}, each once; got {list(self.mix)}")
        if list(self.cutoffs) != sorted(set(self.cutoffs)):
            raise ValueError(f"cutoffs must be in increasing order, got {list(self.cutoffs)}")
        if self.dim < 4 ** len(self.cutoffs):
            raise ValueError(
                f"each of {len(self.cutoffs)} cutoffs divides dim by 4, and dim is {self.dim}; give fewer"
            )

    @property
    def can_capture(self) -> bool:
        """Whether a step can be captured: batches have as many characters as they have words that differ."""
        return False

    @property
    def task(self) -> str:
        return TASKS[self.head]

    @property
    def predicts_words(self) -> bool:
        return self.head == "predict"

    @property
    def mixed_layers(self) -> tuple[int, ...]:
        return self.mix or tuple(range(self.layers + 1))


class ELMo(nn.Module):
    """A bidirectional language model of words, or a classifier on top of it."""

    paper = "Peters et al. 2018, Deep contextualized word representations"
    Config = ELMoConfig
    SIZES: ClassVar = {  # as published
        "small": {"dim": 128, "highways": 1},
        "medium": {"dim": 256, "highways": 1},
        "original": {"dim": 512, "highways": 2},
    }
    task = "embed"  # by default; config.task depends on the head
    numbering = "regard"
    OF_RECIPE = (  # set by the recipe, even with --from
        "head",
        "mix",
        "frozen",
        "word_dim",
        "reader",
        "reader_layers",
        "pool",
        "bigrams",
        "bigram_scale",
        "bigram_shares",
    )

    def __init__(self, config: ELMoConfig):
        super().__init__()
        self.config = config
        dim = config.dim
        self.words = CharacterCNN(
            CHARACTERS,
            config.character_dim,
            widths=config.widths,
            filters=config.filters,
            highways=config.highways,
            dim=dim,
            activation=config.activation,
        )
        self.lstm = ProjectedStack(
            dim,
            config.cell or 8 * dim,
            layers=config.layers,
            cell_clip=config.cell_clip,
            projection_clip=config.projection_clip,
            skip=config.skip,
            dropout=config.dropout,
        )
        self.dropout = Dropout(config.dropout)
        if config.head == "predict":
            self.out = self._softmax()
        if config.head == "classify":
            self._build_classifier()

    def _softmax(self) -> nn.Linear | nn.AdaptiveLogSoftmaxWithLoss:
        config = self.config
        if cutoffs := [cutoff for cutoff in config.cutoffs if cutoff < config.vocabulary]:
            return nn.AdaptiveLogSoftmaxWithLoss(config.dim, config.vocabulary, cutoffs)
        out = nn.Linear(config.dim, config.vocabulary)
        nn.init.normal_(out.weight, std=config.dim**-0.5)
        nn.init.zeros_(out.bias)
        return out

    def _build_classifier(self) -> None:
        config = self.config
        if config.frozen:
            for part in (self.words, self.lstm):
                part.requires_grad_(False)
        self.mix = ScalarMix(len(config.mixed_layers))
        if config.word_dim:
            self.own_words = WordEmbedding(config.vocabulary, config.word_dim, dropout=0.0, word_dropout=0.0)
        self.text = PooledEncoder(
            "lstm",
            2 * config.dim + config.word_dim,
            config.reader,
            layers=config.reader_layers,
            pool=config.pool,
            hidden=0,
            dropout=config.dropout,
        )
        classes = max(len(config.labels), 1)
        self.classify = nn.Linear(self.text.dim, classes)
        self.bigrams = build_bigrams(config, classes, dropout=config.dropout)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.config.head == "classify" and self.config.frozen:  # no dropout there
            self.words.eval()
            self.lstm.eval()
        return self

    @property
    def encoding(self) -> CharacterEncoding:
        """How it reads texts: word by word, in characters."""
        return CharacterEncoding(widest=max(self.config.widths), most_characters=self.config.max_characters)

    @property
    def levels(self) -> tuple[str, ...]:
        """Where a trace sees the weights of words."""
        return ("text.pool.attend",) if self.config.head == "classify" and self.config.pool == "attention" else ()

    @property
    def alignment(self) -> str:
        """The attention that is shown by default."""
        return next(iter(self.levels), "")

    # ---- states

    def states_of_layers(self, batch: CharacterBatch) -> Tensor:
        """h_kj of the words, <s> and </s> left out: (B, layers + 1, T - 2, 2 dim), 0 at padding. The mask of the
        words is `word_mask(batch)`."""
        return _of_words(self._all_states(batch), batch)

    def text_states(self, batch: CharacterBatch) -> Tensor:
        """(B, T - 2, 2 dim): a classifier's mix, else the mean of all layers: a mix that learned nothing."""
        if self.config.head == "classify":
            return self.mixed(batch)
        return self.states_of_layers(batch).mean(1)

    def state_mask(self, batch: CharacterBatch) -> Tensor:
        """(B, T - 2), True = a word"""
        return word_mask(batch)

    @property
    def state_dim(self) -> int:
        """The size of a word's state."""
        return 2 * self.config.dim

    def read(self, batch: CharacterBatch, state: BiState | None = None) -> tuple[Tensor, BiState]:
        """As `states_of_layers`, carrying the state of the previous batch (None: zeros), and the state after it."""
        words = self.word_vectors(batch)
        states, after = self.lstm.carry(words, batch.mask, state)
        return _of_words([torch.cat([words, words], -1), *states], batch), after

    def forward(self, characters: Tensor, mask: Tensor | None = None) -> Tensor:
        """characters (B, T, C) of sentences with <s> and </s> -> (B, layers + 1, T - 2, 2 dim)

        Exported with a dynamic length it takes T = 4 or more, two words: torch takes the size 1 for a constant. Pad
        a single word, and give a mask."""
        mask = (characters != 0).any(-1) if mask is None else mask
        places = torch.arange(mask.numel(), device=mask.device).view_as(mask)
        return self.states_of_layers(CharacterBatch(characters.flatten(0, 1), places, mask))

    def word_vectors(self, batch: CharacterBatch) -> Tensor:
        """x_k (B, T, dim)"""
        return F.embedding(batch.places, self.words(batch.characters))

    def _all_states(self, batch: CharacterBatch, *, words_alone: bool = False) -> list[Tensor]:
        """(B, T, 2 dim) of each layer, with <s> and </s>; or of layer 0 alone."""
        words = self.word_vectors(batch)
        above = [] if words_alone else self.lstm(words, batch.mask)
        return [torch.cat([words, words], -1), *above]

    # ---- the language model

    def loss(self, batch: CharacterBatch, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy of the words in both directions, or of the classes."""
        if self.config.head == "classify":
            return self.class_parts(batch).loss(batch, label_smoothing=label_smoothing)
        total, likelihoods, mask = self._predict(batch, label_smoothing)
        return Loss(total, likelihoods.sum(-1).view(2, -1).sum(0), mask.sum())

    def likelihoods(self, batch: CharacterBatch) -> Tensor:
        """(B, 2): log p of each sentence forward, the words and </s>, and backward, the words and <s>."""
        _, likelihoods, _ = self._predict(batch, 0.0)
        return likelihoods.sum(-1).view(2, -1).T

    def _predict(self, batch: CharacterBatch, label_smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
        """The summed loss, and log p of each prediction (2 B, T - 1), forward rows first, with their mask."""
        self._must_be("predicts words", "predict")
        words, real = batch.words, batch.mask[:, 1:]  # a word always has another before it, or <s>
        if words is None:
            raise ValueError("a batch to learn from has the ids of its words, this one has their characters alone")
        forward, backward = self.dropout(self._all_states(batch)[-1]).chunk(2, -1)
        states = torch.cat([forward[:, :-1], backward[:, 1:]])
        targets, mask = torch.cat([words[:, 1:], words[:, :-1]]), torch.cat([real, real])
        if isinstance(self.out, nn.Linear):
            weight, bias = self.out.weight, self.out.bias
            return *token_loss(states, weight, bias, targets, mask, label_smoothing=label_smoothing), mask
        if label_smoothing:
            raise ValueError("an adaptive softmax takes no label_smoothing; set model.cutoffs = [] or leave it out")
        with torch.autocast(states.device.type, enabled=False):  # torch's adaptive softmax does not know it
            likelihoods = self.out(at_least_float32(states[mask]), targets[mask]).output
        zeros = torch.zeros_like(mask, dtype=likelihoods.dtype)
        return -likelihoods.sum(), zeros.masked_scatter(mask, likelihoods.detach()), mask

    # ---- the classifier

    def mixed(self, batch: CharacterBatch) -> Tensor:
        """gamma sum_j softmax(s)_j h_kj (B, T - 2, 2 dim), 0 at padding"""
        self._must_be("mixes its layers for a task", "classify")
        layers = self.config.mixed_layers
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.frozen):
            states = self._all_states(batch, words_alone=layers == (0,))
        return self.mix(_of_words([states[layer] for layer in layers], batch))

    @property
    def layer_weights(self) -> dict[int, float]:
        """How much each layer counts in a classifier's mix; 0: the words. {}: it has no mix."""
        if self.config.head != "classify":
            return {}
        return dict(zip(self.config.mixed_layers, self.mix.weights.tolist(), strict=True))

    def class_logits(self, batch: CharacterBatch) -> Tensor:
        """(B, classes)"""
        return self.class_parts(batch).logits()

    def class_parts(self, batch: CharacterBatch) -> ClassParts:
        """The logits of the classes (B, C)."""
        vectors, mask = self.mixed(batch), word_mask(batch)  # an error where this is no classifier
        words = None if batch.words is None else batch.words[:, 1:-1]
        if self.config.word_dim:
            assert words is not None
            vectors = torch.cat([vectors, self.own_words(words)], -1)
        own = self.classify(self.dropout(self.text(self.dropout(vectors), mask)))
        if self.bigrams is None:
            return ClassParts(own)
        assert words is not None
        return beside(own, self.bigrams, words, mask)

    def adopt(self, other: ELMo) -> list[str]:
        """Copy the weights of another; returns the names of those that stay new. A head for other classes is not
        copied."""
        return adopt_weights(self, other, head=("classify", "bigrams"))

    def _must_be(self, what: str, head: str) -> None:
        if self.config.head != head:
            raise ValueError(
                f"an ELMo that {what} has the head {head}, this one has {self.config.head}; train one with "
                f"model.head = {head!r}"
            )


def word_mask(batch: CharacterBatch) -> Tensor:
    """(B, T - 2), True = a word: those of `states_of_layers`."""
    return batch.mask[:, 2:]


def _of_words(states: list[Tensor], batch: CharacterBatch) -> Tensor:
    """The layers (B, T, 2 dim) without <s> and </s>, and 0 at padding: (B, layers, T - 2, 2 dim)"""
    inner = torch.stack([layer[:, 1:-1] for layer in states], 1)
    return inner.masked_fill(~word_mask(batch)[:, None, :, None], 0)
