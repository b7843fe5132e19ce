"""`regard recognise`, and how `evaluate`, `compare` and `train` treat images."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.artifacts import Artifacts, Pixels
from regard.data.made.shapes import CLASSES, shapes
from regard.models.senet import SENet, SENetConfig
from regard.models.vit import ViT, ViTConfig
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import load

RECIPE = """
[data]
made = "shapes"
train_count = 60
valid_count = 12
test_count = 18
batch_size = 20

[model]
name = "vit"
image_size = 16
patch_size = 8
dim = 16
layers = 2
heads = 2

[train]
steps = 2
eval_every = 2
"""
IMAGES: Any = shapes("valid", 18, size=24)


def saved(folder: Path, **changes: Any) -> str:
    """A run with drawn weights, whose answers differ from image to image."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        "image_size": 16,
        "patch_size": 8,
        "dim": 16,
        "layers": 2,
        "heads": 2,
        "labels": CLASSES,
    }
    model: Any = ViT(ViTConfig(**{**sizes, **changes}))
    with torch.no_grad():
        for weight in model.parameters():
            weight += torch.randn_like(weight) / (weight[0].numel() ** 0.5 if weight.dim() > 1 else 4)
    pixels = Pixels((0.5,) * model.config.channels, (0.5,) * model.config.channels)
    begin(folder, model, Artifacts(labels=model.config.labels, pixels=pixels), "")
    save_weights(folder, model)
    return str(folder)


@pytest.fixture(scope="module")
def seer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a run. Tests only read it, and the next."""
    return saved(tmp_path_factory.mktemp("seer") / "run")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("bare") / "run", labels=())


@pytest.fixture(autouse=True)
def images(call: Any) -> None:
    """Three images where the command is called, one of them in a folder."""
    Path("more").mkdir()
    for number, path in enumerate(("a.png", "b c.png", "more/d.jpg")):
        Image.fromarray(IMAGES.pixels[number]).save(path)


def told(run: str, path: str, top: int = 1) -> str:
    found = load(run).recognise(path, top).probabilities
    return "".join(f"{path}\t{label}\t{share:.4f}\n" for label, share in found.items())


# ---- answers


def test_a_line_for_each_image(call: Any, seer: str) -> None:
    done = call("recognise", seer, "a.png", "b c.png", "more")
    assert (done.code, done.err) == (0, "")
    assert done.out == told(seer, "a.png") + told(seer, "b c.png") + told(seer, "more/d.jpg")


def test_the_likeliest_few(call: Any, seer: str) -> None:
    done = call("recognise", seer, "b c.png", "--top", "3")
    assert (done.code, done.err) == (0, "")
    assert done.out == told(seer, "b c.png", 3)
    assert done.out.count("\n") == 3
    assert call("recognise", seer, "a.png", "--top", "99").out.count("\n") == 6


def test_json_has_the_probabilities(call: Any, seer: str) -> None:
    done = call("recognise", seer, "a.png", "more", "--top", "2", "--json")
    assert (done.code, done.err) == (0, "")
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row, path in zip(rows, ("a.png", "more/d.jpg"), strict=True):
        answer = load(seer).recognise(path, 2)
        assert list(row) == ["input", "file", "label", "probabilities"]
        assert (row["file"], row["label"]) == (path, answer.label)
        assert row["probabilities"] == pytest.approx(answer.probabilities, abs=1e-6)
        assert list(row["probabilities"]) == list(answer.probabilities)


def test_to_a_file(call: Any, seer: str) -> None:
    done = call("recognise", seer, "a.png", "--output", "answers.tsv")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert Path("answers.tsv").read_text() == told(seer, "a.png")


def test_nothing_is_left_of_a_file_that_broke_off(call: Any, seer: str) -> None:
    Path("broken.png").write_bytes(b"no")
    done = call("recognise", seer, "a.png", "broken.png", "--output", "answers.tsv", "--strict")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: broken.png cannot be decoded as PNG, JPEG")
    assert not Path("answers.tsv").exists()


def test_what_came_before_a_broken_image_is_answered(call: Any, seer: str) -> None:
    Path("broken.png").write_bytes(b"no")
    done = call("recognise", seer, "a.png", "broken.png", "--strict")
    assert (done.code, done.out) == (2, told(seer, "a.png"))
    assert done.err.startswith("error: broken.png cannot be decoded as PNG, JPEG")


@pytest.mark.parametrize("option", ["--show", "--output"])
def test_an_image_is_not_overwritten(call: Any, seer: str, option: str) -> None:
    before = Path("a.png").read_bytes()
    done = call("recognise", seer, "a.png", option, str(Path("a.png").absolute()))
    assert (done.code, done.out) == (2, "")
    assert "a.png is one of the inputs and would be overwritten; take another name" in done.err
    assert Path("a.png").read_bytes() == before


def test_nor_are_several_by_numbered_overlays(call: Any, seer: str) -> None:
    before = Path("a.png").read_bytes()
    Path("a-2.png").write_bytes(before)
    done = call("recognise", seer, "a-2.png", "a.png", "--show", "a.png")  # which writes a-1.png and a-2.png
    assert (done.code, done.out) == (2, "")
    assert "a-2.png is one of the inputs and would be overwritten; take another name" in done.err
    assert Path("a-2.png").read_bytes() == before
    assert Path("a.png").read_bytes() == before


# ---- pictures of where it looked


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_an_overlay_is_drawn(call: Any, seer: str, suffix: str) -> None:
    done = call("recognise", seer, "a.png", "--show", f"look.{suffix}")
    assert (done.code, done.err) == (0, f"wrote look.{suffix}\n")
    assert done.out == told(seer, "a.png")
    content = Path(f"look.{suffix}").read_bytes()
    if suffix == "png":
        with Image.open(f"look.{suffix}") as drawn:
            assert drawn.size[0] > drawn.size[1] > 200
        return
    label = load(seer).recognise("a.png").label
    for word in ("a.png", "rollout", "blocks.1.attend", label, *(["24 × 24"] if suffix == "svg" else [])):
        assert word in content.decode(), word
    assert not re.search(rb"https?:(?!//www\.w3\.org)", content)  # nothing is fetched


def test_several_are_numbered(call: Any, seer: str) -> None:
    done = call("recognise", seer, "a.png", "more", "--show", "look.svg")
    assert (done.code, done.err) == (0, "wrote look-1.svg\nwrote look-2.svg\n")
    assert "a.png" in Path("look-1.svg").read_text()
    assert "d.jpg" in Path("look-2.svg").read_text()
    assert not Path("look.svg").exists()


def test_heads_of_the_sites_that_are_named(call: Any, seer: str) -> None:
    done = call("recognise", seer, "a.png", "--show", "heads.svg", "--sites", "blocks.0.*")
    assert done.code == 0
    drawn = Path("heads.svg").read_text()
    assert "blocks.0.attend, head 1" in drawn
    assert "rollout" not in drawn
    assert "blocks.1" not in drawn


def test_in_the_terminal(call: Any, seer: str) -> None:
    done = call("recognise", seer, "a.png", "--show", "-")
    assert (done.code, done.err) == (0, "")
    first, title, *rest = done.out.splitlines()
    assert (first + "\n", title) == (told(seer, "a.png"), "a.png")
    assert any(line.split() == ["rollout", "blocks.1.attend"] for line in rest)
    assert any(shade in done.out for shade in "░▒▓█")
    assert "\x1b" not in done.out


# ---- channels instead of places


@pytest.fixture(scope="module")
def weigher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A network with squeeze-and-excitation."""
    return weighing(tmp_path_factory.mktemp("weigher") / "run", reduction=2)


def weighing(folder: Path, reduction: int) -> str:
    torch.manual_seed(2)
    config = SENetConfig(CLASSES, image_size=16, depths=(1, 1), widths=(4, 8), reduction=reduction)
    model = SENet(config)
    begin(folder, model, Artifacts(labels=CLASSES, pixels=Pixels((0.5,) * 3, (0.5,) * 3)), "")
    save_weights(folder, model)
    return str(folder)


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_gates_are_drawn(call: Any, weigher: str, suffix: str) -> None:
    done = call("recognise", weigher, "a.png", "--show", f"gates.{suffix}")
    assert (done.code, done.out, done.err) == (0, told(weigher, "a.png"), f"wrote gates.{suffix}\n")
    if suffix != "png":
        drawn = Path(f"gates.{suffix}").read_text()
        mean = ["8 channels: mean"] if suffix == "svg" else []
        assert all(text in drawn for text in ("stages.0.0.excite", "stages.1.0.excite", *mean))


def test_gates_of_the_sites_that_are_named(call: Any, weigher: str) -> None:
    done = call("recognise", weigher, "a.png", "--show", "-", "--sites", "stages.1.*")
    assert done.code == 0
    assert "stages.1.0.excite, 8 channels" in done.out
    assert "stages.0" not in done.out


def test_a_network_that_weighs_nothing_has_no_picture(call: Any, tmp_path: Path) -> None:
    run = weighing(tmp_path / "run", reduction=0)
    assert call("recognise", run, "a.png").code == 0
    for words in (["recognise", run, "a.png"], ["recognise", run, "a.png", "--sites", "*"]):
        done = call(*words, "--show", "x.png")
        assert (done.code, done.out) == (2, "")
        assert "weighs neither places nor channels: there is nothing to show" in done.err
    done = call("evaluate", run, "--data", "nosuch", "--show", "x.png")
    assert (done.code, done.out) == (2, "")
    assert "this model has no gates" in done.err
    assert not Path("x.png").exists()


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_the_mean_gates_of_each_class_are_drawn(call: Any, weigher: str, suffix: str) -> None:
    for number, label in enumerate(("ring", "star", "ring")):
        Path("test", label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(IMAGES.pixels[number]).save(f"test/{label}/{number}.png")
    plain = call("evaluate", weigher, "--data", "test")
    done = call("evaluate", weigher, "--data", "test", "--show", f"gates.{suffix}")
    assert (done.code, done.out) == (0, plain.out)
    assert done.err.endswith(f"wrote gates.{suffix}\n")
    if suffix != "png":
        drawn = Path(f"gates.{suffix}").read_text()
        assert all(re.search(f'[>"]{label}[<"]', drawn) for label in ("ring", "star"))
        assert not re.search('[>"]circle[<"]', drawn)  # there were no images of it
    made = load(weigher).class_gates("test")
    assert (made.rows, list(made.panels)) == (("ring", "star"), ["stages.0.0.excite", "stages.1.0.excite"])


# ---- asked wrongly


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["RUN"], "give image files, folders of them, or a list of their names with --input"),
        (["RUN", "a.png", "--input", "list.txt"], "give images or --input, not both"),
        (["RUN", "none.png"], "error: none.png does not exist; check the name"),
        (["RUN", "a.png", "--top", "0"], "Invalid value for '--top'"),
        (["RUN", "a.png", "--show", "look.pdf"], "end the name in .png or .svg or .html"),
        (["RUN", "a.png", "--show", "none/look.png"], "there is no folder none to draw"),
        (["RUN", "a.png", "--sites", "*"], "say where with --show FILE"),
        (["RUN", "a.png", "--show", "-", "--json"], "let --show name a file"),
        (["RUN", "a.png", "--show", "x.png", "--sites", "decoder.*"], "error: no attention has a name like"),
        (["RUN", "a.png", "--show", "x.png", "--pieces"], "No such option: --pieces"),
        (["RUN", "a.png", "--output", "more"], "error: more is a folder"),
        (["nosuch", "a.png"], "error: there is no run 'nosuch'"),
        (["dates", "a.png"], "has the model Bahdanau, for `regard translate` and not for `regard recognise`"),
        (["RUN", "empty"], "error: empty holds no images"),
        (
            ["RUN", "notes.txt"],
            "notes.txt cannot be decoded as PNG, JPEG, WEBP, BMP, GIF, TIFF: it has none of these formats",
        ),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_was_asked_wrongly(call: Any, seer: str, words: list[str], said: str) -> None:
    Path("empty").mkdir()
    Path("notes.txt").write_text("no image")
    done = call("recognise", *(seer if word == "RUN" else word for word in words))
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert not list(Path().glob("x*.png"))


def test_a_model_of_two_channels_is_refused_at_once(call: Any, tmp_path: Path) -> None:
    odd = saved(tmp_path / "odd", channels=2)
    np.savez("a.npz", images=IMAGES.pixels, labels=IMAGES.labels, classes=CLASSES)
    for words in (["recognise", odd, "a.png", "b c.png"], ["evaluate", odd, "--data", "a.npz"]):
        done = call(*words)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: images are grey or have red, green and blue: model.channels must be 1")
        assert done.err.count("\n") == 1


def test_a_bare_model_is_told_from_a_recogniser(call: Any, bare: str) -> None:
    for words in (["recognise", bare, "a.png"], ["evaluate", bare, "--data", "a.npz"]):
        np.savez("a.npz", images=IMAGES.pixels, labels=IMAGES.labels)
        done = call(*words)
        assert (done.code, done.out) == (2, "")
        assert "has no head and knows no classes" in done.err
        assert done.err.count("\n") == 1


# ---- evaluated


def by_hand(run: str) -> tuple[float, list[str]]:
    """By hand: accuracy in percent, and the answers."""
    answers = [one.label for one in load(run).recognise(list(IMAGES.pixels))]
    truths = [CLASSES[label] for label in IMAGES.labels]
    return 100 * sum(a == b for a, b in zip(answers, truths, strict=True)) / len(truths), answers


@pytest.mark.parametrize("form", ["folder", "npz", "columns"])
def test_images_to_evaluate_on_in_a_folder_or_a_file(call: Any, seer: str, form: str) -> None:
    words = ["--data", "set.npz"]
    if form == "folder":
        words = ["--data", "set"]
        for number, label in enumerate(IMAGES.labels):
            Path("set", CLASSES[label]).mkdir(parents=True, exist_ok=True)
            Image.fromarray(IMAGES.pixels[number]).save(f"set/{CLASSES[label]}/{number}.png")
    elif form == "npz":
        others = tuple(reversed(CLASSES))
        labels = [others.index(CLASSES[label]) for label in IMAGES.labels]
        np.savez("set.npz", images=IMAGES.pixels, labels=labels, classes=others)
    else:
        np.savez("set.npz", what=IMAGES.pixels, which=[CLASSES[label] for label in IMAGES.labels])
        words += ["--columns", "what,which"]
    done = call("evaluate", seer, *words, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    accuracy, answers = by_hand(seer)
    assert found["run"] == seer
    assert found["count"] == 18
    assert found["accuracy"] == pytest.approx(accuracy)
    assert found["accuracy_low"] <= accuracy <= found["accuracy_high"]
    assert [one["label"] for one in found["classes"]] == list(CLASSES)
    assert [one["answered"] for one in found["classes"]] == [answers.count(label) for label in CLASSES]
    assert np.sum(found["confusion"]) == 18


def test_a_table_of_scores_and_classes(call: Any, seer: str) -> None:
    np.savez("set.npz", images=IMAGES.pixels, labels=IMAGES.labels, classes=CLASSES)
    done = call("evaluate", seer, "--data", "set.npz")
    assert (done.code, done.err) == (0, "")
    scores, classes, confused, data = done.out.split("\n\n")
    assert data == "evaluated on set.npz\n"
    accuracy, answers = by_hand(seer)
    assert f"accuracy       {accuracy:.2f}" in scores
    assert [line.split()[0] for line in classes.splitlines()] == ["label", *CLASSES]
    truths = [CLASSES[label] for label in IMAGES.labels]
    wrong = Counter((truth, answer) for truth, answer in zip(truths, answers, strict=True) if truth != answer)
    head, *lines = map(str.split, confused.splitlines())
    assert head == ["label", "taken", "for", "times"]
    assert all(wrong[truth, answer] == int(times) for truth, answer, times in lines)
    assert [int(line[2]) for line in lines] == sorted(wrong.values(), reverse=True)[:10]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "does not say what it was trained on; name data to evaluate on: --data FILE"),
        (["--data", "none"], "none"),
        (["--data", "more"], "has no folders in it; it needs one for each class"),
        (["--data", "set.npz"], "set.npz, image 0: there are images of 'moon', but the classes are 'circle'"),
        (["--data", "set.npz", "--columns", "a,b"], "no array 'a'; the file has"),
        (["--data", "more", "--columns", "a,b"], "columns a,b are named, and there are none in more"),
        (["--data", "set.npz", "--columns", "a"], "columns must be IMAGE,LABEL, got 'a'"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_cannot_be_evaluated_on(call: Any, seer: str, words: list[str], said: str) -> None:
    np.savez("set.npz", images=IMAGES.pixels[:2], labels=["moon", "star"])
    done = call("evaluate", seer, *words)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.split())


# ---- trained


def test_grey_images_from_an_array_to_an_answer(call: Any) -> None:
    """Half dark and half light on one side, (N, H, W) bytes as Fashion-MNIST has: learned in a few steps."""
    dice = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = dice.integers(0, 40, (60, 12, 12), np.uint8)
    images[labels == 0, :, :6] += 200
    images[labels == 1, :, 6:] += 200
    np.savez("grey.npz", images=images, labels=labels, classes=["left", "right"])
    Path("tiny.toml").write_text(RECIPE)
    settings = ["data.made=", "data.train=grey.npz", "data.flip=false", "data.mean=[0.4]", "data.std=[0.4]"]
    settings += ["model.channels=1", "train.steps=20", "train.learning_rate=0.01", "train.eval_every=20"]
    done = call("train", "tiny.toml", "--out", "run", *(word for one in settings for word in ("--set", one)))
    assert done.code == 0, done.err
    found = json.loads(call("evaluate", "run", "--data", "grey.npz", "--json").out)
    assert (found["count"], found["accuracy"]) == (60, 100.0)
    Image.fromarray(images[0]).save("left.png")
    Image.fromarray(images[1]).convert("RGB").save("right.png")
    done = call("recognise", "run", "left.png", "right.png", "--show", "look.png")
    assert done.code == 0, done.err
    assert [line.split("\t")[1] for line in done.out.splitlines()] == ["left", "right"]
    assert load("run").recognise(list(images[:2]))[1].label == "right"


def test_trained_evaluated_and_asked(call: Any) -> None:
    Path("tiny.toml").write_text(RECIPE)
    done = call("train", "tiny.toml", "--out", "run")
    assert done.code == 0
    found = json.loads(call("evaluate", "run", "--json").out)
    assert found["count"] == 18  # the test part of the generated set
    assert call("recognise", "run", "a.png").out == told("run", "a.png")
    done = call("train", "tiny.toml", "--from", "run", "--set", "model.image_size=32", "--out", "larger")
    assert done.code == 0
    assert load("larger").model.config.grid == (4, 4)
    assert call("export", "larger", "--to", "hub").code == 0
    assert call("recognise", "hub", "a.png").out == call("recognise", "larger", "a.png").out


def test_two_variants_side_by_side(call: Any, inline: None) -> None:
    Path("tiny.toml").write_text(RECIPE)
    few = ["--seeds", "1", "--metric", "accuracy", "--out", "all"]
    done = call("compare", "tiny.toml", "--vary", "model.pool=class,mean", *few)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "| model.pool | seed 0 | mean | spread | loss | parameters |"
    assert "\naccuracy on the test data; higher is better\n" in done.out
    for line, pool in zip(lines[2:4], ("class", "mean"), strict=True):
        result = json.loads(Path(f"all/{pool}-0/result.json").read_text())
        assert load(f"all/{pool}-0").model.config.pool == pool
        assert line.startswith(f"| {pool} | {result['accuracy']:.2f} |")
        assert f"| {result['loss']:.4f} |" in line
    done = call("compare", "tiny.toml", "--metric", "bleu", "--out", "none")
    assert (done.code, done.out) == (2, "")
    assert "--metric must be one of accuracy, loss, macro_f1, matthews, got 'bleu'" in done.err
