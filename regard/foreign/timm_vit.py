"""ViTs as folders of `timm`, DeiTs without distillation among them. They are read; `regard` writes ViTs in the form
of transformers.

As in the authors' code, and unlike transformers, the norms' eps is 1e-6; queries, keys and values are one matrix.
With global_pool "avg" the head reads the mean of the patches, which is ours only without a class token and with the
norm before the mean (class_token and fc_norm false)."""

from __future__ import annotations

from typing import Any

from regard.data.artifacts import Pixels
from regard.data.text.special_tokens import Special
from regard.errors import RunError, Unrepresentable
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, joined, same
from regard.foreign.timm_config import (
    architecture,
    arguments,
    input_size,
    is_timm,
    timm_labels,
    timm_pixels,
    timm_settings,
)
from regard.models.vit import ViT, ViTConfig

EPS = 1e-6
BOTH = (224, 384)  # sizes of images
SIZES: dict[str, dict[int, tuple[int, ...]]] = {  # and of patches
    "tiny": {16: BOTH},
    "small": {8: (224,), 16: BOTH, 32: BOTH},
    "base": {8: (224,), 16: BOTH, 32: BOTH},
    "large": {14: (224,), 16: BOTH, 32: BOTH},
    "huge": {14: (224,)},
}


def _architectures() -> dict[str, dict[str, Any]]:
    """Settings of ours by timm's names; the last number is the size of images unless the folder says another."""
    found: dict[str, dict[str, Any]] = {}
    for size, patches in SIZES.items():
        for patch, images in patches.items():
            for image in images:
                sides = {"patch_size": patch, "image_size": image}
                found[f"vit_{size}_patch{patch}_{image}"] = ViT.SIZES[size] | sides
    for size, image in (("tiny", 224), ("small", 224), ("base", 224), ("base", 384)):
        found[f"deit_{size}_patch16_{image}"] = found[f"vit_{size}_patch16_{image}"]
    found["vit_base_patch16_224_miil"] = found["vit_base_patch16_224"] | {"bias": False}
    return found


VITS = _architectures()
VIT_WORDS = "vit_tiny_patch16_224 and other ViTs of the first papers, tiny to huge, and deit_ without distillation"

# Arguments of timm's VisionTransformer that matter in training alone, or for images of another size; those that are
# read; and the defaults of others that change the network.
TRAINING = (
    *("drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate"),
    *("weight_init", "fix_init", "dynamic_img_size"),
)
READ = ("in_chans", "num_classes", "img_size", "qkv_bias", "global_pool", "class_token", "fc_norm")
DEFAULTS: Json = {
    "mlp_ratio": 4.0,
    "qk_norm": False,
    "scale_attn_norm": False,
    "scale_mlp_norm": False,
    "proj_bias": True,
    "init_values": None,
    "pos_embed": "learn",
    "no_embed_class": False,
    "reg_tokens": 0,
    "pre_norm": False,
    "final_norm": True,
    "pool_include_prefix": False,
    "dynamic_img_pad": False,
    "norm_layer": None,
    "act_layer": None,
}


class TimmViTForm(Form[ViTConfig]):
    model = "vit"
    library = "timm"

    def matches(self, contents: Contents) -> bool:
        name = contents.config.get("architecture")
        return is_timm(contents) and isinstance(name, str) and name.split(".")[0] in VITS

    def lacks(self, config: ViTConfig) -> str:
        return "regard writes ViTs in the form of transformers"

    def read_config(self, table: Table) -> tuple[ViTConfig, Special | None]:
        table.left.clear()  # timm ignores what it does not know
        size = VITS[architecture(table)]
        same = {"patch_size": size["patch_size"], "embed_dim": size["dim"], "num_heads": size["heads"]}
        settings = timm_settings(table.table, ("token", "avg"))
        given = arguments(table.table, DEFAULTS | same | {"depth": size["layers"]}, (*TRAINING, *READ))
        channels, height, width = input_size(settings, size["image_size"])
        height, width = _image_size(given, height, width)
        config = ViTConfig(
            **size
            | {
                "labels": timm_labels(settings, given),
                "image_size": height,
                "image_width": 0 if width == height else width,
                "channels": given.count("in_chans", channels),
                "bias": given.take("qkv_bias", size.get("bias", True)),
                "pool": _pool(table.table, settings, given),
                "eps": EPS,
            }
        )
        return config, None

    def write_config(self, config: ViTConfig, special: Special | None) -> Json:
        raise Unrepresentable(self.lacks(config))

    def parts(self, config: ViTConfig) -> list[Part]:
        named = {"patch_embed.proj": "patches", "norm": "norm"}
        parts = _positions(config)
        for layer in range(config.layers):
            block = f"blocks.{layer}"
            parts += _together(block, ("weight", "bias") if config.bias else ("weight",))
            named |= {
                f"{block}.attn.proj": f"{block}.attend.out",
                f"{block}.mlp.fc1": f"{block}.feed.inner",
                f"{block}.mlp.fc2": f"{block}.feed.outer",
                f"{block}.norm1": f"{block}.attend_norm",
                f"{block}.norm2": f"{block}.feed_norm",
            }
        named |= {"head": "head"} if config.labels else {}
        return parts + [
            same(f"{theirs}.{kind}", f"{ours}.{kind}")
            for theirs, ours in named.items()
            for kind in ("weight", "bias")
        ]

    def pixels(self, contents: Contents, config: ViTConfig) -> Pixels:
        try:
            return timm_pixels(timm_settings(contents.config, ("token", "avg")), config)
        except ValueError as error:
            raise RunError(f"{contents.path / self.config_file}: {error!s:.300}") from None


def _positions(config: ViTConfig) -> list[Part]:
    if config.pool == "mean":
        return [Part("pos_embed", ("positions",), lambda x: x[None], lambda x: (x[0],))]
    return [
        Part("cls_token", ("class_token",), lambda x: x[None, None], lambda x: (x[0, 0],)),
        Part(
            "pos_embed",
            ("class_position", "positions"),
            lambda first, others: joined(first[None], others)[None],
            lambda x: (x[0, 0], x[0, 1:]),
        ),
    ]


def _together(block: str, kinds: tuple[str, ...]) -> list[Part]:
    """Queries, keys and values are one matrix there."""
    return [
        Part(
            f"{block}.attn.qkv.{kind}",
            tuple(f"{block}.attend.{name}.{kind}" for name in ("query", "key", "value")),
            joined,
            lambda x: x.chunk(3),
        )
        for kind in kinds
    ]


def _image_size(given: Table, height: int, width: int) -> tuple[int, int]:
    """img_size of model_args, one number or two, else what pretrained_cfg says."""
    size = given.table.get("img_size")
    if size is None:
        return height, width
    pair = size if isinstance(size, list) else [size, size]
    if len(pair) != 2 or not all(type(side) is int and side > 0 for side in pair):
        raise Unrepresentable(f"img_size must be a number or two, [height, width], of at least 1; got {size!r:.80}")
    return pair[0], pair[1]


def _pool(table: Json, settings: Table, given: Table) -> str:
    """What the head reads: the class token, or the mean of the patches where there is none. config.json repeats
    global_pool outside of the arguments."""
    pool = given.take("global_pool", settings.take("global_pool", "token"))
    token, after = given.take("class_token", True), given.table.get("fc_norm")
    outside = table.get("global_pool") in (None, pool)
    if pool == "token" and token is True and after in (None, False) and outside:
        return "class"
    if pool == "avg" and token is False and after is False and outside:
        return "mean"
    pool = pool if outside else table["global_pool"]
    raise Unrepresentable(
        f"global_pool = {pool!r:.40} with class_token = {token} and fc_norm = {after!r:.40} is not supported, only "
        "'token' with a class token, and 'avg' with class_token and fc_norm false"
    )


TIMM_VIT = TimmViTForm()
