"""What captioners share: the convolutional network that reads the image, which we call the eye, and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from regard.base.fields import check, setting
from regard.data.images.caption_batches import CaptionBatch
from regard.layers.encoder_decoder import TargetSide
from regard.layers.init import take_over
from regard.layers.loss import Loss
from regard.models.senet import LARGEST, SHORTCUTS, STEMS, SENet, SENetConfig

# The eye's settings, which are those of a senet.
EYE = ("channels", "block", "depths", "widths", "stem", "shortcut", "reduction")


@dataclass(frozen=True)
class CaptionerConfig:
    """The settings of both captioners: those of the eye, and of the words."""

    vocabulary: int = setting(at_least=1)
    image_size: int = setting(64, at_least=1, at_most=LARGEST)  # height of the training images
    # width of the training images; 0: the same as the height
    image_width: int = setting(0, at_least=0, at_most=LARGEST)
    channels: int = setting(3, at_least=1)  # 3: colour, 1: grey
    # of the network that reads the image; basic and bottleneck: a ResNet; inception: an Inception
    block: str = setting("basic", choices=("basic", "bottleneck", "inception"))
    depths: tuple[int, ...] = setting((3, 3, 3), at_least=1, layers=True)  # blocks in each stage
    widths: tuple[int, ...] = setting((16, 32, 64), at_least=1)  # channels in each stage, before the expansion
    stem: str = setting("small", choices=STEMS)  # small: a 3x3 convolution; large: 7x7, stride 2, and max-pooling
    # ResNet, where the shape changes: new channels are 0, or a 1x1 convolution
    shortcut: str = setting("pad", choices=SHORTCUTS)
    # squeeze-and-excitation: the channels are divided by this in its hidden layer
    reduction: int = setting(16, at_least=1, or_zero="no squeeze-and-excitation")
    stage: int = -1  # whose grid is looked at; -1: the last. Each lower stage has twice as many rows and columns
    frozen: bool = False  # the network that reads the image is not trained: eval mode, no gradients
    embed: int = setting(256, at_least=1)  # size of the embeddings of words
    decoder: int = setting(512, at_least=1)  # size of the LSTM's states
    dropout: float = setting(0.1, at_least=0, below=1)  # dropout of words and of what the output layer reads
    tied: bool = False  # one table for input and output embeddings

    def __post_init__(self) -> None:
        check(self)
        self._network(len(self.depths))  # which checks itself
        count = len(self.depths)
        if not -count <= self.stage < count:
            raise ValueError(f"stage must lie in [-{count}, {count - 1}] for {count} stages, got {self.stage}")

    @property
    def eye(self) -> SENetConfig:
        """The network up to the stage that is looked at; later ones are left out."""
        return self._network(self.stage % len(self.depths) + 1)

    def _network(self, stages: int) -> SENetConfig:
        shape: dict[str, Any] = {name: getattr(self, name) for name in EYE}
        shape |= {name: shape[name][:stages] for name in ("depths", "widths") if stages < len(self.depths)}
        return SENetConfig(image_size=self.image_size, image_width=self.image_width, **shape)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the training images."""
        return self.eye.size

    @property
    def min_batch(self) -> int:
        """Images of a training batch."""
        return 1 if self.frozen else self.eye.min_batch


class ImageCaptioner(TargetSide):
    """Base class of captioners. A subclass adds `begin(places)`, which returns a memory and the decoder's first
    state, and `decode(target, memory, state)`."""

    begin: Any

    task = "caption"
    padded_side = ""  # images are not padded: `start` may be captured
    SIZES: ClassVar = SENet.SIZES
    fixed_shapes = True
    STARTS_FROM: ClassVar = {"senet": EYE}  # other models that --from takes, and the settings that are then theirs
    MAY_DIFFER: tuple[str, ...] = ("image_size", "image_width", "frozen")  # from the run that training starts from

    def __init__(self, config: CaptionerConfig, *, width: int):
        super().__init__(config, width=width, embed=config.embed)
        self.eye = SENet(config.eye)
        if config.frozen:
            self.eye.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.config.frozen:  # batch statistics would still change the eye
            self.eye.eval()
        return self

    def grid(self, images: Tensor) -> tuple[int, int]:
        """Rows and columns of the places that are looked at in images (B, C, H, W)."""
        halved = len(self.eye.stages) - 1 + 2 * (self.config.stem == "large")
        height, width = images.shape[2:]
        return -(-height >> halved), -(-width >> halved)  # rounded up

    def features(self, images: Tensor) -> Tensor:
        """images (B, C, H, W) -> the states a_i of all places, row by row (B, places, D)"""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.frozen):
            return self.eye.features(images).flatten(2).mT

    def encode(self, images: Tensor) -> Any:
        """images (B, C, H, W) -> the memory and the state where decoding starts"""
        return self.begin(self.features(images))

    def forward(self, images: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) of a target already shifted right."""
        return self.out(self.decode(target, *self.encode(images))[0])

    def loss(self, batch: CaptionBatch, *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> Loss:
        """With `r_drop` every row is decoded twice, see `token_loss`; the eye, which has no dropout, looks once."""
        places, target, mask = self.features(batch.images), batch.target, batch.target_mask
        if r_drop:
            places, target, mask = (torch.cat([side, side]) for side in (places, target, mask))
        return self.target_loss(target, mask, self.begin(places), label_smoothing=label_smoothing, r_drop=r_drop)

    def adopt(self, other: Any) -> list[str]:
        """Copy the weights of a captioner of this kind, or of a senet as the eye; returns the names of those that
        stay new."""
        if isinstance(other, SENet):
            theirs = {f"eye.{name}": tensor for name, tensor in other.state_dict().items()}
        elif isinstance(other, type(self)):
            theirs = other.state_dict()
        else:
            raise ValueError(f"a captioner can start from one of its kind or a senet, got {type(other).__name__}")
        return take_over(self, theirs)
