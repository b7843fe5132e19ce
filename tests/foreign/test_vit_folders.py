"""ViT folders of `transformers`, with its reader of pictures, both ways: the same picture gets the same answer.

Their reader by Pillow resizes to the same bytes as we do; the one by torchvision, which need not be there, rounds
some of them otherwise, by one level."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from peers import draw_vit
from PIL import Image
from safetensors.torch import load_file, save_file

from regard.data.artifacts import Artifacts, Pixels
from regard.data.images.images import resize
from regard.data.made.shapes import shapes
from regard.errors import RunError
from regard.models.vit import ViT, ViTConfig
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import load
from regard.tasks.shared.export import export

transformers = pytest.importorskip("transformers")

LABELS = {0: "tabby cat", 1: "dog", 2: "Æsop's owl"}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
USUAL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
USUAL |= {"image_size": 12, "patch_size": 4}
PIXELS = "preprocessor_config.json"


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def peer(head: str = "ForImageClassification", pooler: bool = True, **changes: Any) -> Any:
    """Its weights well off their first values."""
    config = transformers.ViTConfig(**USUAL | {"id2label": LABELS} | changes)
    return draw_vit(config, head, pooler=pooler)


def reader(height: int = 12, width: int = 12, **changes: Any) -> Any:
    """The one by Pillow: the other needs torchvision."""
    sizes = {"size": {"height": height, "width": width}, "image_mean": MEAN, "image_std": STD}
    return transformers.ViTImageProcessorPil(**sizes | changes)


def saved(folder: Path, model: Any, processor: Any = None) -> Path:
    model.save_pretrained(folder)
    if processor is not None:
        processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of transformers. Tests copy what they change."""
    return saved(tmp_path_factory.mktemp("theirs") / "vit", peer(), reader())


def close(ours: torch.Tensor, wanted: torch.Tensor, share: float = 1e-5) -> None:
    assert ours.shape == wanted.shape
    assert float((ours - wanted).abs().max()) <= share * float(wanted.abs().max())


def photographs(tmp_path: Path) -> list[Path]:
    """Files as people have them: other sizes than the model's, one of it, grey, and a JPEG."""
    made = shapes("test", 4, size=96).pixels
    assert made is not None
    images = [
        Image.fromarray(made[0]),
        Image.fromarray(made[1][:40, :64]),
        Image.fromarray(made[2]).resize((12, 12)),
    ]
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for image, path in zip(images, paths, strict=True):
        image.save(path)
    Image.fromarray(made[3]).save(tmp_path / "3.jpg")
    images[0].convert("L").save(tmp_path / "4.png")
    return [*paths, tmp_path / "3.jpg", tmp_path / "4.png"]


# ---- folders of theirs


@torch.no_grad()
@pytest.mark.parametrize("size", [12, [8, 20]], ids=["square", "not square"])
def test_a_picture_gets_the_same_logits(size: Any, tmp_path: Path) -> None:
    """From the file to the logits, by their reader and model and by ours."""
    pair = size if isinstance(size, list) else [size, size]
    model, processor = peer(image_size=size), reader(*pair)
    ours = load(saved(tmp_path / "vit", model, processor))
    assert ours.pixels == Pixels(tuple(MEAN), tuple(STD))
    for path in photographs(tmp_path):
        with Image.open(path) as image:
            wanted = processor(image.convert("RGB"), return_tensors="pt")["pixel_values"]
        read = ours.read([np.asarray(Image.open(path).convert("RGB"))])
        assert torch.allclose(read, wanted, rtol=0, atol=1e-6)
        logits = model(wanted).logits
        close(ours.model(read), logits)
        answer = ours.recognise(path, top=3)
        assert answer.label == LABELS[int(logits.argmax())]
        for number, share in enumerate(logits[0].softmax(-1).tolist()):
            assert answer.probabilities[LABELS[number]] == pytest.approx(share, abs=1e-5)


@torch.no_grad()
def test_their_reader_by_torchvision_differs_by_a_level_at_most(tmp_path: Path) -> None:
    """It resizes bytes by this function of torch: some are rounded otherwise, and the answers stay close."""
    model = peer()
    ours = load(saved(tmp_path / "vit", model, reader()))
    for path in photographs(tmp_path):
        with Image.open(path) as opened:
            pixels = np.array(opened.convert("RGB"))
        planes = torch.from_numpy(pixels).permute(2, 0, 1)[None].float()
        other = F.interpolate(planes, size=(12, 12), mode="bilinear", antialias=True).round()
        mine = torch.from_numpy(np.array(resize(pixels, 12, 12))).permute(2, 0, 1)[None]
        assert (other - mine).abs().max() <= 1
        wanted = model((other / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)).logits
        close(ours.model(ours.read([pixels])), wanted, 2e-2)


@torch.no_grad()
@pytest.mark.parametrize("pooler", [True, False], ids=["pooler", "no pooler"])
def test_a_bare_model_gives_the_same_states(pooler: bool, tmp_path: Path) -> None:
    model, processor = peer("Model", pooler), reader()
    ours = load(saved(tmp_path, model, processor))
    one = shapes("test", 1, size=40).pixels[0]  # type: ignore[index]
    wanted = model(**processor(Image.fromarray(one), return_tensors="pt"))
    states = ours.model.tokens(ours.read([one]))
    close(states, wanted.last_hidden_state)
    if pooler:
        close(ours.model.pooled(states), wanted.pooler_output)
    with pytest.raises(RunError, match="has no head and knows no classes"):
        ours.recognise(one)


def test_labels_of_their_own_making(tmp_path: Path) -> None:
    folder = saved(tmp_path, transformers.ViTForImageClassification(transformers.ViTConfig(**USUAL, num_labels=4)))
    assert load(folder).model.config.labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


@torch.no_grad()
def test_two_classes_of_one_name(tmp_path: Path) -> None:
    """In ImageNet both a bird and a machine are called crane."""
    model = peer(id2label={0: "crane", 1: "dog", 2: "crane"})
    ours = load(saved(tmp_path / "vit", model, reader()))
    assert ours.model.config.labels == ("crane", "dog", "crane (2)")
    one = shapes("test", 1).pixels[0]  # type: ignore[index]
    shares = model(**reader()(Image.fromarray(one), return_tensors="pt")).logits[0].softmax(-1).tolist()
    found = ours.recognise(one).probabilities
    for label, share in zip(ours.model.config.labels, shares, strict=True):
        assert found[label] == pytest.approx(share, abs=1e-5)
    export(tmp_path / "vit", tmp_path / "again")
    assert load(tmp_path / "again").model.config.labels == ("crane", "dog", "crane (2)")


@pytest.mark.parametrize(
    "changes",
    [
        {"image_processor_type": "ViTFeatureExtractor", "feature_extractor_type": "ViTFeatureExtractor"},
        {"size": 12},
        {"image_mean": ..., "image_std": ..., "rescale_factor": ..., "do_rescale": ...},
        {"do_center_crop": None, "crop_size": None, "do_convert_rgb": True},
        {"do_center_crop": False, "data_format": "channels_first"},
        {"do_center_crop": True, "crop_size": {"height": 12, "width": 12}},
    ],
    ids=["old", "one number", "little", "nulls", "torchvision", "crop of all"],
)
def test_other_ways_to_say_the_same(theirs: Path, changes: dict[str, Any], tmp_path: Path) -> None:
    folder = copied(theirs, tmp_path, table(PIXELS, **changes))
    told = ... not in changes.values()
    assert load(folder).pixels == (Pixels(tuple(MEAN), tuple(STD)) if told else Pixels())


@torch.no_grad()
def test_a_folder_that_resizes_by_cubic_curves(theirs: Path, tmp_path: Path) -> None:
    """As DINO's do. Our copy of it says so too."""
    processor = reader(resample=Image.Resampling.BICUBIC)
    ours = load(saved(tmp_path / "vit", peer(), processor))
    assert ours.pixels == Pixels(tuple(MEAN), tuple(STD), "bicubic")
    one = shapes("test", 1, size=40).pixels[0]  # type: ignore[index]
    wanted = processor(Image.fromarray(one), return_tensors="pt")["pixel_values"]
    assert torch.allclose(ours.read([one]), wanted, rtol=0, atol=1e-6)
    assert not torch.allclose(load(theirs).read([one]), wanted, atol=1e-3)
    export(tmp_path / "vit", tmp_path / "again")
    assert load(tmp_path / "again").pixels == ours.pixels


@torch.no_grad()
@pytest.mark.parametrize("crop", [12, {"height": 12, "width": 12}], ids=["number", "sides"])
def test_a_folder_that_reads_the_centre(crop: Any, tmp_path: Path) -> None:
    """As CLIP's and BiT's do. With a margin of 1 or an even number, they crop as torchvision does."""
    processor = transformers.BitImageProcessorPil(
        size={"shortest_edge": 16}, crop_size=crop, image_mean=MEAN, image_std=STD
    )
    folder = saved(tmp_path / "vit", peer(), processor)
    if crop == 12:
        table(PIXELS, crop_size=12)(folder)
    ours = load(folder)
    assert ours.pixels == Pixels(tuple(MEAN), tuple(STD), "bicubic", 16)
    image = shapes("test", 1, size=80).pixels[0]  # type: ignore[index]
    for one in (image, image[:40], image[:, :75], image[:79]):
        wanted = processor(Image.fromarray(one), return_tensors="pt")["pixel_values"]
        assert torch.allclose(ours.read([one]), wanted, rtol=0, atol=1e-6)
    export(folder, tmp_path / "again")
    assert load(tmp_path / "again").pixels == ours.pixels
    read = transformers.AutoImageProcessor.from_pretrained(tmp_path / "again", use_fast=False)
    again = read(Image.fromarray(image), return_tensors="pt")["pixel_values"]
    assert torch.allclose(again, ours.read([image]), rtol=0, atol=1e-6)


# ---- ours, opened by them


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ours, not square."""
    torch.manual_seed(0)
    model: Any = ViT(
        ViTConfig(tuple(LABELS.values()), image_size=12, image_width=20, patch_size=4, dim=24, layers=2, heads=4)
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight += torch.randn_like(weight) * (0.2 if weight.dim() == 1 else 1 / weight[0].numel() ** 0.5)
    folder = tmp_path_factory.mktemp("ours") / "vit"
    begin(folder, model, Artifacts(labels=model.config.labels, pixels=Pixels((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))), "")
    save_weights(folder, model)
    return folder


def opened(folder: Path, **options: Any) -> tuple[Any, Any]:
    model, report = transformers.AutoModelForImageClassification.from_pretrained(
        folder, output_loading_info=True, **options
    )
    assert not any(report.values()), report  # nothing missing, left over, or of another shape
    return model.eval(), transformers.AutoImageProcessor.from_pretrained(folder)


@torch.no_grad()
def test_they_open_a_run_and_its_reader(ours: Path, tmp_path: Path) -> None:
    mine = load(ours)
    model, processor = opened(ours)
    assert model.config.id2label == LABELS
    # Without torchvision theirs is the one by Pillow; with it, bytes may differ by a level.
    exact = type(processor).__name__.endswith("Pil")
    for path in photographs(tmp_path):
        with Image.open(path) as image:
            wanted = model(**processor(image.convert("RGB"), return_tensors="pt")).logits
            logits = mine.model(mine.read([np.asarray(image.convert("RGB"))]))
        close(logits, wanted, 1e-5 if exact else 2e-2)


@torch.no_grad()
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_export_is_opened_by_them(ours: Path, dtype: str, tmp_path: Path) -> None:
    export(ours, tmp_path / "hub", dtype)
    assert {path.name for path in (tmp_path / "hub").iterdir()} == {"config.json", "model.safetensors", PIXELS}
    assert json.loads((tmp_path / "hub" / "config.json").read_text())["dtype"] == dtype
    mine, again = load(ours), load(tmp_path / "hub")
    model, _ = opened(tmp_path / "hub", dtype=torch.float32)
    images = mine.read([shapes("test", 1).pixels[0]])  # type: ignore[index]
    close(again.model(images), model(images).logits)
    close(again.model(images), mine.model(images), {"float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}[dtype])
    assert again.pixels == mine.pixels


def test_the_mean_of_patches_has_no_such_form(tmp_path: Path) -> None:
    model = ViT(ViTConfig(("a", "b"), image_size=8, patch_size=4, dim=8, layers=1, heads=2, pool="mean"))
    begin(tmp_path / "run", model, Artifacts(labels=("a", "b"), pixels=Pixels()), "")
    save_weights(tmp_path / "run", model)
    with pytest.raises(RunError, match="cannot be exported: its head there reads a class token"):
        export(tmp_path / "run", tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


@torch.no_grad()
def test_there_and_back_again(theirs: Path, tmp_path: Path) -> None:
    """What they wrote, exported here: the same files in all that counts."""
    export(theirs, tmp_path / "again")
    for name in (PIXELS, "config.json"):
        before, after = (json.loads((folder / name).read_text()) for folder in (theirs, tmp_path / "again"))
        for key in after.keys() - {"encoder_stride", "label2id"}:  # of another head, and the names once more
            assert after[key] == before[key], key
    before, after = (load_file(folder / "model.safetensors") for folder in (theirs, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


# ---- folders that are not what they claim


def copied(source: Path, tmp_path: Path, damage: Callable[[Path], object]) -> Path:
    shutil.copytree(source, tmp_path / "copy")
    damage(tmp_path / "copy")
    return tmp_path / "copy"


def table(name: str, **changes: Any) -> Callable[[Path], None]:
    """A JSON file with some entries changed; `...` removes one."""

    def change(folder: Path) -> None:
        entries = {**json.loads((folder / name).read_text()), **changes}
        (folder / name).write_text(json.dumps({key: value for key, value in entries.items() if value is not ...}))

    return change


def pixels(**changes: Any) -> Callable[[Path], None]:
    return table(PIXELS, **changes)


def config(**changes: Any) -> Callable[[Path], None]:
    """And no reader of pictures, which would not fit."""

    def change(folder: Path) -> None:
        table("config.json", **changes)(folder)
        (folder / PIXELS).unlink()

    return change


def text(content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / PIXELS).write_text(content)


def huge(folder: Path) -> None:
    os.truncate(folder / PIXELS, 1 << 40)  # no disk is taken for what is not written


def lying(folder: Path) -> None:
    """A header that declares positions of a picture a million patches wide."""
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header["vit.embeddings.position_embeddings"]["shape"] = [1, 10**12, 24]
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + raw[8 + length :])


def without_positions(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["vit.embeddings.position_embeddings"]
    save_file(tensors, folder / "model.safetensors")


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "deviation 0": (
        pixels(image_std=[0.5, 0, 0.5]),
        r"preprocessor_config\.json: image_std must be at least 1e-06",
    ),
    "deviation below 0": (pixels(image_std=[0.5, -1, 0.5]), "image_std must be at least 1e-06"),
    "deviation next to 0": (pixels(image_std=[1e-300] * 3), "image_std must be at least 1e-06"),
    "two means": (pixels(image_mean=[0.5, 0.5]), "image_mean must have one number for each of 3 channels, got 2"),
    "no mean": (pixels(image_mean=[]), "image_mean must have one number for each of 3 channels, got 0"),
    "a mean": (pixels(image_mean=0.5), r"image_mean must be a list of numbers, got 0\.5"),
    "means in words": (pixels(image_mean=["a", "b", "c"]), "image_mean must be a list of numbers"),
    "means too large": (pixels(image_mean=[10**400] * 3), "image_mean must be a list of numbers"),
    "mean not a number": (pixels(image_mean=[float("nan")] * 3), "image_mean must be a list of numbers"),
    "a crop": (pixels(do_center_crop=True), "do_center_crop needs a crop_size, and there is none"),
    "a crop of words": (pixels(do_center_crop="yes"), "do_center_crop = 'yes' is not supported"),
    "another crop": (
        pixels(do_center_crop=True, crop_size=10, size={"shortest_edge": 14}),
        "crop_size is 10, but images are 12 x 12 by config.json",
    ),
    "a crop of one size": (
        pixels(do_center_crop=True, crop_size=12, size={"height": 14, "width": 14}),
        r'with do_center_crop, size must be \{"shortest_edge": pixels\}, got .*14',
    ),
    "a crop of a number": (pixels(do_center_crop=True, crop_size=12, size=14), "size must be .*, got 14"),
    "a crop of more": (
        pixels(do_center_crop=True, crop_size=12, size={"shortest_edge": 11}),
        r"shortest_edge must be 0, or lie in \[12, 65536\] so that 12 x 12 pixels can be cut out; got 11",
    ),
    "a crop of nothing": (
        pixels(do_center_crop=True, crop_size=12, size={"shortest_edge": 0}),
        "size must be .* got .*0",
    ),
    "a crop of everything": (
        pixels(do_center_crop=True, crop_size=12, size={"shortest_edge": 10**400}),
        r"shortest_edge must be 0, or lie in \[12, 65536\]",
    ),
    "no resizing": (pixels(do_resize=False), "do_resize = False is not supported, only True"),
    "another resizing": (
        pixels(resample=1),
        r"resample = 1 is not supported, only 2 \(bilinear\) and 3 \(bicubic\)",
    ),
    "another scale": (pixels(rescale_factor=1.0), r"rescale_factor = 1\.0 is not supported"),
    "a list for a truth": (pixels(do_rescale=[True]), r"do_rescale = \[True\] is not supported"),
    "another size": (pixels(size={"height": 12, "width": 16}), "size is .*, but images are 12 x 12 by config.json"),
    "shortest edge": (
        pixels(size={"shortest_edge": 12}),
        "size is .*shortest_edge.*, but images are 12 x 12 by config.json",
    ),
    "size in words": (pixels(size="large"), "size is 'large', but images are 12 x 12 by config.json"),
    "no JSON": (text("{"), "preprocessor_config.json is not valid JSON: Expecting property name"),
    "no table": (text("[1]"), r"preprocessor_config.json must hold a JSON object, got \[1\]"),
    "deep": (text("[" * 100_000), "preprocessor_config.json is not valid JSON: .*recursion"),
    "large": (huge, "preprocessor_config.json has 1,099,511,627,776 bytes, and at most 16,777,216 are read"),
    "picture of 10^9": (config(image_size=10**9), "config.json: an image has at most 16,777,216 patches"),
    "wide picture": (config(image_size=[4, 4 * 10**8]), "config.json: an image has at most 16,777,216 patches"),
    "large patch": (config(image_size=10**6, patch_size=10**6), "as many values; got .* patch_size 1000000"),
    "patch 0": (config(patch_size=0), "config.json: patch_size must be .* of at least 1; got 0"),
    "patch below 0": (config(patch_size=-4), "config.json: patch_size must be .* of at least 1; got -4"),
    "patch that divides not": (
        config(patch_size=5),
        "config.json: image_size must be a multiple of patch_size, got 12 and 5",
    ),
    "channels 0": (config(num_channels=0), "config.json: channels must be at least 1, got 0"),
    "other channels": (config(num_channels=1), r"projection.weight should be \(24, 1, 4, 4\) by config.json"),
    "other picture": (config(image_size=16), r"position_embeddings should be \(1, 17, 24\) by config.json"),
    "holes": (config(id2label={"0": "a", "2": "b"}), "config.json: id2label must name the classes 0 to 1"),
    "numbers for names": (config(id2label={"0": 1, "1": 2}), "config.json: id2label must name the classes"),
    "too many names": (config(id2label={str(x): "a" for x in range(5)}), r"classifier.* should be \(5,"),
    "another head": (
        config(architectures=["ViTForMaskedImageModeling"]),
        "is not supported, only ViTForImageClass",
    ),
    "many layers": (config(num_hidden_layers=900), "it has 900 layers, and the folder holds only 40 tensors"),
    "a setting of transformers": (config(quantization_config={"bits": 4}), "quantization_config = .* not support"),
    "lying header": (lying, "model.safetensors cannot be read"),
    "no positions": (without_positions, "vit.embeddings.position_embeddings"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_trusted_is_refused_by_name(theirs: Path, case: str, tmp_path: Path) -> None:
    damage, words = CASES[case]
    with pytest.raises(RunError, match=words):
        load(copied(theirs, tmp_path, damage))
