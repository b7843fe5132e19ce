"""ResNets in timm's folders, both ways: the same image gets the same answer.

Beside timm itself, which need not be there, a ResNet is computed here from timm's names alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from timm_folders import (
    CONFIG,
    LABELS,
    MEAN,
    PIXELS,
    STD,
    changed,
    close,
    computed,
    named,
    photograph,
    scramble,
    shaped,
    written,
)

from regard.app.cli.main import main
from regard.data.artifacts import Artifacts, Pixels
from regard.data.made.shapes import CLASSES, shapes
from regard.errors import RunError
from regard.foreign import TIMM, form_of, why_no_form
from regard.foreign.form import write_parts
from regard.foreign.timm import ARCHITECTURES
from regard.foreign.timm_config import crop_share
from regard.models.senet import SENet, SENetConfig
from regard.runs.folder import Folder, begin, save_weights
from regard.runs.folder import shapes as tensors_of
from regard.tasks.core.table import load
from regard.tasks.shared.export import export

# ---- names and numbers


@pytest.mark.parametrize(
    ("architecture", "tensors", "parameters"),
    [
        ("resnet18", 122, 11_689_512),
        ("resnet34", 218, 21_797_672),
        ("resnet50", 320, 25_557_032),
        ("resnet101", 626, 44_549_160),
        ("resnet152", 932, 60_192_808),
        ("resnet26", 176, 15_995_176),
        ("wide_resnet50_2", 320, 68_883_240),
        ("wide_resnet101_2", 626, 126_886_696),
        ("resnext50_32x4d", 320, 25_028_904),
        ("resnext101_32x8d", 626, 88_791_336),
        ("seresnet18", 154, 11_779_624),
        ("seresnet34", 282, 21_960_416),
        ("seresnext50_32x4d", 384, 27_559_896),
        ("seresnet50", 384, 28_088_024),
        ("seresnet101", 758, 49_326_872),
        ("seresnet152", 1132, 66_821_848),
    ],
)
def test_the_networks_have_timms_tensors(architecture: str, tensors: int, parameters: int) -> None:
    config = SENetConfig(labels=tuple(map(str, range(1000))), **ARCHITECTURES[architecture])
    found = write_parts(TIMM.parts(config), tensors_of("senet", config))
    assert len(found) == tensors
    learned = (x.numel() for name, x in found.items() if not name.endswith(("_mean", "_var", "_tracked")))
    assert sum(learned) == parameters


def test_names_and_shapes_as_in_timm() -> None:
    found = {name: tuple(x.shape) for name, x in shaped("seresnet50", 3).items()}
    assert found["conv1.weight"] == (64, 3, 7, 7)
    assert found["layer1.0.downsample.0.weight"] == (256, 64, 1, 1)
    assert found["layer4.0.conv2.weight"] == (512, 512, 3, 3)
    assert found["layer4.2.se.fc1.weight"] == (128, 2048, 1, 1)
    assert found["layer4.2.se.fc2.bias"] == (2048,)
    assert found["layer3.5.bn3.num_batches_tracked"] == ()
    assert found["fc.weight"] == (3, 2048)
    small = shaped("resnet18", 3)
    assert "layer1.0.downsample.0.weight" not in small
    assert small["layer2.0.downsample.1.running_var"].shape == (128,)
    assert small["bn1.num_batches_tracked"].dtype == torch.int64


# ---- folders of theirs


@torch.no_grad()
@pytest.mark.parametrize("architecture", ["resnet18", "seresnet18", "seresnext50_32x4d"])
def test_the_logits_are_those_of_their_tensors(architecture: str, tmp_path: Path) -> None:
    tensors = named(architecture, 3)
    run = load(written(tmp_path / "timm", tensors, architecture=architecture), device="cpu")
    assert run.model.config.labels == LABELS
    assert not run.model.training
    images = torch.randn(2, 3, 64, 64)
    close(run.model(images), computed(tensors, images))
    assert run.recognise(photograph()).label in LABELS


@torch.no_grad()
def test_what_the_folder_says_of_images(theirs: Path) -> None:
    """The shorter side resized to floor(64 / 0.95) = 67, and the centre of 64 x 64 cut out."""
    run = load(theirs, device="cpu")
    assert run.pixels == Pixels(MEAN, STD, "bicubic", 67)
    image = photograph(80, 120)
    resized = np.asarray(Image.fromarray(image).resize((100, 67), Image.Resampling.BICUBIC))
    cut = resized[2:66, 18:82]  # (67 - 64) / 2 is rounded to even
    wanted = (torch.from_numpy(cut.copy()) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
    assert torch.allclose(run.read([image])[0], wanted.permute(2, 0, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"crop_mode": "squash", "crop_pct": 1}, Pixels(MEAN, STD, "bicubic", 0)),
        ({"interpolation": "bilinear", "crop_pct": 0.875}, Pixels(MEAN, STD, "bilinear", 73)),
        ({"crop_pct": 1.0}, Pixels(MEAN, STD, "bicubic", 64)),
        ({"mean": [0.5] * 3, "std": [1, 1, 1]}, Pixels((0.5,) * 3, (1.0,) * 3, "bicubic", 67)),
        ({"mean": None, "std": ..., "interpolation": None, "crop_mode": None}, Pixels(MEAN, STD, "bicubic", 67)),
        ({"crop_pct": ...}, Pixels(MEAN, STD, "bicubic", 73)),
        (
            {"input_size": [3, 48, 64], "crop_mode": "squash", "crop_pct": 1.0},
            Pixels(MEAN, STD, "bicubic", 0),
        ),
    ],
    ids=["squash", "bilinear", "no crop", "other numbers", "defaults", "usual crop", "not square"],
)
def test_other_ways_to_read_images(theirs: Path, changes: dict[str, Any], wanted: Pixels, tmp_path: Path) -> None:
    folder = Folder(changed(theirs, tmp_path, pixels=changes))
    assert folder.pixels() == wanted
    assert folder.config.size == tuple(changes.get("input_size", [3, 64, 64])[1:])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"label_names": ...}, ("LABEL_0", "LABEL_1", "LABEL_2")),
        ({"label_names": {"0": "a", "1": "b", "2": "c"}}, ("a", "b", "c")),
        ({"label_names": ["crane", "dog", "crane"]}, ("crane", "dog", "crane (2)")),
        ({"label_names": ..., "pretrained_cfg": PIXELS | {"label_names": ["x", "y", "z"]}}, ("x", "y", "z")),
        ({"architecture": "resnet18.a1_in1k", "label_descriptions": {"dog": "a dog"}}, LABELS),
        ({"model_args": {"drop_path_rate": 0.1, "global_pool": "avg", "num_classes": 3}}, LABELS),
        ({"model_args": None, "auto_map": {"x": "y"}, "architectures": ["X"], "own": 1}, LABELS),
    ],
    ids=["numbered", "a table", "twice", "inside", "tag", "arguments", "unknown"],
)
def test_other_ways_to_say_the_same(
    theirs: Path, changes: dict[str, Any], wanted: tuple[str, ...], tmp_path: Path
) -> None:
    folder = Folder(changed(theirs, tmp_path, **changes))
    config = SENetConfig(labels=wanted, image_size=64, **ARCHITECTURES["resnet18"])
    assert (folder.name, folder.config) == ("senet", config)


def test_an_old_folder_has_all_settings_in_one_table(theirs: Path, tmp_path: Path) -> None:
    folder = changed(theirs, tmp_path)
    (folder / "config.json").write_text(json.dumps(PIXELS | {"architecture": "resnet18", "num_classes": 3}))
    run = load(folder, device="cpu")
    assert run.model.config.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert run.pixels == Pixels(MEAN, STD, "bicubic", 67)


@torch.no_grad()
def test_a_model_without_a_classifier(theirs: Path, tmp_path: Path) -> None:
    tensors = load_file(theirs / "model.safetensors")
    del tensors["fc.weight"], tensors["fc.bias"]
    folder = written(tmp_path / "bare", tensors, num_classes=0, label_names=[], model_args={"num_classes": 0})
    run = load(folder, device="cpu")
    assert run.model.head is None
    assert run.model.features(torch.randn(1, 3, 64, 64)).shape == (1, 512, 2, 2)
    with pytest.raises(RunError, match="has no head and knows no classes"):
        run.recognise(photograph())
    export(folder, tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == tensors.keys()
    assert json.loads((tmp_path / "again" / "config.json").read_text())["num_classes"] == 0


@torch.no_grad()
def test_grey_images(theirs: Path, tmp_path: Path) -> None:
    tensors = load_file(theirs / "model.safetensors")
    tensors["conv1.weight"] = tensors["conv1.weight"][:, :1].contiguous()
    grey = PIXELS | {"input_size": [1, 64, 64], "mean": [0.4], "std": [0.2]}
    run = load(written(tmp_path / "grey", tensors, pretrained_cfg=grey), device="cpu")
    assert run.pixels == Pixels((0.4,), (0.2,), "bicubic", 67)
    images = run.read([photograph()])
    assert images.shape == (1, 1, 64, 64)
    close(run.model(images), computed(tensors, images))


def test_grey_images_with_numbers_for_three_channels(theirs: Path, tmp_path: Path) -> None:
    """timm leaves ImageNet's in the folder of any model."""
    folder = Folder(changed(theirs, tmp_path, model_args={"in_chans": 1}, pixels={"std": [0.1] * 3}))
    assert folder.config.channels == 1  # type: ignore[attr-defined]
    assert folder.pixels().mean == pytest.approx((0.449,))
    assert folder.pixels().std == (0.1,)


def test_a_file_may_lack_the_counters_of_batches(theirs: Path, tmp_path: Path) -> None:
    """As files of older versions of PyTorch do, and timm opens them."""
    found = load_file(theirs / "model.safetensors")
    tensors = {name: x for name, x in found.items() if not name.endswith("_tracked")}
    model = load(written(tmp_path / "old", tensors), device="cpu").model
    assert int(model.stem[0].norm.num_batches_tracked) == 0


# ---- folders of ours


@pytest.fixture(scope="module")
def ours() -> SENet:
    model = SENet(SENetConfig(labels=LABELS, image_size=64, **ARCHITECTURES["resnet18"])).eval()
    with torch.no_grad():
        scramble(model.state_dict())
    return model


def saved(folder: Path, model: SENet, pixels: Pixels) -> Path:
    begin(folder, model, Artifacts(labels=model.config.labels, pixels=pixels), "")
    save_weights(folder, model)
    return folder


@torch.no_grad()
def test_a_run_is_a_folder_of_timm(ours: SENet, tmp_path: Path) -> None:
    pixels = Pixels((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    folder = saved(tmp_path / "run", ours, pixels)
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors"}
    table = json.loads((folder / "config.json").read_text())
    assert "model_type" not in table
    assert (table["architecture"], table["label_names"], table["num_features"]) == ("resnet18", list(LABELS), 512)
    tensors = load_file(folder / "model.safetensors")
    images = torch.randn(2, 3, 64, 64)
    close(computed(tensors, images), ours(images))
    assert int(tensors["layer4.1.bn2.num_batches_tracked"]) == 12_345
    run = load(folder, device="cpu")
    assert (run.model.config, run.pixels) == (ours.config, pixels)
    assert torch.equal(run.model(images), ours(images))


@pytest.mark.parametrize(("edge", "mode"), [(0, "squash"), (64, "center"), (67, "center"), (400, "center")])
def test_how_images_are_read_is_written(ours: SENet, edge: int, mode: str, tmp_path: Path) -> None:
    pixels = Pixels((0.4, 0.5, 0.6), (0.2, 0.3, 0.4), "bicubic", edge)
    begin(tmp_path / "run", ours, Artifacts(labels=LABELS, pixels=pixels), "")
    folder = Folder(tmp_path / "run")
    assert folder.contents.config["pretrained_cfg"]["crop_mode"] == mode
    assert folder.pixels() == pixels


def test_there_and_back_again(theirs: Path, tmp_path: Path) -> None:
    """What timm wrote, exported here: the same tensors, and the same settings in all that counts."""
    export(theirs, tmp_path / "again")
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (theirs, tmp_path / "again"))
    inner, found = before.pop("pretrained_cfg"), after.pop("pretrained_cfg")
    assert after == before
    assert found == {key: inner[key] for key in found} | {"num_classes": 3}
    before, after = (load_file(folder / "model.safetensors") for folder in (theirs, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_numbered_classes_are_not_written(theirs: Path, tmp_path: Path) -> None:
    """timm would show them in place of the names that it knows."""
    config = Folder(changed(theirs, tmp_path, label_names=...)).config
    assert isinstance(config, SENetConfig)
    assert "label_names" not in TIMM.write_config(config, None)


def test_an_export_of_another_dtype(theirs: Path, tmp_path: Path) -> None:
    export(theirs, tmp_path / "half", "bfloat16")
    found = load_file(tmp_path / "half" / "model.safetensors")
    assert found["fc.weight"].dtype == torch.bfloat16
    assert found["bn1.num_batches_tracked"].dtype == torch.int64
    assert load(tmp_path / "half", device="cpu").model.head.weight.dtype == torch.float32


@torch.no_grad()
def test_a_saved_run_keeps_their_form(theirs: Path, tmp_path: Path) -> None:
    run = load(theirs, device="cpu")
    run.model.head.bias += 1
    run.save(tmp_path / "saved")
    again = load(tmp_path / "saved", device="cpu")
    assert torch.equal(again.model.head.bias, run.model.head.bias)
    assert json.loads((tmp_path / "saved" / "config.json").read_text()) == CONFIG


def test_crop_pct_gives_the_edge_back() -> None:
    for size in (1, 28, 32, 64, 160, 224, 288, 384, 1024):
        for edge in [*range(size, 2 * size + 9), 1 << 15, 1 << 16]:
            share = crop_share(size, edge)
            assert 0 < share <= 1
            assert math.floor(size / share) == edge
    assert [crop_share(224, edge) for edge in (224, 235, 256)] == [1.0, 0.95, 0.875]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stem": "small"}, "they have stem = 'large'"),
        ({"shortcut": "pad"}, "they have shortcut = 'project'"),
        ({"widths": (8, 16, 32, 64)}, r"they have widths = \(64, 128, 256, 512\)"),
        ({"depths": (2, 2, 2, 3)}, "none has these blocks and depths"),
        ({"reduction": 4}, "resnet18 has reduction = 0"),
        (
            {"reduction": 16},
            "of timm's networks regard writes .*; resnet18 has reduction = 0, seresnet18 has min_hidden = 8",
        ),
        ({"image_width": 48}, "timm crops images that are not square otherwise"),
    ],
)
def test_other_networks_keep_our_own_form(changes: dict[str, Any], said: str) -> None:
    """seresnet18, of reduction 16, has more hidden units in timm."""
    config = SENetConfig(labels=LABELS, **ARCHITECTURES["resnet18"] | changes)
    assert form_of("senet", config) is None
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(why_no_form("senet", config))


def test_a_width_that_is_the_height_is_square() -> None:
    config = SENetConfig(labels=LABELS, image_size=64, image_width=64, **ARCHITECTURES["resnet18"])
    assert form_of("senet", config) is TIMM


def test_a_network_that_timm_lacks_is_not_exported(tmp_path: Path) -> None:
    model = SENet(SENetConfig(labels=LABELS, image_size=16, depths=(1,), widths=(4,)))
    folder = saved(tmp_path / "run", model, Pixels())
    assert json.loads((folder / "config.json").read_text())["model_type"] == "regard-senet"
    with pytest.raises(RunError, match="run cannot be exported: of timm's networks regard writes resnet18, "):
        export(folder, tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


# ---- by the command line


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["regard", *words])
    main()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photographs")
    made: Any = shapes("train", 24, size=40)
    for number, (image, label) in enumerate(zip(made.pixels, made.labels, strict=True)):
        (folder / CLASSES[label]).mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / CLASSES[label] / f"{number}.png")
    return folder


def test_training_goes_on_from_their_folder_with_other_classes(
    theirs: Path, photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [
        "train.steps=1",
        "train.eval_every=1",
        "data.batch_size=4",
        "model.image_size=32",
        "train.device=cpu",
    ]
    changes = [part for one in (f"data.train={photographs}", *settings) for part in ("--set", one)]
    run = tmp_path / "run"
    command(monkeypatch, "train", "senet-images", "--from", str(theirs), "--out", str(run), *changes)
    opened = load(run, device="cpu")
    assert set(opened.model.config.labels) == {path.name for path in photographs.iterdir()}
    assert opened.pixels == Pixels(MEAN, STD, "bicubic", 34)  # the crop keeps its share: 67 * 32 / 64
    assert json.loads((run / "config.json").read_text())["architecture"] == "resnet18"
    before, after = (load_file(folder / "model.safetensors") for folder in (theirs, run))
    counted = int(before["bn1.num_batches_tracked"])
    assert int(after["bn1.num_batches_tracked"]) == counted + 1
    assert float((before["layer4.1.conv2.weight"] - after["layer4.1.conv2.weight"]).abs().max()) < 0.01


def test_recognise_and_export_by_the_command_line(
    theirs: Path,
    photographs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = str(next(photographs.rglob("*.png")))
    command(monkeypatch, "recognise", str(theirs), image, "--top", "3")
    lines = capsys.readouterr().out.splitlines()
    assert {line.split("\t")[1] for line in lines} == set(LABELS)
    command(monkeypatch, "export", str(theirs), "--to", str(tmp_path / "again"))
    assert load(tmp_path / "again", device="cpu").model.config.labels == LABELS


# ---- beside timm


def peer(architecture: str, **options: Any) -> Any:
    timm = pytest.importorskip("timm")
    model = timm.create_model(architecture, **options).eval()
    with torch.no_grad():
        scramble(model.state_dict())
    return model


def by_timm(folder: Path, model: Any, **options: Any) -> Path:
    hub = pytest.importorskip("timm.models._hub")
    hub.save_for_hf(model, folder, safe_serialization=True, **options)
    return folder


@torch.no_grad()
@pytest.mark.parametrize(
    "architecture",
    [
        "resnet18",
        "resnet34",
        "resnet50",
        "seresnet50",
        "resnet26",
        "seresnet18",
        "wide_resnet50_2",
        "resnext50_32x4d",
    ],
)
def test_timms_folder_gives_the_same_logits(architecture: str, tmp_path: Path) -> None:
    model = peer(architecture, num_classes=7)
    run = load(by_timm(tmp_path / "timm", model), device="cpu")
    images = torch.randn(2, 3, 64, 96)
    close(run.model(images), model(images))
    edge = math.floor(224 / model.pretrained_cfg["crop_pct"])  # not the same for all of them, nor in every timm
    assert run.pixels == Pixels(MEAN, STD, "bicubic", edge)


@torch.no_grad()
def test_images_are_read_as_by_timm(tmp_path: Path) -> None:
    data = pytest.importorskip("timm.data")
    model = peer("resnet18", num_classes=5)
    run = load(by_timm(tmp_path / "timm", model), device="cpu")
    transform = data.create_transform(**data.resolve_model_data_config(model), is_training=False)
    for image in (photograph(480, 640), photograph(333, 250), photograph(224, 224)):
        wanted = transform(Image.fromarray(image))[None]
        read = run.read([image])
        assert torch.allclose(read, wanted, rtol=0, atol=1e-6)
        close(run.model(read), model(wanted))


@torch.no_grad()
@pytest.mark.parametrize("changes", [{"num_classes": 0}, {"in_chans": 1}], ids=["no classifier", "grey"])
def test_other_models_of_timm(changes: dict[str, Any], tmp_path: Path) -> None:
    model = peer("resnet18", **changes)
    arguments = {"model_args": changes} if "in_chans" in changes else {}
    run = load(by_timm(tmp_path / "timm", model, **arguments), device="cpu")
    images = torch.randn(2, run.model.config.channels, 64, 64)
    close(run.model.features(images), model.forward_features(images))


@torch.no_grad()
@pytest.mark.parametrize(("edge", "labels", "channels"), [(71, LABELS, 3), (0, LABELS, 1), (0, (), 3)])
def test_timm_opens_a_run(edge: int, labels: tuple[str, ...], channels: int, tmp_path: Path) -> None:
    timm, data = pytest.importorskip("timm"), pytest.importorskip("timm.data")
    config = SENetConfig(labels=labels, image_size=64, channels=channels, **ARCHITECTURES["resnet18"])
    model = SENet(config).eval()
    scramble(model.state_dict())
    pixels = Pixels((0.4, 0.5, 0.6)[:channels], (0.2, 0.3, 0.4)[:channels], "bilinear", edge)
    folder = saved(tmp_path / "run", model, pixels)
    opened = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    images = torch.randn(2, channels, 64, 64)
    close(opened.forward_features(images), model.features(images))
    if labels:
        close(opened(images), model(images))
        assert tuple(opened.pretrained_cfg["label_names"]) == labels
    transform = data.create_transform(**data.resolve_model_data_config(opened), is_training=False)
    image = photograph(90, 150)
    picture = Image.fromarray(image).convert("RGB" if channels == 3 else "L")
    assert torch.allclose(load(folder, device="cpu").read([image])[0], transform(picture), rtol=0, atol=1e-6)
