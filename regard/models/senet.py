"""Squeeze-and-excitation networks (Hu et al. 2018), and their twins without it: ResNet and Inception.

    z_c = mean over places of x_c;  gate = sigmoid(W_2 relu(W_1 z));  x_c -> gate_c x_c   at the end of every block
    ResNet (He et al. 2016):          x -> relu(shortcut(x) + excite(branch(x)))
    Inception (Szegedy et al. 2015):  x -> excite([1x1; 1x1-3x3; 1x1-3x3-3x3; pool-1x1])

Attention over channels instead of places: the mean of the whole image decides how far each channel is opened. A
ResNet has basic blocks (3x3-3x3) or bottlenecks (1x1-3x3-1x1, four times as wide at the end), whose 3x3 may be
wider (Zagoruyko & Komodakis 2016) and in groups of channels (ResNeXt, Xie et al. 2017). For small images
(CIFAR) it begins with a 3x3 convolution and has 6n + 2 layers in three stages, whose shortcuts pad new channels
with 0 (He's option A); for large ones (ImageNet) it begins with a 7x7 convolution and pooling and has four stages,
whose shortcuts project.
The Inception at CIFAR size is ours, after the paper's module: four branches of a quarter of the channels each,
batch normalisation (Ioffe & Szegedy 2015), and a max-pooling before each stage but the first.

Differences from He et al. 2016: a bottleneck halves the image in its 3x3 convolution, not in the 1x1 before it, as
in timm and torchvision. From Hu et al. 2018: where stages have 16 to 64 channels, as on CIFAR-10, our recipes
reduce them by 4 and not by 16, which would leave one hidden unit; W_1 and W_2 have no weight decay, which with 5e-4
took them to 0 in most blocks of an SE-ResNet-56. Runs of an ImageNet network are timm folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.record import record
from regard.base.fields import check, setting
from regard.data.images.image_batches import ImageBatch
from regard.layers.convolution import Convolution
from regard.layers.loss import Loss, class_loss
from regard.models.labels import adopt_weights, check_labels
from regard.models.protocols import Images

try:
    from regard.layers import norm_cuda
except ImportError:  # no Triton: torch's normalisation
    norm_cuda = None  # type: ignore[assignment]

EXPANSION = 4  # a bottleneck gives 4 times as many channels as its stage has
LARGEST = 4096  # pixels on a side: a hostile configuration must not fill the memory
STEMS = ("small", "large")
SHORTCUTS = ("pad", "project")


@dataclass(frozen=True)
class SENetConfig:
    """The settings of a ResNet or an Inception, with or without squeeze-and-excitation."""

    labels: tuple[str, ...] = setting((), words="a tuple of class names")
    image_size: int = setting(32, at_least=1, at_most=LARGEST)  # height of the training images
    # width of the training images; 0: the same as the height
    image_width: int = setting(0, at_least=0, at_most=LARGEST)
    channels: int = setting(3, at_least=1)  # 3: colour, 1: grey
    # basic and bottleneck: a ResNet; inception: an Inception
    block: str = setting("basic", choices=("basic", "bottleneck", "inception"))
    depths: tuple[int, ...] = setting((3, 3, 3), at_least=1, layers=True)  # blocks in each stage
    widths: tuple[int, ...] = setting((16, 32, 64), at_least=1)  # channels in each stage, before the expansion
    stem: str = setting("small", choices=STEMS)  # small: a 3x3 convolution; large: 7x7, stride 2, and max-pooling
    # ResNet, where the shape changes: new channels are 0, or a 1x1 convolution
    shortcut: str = setting("pad", choices=SHORTCUTS)
    # squeeze-and-excitation: the channels are divided by this in its hidden layer
    reduction: int = setting(16, at_least=1, or_zero="no squeeze-and-excitation")
    # its hidden layer has at least so many units
    min_hidden: int = setting(1, at_least=1, later=True)
    # bottleneck: its 3x3 convolution has so many times the channels of its stage
    inner: int = setting(1, at_least=1, later=True)
    # bottleneck: groups of channels in that convolution, as in a ResNeXt
    groups: int = setting(1, at_least=1, later=True)

    def __post_init__(self) -> None:
        check(self)
        check_labels(self.labels)
        if not self.depths or len(self.depths) != len(self.widths):
            raise ValueError(
                "depths and widths must have a number for each stage, "
                f"got {self.depths!r:.80} and {self.widths!r:.80}"
            )
        if self.shortcut == "pad" and self.block != "inception" and list(self.widths) != sorted(self.widths):
            raise ValueError(
                f"widths must not fall with shortcut = pad, which only adds channels; got {self.widths!r:.80}: "
                "take shortcut = project"
            )
        if self.block != "bottleneck" and (self.inner, self.groups) != (1, 1):
            raise ValueError(f"inner and groups are settings of a bottleneck, and the blocks are {self.block}")
        if any(width * self.inner % self.groups for width in self.widths):
            raise ValueError(
                f"groups must divide the channels of each stage, inner times its width; got groups {self.groups}, "
                f"inner {self.inner} and widths {self.widths!r:.80}"
            )
        if self.block == "inception" and any(width % 4 for width in self.widths):
            raise ValueError(
                f"widths of an inception must be multiples of 4, for four branches; got {self.widths!r:.80}"
            )

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the training images."""
        return self.image_size, self.image_width or self.image_size

    @property
    def min_batch(self) -> int:
        """Images of a training batch: an image that has become 1 x 1 pixel has no batch statistics alone."""
        halved = len(self.depths) - 1 + 2 * (self.stem == "large")
        return 2 if max(self.size) <= 1 << halved else 1


class Excite(nn.Module):
    """x_c * gate_c, gate = sigmoid(W_2 relu(W_1 z)), z_c = the mean of x_c over all places   (eq. 2 to 4)

    W_1 reduces the channels by `reduction`. A trace sees the gates as "gate" (B, C). W_1 and W_2 have no weight
    decay: a convolution that is normalised loses nothing by it, but gates would no longer see the image."""

    traced = ("gate",)
    decayed = False

    def __init__(self, channels: int, reduction: int, min_hidden: int = 1):
        super().__init__()
        hidden = max(min_hidden, channels // reduction)
        self.inner, self.outer = nn.Linear(channels, hidden), nn.Linear(hidden, channels)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x.mean((2, 3)))[:, :, None, None]

    def gate(self, squeezed: Tensor) -> Tensor:
        """By the means over all places (B, C)."""
        gate = torch.sigmoid(self.outer(F.relu(self.inner(squeezed))))
        record(self, "gate", gate, axis=0)
        return gate


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + excite(branch(x)))"""

    def __init__(self, inside: int, outside: int, stride: int, branch: list[Convolution], config: SENetConfig):
        super().__init__()
        self.branch = nn.Sequential(*branch)
        self.excite = Excite(outside, config.reduction, config.min_hidden) if config.reduction else None
        changes = stride > 1 or inside != outside
        project = changes and config.shortcut == "project"
        self.shortcut = Convolution(inside, outside, 1, stride=stride, relu=False) if project else None
        self.stride, self.new_channels = stride, outside - inside

    def forward(self, x: Tensor) -> Tensor:
        if self.excite is not None and self._answers(x, self.excite):
            return self._answer(x, self.excite)
        branch = self.branch(x)
        if self.excite is not None:
            branch = self.excite(branch)
        return F.relu(branch + self.carried(x), inplace=True)

    def _answer(self, x: Tensor, excite: Excite) -> Tensor:
        """As `forward`, on a GPU in eval mode, in fewer kernels."""
        inside, last = x, self.branch[-1]
        assert isinstance(last, Convolution)
        for part in list(self.branch)[:-1]:
            inside = part(inside)
        branch, means = last.squeezed(inside)
        gate, shortcut = excite.gate(means), self.carried(x)
        if norm_cuda.can_join(branch, gate, shortcut):
            return norm_cuda.join(branch, gate, shortcut)
        return F.relu(branch * gate[:, :, None, None] + shortcut)

    def _answers(self, x: Tensor, excite: Excite) -> bool:
        """Whether `_answer` is worth it, and nobody listens to the parts that it does not call."""
        heard = any(part._forward_hooks or part._forward_pre_hooks for part in (excite, self.branch[-1]))
        return norm_cuda is not None and norm_cuda.may_run(x) and not self.training and not heard

    def carried(self, x: Tensor) -> Tensor:
        """x in the shape of the branch"""
        if self.shortcut is not None:
            return self.shortcut(x)
        if self.stride > 1:
            x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, 0, self.new_channels)) if self.new_channels else x


class InceptionBlock(nn.Module):
    """excite([1x1(x); 3x3(1x1(x)); 3x3(3x3(1x1(x))); 1x1(pool(x))]), each a quarter of the channels"""

    def __init__(self, inside: int, width: int, stride: int, config: SENetConfig):
        super().__init__()
        part = width // 4
        self.shrink = nn.MaxPool2d(3, stride, padding=1) if stride > 1 else nn.Identity()
        self.one = Convolution(inside, part, 1)
        self.three = nn.Sequential(Convolution(inside, part, 1), Convolution(part, part, 3))
        self.five = nn.Sequential(
            Convolution(inside, part, 1), Convolution(part, part, 3), Convolution(part, part, 3)
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), Convolution(inside, part, 1))
        self.excite = Excite(width, config.reduction, config.min_hidden) if config.reduction else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.shrink(x)
        x = torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)
        return x if self.excite is None else self.excite(x)


def basic(inside: int, width: int, stride: int, config: SENetConfig) -> tuple[nn.Module, int]:
    branch = [Convolution(inside, width, 3, stride=stride), Convolution(width, width, 3, relu=False)]
    return ResidualBlock(inside, width, stride, branch, config), width


def bottleneck(inside: int, width: int, stride: int, config: SENetConfig) -> tuple[nn.Module, int]:
    outside, inner = EXPANSION * width, config.inner * width
    branch = [
        Convolution(inside, inner, 1),
        Convolution(inner, inner, 3, stride=stride, groups=config.groups),
        Convolution(inner, outside, 1, relu=False),
    ]
    return ResidualBlock(inside, outside, stride, branch, config), outside


def inception(inside: int, width: int, stride: int, config: SENetConfig) -> tuple[nn.Module, int]:
    return InceptionBlock(inside, width, stride, config), width


# Each gives a block and the number of its output channels.
BLOCKS: dict[str, Callable[[int, int, int, SENetConfig], tuple[nn.Module, int]]] = {
    "basic": basic,
    "bottleneck": bottleneck,
    "inception": inception,
}


def _cifar(n: int) -> dict[str, Any]:
    """A ResNet of 6n + 2 layers."""
    return {"block": "basic", "depths": (n, n, n), "widths": (16, 32, 64), "stem": "small", "shortcut": "pad"}


def _imagenet(block: str, *depths: int) -> dict[str, Any]:
    return {"block": block, "depths": depths, "widths": (64, 128, 256, 512), "stem": "large", "shortcut": "project"}


class SENet(nn.Module):
    """A convolutional classifier of images."""

    paper = "Hu et al. 2018, Squeeze-and-excitation networks"
    Config = SENetConfig
    SIZES: ClassVar = {
        "resnet20": _cifar(3),
        "resnet32": _cifar(5),
        "resnet56": _cifar(9),
        "resnet110": _cifar(18),
        "resnet18": _imagenet("basic", 2, 2, 2, 2),
        "resnet34": _imagenet("basic", 3, 4, 6, 3),
        "resnet50": _imagenet("bottleneck", 3, 4, 6, 3),
        "resnet101": _imagenet("bottleneck", 3, 4, 23, 3),
        "resnet152": _imagenet("bottleneck", 3, 8, 36, 3),
        "inception": {"block": "inception", "depths": (2, 2, 2), "widths": (64, 128, 256), "stem": "small"},
    }
    AUTO_SIZES: ClassVar = {"resnet20": 0}  # by the fewest images that they are for
    AUTO_IMAGES: ClassVar = {32: {"image_size": 32}, 64: {"image_size": 64}}  # by their longer side
    task = "recognise"
    numbering = ""
    alignment = ""  # no attention over places
    MAY_DIFFER = ("image_size", "image_width")  # from the run that training starts from

    def __init__(self, config: SENetConfig):
        super().__init__()
        self.config = config
        outside = config.widths[0]
        if config.stem == "large":
            first = [Convolution(config.channels, outside, 7, stride=2), nn.MaxPool2d(3, 2, padding=1)]
        else:
            first = [Convolution(config.channels, outside, 3)]
        self.stem = nn.Sequential(*first)
        self.stages = nn.ModuleList()
        for number, (depth, width) in enumerate(zip(config.depths, config.widths, strict=True)):
            stage = nn.Sequential()
            for place in range(depth):
                stride = 2 if number and not place else 1
                block, outside = BLOCKS[config.block](outside, width, stride, config)
                stage.append(block)
            self.stages.append(stage)
        self.width = outside  # channels of the last grid
        self.head = nn.Linear(outside, len(config.labels)) if config.labels else None
        # The layout in which convolutions are fastest.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def features(self, images: Tensor, stage: int = -1) -> Tensor:
        """images (B, C, H, W) -> the grid of states after a stage (B, D, rows, columns); -1: the last stage"""
        config = self.config
        if images.dim() != 4 or images.shape[1] != config.channels or not images.is_floating_point():
            raise ValueError(
                f"images must be normalised floats (B, {config.channels}, H, W); "
                f"got {images.dtype} of shape {tuple(images.shape)}"
            )
        count = len(self.stages)
        if not -count <= stage < count:
            raise ValueError(f"this network has the stages 0 to {count - 1}, got {stage}")
        x = self.stem(images.contiguous(memory_format=torch.channels_last))
        for each in list(self.stages)[: stage % count + 1]:
            x = each(x)
        return x

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes)."""
        if self.head is None:
            raise ValueError(
                "this model has no head: it has no classes and gives only features; "
                "fine-tune it on labelled images to recognise"
            )
        return self.head(self.features(images).mean((2, 3)))

    def class_logits(self, batch: Images) -> Tensor:
        """(B, classes)"""
        return self(batch.images)

    def loss(self, batch: ImageBatch, *, label_smoothing: float = 0.0) -> Loss:
        """Cross-entropy with soft targets."""
        return class_loss(self.class_logits(batch), batch.targets, label_smoothing=label_smoothing)

    def adopt(self, other: SENet) -> list[str]:
        """Copy the weights of the same name and shape; returns the names of those that stay new. A head for other
        classes is not copied."""
        return adopt_weights(self, other, head="head")
