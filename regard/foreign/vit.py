"""ViT as a folder of `transformers`, where the class token's position is the first row of all positions."""

from __future__ import annotations

import re
from dataclasses import replace

from regard.data.artifacts import Artifacts, Pixels
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import Unrepresentable
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, joined, read_labels, same, write_labels
from regard.foreign.hf_files import (
    PREPROCESSOR,
    preprocessor_file,
    read_pixels,
)
from regard.models.vit import ViTConfig

SPELT = {  # names inside transformers 5; in files it still writes the older ones, unless told otherwise
    r"^(vit\.)?layers\.": r"\1encoder.layer.",
    r"\.attention\.q_proj\.": ".attention.attention.query.",
    r"\.attention\.k_proj\.": ".attention.attention.key.",
    r"\.attention\.v_proj\.": ".attention.attention.value.",
    r"\.attention\.o_proj\.": ".attention.output.dense.",
    r"\.mlp\.fc1\.": ".intermediate.dense.",
    r"\.mlp\.fc2\.": ".output.dense.",
}


def _size(table: Table, key: str, default: int) -> tuple[int, int]:
    """Height and width: one number for both, or two."""
    table.left.discard(key)
    size = table.table.get(key, default)
    pair = size if isinstance(size, list) else [size, size]
    if len(pair) != 2 or not all(type(side) is int and side > 0 for side in pair):
        raise Unrepresentable(f"{key} must be a number or two, [height, width], of at least 1; got {size!r:.80}")
    return pair[0], pair[1]


class ViTForm(Form[ViTConfig]):
    model = "vit"
    model_type = "vit"
    architectures = ("ViTForImageClassification", "ViTModel")
    prefix = "vit."

    def lacks(self, config: ViTConfig) -> str:
        if config.stem != "patches":
            return "it reads patches by one product there (model.stem = patches), and this model by convolutions"
        if config.pool == "class":
            return ""
        other = {"mean": "the mean of the patches", "attention": "what a learned query reads of the patches"}
        return f"its head there reads a class token (model.pool = class), and this model's {other[config.pool]}"

    def read_config(self, table: Table) -> tuple[ViTConfig, Special | None]:
        bare = table.table.get("architectures") == ["ViTModel"]
        table.take("encoder_stride", 16)  # a setting of a head that we do not have
        table.left.discard("tie_word_embeddings")  # there are none
        table.must("pooler_act", "tanh")
        dim = table.take("hidden_size", 768)
        table.must("pooler_output_size", dim, None)
        ff = table.count("intermediate_size", 3072)
        height, width = _size(table, "image_size", 224)
        patch, across = _size(table, "patch_size", 16)
        if patch != across:
            raise Unrepresentable(f"patch_size = {[patch, across]} is not supported, only square patches")
        config = ViTConfig(
            labels=() if bare else read_labels(table.table),
            image_size=height,
            image_width=0 if width == height else width,
            patch_size=patch,
            channels=table.take("num_channels", 3),
            dim=dim,
            layers=table.take("num_hidden_layers", 12),
            heads=table.take("num_attention_heads", 12),
            ff=0 if ff == 4 * dim else ff,
            activation=table.take("hidden_act", "gelu"),
            eps=table.take("layer_norm_eps", 1e-12),
            pooler=bare,
            bias=table.take("qkv_bias", True),
            dropout=table.take("hidden_dropout_prob", 0.0),
            attention_dropout=table.take("attention_probs_dropout_prob", 0.0),
            drop_path=table.take("drop_path_rate", 0.0),
        )
        return config, None

    def write_config(self, config: ViTConfig, special: Special | None) -> Json:
        settings = {
            "hidden_size": config.dim,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "intermediate_size": config.ff or 4 * config.dim,
            "hidden_act": config.activation,
            "layer_norm_eps": config.eps,
            "image_size": list(config.size) if config.image_width else config.image_size,
            "patch_size": config.patch_size,
            "num_channels": config.channels,
            "qkv_bias": config.bias,
            "encoder_stride": config.patch_size,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
        }
        if config.drop_path:  # not in transformers' ViT; its other models use this name
            settings["drop_path_rate"] = config.drop_path
        return settings | (write_labels(config.labels) if config.labels else {})

    def parts(self, config: ViTConfig) -> list[Part]:
        embed = "vit.embeddings"
        parts = [
            Part(f"{embed}.cls_token", ("class_token",), lambda x: x[None, None], lambda x: (x[0, 0],)),
            Part(
                f"{embed}.position_embeddings",
                ("class_position", "positions"),
                lambda first, others: joined(first[None], others)[None],
                lambda x: (x[0, 0], x[0, 1:]),
            ),
        ]
        named = {f"{embed}.patch_embeddings.projection": "patches", "vit.layernorm": "norm"}
        without = []  # biases
        for layer in range(config.layers):
            theirs, ours = f"vit.encoder.layer.{layer}", f"blocks.{layer}"
            for name in ("query", "key", "value"):
                named[f"{theirs}.attention.attention.{name}"] = f"{ours}.attend.{name}"
                without += [] if config.bias else [f"{ours}.attend.{name}.bias"]
            named |= {
                f"{theirs}.attention.output.dense": f"{ours}.attend.out",
                f"{theirs}.intermediate.dense": f"{ours}.feed.inner",
                f"{theirs}.output.dense": f"{ours}.feed.outer",
                f"{theirs}.layernorm_before": f"{ours}.attend_norm",
                f"{theirs}.layernorm_after": f"{ours}.feed_norm",
            }
        named |= {"vit.pooler.dense": "pooler"} if config.pooler else {}
        named |= {"classifier": "head"} if config.labels else {}
        for theirs, ours in named.items():
            parts += [same(f"{theirs}.{kind}", f"{ours}.{kind}") for kind in ("weight", "bias")]
        return [part for part in parts if part.ours[0] not in without]

    def copies(self, config: ViTConfig) -> dict[str, str]:
        """A classifier's file may still hold the pooler of the model it was fine-tuned from, which is unused."""
        return {f"vit.pooler.dense.{kind}": "" for kind in ("weight", "bias")} if config.labels else {}

    def holds(self, config: ViTConfig, names: frozenset[str]) -> ViTConfig:
        labels = config.labels if "classifier.weight" in names else ()
        pooler = any(name.endswith("pooler.dense.weight") for name in names)
        return replace(config, labels=labels, pooler=pooler and not labels)

    def rename(self, name: str) -> str:
        for theirs, written in SPELT.items():
            name = re.sub(theirs, written, name)
        return name

    def architecture(self, config: ViTConfig) -> str:
        return "ViTForImageClassification" if config.labels else "ViTModel"

    def pixels(self, contents: Contents, config: ViTConfig) -> Pixels:
        return read_pixels(contents, config)

    def small_files(self, config: ViTConfig, artifacts: Artifacts, decoding: Decoding) -> dict[str, Json]:
        assert artifacts.pixels is not None
        return {PREPROCESSOR: preprocessor_file(config, artifacts.pixels)}


VIT_FORM = ViTForm()
