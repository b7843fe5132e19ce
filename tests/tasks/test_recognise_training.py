"""Recognisers trained from pictures of every form, gone on with, and begun with the weights of others."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.artifacts import Artifacts, Pixels
from regard.data.made.shapes import CLASSES, shapes
from regard.errors import BadInput, DataError, RecipeError
from regard.learn.loop import Report
from regard.models.vit import ViT, ViTConfig, regrid
from regard.runs.folder import Folder, begin, save_weights
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load
from regard.tasks.recognise.prepare import build_data, survey
from regard.tasks.recognise.run import Recogniser
from regard.tasks.recognise.settings import ImageSettings
from regard.tasks.shared.image_run import pixels_of
from regard.tasks.shared.measuring import class_logits

RECIPE = """
[data]
made = "shapes"
train_count = 60
valid_count = 18
test_count = 12
batch_size = 20
crop = 2

[model]
name = "vit"
image_size = 16
patch_size = 8
dim = 16
layers = 1
heads = 2

[train]
steps = 4
learning_rate = 0.003
eval_every = 2
"""
COUNT = 24
PICTURES: Any = shapes("train", COUNT, size=20)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("recipe") / "pictures.toml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> Path:
    """A run of a few steps. Tests only read it."""
    folder = tmp_path_factory.mktemp("begun") / "run"
    train(recipe, folder, "data.mean=[0.4,0.5,0.6]", "data.std=[0.2,0.25,0.3]")
    return folder


def train(recipe: str, folder: Path, *changes: str, resume: bool = False, start: Path | None = None) -> Report:
    job, text = read(recipe, changes, start)
    return training.train(job, folder, recipe=text, command="regard train tiny", resume=resume, start=start)


def png(picture: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png")
    return file.getvalue()


def as_folder(path: Path, names: tuple[str, ...] = CLASSES) -> None:
    for number, label in enumerate(PICTURES.labels):
        folder = path / names[label]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:03}.png").write_bytes(png(PICTURES.pixels[number]))


def as_npz(path: Path, names: tuple[str, ...] = CLASSES, order: tuple[str, ...] = ()) -> None:
    """`order`: of the classes in the file, another than that of the labels here."""
    order = order or names
    labels = [order.index(names[label]) for label in PICTURES.labels]
    np.savez(path, images=PICTURES.pixels, labels=labels, classes=order)


def as_parquet(path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "img": [{"bytes": png(one), "path": None} for one in PICTURES.pixels],
        "label": PICTURES.labels,
    }
    features = {"label": {"names": list(CLASSES), "_type": "ClassLabel"}}
    told = {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(told), path)


def as_tar(path: Path, names: tuple[str, ...] = CLASSES) -> None:
    with tarfile.open(path, "w") as tar:
        for number, label in enumerate(PICTURES.labels):
            for kind, data in (("png", png(PICTURES.pixels[number])), ("cls", names[label].encode())):
                info = tarfile.TarInfo(f"{number:06}.{kind}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


FORMS: dict[str, Callable[[Path], None]] = {
    "folder": as_folder,
    "set.npz": as_npz,
    "set.parquet": as_parquet,
    "set.tar": as_tar,
}


def changes(path: Path, *more: str) -> list[str]:
    return ["data.made=", f"data.train={path}", *more]


@pytest.mark.parametrize("form", FORMS)
def test_pictures_of_every_form_train_and_keep_the_names_of_their_classes(
    recipe: str, form: str, tmp_path: Path
) -> None:
    FORMS[form](tmp_path / form)
    assert train(recipe, tmp_path / "run", *changes(tmp_path / form)).step == 4
    # Names alone are sorted; the others have an order of their own.
    labels = tuple(sorted(CLASSES)) if form in ("folder", "set.tar") else CLASSES
    assert load(tmp_path / "run").model.config.labels == labels
    card = (tmp_path / "run" / "README.md").read_text()
    assert "22 images, 6 classes" in card  # a tenth, two of 24, is held out
    assert f"`{form}`" in card
    assert "regard recognise DIR FILE" in card


def test_the_same_pictures_in_another_form_give_the_same_run(recipe: str, tmp_path: Path) -> None:
    found = []
    for form in ("set.npz", "set.parquet"):
        FORMS[form](tmp_path / form)
        train(recipe, tmp_path / form[4:], *changes(tmp_path / form))
        found.append(Folder(tmp_path / form[4:]).model().state_dict())
    for name, weight in found[0].items():
        assert torch.equal(weight, found[1][name]), name


def test_a_generated_set_is_learned_from(recipe: str, tmp_path: Path) -> None:
    """The pictures of one batch by heart: the weights that are kept are the best, and the log tells how it went."""
    few = [
        "data.train_count=12",
        "data.batch_size=12",
        "data.crop=0",
        "data.flip=false",
        "train.learning_rate=0.01",
    ]
    wide = ["model.dim=32", "model.layers=2", "train.steps=40", "train.eval_every=20", "data.valid_count=6"]
    train(recipe, tmp_path / "run", *few, *wide)
    losses = [json.loads(line).get("loss") for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    losses = [loss for loss in losses if loss is not None]
    assert losses[0] == pytest.approx(np.log(6), abs=1e-4)  # the head begins at 0
    assert losses[-1] < 0.5 * losses[0]
    run = load(tmp_path / "run")
    assert run.model.config.labels == CLASSES
    assert run.pixels == Pixels()


def test_from_python_it_is_evaluated_as_training_did(begun: Path, tmp_path: Path) -> None:
    """On a file of the images it was validated on, and on the recipe's own test images."""
    rows = [json.loads(line) for line in (begun / "log.jsonl").read_text().splitlines()]
    best = min((row for row in rows if "valid_loss" in row), key=lambda row: (-row["accuracy"], row["valid_loss"]))
    held = shapes("valid", 18)
    np.savez(tmp_path / "held.npz", images=held.pixels, labels=held.labels, classes=CLASSES)
    found = load(begun).evaluate(tmp_path / "held.npz")
    assert found.metrics["loss"] == pytest.approx(best["valid_loss"], rel=1e-6)
    assert (found.metrics["accuracy"], found.counts["images"]) == (best["accuracy"], 18)
    assert load(begun).evaluate().counts["images"] == 12


@pytest.mark.parametrize("source", ["grey", "coloured", "made"])
def test_a_grey_model_is_trained_evaluated_and_asked(recipe: str, source: str, tmp_path: Path) -> None:
    """Of images that are grey or not; the mean of 0.5 is that of one channel."""
    images = PICTURES.pixels if source == "coloured" else PICTURES.pixels[..., 0]
    np.savez(tmp_path / "set.npz", images=images, labels=PICTURES.labels, classes=CLASSES)
    where = changes(tmp_path / "set.npz") if source != "made" else []
    settings = ["model.channels=1", "data.num_ops=2", "data.erase_probability=0.5", "data.mixup=0.3"]
    assert train(recipe, tmp_path / "run", *where, *settings).step == 4
    run = load(tmp_path / "run")
    assert (run.model.config.channels, run.pixels) == (1, Pixels((0.5,), (0.5,)))
    asked = [answer.label for answer in run.recognise(list(images))]
    found = run.evaluate(tmp_path / "set.npz")
    right = np.mean([CLASSES[label] == answer for label, answer in zip(PICTURES.labels, asked, strict=True)])
    assert found.metrics["accuracy"] == pytest.approx(100 * right)
    data = build_data(ImageSettings(train="none", test=str(tmp_path / "set.npz")), "test", run)
    (item,) = data.order(0)
    assert torch.equal(data.batch(item).images, run.read([pixels_of(one) for one in images[item.taken]]))


def test_one_mean_and_deviation_of_a_grey_model(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", "model.channels=1", "data.mean=[0.3]", "data.std=[0.4]", "train.steps=1")
    assert load(tmp_path / "run").pixels == Pixels((0.3,), (0.4,))


# ---- which images: the part held out, other files, classes by name


def rows(settings: ImageSettings, split: str) -> list[int]:
    return settings.images(split)[1].tolist()


@pytest.mark.parametrize(("share", "count"), [(0.1, 2), (0.5, 12), (0.001, 1), (0.99, 23)])
def test_a_share_is_held_out_and_never_trained_on(share: float, count: int, tmp_path: Path) -> None:
    as_npz(tmp_path / "set.npz")
    settings = ImageSettings(train=str(tmp_path / "set.npz"), valid_fraction=share)
    held = rows(settings, "valid")
    assert len(held) == count
    assert sorted(held + rows(settings, "train")) == list(range(COUNT))
    assert held == rows(settings, "valid") == rows(settings, "test")


def test_held_out_is_not_one_class_alone(tmp_path: Path) -> None:
    """In a folder the classes stand one behind the other."""
    as_folder(tmp_path / "set")
    settings = ImageSettings(train=str(tmp_path / "set"), valid_fraction=0.4)
    pictures, held = settings.images("valid")
    assert len(set(pictures.labels[held].tolist())) >= 4


def test_too_few_to_hold_some_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", images=PICTURES.pixels[:1], labels=[0], classes=("a", "b"))
    settings = ImageSettings(train=str(tmp_path / "one.npz"))
    with pytest.raises(DataError, match=r"one\.npz has too few images to hold some out.*set data\.valid"):
        settings.images("train")


def test_with_files_of_their_own_nothing_is_held_out(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        as_npz(tmp_path / f"{name}.npz")
    train, valid, test = (str(tmp_path / f"{name}.npz") for name in ("train", "valid", "test"))
    for settings in (ImageSettings(train=train, valid=valid), ImageSettings(train=train, valid=valid, test=test)):
        assert all(rows(settings, split) == list(range(COUNT)) for split in ("train", "valid", "test"))
    # With a test file alone, what is validated by still comes from the training pictures.
    settings = ImageSettings(train=train, test=test)
    assert rows(settings, "test") == list(range(COUNT))
    assert sorted(rows(settings, "train") + rows(settings, "valid")) == list(range(COUNT))
    assert len(rows(settings, "valid")) == 2


def test_classes_are_told_by_name_whatever_their_order(begun: Path, tmp_path: Path) -> None:
    as_npz(tmp_path / "usual.npz")
    as_npz(tmp_path / "other.npz", order=("moon", *reversed(CLASSES)))  # with a class of which there is no picture
    as_folder(tmp_path / "folder")
    run, truths = load(begun), []
    for name in ("usual.npz", "other.npz", "folder"):
        settings = ImageSettings(train="none", test=str(tmp_path / name))
        data = build_data(settings, "test", run)
        items = data.order(0)
        logits = class_logits(run.model, map(data.batch, items))
        found = data.images.labels[np.concatenate([item.taken for item in items])]
        truths.append(sorted(zip(logits[:, 0].tolist(), found.tolist(), strict=True)))
    assert [label for _, label in truths[0]] == [label for _, label in truths[1]] == [x for _, x in truths[2]]
    assert np.allclose([x for x, _ in truths[0]], [x for x, _ in truths[2]], atol=1e-6)


def test_pictures_of_a_class_that_the_model_does_not_know(begun: Path, tmp_path: Path) -> None:
    as_npz(tmp_path / "set.npz", names=("circle", "square", "triangle", "cross", "ring", "moon"))
    settings = ImageSettings(train="none", test=str(tmp_path / "set.npz"))
    with pytest.raises(DataError, match=r"there are images of 'moon', but the classes are 'circle', 'square'"):
        build_data(settings, "test", load(begun))


def test_a_picture_that_is_no_picture_is_named_while_training(recipe: str, tmp_path: Path) -> None:
    as_folder(tmp_path / "set")
    for path in (tmp_path / "set" / "star").iterdir():
        path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(DataError, match=r"set/star/\d+\.png cannot be decoded"):
        train(recipe, tmp_path / "run", *changes(tmp_path / "set"))


# ---- gone on with


def test_a_training_goes_on_as_if_it_had_never_stopped(recipe: str, tmp_path: Path) -> None:
    """Also what is drawn for each picture: crops, flips, operations, erasing, mixing, dropped layers."""
    varied = [
        "data.scale=0.5",
        "data.num_ops=1",
        "data.erase_probability=0.5",
        "data.mixup=0.3",
        "model.drop_path=0.2",
    ]
    varied += ["model.layers=2", "model.dropout=0.1", "train.warmup_steps=2"]
    train(recipe, tmp_path / "whole", *varied, "train.steps=6")
    train(recipe, tmp_path / "parts", *varied, "train.steps=4")
    train(recipe, tmp_path / "parts", *varied, "train.steps=6", resume=True)
    kept = [Folder(tmp_path / name).model().state_dict() for name in ("whole", "parts")]
    for name, weight in kept[0].items():
        assert torch.equal(weight, kept[1][name]), name


def test_from_tars_it_goes_on_as_if_it_had_never_stopped(recipe: str, tmp_path: Path) -> None:
    """As from arrays of the same images, bit by bit; a label that changed is refused."""
    as_tar(tmp_path / "set.tar")
    as_npz(tmp_path / "set.npz", order=tuple(sorted(CLASSES)))
    varied = ["data.scale=0.5", "data.num_ops=1", "data.mixup=0.3", "model.dropout=0.1"]
    tars, six = changes(tmp_path / "*.tar", *varied), "train.steps=6"
    train(recipe, tmp_path / "arrays", *changes(tmp_path / "set.npz", *varied), six)
    train(recipe, tmp_path / "whole", *tars, six)
    train(recipe, tmp_path / "parts", *tars)
    as_tar(tmp_path / "set.tar", CLASSES[::-1])
    with pytest.raises(BadInput, match=r"set\.tar: other contents"):
        train(recipe, tmp_path / "parts", *tars, six, resume=True)
    as_tar(tmp_path / "set.tar")
    train(recipe, tmp_path / "parts", *tars, six, resume=True)
    weights = {name: Folder(tmp_path / name).model().state_dict() for name in ("arrays", "whole", "parts")}
    for name, weight in weights["whole"].items():
        assert torch.equal(weight, weights["arrays"][name]), name
        assert torch.equal(weight, weights["parts"][name]), name


def test_it_may_go_on_by_other_means(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", "train.steps=2")
    report = train(recipe, tmp_path / "run", "train.steps=4", "train.capture=true", "train.device=cpu", resume=True)
    assert report.step == 4


def test_other_pictures_are_not_gone_on_with(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", "train.steps=2")
    with pytest.raises(ValueError, match=r"begun with other settings: data\.mean was not set, now it is \[0\.4, "):
        train(recipe, tmp_path / "run", "train.steps=3", "data.mean=[0.4,0.4,0.4]", resume=True)


# ---- begun with another run


def test_a_run_goes_on_at_another_size_with_positions_laid_anew(recipe: str, begun: Path, tmp_path: Path) -> None:
    still = ["train.learning_rate=1e-12", "train.steps=1", "train.eval_every=1"]
    train(recipe, tmp_path / "run", "model.image_size=32", "model.image_width=24", *still, start=begun)
    found, before = load(tmp_path / "run"), cast(Any, Folder(begun).model())
    assert (found.model.config.image_size, found.model.config.image_width, found.model.config.grid) == (
        32,
        24,
        (4, 3),
    )
    wanted = regrid(before.positions.detach(), (2, 2), (4, 3))
    assert torch.allclose(found.model.positions, wanted, atol=1e-6)
    for name, weight in before.state_dict().items():
        if name != "positions":
            assert torch.allclose(found.model.state_dict()[name], weight, atol=1e-6), name


def test_a_run_learns_other_classes(
    recipe: str, begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The head is new, all else is taken over; as many classes as before or not."""
    as_npz(tmp_path / "trees.npz", names=("oak", "elm", "fir", "yew", "ash", "box"))
    still = ["train.learning_rate=1e-12", "train.steps=1", "train.eval_every=1"]
    train(recipe, tmp_path / "run", *changes(tmp_path / "trees.npz", *still), start=begun)
    assert "initialised anew: head.weight, head.bias\n" in capsys.readouterr().err
    found, before = load(tmp_path / "run").model, Folder(begun).model()
    assert found.config.labels == ("oak", "elm", "fir", "yew", "ash", "box")
    assert found.head.weight.abs().max() < 1e-6
    for name, weight in before.state_dict().items():
        if not name.startswith("head"):
            assert torch.allclose(found.state_dict()[name], weight, atol=1e-6), name


def test_the_same_classes_in_another_order_keep_their_head(
    recipe: str, begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_npz(tmp_path / "set.npz", order=CLASSES[::-1])
    still = ["train.learning_rate=1e-12", "train.steps=1", "train.eval_every=1"]
    train(recipe, tmp_path / "run", *changes(tmp_path / "set.npz", *still), start=begun)
    assert "initialised anew" not in capsys.readouterr().err
    found, before = load(tmp_path / "run").model, Folder(begun).model()
    assert found.config.labels == before.config.labels == CLASSES
    assert torch.allclose(found.head.weight, before.head.weight, atol=1e-6)


def test_a_run_that_begins_with_another_reads_pictures_as_it_did_unless_told(
    recipe: str, begun: Path, tmp_path: Path
) -> None:
    few = ["train.steps=1", "train.eval_every=1"]
    train(recipe, tmp_path / "same", *few, start=begun)
    assert load(tmp_path / "same").pixels == Pixels((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)) == load(begun).pixels
    train(recipe, tmp_path / "told", *few, "data.std=[1,1,2]", start=begun)
    assert load(tmp_path / "told").pixels == Pixels((0.4, 0.5, 0.6), (1.0, 1.0, 2.0))


@pytest.mark.parametrize(("size", "edge"), [(16, 18), (32, 36), (8, 9)])
def test_the_centre_crop_of_another_run_keeps_its_share(recipe: str, size: int, edge: int, tmp_path: Path) -> None:
    before: Any = ViT(ViTConfig(CLASSES, image_size=16, patch_size=8, dim=8, layers=1, heads=2))
    pixels = Pixels(resample="bicubic", shortest_edge=18)
    begin(tmp_path / "before", before, Artifacts(labels=CLASSES, pixels=pixels), "")
    save_weights(tmp_path / "before", before)
    train(recipe, tmp_path / "run", f"model.image_size={size}", "train.steps=1", start=tmp_path / "before")
    assert load(tmp_path / "run").pixels == Pixels(resample="bicubic", shortest_edge=edge)


@pytest.mark.parametrize("pooler", [True, False], ids=["pooler", "no pooler"])
@pytest.mark.parametrize("pool", ["class", "mean"])
def test_a_bare_model_is_given_a_head(recipe: str, pool: str, pooler: bool, tmp_path: Path) -> None:
    bare: Any = ViT(ViTConfig(image_size=16, patch_size=8, dim=8, layers=2, heads=2, pooler=pooler))
    begin(tmp_path / "bare", bare, Artifacts(pixels=Pixels()), "")
    save_weights(tmp_path / "bare", bare)
    train(
        recipe,
        tmp_path / "run",
        f"model.pool={pool}",
        "train.steps=1",
        "train.learning_rate=1e-12",
        start=tmp_path / "bare",
    )
    found = load(tmp_path / "run").model
    assert (found.config.labels, found.config.pool, found.config.dim) == (CLASSES, pool, 8)
    assert torch.allclose(found.blocks[1].feed.inner.weight, bare.blocks[1].feed.inner.weight, atol=1e-6)


def test_what_may_not_change_with_the_weights_of_another(recipe: str, begun: Path, tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError,
        match=r"model\.patch_size=4 is not possible: .* only dropout and image_size and image_width and pool",
    ):
        train(recipe, tmp_path / "run", "model.patch_size=4", start=begun)


def test_the_mean_of_the_patches_is_learned_by_and_opened_again(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", "model.pool=mean", "data.mean=[0.1,0.2,0.3]")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["model_type"], config["pool"], config["labels"]) == ("regard-vit", "mean", list(CLASSES))
    run = load(tmp_path / "run")
    assert run.pixels.mean == (0.1, 0.2, 0.3)
    assert run.model.class_token is None
    train(recipe, tmp_path / "run", "model.pool=mean", "data.mean=[0.1,0.2,0.3]", "train.steps=5", resume=True)


# ---- settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data.mean=0.5", r"\[data\]: mean must be a list of numbers, got 0\.5"),
        ("data.mean=[0.5,0.5]", r"mean must be a list of 0 or 1 or 3 numbers, got \(0\.5, 0\.5\)"),
        ("data.mean=[true,0.5,0.5]", "mean must be a list of numbers"),
        ("data.mean=[nan,0.5,0.5]", "mean must be a list of numbers"),
        ("data.mean=[0.5,inf,0.5]", "mean must be a list of numbers"),
        ('data.mean=["a","b","c"]', "mean must be a list of numbers"),
        ("data.std=[1,1,1,1]", "std must be a list of 0 or 1 or 3 numbers"),
        ("data.std=[1,0,1]", r"std must be above 0, got \(1\.0, 0\.0, 1\.0\)"),
        ("data.std=[1,-1,1]", "std must be above 0"),
        ("data.crop=-1", "crop must be at least 0 and finite, got -1"),
        ("data.crop=1.5", r"\[data\]: crop must be a whole number, got 1\.5"),
        ("data.scale=1.5", r"scale must lie in 0 to 1, got 1\.5"),
        ("data.scale=nan", "scale must be a number, got nan"),
        ("data.flip=1", r"\[data\]: flip must be true or false, got 1"),
        ("data.num_ops=-2", "num_ops must be at least 0 and finite, got -2"),
        ("data.magnitude=31", "magnitude must lie in 0 to 30, got 31"),
        ("data.erase_probability=-0.1", r"erase_probability must lie in 0 to 1, got -0\.1"),
        ("data.mixup=inf", "mixup must be a number, got inf"),
        ("data.mixup=-1", "mixup must be at least 0 and finite, got -1"),
        ("data.batch_size=0", "batch_size must be at least 1, got 0"),
        ("data.valid_count=0", "valid_count must be at least 1, got 0"),
        ("data.valid_fraction=1.0", r"valid_fraction must lie in \(0, 1\), got 1\.0"),
        ("tokens.size=900", r"\[tokens\] is not for a vit that is made to recognise; leave it out"),
        ("decode.beam=2", r"\[decode\] is not for a vit that is made to recognise; leave it out"),
        ("data.made=circles", "unknown generated set 'circles'; there are shapes"),
        ("data.made=", r"set either data\.made to a generated set \(shapes\) or data\.train to images: a folder"),
        ("data.train=x.npz", r"set either data\.made to a generated set"),
        ("data.mixpu=0.1", "did you mean 'mixup'"),
        ("model.patch_size=5", "image_size must be a multiple of patch_size, got 16 and 5"),
        ("model.labels=[]", r"model\.labels follow from the data"),
        ("model.image_size=1000000000000", "an image has at most 16,777,216 patches"),
        ("train.best_by=bleu", r"best_by must be valid_loss or accuracy for vit, got 'bleu'"),
    ],
    ids=str,
)
def test_settings_that_cannot_be(recipe: str, change: str, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        read(recipe, [change])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["model.channels=2"],
            r"images are grey or have red, green and blue: model\.channels must be 1 or 3, got 2",
        ),
        (["model.channels=4", "data.made=", "data.train=none"], "model.channels must be 1 or 3, got 4"),
        (
            ["model.channels=1", "data.mean=[0.1,0.2,0.3]"],
            r"data\.mean needs a .* model\.channels is 1; got \[0\.1",
        ),
        (["data.std=[0.2]"], r"data\.std needs a number for each channel, and model\.channels is 3; got \[0\.2\]"),
    ],
    ids=["two", "four", "three means", "one deviation"],
)
def test_channels_that_do_not_fit(recipe: str, settings: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        train(recipe, tmp_path / "run", *settings)
    assert not (tmp_path / "run").exists()


def test_a_bare_model_is_not_evaluated() -> None:
    model: Any = ViT(ViTConfig(image_size=16, patch_size=8, dim=8, layers=1, heads=2))
    with pytest.raises(ValueError, match="has no head and knows no classes, so there is nothing to evaluate"):
        build_data(ImageSettings(made="shapes"), "test", Recogniser(model, Pixels()))


def test_what_is_known_before_the_model_is_built(recipe: str) -> None:
    job, _ = read(recipe)
    assert survey(job, None) == Artifacts(labels=CLASSES, pixels=Pixels())
    job, _ = read(recipe, ["data.mean=[0,0,0.5]"])
    assert survey(job, None) == Artifacts(labels=CLASSES, pixels=Pixels(mean=(0.0, 0.0, 0.5)))
