"""Folders that claim to be timm's and are not, or cannot be followed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from timm_folders import changed
from torch import Tensor

from regard.errors import RunError
from regard.runs.folder import Folder
from regard.tasks.core.table import load

CLASS = "must be a number from 0 to 1,048,576"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another network": (
        {"architecture": "resnet50d"},
        r"architecture = 'resnet50d' is not supported, only resnet18, resnet34, .*, seresnet50",
    ),
    "resnext": ({"architecture": "resnext50d_32x4d.bt_in1k"}, "'resnext50d_32x4d' is not supported, only"),
    "other groups": ({"model_args": {"cardinality": 32}}, "cardinality = 32 is not supported, only 1"),
    "other widths": ({"model_args": {"base_width": 128}}, "base_width = 128 is not supported, only 64"),
    "no name": ({"architecture": 18}, "architecture must be of type str, got 18"),
    "a null name": ({"architecture": None}, "architecture must be of type str, got None"),
    "a long name": ({"architecture": "x" * 10**6}, "architecture = 'xxx"),
    "many classes": ({"num_classes": 10**15}, f"num_classes {CLASS}, got 1,000,000,000,000,000"),
    "fewer than none": ({"num_classes": -1}, f"num_classes {CLASS}, got -1"),
    "classes as text": ({"num_classes": "3"}, "num_classes must be of type int, got '3'"),
    "two numbers of classes": ({"model_args": {"num_classes": 4}}, "num_classes is 3, and 4 in model_args"),
    "too few names": ({"label_names": ["a", "b"]}, "label_names must name the 3 classes from 0 on, got"),
    "other numbers": ({"label_names": {"1": "a", "2": "b", "3": "c"}}, "label_names must name the 3 classes"),
    "names as text": ({"label_names": "abc"}, "label_names must name the 3 classes from 0 on, got 'abc'"),
    "no names": ({"label_names": ["a", "b", 3]}, "label_names must be text, got 3"),
    "no table": ({"pretrained_cfg": [1]}, r"pretrained_cfg must be a table of settings, got \[1\]"),
    "no arguments": ({"model_args": [1]}, r"model_args must be a table of arguments, got \[1\]"),
    "a stem": ({"model_args": {"stem_type": "deep"}}, "model_args: stem_type = 'deep' is not supported, only ''"),
    "a pool": ({"model_args": {"global_pool": "max"}}, "model_args: global_pool = 'max' is not supported"),
    "blocks": ({"model_args": {"block_args": {"attn_layer": "eca"}}}, "model_args: block_args = .* not supported"),
    "layers": ({"model_args": {"layers": [1, 1, 1, 1]}}, r"model_args: layers = \[1, 1, 1, 1\] is not supported"),
    "channels as text": ({"model_args": {"in_chans": "1"}}, "in_chans must be of type int, got '1'"),
}
INSIDE: dict[str, tuple[dict[str, Any], str]] = {
    "one size": ({"input_size": 224}, "input_size must be of type list, got 224"),
    "two sizes": ({"input_size": [3, 224]}, r"input_size must be \[channels, height, width\], .*got \[3, 224\]"),
    "no size": ({"input_size": [3, 0, 224]}, "input_size must be .* at least 1 each"),
    "huge": ({"input_size": [3, 10**9, 10**9]}, r"image_size must lie in \[1, 4,096\]"),
    "a background": ({"label_offset": 1}, "label_offset = 1 is not supported, only 0"),
    "another loader": ({"custom_load": "hf"}, "custom_load = 'hf' is not supported, only False"),
    "another kernel": ({"interpolation": "lanczos"}, "interpolation = 'lanczos' is not supported, only bilinear"),
    "a border": ({"crop_mode": "border"}, "crop_mode = 'border' is not supported, only 'center' and 'squash'"),
    "squashed and cropped": ({"crop_mode": "squash"}, "'squash' is supported with crop_pct = 1 only, got 0.95"),
    "a mode of numbers": ({"crop_mode": 3}, "crop_mode must be of type str, got 3"),
    "padded": ({"crop_pct": 1.5}, "crop_pct must be at most 1 and above 0, got 1.5"),
    "all cropped": ({"crop_pct": 0.0}, "crop_pct must be at most 1 and above 0, got 0.0"),
    "nearly all": ({"crop_pct": 1e-320}, "crop_pct must be at most 1 and above 0"),
    "too much": ({"crop_pct": 1e-4}, r"shortest_edge must be 0, or lie in \[64, 65536\]"),
    "no number": ({"crop_pct": math.nan}, "crop_pct must be at most 1 and above 0, got nan"),
    "not square": ({"input_size": [3, 48, 64]}, "images of 48 x 64 are supported with crop_mode = 'squash' only"),
    "two means": ({"mean": [0.5, 0.5]}, "mean must have one number for each of 3 channels, got 2"),
    "text": ({"std": "imagenet"}, "std must be a list of numbers, got 'imagenet'"),
    "nothing": ({"std": [0, 1, 1]}, "std must be at least 1e-06"),
}


@pytest.mark.parametrize("name", [*REFUSED, *INSIDE])
def test_a_folder_is_refused_by_name(name: str, theirs: Path, tmp_path: Path) -> None:
    changes, said = REFUSED[name] if name in REFUSED else INSIDE[name]
    folder = changed(theirs, tmp_path, **(changes if name in REFUSED else {"pixels": changes}))
    with pytest.raises(RunError, match=f"changed/config.json: .*{said}") as caught:
        Folder(folder).pixels()
    assert len(str(caught.value)) < 700


Damage = Callable[[dict[str, Tensor]], object]
DAMAGED: dict[str, tuple[Damage, str]] = {
    "no norm": (
        lambda found: found.pop("layer1.0.bn1.running_var"),
        "layer1.0.bn1.running_var should be .*missing",
    ),
    "no classifier": (
        lambda found: found.pop("fc.weight"),
        r"fc.weight should be \(3, 512\) by config.json, but is m",
    ),
    "a gate": (
        lambda found: found.update({"layer1.0.se.fc1.weight": torch.zeros(4, 64, 1, 1)}),
        "layer1.0.se.fc1.weight should be absent",
    ),
    "other classes": (
        lambda found: found.update({"fc.weight": torch.zeros(5, 512)}),
        r"fc.weight should be \(3, 512\) by config.json, but is \(5, 512\)",
    ),
    "grey": (
        lambda found: found.update({"conv1.weight": torch.zeros(64, 1, 7, 7)}),
        r"conv1.weight should be \(64, 3, 7, 7\) by config.json, but is \(64, 1, 7, 7\)",
    ),
    "counters that are no integers": (
        lambda found: found.update({"bn1.num_batches_tracked": torch.tensor(0.5)}),
        "bn1.num_batches_tracked holds ",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_weights_that_do_not_fit_are_refused(name: str, theirs: Path, tmp_path: Path) -> None:
    damage, said = DAMAGED[name]
    folder = shutil.copytree(theirs, tmp_path / "damaged")
    tensors = load_file(theirs / "model.safetensors")
    damage(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(RunError, match=said):
        load(folder)
