"""An image is worth 16x16 words (Dosovitskiy et al. 2021): a Transformer's encoder that reads pictures.

    x = [class; W patch_1 .. W patch_P] + P[place];  x -> x + look(norm(x)) -> x + feed(norm(x))  N times
    p = softmax(W_head norm(x)_class)

Pre-norm with a last norm, GELU (its exact form), learned positions, Xavier's first weights, a head begun at 0.
With pool = "mean" (the paper's appendix D.3) the head reads the mean of the patches' states, and there is no class
token at all. Sizes: base, large and huge of table 1, tiny and small of Touvron et al. 2021. A picture may have any
size that patches divide: the positions of another grid are interpolated. Left out: the hidden layer which the head
has while pretraining, and the hybrid whose patches are a ResNet's features. Stochastic depth (Huang et al. 2016) is
added. A run is a folder of `transformers`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels.dropout import Dropout
from regard.data.image_batches import ImageBatch
from regard.data.text import Special
from regard.layers.block import Block, check_block, through
from regard.layers.encoder_decoder import check_numbers
from regard.layers.first import take_over, truncated_normal_
from regard.layers.loss import Loss
from regard.models.foreign import Form, Part, Table, Unrepresentable, check_labels, read_labels, same, write_labels

POOLS = ("class", "mean")
MOST = 1 << 24  # patches in a picture, or numbers in a patch: beyond any model, and torch can count their weights


@dataclass(frozen=True)
class ViTConfig:
    labels: tuple[str, ...] = ()  # the classes' names; without any the model is bare: states, and no head
    image: int = 224  # height of the pictures it is trained on
    width: int = 0  # 0: as the height
    patch: int = 16
    channels: int = 3
    dim: int = 768
    layers: int = 12
    heads: int = 12
    ff: int = 0  # 0: four times dim
    activation: str = "gelu"
    eps: float = 1e-12  # of the norms
    pool: str = "class"  # what the head reads: class (the class token's state) or mean (of all patches' states)
    pooler: bool = False  # a bare model may have one more layer on the class token; others have none
    bias: bool = True  # of queries, keys and values
    dropout: float = 0.0
    attention_dropout: float = 0.0
    path_dropout: float = 0.0  # stochastic depth: of the last layer; it rises evenly from 0 at the first

    def __post_init__(self) -> None:
        check_numbers(self, may_be_0=("ff", "width"))
        check_block(dim=self.dim, heads=self.heads, activation=self.activation, norm="pre")
        check_labels(self.labels)
        for key in ("image", "width"):
            if getattr(self, key) % self.patch:
                raise ValueError(f"{key} must be a multiple of patch, got {getattr(self, key)} and {self.patch}")
        if math.prod(self.grid) > MOST or self.channels * self.patch**2 > MOST:
            raise ValueError(
                f"a picture has at most {MOST:,} patches and a patch as many numbers, got image {self.image}, "
                f"width {self.width}, patch {self.patch} and channels {self.channels}"
            )
        if not 0 < self.eps < 1:
            raise ValueError(f"eps must lie in (0, 1), got {self.eps}")
        if self.pool not in POOLS:
            raise ValueError(f"pool must be class (read the class token) or mean (of patches), got {self.pool!r}")
        if self.labels or self.pool != "class":  # as when a bare model's settings are taken over with a head
            object.__setattr__(self, "pooler", False)

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in a picture of the size it is trained on."""
        return self.image // self.patch, (self.width or self.image) // self.patch


class Patches(nn.Module):
    """W patch + b. A convolution that steps from patch to patch is this product with every flattened patch, and on
    the CPU the product is faster (8 pictures of 224 x 224: 57 ms for 97). W has the convolution's shape."""

    def __init__(self, channels: int, dim: int, patch: int):
        super().__init__()
        self.patch = patch
        self.weight = nn.Parameter(torch.empty(dim, channels, patch, patch))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, P, dim), row after row of patches"""
        cut = images.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch))  # (B, C, rows, p, columns, p)
        flat = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, P, C p p)
        return F.linear(flat, self.weight.flatten(1), self.bias)


def regrid(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Positions (P, dim) of the patches of one grid laid over another, bicubically   (section 3.2)"""
    if old == new:
        return positions
    field = positions.T.unflatten(1, old)[None]  # (1, dim, rows, columns)
    return F.interpolate(field, size=new, mode="bicubic", align_corners=False)[0].flatten(1).T


class ViT(nn.Module):
    paper = "Dosovitskiy et al. 2021, An image is worth 16x16 words: Transformers for image recognition at scale"
    Config = ViTConfig
    SIZES: ClassVar = {
        "tiny": {"dim": 192, "layers": 12, "heads": 3},
        "small": {"dim": 384, "layers": 12, "heads": 6},
        "base": {"dim": 768, "layers": 12, "heads": 12},
        "large": {"dim": 1024, "layers": 24, "heads": 16},
        "huge": {"dim": 1280, "layers": 32, "heads": 16, "patch": 14},
    }
    task = "recognise"
    layout = ""
    FREE = ("image", "width", "pool")  # what may be set otherwise than in the run that a training begins with

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.config = config
        dim, (rows, columns) = config.dim, config.grid
        self.patches = Patches(config.channels, dim, config.patch)
        self.positions = nn.Parameter(torch.empty(rows * columns, dim))
        with_class = config.pool == "class"
        self.class_token = nn.Parameter(torch.empty(dim)) if with_class else None
        self.class_position = nn.Parameter(torch.empty(dim)) if with_class else None
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                dim,
                config.heads,
                config.ff or 4 * dim,
                activation=config.activation,
                norm="pre",
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                path_dropout=config.path_dropout * layer / max(1, config.layers - 1),
                eps=config.eps,
            )
            for layer in range(config.layers)
        )
        self.norm = nn.LayerNorm(dim, config.eps)
        self.pooler = nn.Linear(dim, dim) if config.pooler else None
        self.head = nn.Linear(dim, config.classes) if config.labels else None
        self._begin()

    def _begin(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias") or name.startswith("head"):
                nn.init.zeros_(parameter)
            elif name.startswith("blocks") and "norm" not in name:
                nn.init.xavier_uniform_(parameter)  # as the authors' code does; 0.02 is slow where dim is small
            elif "norm" not in name:
                width = parameter[0].numel() if name.startswith("patches") else 0
                truncated_normal_(parameter, width**-0.5 if width else 0.02)
        if not self.config.bias:
            for layer in range(self.config.layers):
                for name in ("query", "key", "value"):
                    self.get_submodule(f"blocks.{layer}.attend.{name}").register_parameter("bias", None)

    @property
    def alignment(self) -> str:
        """The look that is shown unless another is asked for."""
        return f"blocks.{len(self.blocks) - 1}.attend"

    def grid(self, images: Tensor) -> tuple[int, int]:
        """Rows and columns of patches in pictures (B, C, H, W): how the tokens behind the class token lie."""
        config = self.config
        if images.dim() != 4 or images.shape[1] != config.channels or not images.is_floating_point():
            raise ValueError(
                f"images must be (B, {config.channels}, H, W), of normalised numbers; "
                f"got {images.dtype} of shape {tuple(images.shape)}"
            )
        height, width = images.shape[2:]
        if height % config.patch or width % config.patch or not height or not width:
            raise ValueError(
                f"images of {height} x {width} are not made of patches of {config.patch} x {config.patch}; "
                f"resize them so that height and width are multiples of {config.patch}"
            )
        return height // config.patch, width // config.patch

    def embedded(self, images: Tensor) -> Tensor:
        positions = regrid(self.positions, self.config.grid, self.grid(images))
        x = self.patches(images) + positions  # (B, P, dim)
        if self.class_token is not None and self.class_position is not None:
            first = (self.class_token + self.class_position).expand(len(x), 1, -1)
            x = torch.cat([first.to(x.dtype), x], 1)  # (B, 1 + P, dim)
        return self.dropout(x)

    def tokens(self, images: Tensor) -> Tensor:
        """images (B, C, H, W) -> states (B, 1 + P, dim), the class token's first; (B, P, dim) if there is none"""
        return self.norm(through(self.blocks, self.embedded(images)))

    def summary(self, states: Tensor) -> Tensor:
        """states (B, T, dim) -> what the head reads of a picture (B, dim)"""
        return states[:, 0] if self.config.pool == "class" else states.mean(1)

    def pooled(self, states: Tensor) -> Tensor:
        """tanh(W h_class + b)   (B, dim), of a bare model of `transformers`"""
        if self.pooler is None:
            raise ValueError("this model has no pooler; `summary(states)` gives what its head would read")
        return torch.tanh(self.pooler(self.summary(states)))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes)"""
        if self.head is None:
            raise ValueError(
                "this model has no head: it knows no classes, and gives states alone (`tokens`); "
                "to recognise, fine-tune it on pictures with labels"
            )
        return self.head(self.summary(self.tokens(images)))

    def loss(self, batch: ImageBatch, *, smoothing: float = 0.0) -> Loss:
        """Cross-entropy against the shares t of the classes, smoothed: (1 - e) t + e / classes   (Szegedy 2016)"""
        known = self(batch.images).float().log_softmax(-1)  # (B, classes)
        wanted = (1 - smoothing) * batch.targets + smoothing / self.config.classes
        right = batch.targets.argmax(1, keepdim=True)
        rows = torch.full((), len(known), device=known.device)
        return Loss(-(wanted * known).sum(), known.detach().gather(1, right).squeeze(1), rows)

    def adopt(self, other: ViT) -> list[str]:
        """Take over the weights of the same name and shape; gives the names of those that stay new. Positions are
        laid over this model's grid, and a head for other classes is not taken."""
        if not isinstance(other, ViT):
            raise ValueError(f"vit takes over the weights of another vit, got {type(other).__name__}")
        theirs = other.state_dict()
        theirs["positions"] = regrid(theirs["positions"], other.config.grid, self.config.grid)
        if other.config.labels != self.config.labels:
            theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("head.")}
        return take_over(self, theirs)


# ---- the form of `transformers`: the class token's position is the first row of the others


def _parts(config: ViTConfig) -> list[Part]:
    embed = "vit.embeddings"
    parts = [
        Part(f"{embed}.cls_token", ("class_token",), lambda x: x[None, None], lambda x: (x[0, 0],)),
        Part(
            f"{embed}.position_embeddings",
            ("class_position", "positions"),
            lambda first, others: torch.cat([first[None], others])[None],
            lambda x: (x[0, 0], x[0, 1:]),
        ),
    ]
    named = {f"{embed}.patch_embeddings.projection": "patches", "vit.layernorm": "norm"}
    without = []  # biases
    for layer in range(config.layers):
        theirs, ours = f"vit.encoder.layer.{layer}", f"blocks.{layer}"
        for name in ("query", "key", "value"):
            named[f"{theirs}.attention.attention.{name}"] = f"{ours}.attend.{name}"
            without += [] if config.bias else [f"{ours}.attend.{name}.bias"]
        named |= {
            f"{theirs}.attention.output.dense": f"{ours}.attend.out",
            f"{theirs}.intermediate.dense": f"{ours}.feed.inner",
            f"{theirs}.output.dense": f"{ours}.feed.outer",
            f"{theirs}.layernorm_before": f"{ours}.attend_norm",
            f"{theirs}.layernorm_after": f"{ours}.feed_norm",
        }
    named |= {"vit.pooler.dense": "pooler"} if config.pooler else {}
    named |= {"classifier": "head"} if config.labels else {}
    for theirs, ours in named.items():
        parts += [same(f"{theirs}.{kind}", f"{ours}.{kind}") for kind in ("weight", "bias")]
    return [part for part in parts if part.ours[0] not in without]


SPELT = {  # inside transformers 5, which writes them to files as before unless told otherwise
    r"^(vit\.)?layers\.": r"\1encoder.layer.",
    r"\.attention\.q_proj\.": ".attention.attention.query.",
    r"\.attention\.k_proj\.": ".attention.attention.key.",
    r"\.attention\.v_proj\.": ".attention.attention.value.",
    r"\.attention\.o_proj\.": ".attention.output.dense.",
    r"\.mlp\.fc1\.": ".intermediate.dense.",
    r"\.mlp\.fc2\.": ".output.dense.",
}


def _rename(name: str) -> str:
    for theirs, written in SPELT.items():
        name = re.sub(theirs, written, name)
    return name


def _read_config(table: Table) -> tuple[ViTConfig, None]:
    bare = table.table.get("architectures") == ["ViTModel"]
    table.take("encoder_stride", 16)  # of a head that is not this one
    table.must("pooler_act", "tanh")
    dim = table.take("hidden_size", 768)
    table.must("pooler_output_size", dim, None)
    ff = table.count("intermediate_size", 3072)
    height, width = _size(table, "image_size", 224)
    patch, across = _size(table, "patch_size", 16)
    if patch != across:
        raise Unrepresentable(f"patch_size = {[patch, across]} has no counterpart here, only square patches")
    config = ViTConfig(
        labels=() if bare else read_labels(table.table),
        image=height,
        width=0 if width == height else width,
        patch=patch,
        channels=table.take("num_channels", 3),
        dim=dim,
        layers=table.take("num_hidden_layers", 12),
        heads=table.take("num_attention_heads", 12),
        ff=0 if ff == 4 * dim else ff,
        activation=table.take("hidden_act", "gelu"),
        eps=table.take("layer_norm_eps", 1e-12),
        pooler=bare,
        bias=table.take("qkv_bias", True),
        dropout=table.take("hidden_dropout_prob", 0.0),
        attention_dropout=table.take("attention_probs_dropout_prob", 0.0),
        path_dropout=table.take("drop_path_rate", 0.0),
    )
    return config, None


def _size(table: Table, key: str, default: int) -> tuple[int, int]:
    """Height and width: one number for both, or two."""
    table.left.discard(key)
    size = table.table.get(key, default)
    pair = size if isinstance(size, list) else [size, size]
    if len(pair) != 2 or not all(type(one) is int and one > 0 for one in pair):
        raise Unrepresentable(f"{key} must be a number or two, [height, width], of at least 1; got {size!r:.80}")
    return pair[0], pair[1]


def _write_config(config: ViTConfig, special: Special | None) -> dict[str, Any]:
    found = {
        "hidden_size": config.dim,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ff or 4 * config.dim,
        "hidden_act": config.activation,
        "layer_norm_eps": config.eps,
        "image_size": [config.image, config.width] if config.width else config.image,
        "patch_size": config.patch,
        "num_channels": config.channels,
        "qkv_bias": config.bias,
        "encoder_stride": config.patch,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
    }
    if config.path_dropout:  # which transformers does not do; its other models call it so
        found["drop_path_rate"] = config.path_dropout
    return found | (write_labels(config.labels) if config.labels else {})


def _holds(config: ViTConfig, names: frozenset[str]) -> ViTConfig:
    labels = config.labels if "classifier.weight" in names else ()
    pooler = any(name.endswith("pooler.dense.weight") for name in names)
    return replace(config, labels=labels, pooler=pooler and not labels)


def _lacks(config: ViTConfig) -> str:
    if config.pool == "class":
        return ""
    return "ViT's head there reads a class token (model.pool = class), this model's the mean of its patches"


def _left_over(config: ViTConfig) -> dict[str, str]:
    """A classifier's file may keep the pooler of the model it was made from, which its head does not read."""
    return {f"vit.pooler.dense.{kind}": "" for kind in ("weight", "bias")} if config.labels else {}


VIT_FORM = Form(
    "vit",
    ("ViTForImageClassification", "ViTModel"),
    _read_config,
    _write_config,
    _parts,
    _lacks,
    prefix="vit.",
    computed="",
    copies=_left_over,
    architecture=lambda config: "ViTForImageClassification" if config.labels else "ViTModel",
    holds=_holds,
    rename=_rename,
)
