"""An image is worth 16x16 words (Dosovitskiy et al. 2021): a Transformer's encoder over image patches.

    x = [class; W patch_1 .. W patch_P] + P[patch];  x -> x + attend(norm(x)) -> x + feed(norm(x))  N times
    p = softmax(W_head norm(x)_class)

Pre-norm with a final norm, exact GELU, learned positions, Xavier initialisation, a head initialised to 0. With
pool = "mean" (the paper's appendix D.3) the head reads the mean of the patch states, and there is no class token;
with pool = "attention" what a learned query u reads of them, and with stem = "convolutions" what stands for a patch
has seen its neighbours (both of Hassani et al. 2021, for small sets of images):

    p = softmax(W_head sum_i a_i x_i),  a = softmax(u . x_i)

Sizes: base, large and huge of table 1, tiny and small of Touvron et al. 2021. An image may have any size that is
a multiple of the patch size: positions are interpolated to its grid. Added: stochastic depth (Huang et al. 2016).
Left out: the head's hidden layer while pretraining, and the hybrid with ResNet features as patches. Differences
from the authors' code, both as in `transformers`: the norms' eps is 1e-12 (1e-6 there), and the class token is
initialised with std 0.02 (0 there). A run is a Hugging Face folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Dot
from regard.base.dropout import Dropout
from regard.base.fields import check, setting
from regard.data.images.image_batches import ImageBatch
from regard.layers.block import ACTIVATIONS, Block, check_heads, through
from regard.layers.init import truncated_normal_
from regard.layers.loss import Loss, class_loss
from regard.layers.pooling import AttentionPool
from regard.models.labels import adopt_weights, check_labels
from regard.models.protocols import Images

POOLS = ("class", "mean", "attention")
STEMS = ("patches", "convolutions")
NARROW = 64  # channels between the convolutions of a stem
MOST = 1 << 24  # patches of an image, or values of a patch: beyond any model, and safe from integer overflow


@dataclass(frozen=True)
class ViTConfig:
    """The settings of a ViT."""

    labels: tuple[str, ...] = setting((), words="a tuple of class names")  # (): no head, the model gives states
    image_size: int = setting(224, at_least=1)  # height of the training images
    image_width: int = setting(0, at_least=0)  # width of the training images; 0: the same as the height
    patch_size: int = setting(16, at_least=1)  # height and width of a patch in pixels
    # what becomes of a patch: one product (patches), or convolutions that look beyond it, each halving the sides
    stem: str = setting("patches", choices=STEMS, later=True)
    channels: int = setting(3, at_least=1)  # 3: colour, 1: grey
    dim: int = setting(768, at_least=1)  # width of the model
    layers: int = setting(12, at_least=1, layers=True)  # how many layers
    heads: int = setting(12, at_least=1)  # attention heads of a layer
    ff: int = setting(0, at_least=0)  # width of the feed-forward layers; 0: four times dim
    activation: str = setting("gelu", choices=ACTIVATIONS)  # of the feed-forward layers
    eps: float = setting(1e-12, above=0, below=1)  # added to the variance in layer norms
    # what the head reads: the class token's state, the mean of the patch states, or what a learned query reads
    pool: str = setting("class", choices=POOLS)
    pooler: bool = False  # tanh layer on the class token, only in a model without a head
    bias: bool = True  # queries, keys and values have biases
    dropout: float = setting(0.0, at_least=0, below=1)  # dropout of embeddings and of each sub-layer's output
    attention_dropout: float = setting(0.0, at_least=0, below=1)  # dropout of attention weights
    # stochastic depth of the last layer; it rises linearly from 0 at the first
    drop_path: float = setting(0.0, at_least=0, below=1)

    def __post_init__(self) -> None:
        check(self)
        check_heads(self.dim, self.heads)
        check_labels(self.labels)
        for key in ("image_size", "image_width"):
            if getattr(self, key) % self.patch_size:
                raise ValueError(
                    f"{key} must be a multiple of patch_size, got {getattr(self, key)} and {self.patch_size}"
                )
        if self.stem == "convolutions" and (self.patch_size < 2 or self.patch_size & (self.patch_size - 1)):
            raise ValueError(
                "stem = convolutions needs a patch_size of 2, 4, 8, ..., as each of them halves the sides; got "
                f"{self.patch_size}"
            )
        if math.prod(self.grid) > MOST or self.channels * self.patch_size**2 > MOST:
            raise ValueError(
                f"an image has at most {MOST:,} patches, and a patch as many values; got image_size "
                f"{self.image_size}, image_width {self.image_width}, patch_size {self.patch_size} and "
                f"channels {self.channels}"
            )
        if self.labels or self.pool != "class":  # e.g. a config that was taken over from a model without a head
            object.__setattr__(self, "pooler", False)

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the training images."""
        return self.image_size, self.image_width or self.image_size

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in a training image."""
        height, width = self.size
        return height // self.patch_size, width // self.patch_size


class Patches(nn.Module):
    """W patch + b: a convolution with stride = kernel size, written as a matrix product, which is faster on the CPU
    (8 images of 224 x 224: 57 ms instead of 97). W has the convolution's shape."""

    def __init__(self, channels: int, dim: int, patch: int):
        super().__init__()
        self.patch = patch
        self.weight = nn.Parameter(torch.empty(dim, channels, patch, patch))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, P, dim), patches in row-major order"""
        cut = images.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch))  # (B, C, rows, p, columns, p)
        flat = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, P, C p p)
        return F.linear(flat, self.weight.flatten(1), self.bias)


class Convolutions(nn.Sequential):
    """Of each patch a vector, by convolutions of 3 x 3, ReLU and max-pooling that halves the sides (Hassani et al.
    2021): (B, C, H, W) -> (B, P, dim), in row-major order."""

    def __init__(self, channels: int, dim: int, patch: int):
        widths = [channels, *[NARROW] * (patch.bit_length() - 2), dim]
        super().__init__()
        for inputs, outputs in pairwise(widths):
            self.append(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False))
            self.append(nn.ReLU())
            self.append(nn.MaxPool2d(3, stride=2, padding=1))

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).flatten(2).transpose(1, 2)


def regrid(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Interpolate positions (P, dim) from one grid of patches to another, bicubic   (section 3.2)"""
    if old == new:
        return positions
    field = positions.T.unflatten(1, old)[None]  # (1, dim, rows, columns)
    return F.interpolate(field, size=new, mode="bicubic", align_corners=False)[0].flatten(1).T


class ViT(nn.Module):
    """A classifier of images, or without labels an encoder of their patches."""

    paper = "Dosovitskiy et al. 2021, An image is worth 16x16 words: Transformers for image recognition at scale"
    Config = ViTConfig
    SIZES: ClassVar = {
        "micro": {"dim": 128, "layers": 4, "heads": 4},
        "tiny": {"dim": 192, "layers": 12, "heads": 3},
        "small": {"dim": 384, "layers": 12, "heads": 6},
        "base": {"dim": 768, "layers": 12, "heads": 12},
        "large": {"dim": 1024, "layers": 24, "heads": 16},
        "huge": {"dim": 1280, "layers": 32, "heads": 16, "patch_size": 14},
    }
    AUTO_SIZES: ClassVar = {"micro": 0, "tiny": 50_000}  # by the fewest images that they are for
    AUTO_IMAGES: ClassVar = {  # by their longer side
        32: {"image_size": 32, "patch_size": 8},  # few, large patches: more steps in the same time
        64: {"image_size": 64, "patch_size": 16},
    }
    task = "recognise"
    numbering = ""
    MAY_DIFFER = ("image_size", "image_width", "pool")  # from the run that training starts from

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.config = config
        dim, (rows, columns) = config.dim, config.grid
        stem = Convolutions if config.stem == "convolutions" else Patches
        self.patches = stem(config.channels, dim, config.patch_size)
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
                drop_path=config.drop_path * layer / max(1, config.layers - 1),
                eps=config.eps,
                fixed_length=True,
            )
            for layer in range(config.layers)
        )
        self.norm = nn.LayerNorm(dim, config.eps)
        self.patch_pool = AttentionPool(dim, dim, Dot) if config.pool == "attention" else None
        self.pooler = nn.Linear(dim, dim) if config.pooler else None
        self.head = nn.Linear(dim, config.classes) if config.labels else None
        self._begin()

    def _begin(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias") or name.startswith("head"):
                nn.init.zeros_(parameter)
            elif name.startswith("blocks") and "norm" not in name:
                nn.init.xavier_uniform_(
                    parameter
                )  # as in the authors' code; std 0.02 learns slowly if dim is small
            elif "norm" not in name:
                width = parameter[0].numel() if name.startswith("patches") else 0
                gain = 2 if self.config.stem == "convolutions" else 1  # half of what a ReLU reads is 0
                truncated_normal_(parameter, (gain / width) ** 0.5 if width else 0.02)
        if not self.config.bias:
            for layer in range(self.config.layers):
                for name in ("query", "key", "value"):
                    self.get_submodule(f"blocks.{layer}.attend.{name}").register_parameter("bias", None)

    @property
    def alignment(self) -> str:
        """The attention that is shown by default."""
        return "patch_pool.attend" if self.patch_pool is not None else f"blocks.{len(self.blocks) - 1}.attend"

    def grid(self, images: Tensor) -> tuple[int, int]:
        """Rows and columns of patches in images (B, C, H, W)."""
        config = self.config
        if images.dim() != 4 or images.shape[1] != config.channels or not images.is_floating_point():
            raise ValueError(
                f"images must be normalised floats (B, {config.channels}, H, W); "
                f"got {images.dtype} of shape {tuple(images.shape)}"
            )
        height, width = images.shape[2:]
        if height % config.patch_size or width % config.patch_size or not height or not width:
            raise ValueError(
                f"images of {height} x {width} cannot be split into patches of {config.patch_size} x "
                f"{config.patch_size}; resize them so that height and width are multiples of {config.patch_size}"
            )
        return height // config.patch_size, width // config.patch_size

    def embedded(self, images: Tensor) -> Tensor:
        """The patches, and the class token before them, with their positions: (B, T, dim)"""
        positions = regrid(self.positions, self.config.grid, self.grid(images))
        x = self.patches(images) + positions  # (B, P, dim)
        if self.class_token is not None and self.class_position is not None:
            first = (self.class_token + self.class_position).expand(x.shape[0], 1, -1)
            x = torch.cat([first.to(x.dtype), x], 1)  # (B, 1 + P, dim)
        return self.dropout(x)

    def tokens(self, images: Tensor) -> Tensor:
        """images (B, C, H, W) -> states (B, 1 + P, dim), the class token first; (B, P, dim) if there is none"""
        return self.norm(through(self.blocks, self.embedded(images)))

    def summary(self, states: Tensor) -> Tensor:
        """states (B, T, dim) -> what the head reads (B, dim)"""
        if self.patch_pool is not None:
            return self.patch_pool(states)
        return states[:, 0] if self.config.pool == "class" else states.mean(1)

    def pooled(self, states: Tensor) -> Tensor:
        """tanh(W h_class + b)   (B, dim), as in `transformers`' ViTModel"""
        if self.pooler is None:
            raise ValueError("this model has no pooler; `summary(states)` gives what its head would read")
        return torch.tanh(self.pooler(self.summary(states)))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes)."""
        if self.head is None:
            raise ValueError(
                "this model has no head: it has no classes and gives only states (`tokens`); "
                "fine-tune it on labelled images to recognise"
            )
        return self.head(self.summary(self.tokens(images)))

    def class_logits(self, batch: Images) -> Tensor:
        """(B, classes)"""
        return self(batch.images)

    def loss(self, batch: ImageBatch, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy with soft targets."""
        return class_loss(self.class_logits(batch), batch.targets, label_smoothing=label_smoothing)

    def adopt(self, other: ViT) -> list[str]:
        """Copy the weights of the same name and shape; returns the names of those that stay new. Positions are
        interpolated to this model's grid; a head for other classes is not copied."""
        changed = {}
        if isinstance(other, ViT):
            changed["positions"] = regrid(other.positions, other.config.grid, self.config.grid)
        return adopt_weights(self, other, head="head", changed=changed)
