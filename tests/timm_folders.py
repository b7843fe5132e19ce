"""Folders as timm writes them, and a ResNet computed from timm's names alone, for tests without timm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from regard.foreign import TIMM
from regard.foreign.form import write_parts
from regard.foreign.timm import ARCHITECTURES
from regard.models.senet import SENetConfig
from regard.runs.folder import shapes as tensors_of

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LABELS = ("tabby cat", "dog", "Æsop's owl")
PIXELS: dict[str, Any] = {
    "tag": "a1_in1k",
    "custom_load": False,
    "input_size": [3, 64, 64],
    "test_input_size": [3, 96, 96],
    "fixed_input_size": False,
    "interpolation": "bicubic",
    "crop_pct": 0.95,
    "test_crop_pct": 1.0,
    "crop_mode": "center",
    "mean": list(MEAN),
    "std": list(STD),
    "num_classes": 1000,
    "pool_size": [2, 2],
    "first_conv": "conv1",
    "classifier": "fc",
    "license": "apache-2.0",
}
CONFIG: dict[str, Any] = {
    "architecture": "resnet18",
    "num_classes": 3,
    "num_features": 512,
    "global_pool": "avg",
    "label_names": list(LABELS),
    "pretrained_cfg": PIXELS,
}


# ---- a ResNet by timm's names


def scramble(tensors: Mapping[str, Tensor]) -> None:
    """Weights as after a training: no norm is 0 at first, as timm's last ones are, and the statistics differ."""
    torch.manual_seed(0)
    for name, x in tensors.items():
        if name.endswith("running_var"):
            x.uniform_(0.5, 2)
        elif name.endswith("num_batches_tracked"):
            x.fill_(12_345)
        elif x.dim() == 1 and name.endswith("weight"):
            x.uniform_(0.3, 0.8)
        elif x.dim() == 1:
            x.normal_(std=0.2)
        else:
            bound = (6 / x[0].numel()) ** 0.5  # a variance of 2 / fan in, as He's, in half the time of normal_
            x.uniform_(-bound, bound)


def named(architecture: str, classes: int, channels: int = 3) -> dict[str, Tensor]:
    """Weights by timm's names."""
    found = {
        name: torch.zeros(x.shape, dtype=x.dtype) for name, x in shaped(architecture, classes, channels).items()
    }
    scramble(found)
    return found


def shaped(architecture: str, classes: int, channels: int = 3) -> dict[str, Tensor]:
    """Tensors without values, by timm's names."""
    labels = tuple(map(str, range(classes)))
    config = SENetConfig(labels=labels, channels=channels, **ARCHITECTURES[architecture])
    return write_parts(TIMM.parts(config), tensors_of("senet", config))


def computed(tensors: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """The logits of timm's ResNet, from its tensors alone: what there is of them says which network it is."""

    def convolve(x: Tensor, filter: str, norm: str, stride: int = 1) -> Tensor:
        kernel = tensors[f"{filter}.weight"]
        groups = x.shape[1] // kernel.shape[1]
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2, groups=groups)
        mean, variance = tensors[f"{norm}.running_mean"], tensors[f"{norm}.running_var"]
        return F.batch_norm(x, mean, variance, tensors[f"{norm}.weight"], tensors[f"{norm}.bias"])

    def gates(x: Tensor, name: str) -> Tensor:
        for inside, then in (("fc1", F.relu), ("fc2", torch.sigmoid)):
            x = then(F.conv2d(x, tensors[f"{name}.{inside}.weight"], tensors[f"{name}.{inside}.bias"]))
        return x

    x = F.max_pool2d(F.relu(convolve(images, "conv1", "bn1", 2)), 3, 2, padding=1)
    for name in dict.fromkeys(one.rsplit(".", 2)[0] for one in tensors if one.endswith(".conv1.weight")):
        stride = 2 if name.endswith(".0") and name != "layer1.0" else 1
        bottleneck = f"{name}.conv3.weight" in tensors
        y = F.relu(convolve(x, f"{name}.conv1", f"{name}.bn1", 1 if bottleneck else stride))
        y = convolve(y, f"{name}.conv2", f"{name}.bn2", stride if bottleneck else 1)
        if bottleneck:
            y = convolve(F.relu(y), f"{name}.conv3", f"{name}.bn3")
        if f"{name}.se.fc1.weight" in tensors:
            y = y * gates(y.mean((2, 3), keepdim=True), f"{name}.se")
        if f"{name}.downsample.0.weight" in tensors:
            x = convolve(x, f"{name}.downsample.0", f"{name}.downsample.1", stride)
        x = F.relu(x + y)
    return F.linear(x.mean((2, 3)), tensors["fc.weight"], tensors["fc.bias"])


def written(folder: Path, tensors: Mapping[str, Tensor], **changes: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    save_file(dict(tensors), folder / "model.safetensors", {"format": "pt"})
    return folder


def changed(theirs: Path, tmp_path: Path, *, pixels: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Other entries of config.json, and of its pretrained_cfg; `...` removes one. The weights are linked."""
    folder = tmp_path / "changed"
    folder.mkdir()
    table = CONFIG | {"pretrained_cfg": without_dots(PIXELS | (pixels or {}))} | changes
    (folder / "config.json").write_text(json.dumps(without_dots(table)))
    (folder / "model.safetensors").hardlink_to(theirs / "model.safetensors")
    return folder


def without_dots(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not ...}


def close(ours: Tensor, wanted: Tensor, share: float = 1e-5) -> None:
    assert ours.shape == wanted.shape
    assert float((ours - wanted).abs().max()) <= share * float(wanted.abs().max())


def photograph(height: int = 80, width: int = 120) -> np.ndarray:
    """Smooth colours with a few edges, as bytes (H, W, 3)."""
    y, x = np.mgrid[:height, :width] / 40
    image = np.stack([np.sin(x + y), np.cos(2 * x) * np.sin(y), (x % 1 > 0.5) - (y % 1)], -1)
    return (127 + 110 * image).clip(0, 255).astype(np.uint8)
