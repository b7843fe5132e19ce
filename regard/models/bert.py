"""BERT: pre-training of deep bidirectional transformers (Devlin et al. 2019): a Transformer's encoder alone.

    x = norm(E[token] + S[segment] + P[position]);  x -> norm(x + look(x)) -> norm(x + feed(x))  N times
    hidden word       p = softmax(E norm(gelu(W_m x_i)) + b)
    next sentence     p = softmax(W_n tanh(W_p x_0)),  class  p = softmax(W_c tanh(W_p x_0))

Every place sees every other, so that words are hidden and foretold from both sides; x_0 stands for the whole text.
Post-norm, exact GELU, eps 1e-12, the output tied to the embeddings, weights drawn from a normal distribution of
deviation 0.02 that ends at two deviations. Sizes: base and large are the paper's, the smaller ones those of Turc et
al. 2019 (Well-read students learn better). Position counts places of the row, padding too. Left out: the heads for
answers in a text and for a label of each word. A run is a folder of `transformers`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels.dropout import Dropout
from regard.data.labelled import LabelledBatch
from regard.data.masked import MaskedBatch
from regard.data.text import Special
from regard.layers.block import ACTIVATIONS, Block, check_block, through
from regard.layers.encoder_decoder import check_numbers
from regard.layers.first import take_over, truncated_normal_
from regard.layers.loss import Loss, token_loss
from regard.layers.positions import Learned
from regard.models.foreign import Form, Part, Table, check_labels, read_labels, same, write_labels

HEADS = {  # and the names they go by in `transformers`
    "none": "BertModel",
    "masked": "BertForMaskedLM",
    "pretrain": "BertForPreTraining",  # hidden words and next sentence
    "classify": "BertForSequenceClassification",
}
TASKS = {"none": "embed", "masked": "fill", "pretrain": "fill", "classify": "classify"}


@dataclass(frozen=True)
class BertConfig:
    vocabulary: int
    dim: int = 768
    layers: int = 12
    heads: int = 12
    ff: int = 0  # 0: four times dim
    longest: int = 512  # positions
    segments: int = 2
    activation: str = "gelu"
    eps: float = 1e-12  # of the norms
    head: str = "pretrain"
    pooler: bool = True  # pretrain and classify need it, masked has none
    labels: tuple[str, ...] = ()  # the classes' names; () until the data are read
    tied: bool = True  # one table for input and output
    dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(self, may_be_0=("ff",))
        check_block(dim=self.dim, heads=self.heads, activation=self.activation, norm="post")
        if not 0 < self.eps < 1:
            raise ValueError(f"eps must lie in (0, 1), got {self.eps}")
        if self.longest < 3:
            raise ValueError(f"longest must be at least 3 ([CLS], a word and [SEP]), got {self.longest}")
        if self.head not in HEADS:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, got {self.head!r}")
        if self.labels and self.head != "classify":
            raise ValueError(f"labels are the classes of head = 'classify', and head is {self.head!r}")
        if len(self.labels) == 1:
            raise ValueError(f"labels must name two classes or more, got {self.labels[0]!r:.80} alone")
        check_labels(self.labels)
        if self.head in ("pretrain", "classify") and not self.pooler:
            raise ValueError(f"head {self.head!r} reads the pooled state, so that pooler must be true")

    @property
    def task(self) -> str:
        return TASKS[self.head]

    @property
    def classes(self) -> int:
        return max(len(self.labels), 1)

    @property
    def pools(self) -> bool:
        return self.pooler and self.head != "masked"

    @property
    def foretells(self) -> bool:
        return self.head in ("masked", "pretrain")


class Bert(nn.Module):
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
    task = "fill"  # that of the head is config.task
    layout = "bert"
    LEARNS = ("head", "pooler")  # the recipe's word, whatever run a training begins with

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        dim, eps = config.dim, config.eps
        self.embed = nn.Embedding(config.vocabulary, dim)
        self.segments = nn.Embedding(config.segments, dim)
        self.positions = Learned(dim, longest=config.longest)
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
        if config.foretells:
            self.masked, self.masked_norm = nn.Linear(dim, dim), nn.LayerNorm(dim, eps)
            self.out = nn.Linear(dim, config.vocabulary)
        if config.head == "pretrain":
            self.next = nn.Linear(dim, 2)
        if config.head == "classify":
            self.classify = nn.Linear(dim, config.classes)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                truncated_normal_(part.weight)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)
        if config.foretells and config.tied:
            self.out.weight = self.embed.weight

    @property
    def alignment(self) -> str:
        """The look that is shown unless another is asked for."""
        return f"blocks.{len(self.blocks) - 1}.attend"

    def states(self, tokens: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> (B, T, dim); without segments all are of the first. Padding's states mean nothing."""
        which = self.segments.weight[0] if segments is None else self.segments(segments)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens) + which + self.positions(places, most=tokens.shape[1] - 1)
        return through(self.blocks, self.dropout(self.norm(x)), mask)

    def forward(self, tokens: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.states(tokens, segments, mask)

    def pooled(self, states: Tensor) -> Tensor:
        """tanh(W x_0 + b): states (B, T, dim) -> (B, dim)"""
        if not self.config.pools:
            raise ValueError(f"this BERT (head {self.config.head!r}) has no pooler; read its states, or their mean")
        return self.pooler(states[:, 0]).tanh()

    def masked_logits(self, states: Tensor) -> Tensor:
        """Of the words that may stand there: (.., dim) -> (.., V)"""
        states = self._foretold(states)
        return self.out(states)

    def next_logits(self, states: Tensor) -> Tensor:
        """(B, T, dim) -> (B, 2): 0, the second part follows the first; 1, it is from elsewhere"""
        self._must_be("says whether a sentence follows", "pretrain")
        return self.next(self.pooled(states))

    def class_logits(self, states: Tensor) -> Tensor:
        """(B, T, dim) -> (B, classes)"""
        self._must_be("tells classes apart", "classify")
        return self.classify(self.dropout(self.pooled(states)))

    def _foretold(self, states: Tensor) -> Tensor:
        self._must_be("foretells words", "masked", "pretrain")
        return self.masked_norm(ACTIVATIONS[self.config.activation](self.masked(states)))

    def _must_be(self, what: str, *heads: str) -> None:
        if self.config.head not in heads:
            raise ValueError(
                f"a BERT that {what} has the head {' or '.join(heads)}, this one has {self.config.head}; "
                "train one with model.head set so"
            )

    def loss(self, batch: MaskedBatch | LabelledBatch, *, smoothing: float = 0.0) -> Loss:
        states = self.states(batch.tokens, batch.segments, batch.mask)
        if isinstance(batch, LabelledBatch):
            return self._class_loss(states, batch.labels, smoothing)
        chosen = batch.chosen
        found = self._foretold(states[chosen])[:, None]  # (n, 1, dim), of the chosen places alone
        total, known = token_loss(
            found,
            self.out.weight,
            self.out.bias,
            batch.targets[chosen][:, None],
            torch.ones_like(found[..., 0], dtype=torch.bool),
            smoothing=smoothing,
        )
        likelihood = torch.zeros_like(chosen, dtype=known.dtype).masked_scatter(chosen, known).sum(1)
        if batch.follows is not None:  # a mean over rows beside a mean over words: the paper adds the two
            apart = F.cross_entropy(self.next_logits(states).float(), batch.follows, label_smoothing=smoothing)
            total = total + apart * len(known)
        return Loss(total, likelihood, chosen.sum().clamp(min=1))  # where every word is unknown, none is chosen

    def _class_loss(self, states: Tensor, labels: Tensor, smoothing: float) -> Loss:
        logits = self.class_logits(states).float()
        total = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        likelihood = -F.cross_entropy(logits.detach(), labels, reduction="none")
        return Loss(total, likelihood, labels.new_full((), len(labels)))

    def adopt(self, other: Bert) -> list[str]:
        """Begin with the weights of another; gives the names of those that stay new. A head for other classes is
        not taken."""
        if not isinstance(other, Bert):
            raise ValueError(f"bert takes over the weights of another bert, got {type(other).__name__}")
        theirs = other.state_dict()
        if other.config.labels != self.config.labels:
            theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("classify.")}
        return take_over(self, theirs)


# ---- the form of `transformers`


def _parts(config: BertConfig) -> list[Part]:
    tables = {
        "word_embeddings": "embed",
        "token_type_embeddings": "segments",
        "position_embeddings": "positions.table",
    }
    parts = [same(f"bert.embeddings.{theirs}.weight", f"{ours}.weight") for theirs, ours in tables.items()]
    both = {"bert.embeddings.LayerNorm": "norm"}  # weight and bias
    for layer in range(config.layers):
        theirs, ours = f"bert.encoder.layer.{layer}", f"blocks.{layer}"
        both |= {f"{theirs}.attention.self.{name}": f"{ours}.attend.{name}" for name in ("query", "key", "value")}
        both |= {
            f"{theirs}.attention.output.dense": f"{ours}.attend.out",
            f"{theirs}.attention.output.LayerNorm": f"{ours}.attend_norm",
            f"{theirs}.intermediate.dense": f"{ours}.feed.inner",
            f"{theirs}.output.dense": f"{ours}.feed.outer",
            f"{theirs}.output.LayerNorm": f"{ours}.feed_norm",
        }
    if config.pools:
        both["bert.pooler.dense"] = "pooler"
    if config.foretells:
        both |= {
            "cls.predictions.transform.dense": "masked",
            "cls.predictions.transform.LayerNorm": "masked_norm",
        }
        parts.append(same("cls.predictions.bias", "out.bias"))
        if not config.tied:
            parts[-1] = Part("cls.predictions.bias", ("out.bias",), lambda x: x.clone(), lambda x: (), unused=True)
            both["cls.predictions.decoder"] = "out"
    if config.head == "pretrain":
        both["cls.seq_relationship"] = "next"
    if config.head == "classify":
        both["classifier"] = "classify"
    return parts + [
        same(f"{theirs}.{kind}", f"{ours}.{kind}") for theirs, ours in both.items() for kind in ("weight", "bias")
    ]


def _copies(config: BertConfig) -> dict[str, str]:
    if not config.foretells:
        return {}
    found = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    if not config.tied:
        found = {"cls.predictions.bias": ""}  # the decoder has one of its own, and this one is left over
    if config.head == "masked":  # what pretraining left beside it
        unused = ("bert.pooler.dense", "cls.seq_relationship")
        found |= {f"{name}.{kind}": "" for name in unused for kind in ("weight", "bias")}
    return found


def _holds(config: BertConfig, names: frozenset[str]) -> BertConfig:
    """Files may hold more than their architecture says (the released models: all that was pretrained), or no
    pooler."""
    if config.head not in ("none", "masked"):
        return config
    bare = {name.removeprefix("bert.") for name in names}
    pooler = "pooler.dense.weight" in bare
    if "cls.predictions.transform.dense.weight" not in bare:
        return config if config.head == "masked" else replace(config, pooler=pooler)
    whole = pooler and "cls.seq_relationship.weight" in bare
    return replace(config, head="pretrain" if whole else "masked", pooler=True)


def _rename(name: str) -> str:
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _read_config(table: Table) -> tuple[BertConfig, Special]:
    heads = {name: head for head, name in HEADS.items()}
    head = heads[(table.table.get("architectures") or ["BertModel"])[0]]  # without a name, by the files: `_holds`
    table.must("position_embedding_type", "absolute")
    table.must("add_cross_attention", False)
    table.must("directionality", "bidi")
    table.must("pooler_type", "first_token_transform")
    for key in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head"):
        table.left.discard(f"pooler_{key}")  # written by the first code of the paper, and read by nobody
    table.left.discard("classifier_dropout")  # acts in training alone; here it is that of the rest
    if head == "classify":
        table.must("problem_type", None, "single_label_classification")
    dim = table.take("hidden_size", 768)
    ff = table.count("intermediate_size", 3072)
    config = BertConfig(
        vocabulary=table.take("vocab_size", 30522),
        dim=dim,
        layers=table.take("num_hidden_layers", 12),
        heads=table.take("num_attention_heads", 12),
        ff=0 if ff == 4 * dim else ff,
        longest=table.take("max_position_embeddings", 512),
        segments=table.take("type_vocab_size", 2),
        activation=table.take("hidden_act", "gelu"),
        eps=table.take("layer_norm_eps", 1e-12),
        head=head,
        labels=read_labels(table.table) if head == "classify" else (),
        tied=table.take("tie_word_embeddings", True),
        dropout=table.take("hidden_dropout_prob", 0.1),
        attention_dropout=table.take("attention_probs_dropout_prob", 0.1),
    )
    pad = 0 if table.table.get("pad_token_id") is None else table.token("pad_token_id")
    return config, Special(pad, -1, -1, -1)  # the others are the tokenizer's to know


def _write_config(config: BertConfig, special: Special) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary,
        "hidden_size": config.dim,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ff or 4 * config.dim,
        "max_position_embeddings": config.longest,
        "type_vocab_size": config.segments,
        "position_embedding_type": "absolute",
        "hidden_act": config.activation,
        "layer_norm_eps": config.eps,
        "tie_word_embeddings": config.tied,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "pad_token_id": special.pad,
        **(write_labels(config.labels) if config.labels else {}),
    }


BERT_FORM = Form(
    "bert",
    tuple(HEADS.values()),
    _read_config,
    _write_config,
    _parts,
    lambda config: "",
    prefix="bert.",
    computed=r"bert\.embeddings\.(position|token_type)_ids",
    copies=_copies,
    architecture=lambda config: HEADS[config.head],
    holds=_holds,
    rename=_rename,
)
