"""ViT against the one of `transformers`, both ways, through the files that it writes and reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peers import draw_vit
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.attention import trace
from regard.errors import Unrepresentable
from regard.foreign.form import Table, read_labels, read_parts, write_parts
from regard.foreign.vit import VIT_FORM
from regard.models.vit import ViT, ViTConfig

transformers = pytest.importorskip("transformers")

USUAL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
USUAL |= {"image_size": 12, "patch_size": 4}
CONFIGS: dict[str, dict[str, Any]] = {
    "usual": {},
    "odd sizes": {
        **{"hidden_size": 48, "num_attention_heads": 3, "intermediate_size": 100, "num_hidden_layers": 3},
        **{"patch_size": 5, "num_channels": 1, "image_size": [10, 15]},
    },
    "no bias": {"qkv_bias": False, "hidden_act": "gelu_new"},
    "one patch": {"image_size": 4, "num_hidden_layers": 1, "layer_norm_eps": 0.01, "hidden_act": "quick_gelu"},
    "patch of two numbers": {"patch_size": [4, 4]},
    "one head": {"num_attention_heads": 1, "hidden_act": "relu", "image_size": [4, 20]},
}
LABELS = {0: "tabby cat", 1: "dog", 2: "Æsop's owl"}
each = pytest.mark.parametrize("name", CONFIGS)


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def peer(head: str = "ForImageClassification", pooler: bool = True, **changes: Any) -> Any:
    """Its weights well off their first values."""
    config = transformers.ViTConfig(**USUAL | {"id2label": LABELS} | changes)
    config._attn_implementation = "eager"
    return draw_vit(config, head, pooler=pooler)


def read(folder: Path) -> ViT:
    """What a folder of transformers holds."""
    table = json.loads((folder / "config.json").read_text())
    del table["model_type"]
    settings = Table(table)
    config, special = VIT_FORM.read_config(settings)
    settings.done(folder / "config.json")
    assert special is None
    tensors = {VIT_FORM.rename(name): x for name, x in load_file(folder / "model.safetensors").items()}
    config = VIT_FORM.holds(config, frozenset(tensors))
    full = {name if name.startswith(("vit.", "classifier.")) else f"vit.{name}": x for name, x in tensors.items()}
    unused = VIT_FORM.copies(config)
    parts = VIT_FORM.parts(config)
    assert {part.foreign for part in parts} == set(full) - set(unused)
    model = ViT(config)
    model.load_state_dict(read_parts(parts, full))
    return model.eval()


def write(model: ViT, folder: Path) -> Path:
    config = {"model_type": VIT_FORM.model_type, "architectures": [VIT_FORM.architecture(model.config)]}
    config |= VIT_FORM.write_config(model.config, None)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = write_parts(VIT_FORM.parts(model.config), model.state_dict())
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    return folder


def saved(model: Any, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    return folder


def close(ours: Tensor, theirs: Tensor) -> None:
    """1e-5 of the largest number there."""
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


def some_images(model: ViT, rows: int = 0, columns: int = 0) -> Tensor:
    """Of the size it was trained on, or of another."""
    config, dice = model.config, torch.Generator().manual_seed(1)
    height, width = (rows or config.grid[0]) * config.patch_size, (columns or config.grid[1]) * config.patch_size
    return torch.randn(3, config.channels, height, width, generator=dice)


def compare(ours: ViT, theirs: Any, images: Tensor, **options: Any) -> None:
    """Logits or pooled states, the states before, between and behind all blocks, and where every head looks."""
    wanted = theirs(images, output_hidden_states=True, output_attentions=True, **options)
    between: list[Tensor] = [ours.embedded(images)]
    hooks = [block.register_forward_hook(lambda *call: between.append(call[-1])) for block in ours.blocks]
    with trace(ours, "blocks.*") as seen:
        states = ours.tokens(images)
    for hook in hooks:
        hook.remove()
    for mine, other in zip(between, wanted.hidden_states, strict=True):
        close(mine, other)
    for site, other in zip(seen.sites, wanted.attentions, strict=True):
        close(seen[site], other)
    if ours.config.labels:
        close(ours(images), wanted.logits)
        return
    close(states, wanted.last_hidden_state)
    if ours.config.pooler:
        close(ours.pooled(states), wanted.pooler_output)


@each
@torch.no_grad()
def test_a_classifier_of_theirs(name: str, tmp_path: Path) -> None:
    theirs = peer(**CONFIGS[name])
    ours = read(saved(theirs, tmp_path))
    assert ours.config.labels == tuple(LABELS.values())
    assert not ours.config.pooler
    compare(ours, theirs, some_images(ours))


@pytest.mark.parametrize("pooler", [True, False], ids=["pooler", "no pooler"])
@each
@torch.no_grad()
def test_a_bare_model_of_theirs(name: str, pooler: bool, tmp_path: Path) -> None:
    theirs = peer("Model", pooler, **CONFIGS[name])
    ours = read(saved(theirs, tmp_path))
    assert (ours.config.labels, ours.config.pooler) == ((), pooler)
    compare(ours, theirs, some_images(ours))


@pytest.mark.parametrize("head", ["ForImageClassification", "Model"])
@each
@torch.no_grad()
def test_ours_opened_by_them(name: str, head: str, tmp_path: Path) -> None:
    """The same numbers, and the same names and settings when they save it again."""
    (tmp_path / "theirs").mkdir()
    ours = read(saved(peer(head, **CONFIGS[name]), tmp_path / "again"))
    kind = getattr(transformers, f"ViT{head}")
    write(ours, tmp_path / "theirs")
    theirs, report = kind.from_pretrained(
        tmp_path / "theirs", attn_implementation="eager", output_loading_info=True
    )
    assert not any(report.values()), report
    compare(ours, theirs.eval(), some_images(ours))
    assert read(tmp_path / "theirs").config == ours.config
    again = read(saved(theirs, tmp_path / "again"))
    assert again.config == ours.config
    if head != "Model":
        assert theirs.config.id2label == LABELS
        assert theirs.config.label2id == {label: number for number, label in LABELS.items()}


@torch.no_grad()
def test_a_bare_model_of_ours_without_pooler_opened_by_them(tmp_path: Path) -> None:
    ours = ViT(ViTConfig(image_size=12, patch_size=4, dim=24, layers=2, heads=4)).eval()
    write(ours, tmp_path)
    theirs = transformers.ViTModel.from_pretrained(tmp_path, add_pooling_layer=False, attn_implementation="eager")
    compare(ours, theirs.eval(), some_images(ours))


@pytest.mark.parametrize("size", [(6, 6), (2, 5), (1, 1), (9, 1), (3, 4)], ids=str)
@torch.no_grad()
def test_other_sizes_are_interpolated_as_theirs(size: tuple[int, int], tmp_path: Path) -> None:
    theirs = peer()
    ours = read(saved(theirs, tmp_path))
    assert ours.config.grid == (3, 3)
    compare(ours, theirs, some_images(ours, *size), interpolate_pos_encoding=True)


@pytest.mark.parametrize("head", ["ForImageClassification", "Model"])
@torch.no_grad()
def test_names_as_they_are_inside_of_transformers_5(head: str, tmp_path: Path) -> None:
    theirs = peer(head, **CONFIGS["odd sizes"])
    save_file(theirs.state_dict(), saved(theirs, tmp_path) / "model.safetensors", {"format": "pt"})
    ours = read(tmp_path)
    compare(ours, theirs, some_images(ours))


@torch.no_grad()
def test_a_pooler_left_over_beside_a_head_is_not_read(tmp_path: Path) -> None:
    theirs = peer()
    tensors = load_file(saved(theirs, tmp_path) / "model.safetensors")
    tensors |= {"vit.pooler.dense.weight": torch.ones(24, 24), "vit.pooler.dense.bias": torch.ones(24)}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    ours = read(tmp_path)
    compare(ours, theirs, some_images(ours))


def test_without_architectures_the_files_say_what_is_there(tmp_path: Path) -> None:
    for head, labels, pooler in (("ForImageClassification", 3, False), ("Model", 0, True)):
        folder = saved(peer(head), tmp_path / head)
        table = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(table | {"architectures": None}))
        config = read(folder).config
        assert (config.classes, config.pooler) == (labels, pooler)


def config_of(**table: Any) -> ViTConfig:
    return VIT_FORM.read_config(Table(table))[0]


def test_settings_that_are_not_there_are_their_defaults() -> None:
    theirs = transformers.ViTConfig()
    assert config_of() == config_of(**{key: x for key, x in theirs.to_dict().items() if key != "id2label"})
    assert config_of() == ViTConfig(("LABEL_0", "LABEL_1"))


def test_stochastic_depth_is_kept(tmp_path: Path) -> None:
    ours = ViT(ViTConfig(("a", "b"), 8, patch_size=4, dim=8, layers=2, heads=2, drop_path=0.25))
    assert read(write(ours, tmp_path)).config == ours.config
    transformers.ViTForImageClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"pooler_act": "relu"}, "pooler_act = 'relu' is not supported, only 'tanh'"),
        ({"pooler_output_size": 7}, "pooler_output_size = 7 is not supported, only 768"),
        ({"image_size": [8, 8, 8]}, r"image_size must be a number or two, .*; got \[8, 8, 8\]"),
        ({"image_size": 0}, "image_size must be a number"),
        ({"image_size": [True, 8]}, "image_size must be a number"),
        ({"patch_size": [16, 8]}, r"patch_size = \[16, 8\] is not supported, only square patches"),
        ({"patch_size": [16]}, "patch_size must be a number or two"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label must name the classes 0 to 1"),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(Unrepresentable, match=words):
        config_of(**table)


def test_patches_must_divide_the_image() -> None:
    with pytest.raises(ValueError, match="image_size must be a multiple of patch_size, got 225 and 16"):
        config_of(image_size=225)


def test_mean_pooling_has_no_such_form() -> None:
    assert VIT_FORM.lacks(ViTConfig()) == ""
    assert "reads a class token" in VIT_FORM.lacks(ViTConfig(pool="mean"))


def test_classes_of_one_name_are_told_apart() -> None:
    """ImageNet has two cranes."""
    names = {"0": "crane", "1": "ox", "2": "crane", "3": "crane"}
    assert read_labels({"id2label": names}) == ("crane", "ox", "crane (2)", "crane (3)")
    names = {"0": "a", "1": "a", "2": "a (1)", "3": "a", "4": "a (1)"}
    assert read_labels({"id2label": names}) == ("a", "a (1) (1)", "a (1)", "a (3)", "a (1) (4)")
