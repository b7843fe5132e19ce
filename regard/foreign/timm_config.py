"""What the folders of `timm` share: config.json names an architecture and no model_type.

Its `pretrained_cfg` says how images are read, `model_args` what the architecture is built with. With crop_mode
"center" the shorter side of an image is resized to floor(size / crop_pct), and the centre is cut out; with "squash"
and crop_pct = 1 the whole image is resized. test_input_size and test_crop_pct are not used, as in timm unless asked
for."""

from __future__ import annotations

import math

from regard.data.artifacts import MOST_EDGE, Pixels
from regard.data.images.images import RESAMPLING
from regard.errors import Unrepresentable
from regard.foreign.contents import Contents, Json, say_once
from regard.foreign.form import Table, read_labels
from regard.foreign.hf_files import LEAST_STD, ImageConfig, read_numbers
from regard.models.labels import MOST_LABELS

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # where the folder has none
LEAST_CROP = 1 / MOST_EDGE  # crop_pct


# ---- config.json


def is_timm(contents: Contents) -> bool:
    return "architecture" in contents.config and "model_type" not in contents.config


def architecture(table: Table) -> str:
    """Without what follows the dot, which names the weights."""
    name: str = table.take("architecture", "")
    return name.split(".")[0]


def timm_settings(table: Json, pool: tuple[str, ...] = ("avg",)) -> Table:
    """`pretrained_cfg`, but for what stands beside it and wins; null counts as not given. Old folders have all in
    one table."""
    inner = table.get("pretrained_cfg", table)
    if not isinstance(inner, dict):
        raise Unrepresentable(f"pretrained_cfg must be a table of settings, got {inner!r:.80}")
    beside = {key: table[key] for key in ("num_classes", "label_names") if key in table}
    settings = Table({key: value for key, value in {**inner, **beside}.items() if value is not None})
    settings.must("label_offset", 0)
    settings.must("custom_load", False, True)  # true: another file than the folder's is read otherwise
    settings.must("global_pool", *pool)
    return settings


def arguments(table: Json, defaults: Json, free: tuple[str, ...]) -> Table:
    """`model_args`. Those that are `free` may be anything; others that would change the network are refused."""
    found = table.get("model_args") or {}
    if not isinstance(found, dict):
        raise Unrepresentable(f"model_args must be a table of arguments, got {found!r:.80}")
    for key in found.keys() - {*free}:
        if key not in defaults or found[key] != defaults[key]:
            usual = f", only {defaults[key]!r}" if key in defaults else ""
            raise Unrepresentable(f"model_args: {key:.40} = {found[key]!r:.80} is not supported{usual}")
    return Table(found)


def input_size(settings: Table, usual: int = 224) -> tuple[int, int, int]:
    """Channels, height and width."""
    size = settings.take("input_size", [3, usual, usual])
    if len(size) != 3 or not all(type(side) is int and side > 0 for side in size):
        raise Unrepresentable(f"input_size must be [channels, height, width], at least 1 each; got {size!r:.80}")
    return size[0], size[1], size[2]


def timm_labels(settings: Table, arguments: Table) -> tuple[str, ...]:
    """label_names, else numbered ones. None without a classifier."""
    labels = _labels(settings)
    if (count := arguments.table.get("num_classes", len(labels))) != len(labels):
        raise Unrepresentable(f"num_classes is {len(labels)}, and {count!r:.80} in model_args; correct one")
    return labels


def _labels(settings: Table) -> tuple[str, ...]:
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


def timm_pixels(settings: Table, config: ImageConfig) -> Pixels:
    resample = settings.take("interpolation", "bicubic")
    if resample not in RESAMPLING:
        raise Unrepresentable(f"interpolation = {resample!r:.80} is not supported, only {', '.join(RESAMPLING)}")
    mean, std = (_statistics(settings, key, config) for key in ("mean", "std"))
    if not all(value >= LEAST_STD for value in std):
        raise Unrepresentable(f"std must be at least {LEAST_STD}, got {list(std)}")
    pixels = Pixels(mean, std, resample, _shortest_edge(settings, config.size))
    pixels.check(config.channels, config.size)
    return pixels


def _statistics(settings: Table, key: str, config: ImageConfig) -> tuple[float, ...]:
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


def crop_share(size: int, edge: int) -> float:
    """A crop_pct of few digits for which floor(size / crop_pct) = edge; size / edge itself may be rounded up."""
    near = (round(size / (edge + more), digits) for digits in range(1, 17) for more in (0, 0.5))
    return next(share for share in near if 0 < share <= 1 and math.floor(size / share) == edge)
