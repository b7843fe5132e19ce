"""ViTs in timm's folders: the same images get the same answers.

Beside timm itself, which need not be there, a ViT is computed here from timm's names alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm_folders import close, photograph
from torch import Tensor

import regard
from regard.errors import RunError
from regard.foreign import FORMS, form_of
from regard.foreign.form import Table, write_parts
from regard.foreign.timm_vit import TIMM_VIT, VITS
from regard.runs.folder import Folder
from regard.runs.folder import shapes as tensors_of
from regard.tasks.core.table import load
from regard.tasks.recognise.run import Recogniser

SIDE = 32  # pixels: 2 x 2 patches
PIXELS: dict[str, Any] = {
    "input_size": [3, SIDE, SIDE],
    "fixed_input_size": True,
    "interpolation": "bicubic",
    "crop_pct": 0.9,
    "crop_mode": "center",
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "num_classes": 3,
    "first_conv": "patch_embed.proj",
    "classifier": "head",
    "custom_load": True,
}
CONFIG: dict[str, Any] = {
    "architecture": "vit_tiny_patch16_224.augreg_in21k",
    "num_classes": 3,
    "num_features": 192,
    "global_pool": "token",
    "pretrained_cfg": PIXELS,
}
MEAN_OF_PATCHES = {"class_token": False, "global_pool": "avg", "fc_norm": False}


def table(**changes: Any) -> dict[str, Any]:
    """config.json; model_args and pixels by their keys."""
    pixels = PIXELS | changes.pop("pixels", {})
    return CONFIG | {"pretrained_cfg": pixels} | changes


def named(config: dict[str, Any]) -> dict[str, Tensor]:
    """Weights by timm's names, well off their first values."""
    ours, _ = TIMM_VIT.read_config(Table(config))
    shapes = write_parts(TIMM_VIT.parts(ours), tensors_of("vit", ours))
    torch.manual_seed(0)
    return {name: _drawn(name, x.shape) for name, x in shapes.items()}


def _drawn(name: str, shape: torch.Size) -> Tensor:
    if len(shape) == 1:
        return ("norm" in name and name.endswith("weight")) + 0.3 * torch.randn(shape)
    return torch.randn(shape) / (shape[1:].numel() ** 0.5 if "embed" not in name or len(shape) == 4 else 2)


def written(folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(dict(tensors), folder / "model.safetensors", {"format": "pt"})
    return folder


def computed(tensors: Mapping[str, Tensor], images: Tensor, heads: int) -> Tensor:
    """Logits, or without a classifier what it would read, from timm's tensors alone."""

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-6)

    kernel = tensors["patch_embed.proj.weight"]
    x = (
        F.conv2d(images, kernel, tensors["patch_embed.proj.bias"], stride=kernel.shape[-1])
        .flatten(2)
        .transpose(1, 2)
    )
    if "cls_token" in tensors:
        x = torch.cat([tensors["cls_token"].expand(len(x), -1, -1), x], 1)
    x = x + tensors["pos_embed"]
    for layer in range(1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("blocks."))):
        block = f"blocks.{layer}"
        parts = linear(norm(x, f"{block}.norm1"), f"{block}.attn.qkv").chunk(3, -1)
        query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)
        weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(-1)
        x = x + linear((weights @ value).transpose(1, 2).flatten(2), f"{block}.attn.proj")
        x = x + linear(F.gelu(linear(norm(x, f"{block}.norm2"), f"{block}.mlp.fc1")), f"{block}.mlp.fc2")
    x = norm(x, "norm")
    x = x[:, 0] if "cls_token" in tensors else x.mean(1)
    return linear(x, "head") if "head.weight" in tensors else x


VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "deit": {"architecture": "deit_tiny_patch16_224", "label_names": ["a", "b", "c"]},
    "grey, no biases": {"model_args": {"qkv_bias": False, "drop_path_rate": 0.1, "depth": 12, "in_chans": 1}},
    "mean of patches, another size": {
        "global_pool": "avg",
        "model_args": MEAN_OF_PATCHES | {"img_size": [16, 48]},
        "pixels": {"crop_mode": "squash", "crop_pct": 1.0},
    },
    "no classifier": {"num_classes": 0},
}


@torch.no_grad()
@pytest.mark.parametrize("name", VARIANTS)
def test_the_logits_are_those_of_their_tensors(name: str, tmp_path: Path) -> None:
    config = table(**VARIANTS[name])
    tensors = named(config)
    folder = written(tmp_path / "timm", config, tensors)
    model = regard.load_model(folder)
    size = model.config.size
    images = torch.randn(2, model.config.channels, *size)
    ours = model(images) if model.config.labels else model.summary(model.tokens(images))
    close(ours, computed(tensors, images, heads=3))
    if name == "deit":
        run = load(folder, device="cpu")
        assert isinstance(run, Recogniser)
        assert run.pixels.shortest_edge == 35
        answer = run.recognise(photograph())
        assert answer.label in "abc"
        assert answer.overlay().panels["rollout"].shape == (2, 2)
        assert form_of("vit", run.model.config) is FORMS["vit"]  # in which it is written
        run.export(tmp_path / "theirs")
        close(regard.load_model(tmp_path / "theirs")(images), ours)


def test_sizes_and_names() -> None:
    base = TIMM_VIT.read_config(Table({"architecture": "vit_base_patch32_384", "num_classes": 5}))[0]
    assert (base.size, base.patch_size, base.dim, base.layers, base.heads) == ((384, 384), 32, 768, 12, 12)
    assert (base.eps, base.bias, base.pool, len(base.labels)) == (1e-6, True, "class", 5)
    assert not TIMM_VIT.read_config(Table({"architecture": "vit_base_patch16_224_miil"}))[0].bias
    assert len(VITS) == 23


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "registers": ({"model_args": {"reg_tokens": 4}}, "model_args: reg_tokens = 4 is not supported, only 0"),
    "a scale": ({"model_args": {"init_values": 1e-5}}, "init_values = 1e-05 is not supported, only None"),
    "another depth": ({"model_args": {"depth": 24}}, "model_args: depth = 24 is not supported, only 12"),
    "an unknown one": ({"model_args": {"block_fn": "x"}}, "model_args: block_fn = 'x' is not supported"),
    "a mean with a class token": ({"global_pool": "avg"}, "global_pool = 'avg' with class_token = True"),
    "another pool": (
        {"global_pool": "map"},
        "global_pool = 'map' with class_token = True and fc_norm = None is not supported, only 'token' with",
    ),
    "no size": ({"model_args": {"img_size": -1}}, "img_size must be a number or two"),
    "half a patch": (
        {"model_args": {"img_size": 40}},
        "image_size must be a multiple of patch_size, got 40 and 16",
    ),
    "huge": ({"pixels": {"input_size": [3, 16 * 10**6, 16 * 10**6]}}, "an image has at most"),
    "a bias of text": ({"model_args": {"qkv_bias": "no"}}, "qkv_bias must be of type bool, got 'no'"),
    "two numbers of classes": ({"model_args": {"num_classes": 4}}, "num_classes is 3, and 4 in model_args"),
    "another ViT": (
        {"architecture": "vit_base_patch14_dinov2.lvd142m"},
        "'vit_base_patch14_dinov2' is not supported, only resnet18, .*vit_tiny_patch16_224 and other ViTs",
    ),
    "distilled": ({"architecture": "deit_tiny_distilled_patch16_224"}, "distilled_patch16_224' is not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_folder_is_refused_by_name(name: str, tmp_path: Path) -> None:
    changes, said = REFUSED[name]
    (tmp_path / "config.json").write_text(json.dumps(table(**changes)))
    with pytest.raises(RunError, match=said) as caught:
        Folder(tmp_path).pixels()
    assert len(str(caught.value)) < 1500


def test_tensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    config = table()
    tensors = named(config)
    tensors["pos_embed"] = torch.zeros(1, 197, 192)
    with pytest.raises(RunError, match=r"pos_embed should be \(1, 5, 192\) by config.json, but is \(1, 197, 192\)"):
        regard.load_model(written(tmp_path / "timm", config, tensors))


# ---- beside timm


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"qkv_bias": False}, MEAN_OF_PATCHES], ids=str)
@pytest.mark.parametrize("architecture", ["vit_tiny_patch16_224", "deit_tiny_patch16_224"])
def test_timms_folder_gives_the_same_logits(architecture: str, options: dict[str, Any], tmp_path: Path) -> None:
    timm, hub = pytest.importorskip("timm"), pytest.importorskip("timm.models._hub")
    options = options | {"img_size": SIDE, "num_classes": 7}
    model = timm.create_model(architecture, **options).eval()
    for name, x in model.state_dict().items():
        x.copy_(_drawn(name, x.shape))
    hub.save_for_hf(model, tmp_path / "timm", safe_serialization=True, model_args=options)
    run = load(tmp_path / "timm", device="cpu")
    images = torch.randn(2, 3, SIDE, SIDE)
    close(run.model(images), model(images))
