"""ResNets as folders of `timm`, whose config.json names an architecture and no model_type.

Its `pretrained_cfg` says how images are read, `model_args` what the architecture is built with. With crop_mode
"center" the shorter side of an image is resized to floor(size / crop_pct), and the centre is cut out; with "squash"
and crop_pct = 1 the whole image is resized. test_input_size and test_crop_pct are not used, as in timm unless asked
for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from regard.data.artifacts import MOST_EDGE, Artifacts, Pixels
from regard.data.images.images import RESAMPLING
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import RunError, Unrepresentable
from regard.foreign.contents import Contents, Json, say_once
from regard.foreign.form import Form, Part, Table, read_labels, same
from regard.foreign.hf_files import LEAST_STD, read_numbers
from regard.models.labels import MOST_LABELS
from regard.models.senet import EXPANSION, SENet, SENetConfig

BOTTLENECKS = ("resnet50", "resnet101", "resnet152")
# timm's seresnet18 and seresnet34 are others than ours: they round the hidden units up to a multiple of 8, which
# makes 8 of 64 / 16 = 4 in the first stage.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    **{name: SENet.SIZES[name] | {"reduction": 0} for name in ("resnet18", "resnet34", *BOTTLENECKS)},
    **{f"se{name}": SENet.SIZES[name] | {"reduction": 16} for name in BOTTLENECKS},
}
COMMON = ("stem", "shortcut", "widths")  # settings in which all architectures agree

# Arguments of timm's ResNet that matter in training alone, and the defaults of those that change the network.
TRAINING = ("drop_rate", "drop_path_rate", "drop_block_rate", "zero_init_last")
DEFAULTS: Json = {
    "global_pool": "avg",
    "output_stride": 32,
    "cardinality": 1,
    "base_width": 64,
    "stem_width": 64,
    "stem_type": "",
    "replace_stem_pool": False,
    "block_reduce_first": 1,
    "down_kernel_size": 1,
    "avg_down": False,
    "channels": [64, 128, 256, 512],
    "aa_layer": None,
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # where the folder has none
LEAST_CROP = 1 / MOST_EDGE  # crop_pct


class TimmForm(Form[SENetConfig]):
    model = "senet"
    library = "timm"
    optional = r".*\.num_batches_tracked"  # which BatchNorm does not read, as it has a momentum

    def matches(self, contents: Contents) -> bool:
        return "architecture" in contents.config and "model_type" not in contents.config

    def lacks(self, config: SENetConfig) -> str:
        if architecture_of(config):
            height, width = config.size
            return "" if height == width else "timm crops images that are not square otherwise than regard"
        first = next(iter(ARCHITECTURES.values()))
        other = [f"{key} = {first[key]!r}" for key in COMMON if getattr(config, key) != first[key]]
        near = [
            f"{name} has reduction = {size['reduction']}"
            for name, size in ARCHITECTURES.items()
            if (size["block"], size["depths"]) == (config.block, config.depths)
        ]
        why = f"they have {', '.join(other)}" if other else ", ".join(near) or "none has these blocks and depths"
        return f"of timm's networks regard writes {', '.join(ARCHITECTURES)}; {why}"

    def read_config(self, table: Table) -> tuple[SENetConfig, Special | None]:
        table.left.clear()  # timm ignores what it does not know
        name = table.take("architecture", "")
        if (size := ARCHITECTURES.get(name.split(".")[0])) is None:  # what follows the dot names the weights
            raise Unrepresentable(f"architecture = {name!r:.80} is not supported, only {', '.join(ARCHITECTURES)}")
        settings, arguments = _settings(table.table), _arguments(table.table)
        channels, height, width = _input_size(settings)
        labels = _labels(settings)
        if (count := arguments.table.get("num_classes", len(labels))) != len(labels):
            raise Unrepresentable(f"num_classes is {len(labels)}, and {count!r:.80} in model_args; correct one")
        config = SENetConfig(
            labels=labels,
            image_size=height,
            image_width=0 if width == height else width,
            channels=arguments.count("in_chans", channels),
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
            return _pixels(_settings(contents.config), config)
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


# ---- config.json


def _settings(table: Json) -> Table:
    """`pretrained_cfg`, but for what stands beside it and wins; null counts as not given. Old folders have all in
    one table."""
    inner = table.get("pretrained_cfg", table)
    if not isinstance(inner, dict):
        raise Unrepresentable(f"pretrained_cfg must be a table of settings, got {inner!r:.80}")
    beside = {key: table[key] for key in ("num_classes", "label_names") if key in table}
    settings = Table({key: value for key, value in {**inner, **beside}.items() if value is not None})
    settings.must("label_offset", 0)
    settings.must("custom_load", False)
    settings.must("global_pool", "avg")
    return settings


def _arguments(table: Json) -> Table:
    """`model_args`; those that would change the network are refused."""
    arguments = table.get("model_args") or {}
    if not isinstance(arguments, dict):
        raise Unrepresentable(f"model_args must be a table of arguments, got {arguments!r:.80}")
    for key in arguments.keys() - {*TRAINING, "in_chans", "num_classes"}:
        if key not in DEFAULTS or arguments[key] != DEFAULTS[key]:
            usual = f", only {DEFAULTS[key]!r}" if key in DEFAULTS else ""
            raise Unrepresentable(f"model_args: {key:.40} = {arguments[key]!r:.80} is not supported{usual}")
    return Table(arguments)


def _input_size(settings: Table) -> tuple[int, int, int]:
    size = settings.take("input_size", [3, 224, 224])
    if len(size) != 3 or not all(type(side) is int and side > 0 for side in size):
        raise Unrepresentable(f"input_size must be [channels, height, width], at least 1 each; got {size!r:.80}")
    return size[0], size[1], size[2]


def _labels(settings: Table) -> tuple[str, ...]:
    """label_names, else numbered ones. None without a classifier."""
    count = settings.take("num_classes", 1000)
    if not 0 <= count <= MOST_LABELS:
        raise Unrepresentable(f"num_classes must be a number from 0 to {MOST_LABELS:,}, got {count:,}")
    names = settings.table.get("label_names")
    if not count or names is None:
        return read_labels({"num_labels": count}) if count else ()
    if isinstance(names, list):
        names = {str(number): name for number, name in enumerate(names)}
    if not isinstance(names, dict) or names.keys() != set(map(str, range(count))):
        raise Unrepresentable(f"label_names must name the {count:,} classes from 0 on, got {names!r:.80}")
    if odd := [name for name in names.values() if not isinstance(name, str)]:
        raise Unrepresentable(f"label_names must be text, got {odd[0]!r:.80}")
    return read_labels({"id2label": names})


# ---- images


def _pixels(settings: Table, config: SENetConfig) -> Pixels:
    resample = settings.take("interpolation", "bicubic")
    if resample not in RESAMPLING:
        raise Unrepresentable(f"interpolation = {resample!r:.80} is not supported, only {', '.join(RESAMPLING)}")
    mean, std = (_statistics(settings, key, config) for key in ("mean", "std"))
    if not all(value >= LEAST_STD for value in std):
        raise Unrepresentable(f"std must be at least {LEAST_STD}, got {list(std)}")
    pixels = Pixels(mean, std, resample, _shortest_edge(settings, config.size))
    pixels.check(config.channels, config.size)
    return pixels


def _statistics(settings: Table, key: str, config: SENetConfig) -> tuple[float, ...]:
    """Mean or standard deviation of each channel. The folder of a model for grey images may still have three, for
    red, green and blue, as timm writes them into every folder; the model gets their average."""
    value = settings.table.get(key, list({"mean": MEAN, "std": STD}[key]))
    averaged = config.channels == 1 and isinstance(value, list) and len(value) == 3
    numbers = read_numbers(value, key, 3 if averaged else config.channels) or ()
    if not averaged:
        return numbers
    if len(set(numbers)) > 1:
        say_once(f"{key} is given for 3 channels, and the model has 1: grey images are read with the average")
    return (numbers[0] if len(set(numbers)) == 1 else sum(numbers) / 3,)


def _shortest_edge(settings: Table, size: tuple[int, int]) -> int:
    """The shorter side of an image before its centre is cut out; 0: all of it is resized."""
    mode, share = settings.take("crop_mode", "center"), settings.take("crop_pct", 0.875)
    if not LEAST_CROP <= share <= 1:
        raise Unrepresentable(f"crop_pct must be at most 1 and above 0, got {share!r}")
    edges = math.floor(size[0] / share), math.floor(size[1] / share)
    if mode == "squash":
        if edges != size:
            raise Unrepresentable(f"crop_mode = 'squash' is supported with crop_pct = 1 only, got {share!r}")
        return 0
    if mode != "center":
        raise Unrepresentable(f"crop_mode = {mode!r:.80} is not supported, only 'center' and 'squash'")
    if size[0] != size[1]:
        raise Unrepresentable(
            f"images of {size[0]} x {size[1]} are supported with crop_mode = 'squash' only, got 'center'"
        )
    return edges[0]


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


def crop_share(size: int, edge: int) -> float:
    """A crop_pct of few digits for which floor(size / crop_pct) = edge; size / edge itself may be rounded up."""
    near = (round(size / (edge + more), digits) for digits in range(1, 17) for more in (0, 0.5))
    return next(share for share in near if 0 < share <= 1 and math.floor(size / share) == edge)


TIMM = TimmForm()
