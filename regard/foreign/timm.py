"""ResNets as folders of `timm`, read and written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from regard.data.artifacts import Artifacts, Pixels
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import RunError, Unrepresentable
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, read_labels, same
from regard.foreign.timm_config import (
    architecture,
    arguments,
    crop_share,
    input_size,
    is_timm,
    timm_labels,
    timm_pixels,
    timm_settings,
)
from regard.foreign.timm_vit import VIT_WORDS
from regard.models.senet import EXPANSION, SENet, SENetConfig

DEPTHS = {"18": "resnet18", "34": "resnet34", "50": "resnet50", "101": "resnet101", "152": "resnet152"}
NEXT = {"50": ("32x4d",), "101": ("32x4d", "32x8d", "32x16d", "64x4d")}  # ResNeXts: groups x channels in each


def _architectures() -> dict[str, dict[str, Any]]:
    """Settings of ours by timm's names. SE networks of basic blocks have at least 8 hidden units there."""
    plain = {"reduction": 0, "inner": 1, "groups": 1}
    sizes = {number: SENet.SIZES[name] for number, name in DEPTHS.items()}
    small = {**sizes["50"], "depths": (2, 2, 2, 2)}
    found = {f"resnet{number}": size | plain for number, size in {**sizes, "26": small}.items()}
    for number in ("18", "34", "50", "101", "152"):
        found[f"seresnet{number}"] = sizes[number] | plain | {"reduction": 16}
    for number in ("18", "34"):
        found[f"seresnet{number}"]["min_hidden"] = 8
    for number in ("50", "101"):
        found[f"wide_resnet{number}_2"] = sizes[number] | plain | {"inner": 2}
        for kind in NEXT[number]:
            groups, width = map(int, kind.removesuffix("d").split("x"))
            next_ = sizes[number] | {"inner": groups * width // 64, "groups": groups}
            found[f"resnext{number}_{kind}"] = next_ | {"reduction": 0}
    for name in ("50_32x4d", "101_32x4d", "101_32x8d", "101_64x4d"):
        found[f"seresnext{name}"] = found[f"resnext{name}"] | {"reduction": 16}
    return found


ARCHITECTURES = _architectures()
COMMON = ("stem", "shortcut", "widths")  # settings in which all architectures agree
VARIED = ("reduction", "min_hidden", "inner", "groups")

# Arguments of timm's ResNet that matter in training alone, and the defaults of those that change the network.
TRAINING = ("drop_rate", "drop_path_rate", "drop_block_rate", "zero_init_last")
DEFAULTS: Json = {
    "global_pool": "avg",
    "output_stride": 32,
    "stem_width": 64,
    "stem_type": "",
    "replace_stem_pool": False,
    "block_reduce_first": 1,
    "down_kernel_size": 1,
    "avg_down": False,
    "channels": [64, 128, 256, 512],
    "aa_layer": None,
}


class TimmForm(Form[SENetConfig]):
    model = "senet"
    library = "timm"
    optional = r".*\.num_batches_tracked"  # which BatchNorm does not read, as it has a momentum

    def matches(self, contents: Contents) -> bool:
        return is_timm(contents)

    def lacks(self, config: SENetConfig) -> str:
        if architecture_of(config):
            height, width = config.size
            return "" if height == width else "timm crops images that are not square otherwise than regard"
        first = next(iter(ARCHITECTURES.values()))
        other = [f"{key} = {first[key]!r}" for key in COMMON if getattr(config, key) != first[key]]
        near = []
        for name, size in ARCHITECTURES.items():
            varied = {key: size.get(key, 1) for key in VARIED}
            if (size["block"], size["depths"]) == (config.block, config.depths):
                differs = [f"{key} = {value}" for key, value in varied.items() if getattr(config, key) != value]
                near.append(f"{name} has {' and '.join(differs)}")
        why = f"they have {', '.join(other)}" if other else ", ".join(near) or "none has these blocks and depths"
        return f"of timm's networks regard writes {', '.join(ARCHITECTURES)}; {why}"

    def read_config(self, table: Table) -> tuple[SENetConfig, Special | None]:
        table.left.clear()  # timm ignores what it does not know
        name = architecture(table)
        if (size := ARCHITECTURES.get(name)) is None:
            raise Unrepresentable(
                f"architecture = {name!r:.80} is not supported, only {', '.join(ARCHITECTURES)}; {VIT_WORDS}"
            )
        settings = timm_settings(table.table)
        groups = {"cardinality": size["groups"], "base_width": 64 * size["inner"] // size["groups"]}
        given = arguments(table.table, DEFAULTS | groups, (*TRAINING, "in_chans", "num_classes"))
        channels, height, width = input_size(settings)
        config = SENetConfig(
            labels=timm_labels(settings, given),
            image_size=height,
            image_width=0 if width == height else width,
            channels=given.count("in_chans", channels),
            **size,
        )
        return config, None

    def write_config(self, config: SENetConfig, special: Special | None) -> Json:
        width = config.widths[-1] * (EXPANSION if config.block == "bottleneck" else 1)
        settings: Json = {"architecture": architecture_of(config), "num_classes": len(config.labels)}
        settings |= {"num_features": width, "global_pool": "avg"}
        named = config.labels and config.labels != read_labels({"num_labels": len(config.labels)})
        return settings | ({"label_names": list(config.labels)} if named else {})

    def small_files(self, config: SENetConfig, artifacts: Artifacts, decoding: Decoding) -> dict[str, Json]:
        assert artifacts.pixels is not None
        return {self.config_file: {"pretrained_cfg": _pretrained_cfg(config, artifacts.pixels)}}

    def parts(self, config: SENetConfig) -> list[Part]:
        parts = []
        for filter, norm, ours in _convolutions(config):
            parts.append(same(f"{filter}.weight", f"{ours}.filter.weight"))
            for kind in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                parts.append(same(f"{norm}.{kind}", f"{ours}.norm.{kind}"))
        if config.reduction:
            for theirs, ours in _blocks(config):
                for inside, own in (("fc1", "inner"), ("fc2", "outer")):
                    parts.append(_one_by_one(f"{theirs}.se.{inside}.weight", f"{ours}.excite.{own}.weight"))
                    parts.append(same(f"{theirs}.se.{inside}.bias", f"{ours}.excite.{own}.bias"))
        if config.labels:
            parts += [same(f"fc.{kind}", f"head.{kind}") for kind in ("weight", "bias")]
        return parts

    def pixels(self, contents: Contents, config: SENetConfig) -> Pixels:
        try:
            return timm_pixels(timm_settings(contents.config), config)
        except ValueError as error:
            raise RunError(f"{contents.path / self.config_file}: {error!s:.300}") from None


def architecture_of(config: SENetConfig) -> str:
    """timm's name of a network of ours; "" if it has none."""
    for name, size in ARCHITECTURES.items():
        if all(getattr(config, key) == value for key, value in size.items()):
            return name
    return ""


# ---- tensors


def _blocks(config: SENetConfig) -> Iterator[tuple[str, str]]:
    """Their name and ours."""
    for stage, depth in enumerate(config.depths):
        for place in range(depth):
            yield f"layer{stage + 1}.{place}", f"stages.{stage}.{place}"


def _convolutions(config: SENetConfig) -> Iterator[tuple[str, str, str]]:
    """Their names of the filter and of the norm, and ours of both."""
    yield "conv1", "bn1", "stem.0"
    for theirs, ours in _blocks(config):
        for number in range(2 if config.block == "basic" else 3):
            yield f"{theirs}.conv{number + 1}", f"{theirs}.bn{number + 1}", f"{ours}.branch.{number}"
        # In the first stage only a bottleneck changes the shape.
        if theirs.endswith(".0") and (config.block == "bottleneck" or theirs != "layer1.0"):
            yield f"{theirs}.downsample.0", f"{theirs}.downsample.1", f"{ours}.shortcut"


def _one_by_one(theirs: str, ours: str) -> Part:
    """A matrix, which is a 1x1 convolution there."""
    return Part(theirs, (ours,), lambda x: x[:, :, None, None], lambda x: (x[:, :, 0, 0],))


def _pretrained_cfg(config: SENetConfig, pixels: Pixels) -> Json:
    height, width = config.size
    edge = pixels.shortest_edge
    return {
        "input_size": [config.channels, height, width],
        "fixed_input_size": False,
        "interpolation": pixels.resample,
        "crop_pct": crop_share(height, edge) if edge else 1.0,
        "crop_mode": "center" if edge else "squash",
        "mean": list(pixels.mean),
        "std": list(pixels.std),
        "num_classes": len(config.labels),
        "pool_size": [math.ceil(height / 32), math.ceil(width / 32)],
        # timm would adapt the weights of a first convolution to its number of channels.
        "first_conv": "conv1" if config.channels == 3 else None,
        "classifier": "fc",
    }


TIMM = TimmForm()
