"""A simple neural attentive meta-learner (Mishra, Rohaninejad, Chen & Abbeel 2018): it is shown a few labelled
images of classes that it has never seen, then an image without a label, and tells the class.

    e_i = [embed(image_i); one-hot label_i]          the query's label is 0, and it comes last
    embed: 4 x (3x3 convolution, batch normalisation, ReLU, 2x2 max-pooling), then linear
    e -> look (64, 32) -> TC -> look (256, 128) -> TC -> look (512, 256) -> linear -> logits of the query

An episode is one sequence of T = ways x shots + 1 images. The looks (keys, values) read from the images before; the
TC blocks, dilated causal convolutions with 128 filters, combine neighbours. Both are those of `blocks.py`. The
loss is on the query alone, so the last block is computed for it alone: all images are keys there, one is a query.
Images of all episodes of a batch are embedded together. Several queries about the same examples (in the paper it is
one) take turns as the last step: none sees another, and the examples are computed once for all of them.

The support is in random order, and so are the labels: a class is the number it has in this episode. Fewer classes
than `ways` can be asked, and other numbers of examples. Batch normalisation uses running statistics in eval mode,
so that the answer to one query does not depend on the others. Left out: the residual network that the paper has for
photographs (mini-ImageNet).

Not in the paper, and off by default: the logits of the examples that are most like the query are added
(`nearest.py`), by their `pixels`, which tell something of any class, and by their embeddings (`matching`), which
learn sooner from many classes what makes two images alike. What attention shows is SNAIL's part; `bound` keeps it
small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.fields import check, setting
from regard.layers.loss import Loss, label_loss
from regard.models.snail.blocks import AttentionBlock, CausalBlock, CausalStack, TCBlock
from regard.models.snail.nearest import NearestExamples, coarse
from regard.models.snail.pooled_convolution import PooledConvolution

SMALL = {"conv_filters": 32, "embed": 32, "keys": (32, 64), "values": (32, 64), "tc_filters": 32, "pixels": 8}
LARGEST = 4096  # pixels on a side: a hostile configuration must not fill the memory


@dataclass(frozen=True)
class SNAILConfig:
    """The settings of a few-shot classifier."""

    ways: int = setting(5, at_least=2)  # classes of an episode
    shots: int = setting(1, at_least=1)  # labelled images of each class
    image_size: int = setting(28, at_least=1, at_most=LARGEST)  # height of the images
    image_width: int = setting(0, at_least=0, at_most=LARGEST)  # width of the images; 0: the same as the height
    channels: int = setting(1, at_least=1)  # 3: colour, 1: grey
    conv_layers: int = setting(4, at_least=1, layers=True)  # convolutions of the embedding; each halves the image
    conv_filters: int = setting(64, at_least=1)  # filters of each of them
    embed: int = setting(64, at_least=1)  # size of an image's embedding
    keys: tuple[int, ...] = setting((64, 256, 512), at_least=1)  # size of the keys of each look
    values: tuple[int, ...] = setting((32, 128, 256), at_least=1)  # size of the values of each look
    tc_filters: int = setting(128, at_least=1)  # filters of each convolution between two looks
    temporal: bool = True  # false: no convolutions between the looks
    # squares on a side in which images are compared by their pixels, for logits that are added
    pixels: int = setting(0, at_least=1, or_zero="no such part", later=True)
    matching: bool = setting(False, later=True)  # the same by the embeddings of images
    # SNAIL's own logits lie between -bound and bound: a few classes teach it only themselves
    bound: float = setting(0.0, at_least=0, later=True)

    def __post_init__(self) -> None:
        check(self)
        if not self.keys or len(self.keys) != len(self.values):
            raise ValueError(
                f"keys and values must have a size for each look, got {self.keys!r:.80} and {self.values!r:.80}"
            )
        if min(self.size) >> self.conv_layers == 0:
            raise ValueError(
                f"image_size must be at least {2**self.conv_layers} for {self.conv_layers} conv_layers, each of "
                f"which halves the image; got {self.size[0]} x {self.size[1]}"
            )
        if self.pixels > min(self.size):
            raise ValueError(
                f"pixels must be at most {min(self.size)}, as images of {self.size[0]} x {self.size[1]} have no "
                f"more squares on a side; got {self.pixels}"
            )

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        return self.image_size, self.image_width or self.image_size

    @property
    def length(self) -> int:
        """The images of an episode, with the query."""
        return self.ways * self.shots + 1


class Episodes(Protocol):
    """What is asked: S labelled images of each episode, then Q queries about them."""

    @property
    def images(self) -> Tensor: ...  # (E, S + Q, C, H, W)

    @property
    def labels(self) -> Tensor: ...  # (E, S), from 0 to ways - 1

    @property
    def answers(self) -> Tensor: ...  # (E, Q): the classes of the queries


class ImageEmbedding(nn.Module):
    """Convolutions, each with a max-pooling, and a linear layer."""

    def __init__(self, config: SNAILConfig):
        super().__init__()
        widths = [config.channels, *[config.conv_filters] * config.conv_layers]
        self.layers = nn.ModuleList(
            PooledConvolution(inside, config.conv_filters, 3, relu=False) for inside in widths[:-1]
        )
        height, width = (side >> config.conv_layers for side in config.size)
        self.out = nn.Linear(config.conv_filters * height * width, config.embed)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, embed)"""
        x = images.contiguous(memory_format=torch.channels_last)
        for layer in self.layers:
            assert isinstance(layer, PooledConvolution)
            x = layer.pooled(x)
        return self.out(x.flatten(1))


class SNAIL(nn.Module):
    """Tells the class of an image from a few labelled examples, in one pass."""

    paper = "Mishra, Rohaninejad, Chen & Abbeel 2018, A simple neural attentive meta-learner"
    Config = SNAILConfig
    SIZES: ClassVar = {
        "micro": {**SMALL, "matching": False, "bound": 1.0},
        "small": {**SMALL, "matching": True, "bound": 0.0},
        "base": {
            "conv_filters": 64,
            "embed": 64,
            "keys": (64, 256, 512),
            "values": (32, 128, 256),
            "tc_filters": 128,
        },
    }
    AUTO_SIZES: ClassVar = {"micro": 0, "small": 40}  # by the fewest training classes that they are for
    task = "fewshot"
    least_precision = "tf32"  # its kernels read float32
    numbering = ""

    def __init__(self, config: SNAILConfig):
        super().__init__()
        self.config = config
        self.eye = ImageEmbedding(config)
        width, blocks = config.embed + config.ways, list[CausalBlock]()
        for number, (keys, values) in enumerate(zip(config.keys, config.values, strict=True)):
            if number and config.temporal:
                blocks.append(TCBlock(width, config.length, config.tc_filters))
                width = blocks[-1].width
            blocks.append(AttentionBlock(width, keys, values))
            width = blocks[-1].width
        self.blocks = CausalStack(blocks)
        self.classify = nn.Linear(width, config.ways)
        if config.bound:  # begin with what the added parts say
            nn.init.zeros_(self.classify.weight)
            nn.init.zeros_(self.classify.bias)
        self.nearest = NearestExamples() if config.pixels else None
        self.matching = NearestExamples() if config.matching else None

    @property
    def alignment(self) -> str:
        """The attention that is shown by default: the first look compares images before anything is mixed."""
        return "blocks.0.attend"

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Images (E, S + Q, C, H, W), the queries last, and labels of the others (E, S) -> logits (E, Q, ways)

        Exported with a dynamic length it takes S = 2 or more: torch takes the size 1 for a constant."""
        states = self.embed(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        return self.answer(states, labels)

    def embed(self, images: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, embed), and with `pixels` their squares behind them"""
        if self.nearest is None:
            return self.eye(images)
        return torch.cat([self.eye(images), coarse(images, self.config.pixels)], 1)

    def answer(self, states: Tensor, labels: Tensor) -> Tensor:
        """As `forward`, from what `embed` gives of the images (E, S + Q, ..)."""
        queries = states.shape[1] - labels.shape[1]
        if queries < 1:
            raise ValueError(
                f"{states.shape[1]} images have {labels.shape[1]} labels; the last images are the queries, without "
                "labels: give fewer labels than images"
            )
        one_hot = F.one_hot(labels, self.config.ways).to(states.dtype)  # (E, S, ways)
        squares, states = states[..., self.config.embed :], states[..., : self.config.embed]
        seen = torch.cat([states, F.pad(one_hot, (0, 0, 0, queries))], -1)
        logits = self.classify(self.blocks.last(seen, queries))
        if self.config.bound:
            logits = self.config.bound * torch.tanh(logits / self.config.bound)
        if self.nearest is not None:
            logits = logits + self.nearest(squares, one_hot)
        if self.matching is not None:
            logits = logits + self.matching(F.normalize(states, dim=-1), one_hot)
        return logits

    def class_logits(self, batch: Episodes) -> Tensor:
        """(E Q, ways)"""
        return self(batch.images, batch.labels).flatten(0, 1)

    def loss(self, batch: Episodes, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy of the queries' classes."""
        return label_loss(self.class_logits(batch), batch.answers.flatten(), label_smoothing=label_smoothing)
