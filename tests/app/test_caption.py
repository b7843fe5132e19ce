"""`regard caption`, and how `train`, `evaluate` and `compare` treat images with captions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from regard.data.made.scenes import scenes
from regard.runs.folder import save_weights
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load
from regard.tasks.core.training import train

RECIPE = """# A few tiny steps.
[data]
made = "scenes"
train_count = 24
valid_count = 4
test_count = 6
batch_size = 8

[tokens]
kind = "word"

[model]
name = "show_attend_tell"
image_size = 32
depths = [1, 1]
widths = [4, 8]
reduction = 2
embed = 8
decoder = 12

[train]
steps = 2
eval_every = 2

[decode]
max_length = 8
"""
SCENES = scenes("test", 6)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return str(path)


def lively(folder: Path, recipe: str, *changes: str) -> str:
    """A run with drawn weights, whose answers differ from image to image. Tests only read it."""
    job, text = read(recipe, changes)
    train(job, folder, recipe=text, command="regard train tiny")
    model = load(folder).model.cpu()
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.5)
    save_weights(folder, model)
    return str(folder)


@pytest.fixture(scope="module")
def teller(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> str:
    return lively(tmp_path_factory.mktemp("teller") / "soft", recipe)


@pytest.fixture(scope="module")
def vector(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> str:
    """Without attention."""
    return lively(tmp_path_factory.mktemp("vector") / "none", recipe, "model.name=show_and_tell")


@pytest.fixture(autouse=True)
def images(call: Any) -> None:
    """Images where the command is called, some of them in a folder."""
    Path("photos/more").mkdir(parents=True)
    for number, name in enumerate(("a.png", "photos/b c.jpg", "photos/more/d.webp")):
        Image.fromarray(SCENES.images.read(number)).save(name)


def told(run: str, name: str, **options: Any) -> str:
    return load(run, "cpu").caption(name, **options).line() + "\n"  # type: ignore[attr-defined]


# ---- asking


def test_an_image_a_folder_and_a_list(call: Any, teller: str) -> None:
    done = call("caption", teller, "a.png")
    assert (done.code, done.err) == (0, "")
    assert done.out == told(teller, "a.png")
    assert done.out.startswith("a.png\t")
    done = call("caption", teller, "photos", "a.png")
    names = ("photos/b c.jpg", "photos/more/d.webp", "a.png")
    assert (done.code, done.out) == (0, "".join(told(teller, name) for name in names))
    Path("list.txt").write_text("photos/b c.jpg\n\nphotos\n")
    done = call("caption", teller, "--input", "list.txt")
    assert (done.code, done.out) == (0, "".join(told(teller, name) for name in (names[0], *names[:2])))


def test_options_of_the_search(call: Any, teller: str) -> None:
    done = call("caption", teller, "a.png", "--beam", "4", "--n-best", "2", "--min-length", "2")
    assert (done.code, done.out) == (0, told(teller, "a.png", beam=4, n_best=2, min_length=2))
    assert [len(line.split("\t")) for line in done.out.splitlines()] == [3, 3]
    drawn = call("caption", teller, "a.png", "--temperature", "2", "--seed", "5").out
    assert drawn == told(teller, "a.png", temperature=2.0, seed=5)


def test_json_and_a_file(call: Any, teller: str) -> None:
    done = call("caption", teller, "a.png", "photos", "--json", "--n-best", "2", "--output", "out.jsonl")
    assert (done.code, done.out, done.err) == (0, "", "")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["file"] for row in rows] == ["a.png", "photos/b c.jpg", "photos/more/d.webp"]
    assert list(rows[0]) == ["input", "file", "text", "score", "others"]
    assert list(rows[0]["others"][0]) == ["text", "score"]


def test_a_bad_file_does_not_cost_the_others(call: Any, teller: str) -> None:
    Path("photos/broken.png").write_bytes(b"no image")
    done = call("caption", teller, "photos", "none.png", "a.png")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[1] == "photos/broken.png\t"
    assert lines[3] == "none.png\t"
    assert f"{lines[0]}\n{lines[4]}\n" == told(teller, "photos/b c.jpg") + told(teller, "a.png")
    assert done.err.startswith("error: 2 of 5 images were not answered:\n  photos/broken.png cannot be decoded")
    assert "none.png does not exist" in done.err
    done = call("caption", teller, "photos", "--n-best", "2")
    assert done.out.splitlines()[2:4] == ["photos/broken.png\t\t"] * 2
    done = call("caption", teller, "photos", "--json")
    row = json.loads(done.out.splitlines()[1])
    assert (done.code, row["input"]) == (1, "photos/broken.png")
    assert "cannot be decoded" in row["error"]


def test_a_folder_without_images_and_an_empty_file_do_not_cost_the_others(call: Any, teller: str) -> None:
    Path("d.jpg").mkdir()
    Path("zero.png").write_bytes(b"")
    done = call("caption", teller, "d.jpg", "zero.png", "a.png")
    assert done.code == 1
    assert done.out == "d.jpg\t\nzero.png\t\n" + told(teller, "a.png")
    assert "d.jpg holds no images (.bmp" in done.err
    assert "zero.png cannot be decoded as PNG, JPEG, WEBP, BMP, GIF, TIFF: it is empty" in done.err
    done = call("caption", teller, "d.jpg")  # alone, it is an error
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: d.jpg holds no images")


def test_strict_stops_at_a_bad_file(call: Any, teller: str) -> None:
    Path("broken.png").write_bytes(b"no image")
    done = call("caption", teller, "a.png", "broken.png", "--strict", "--output", "out.tsv")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: broken.png cannot be decoded as PNG, JPEG")
    assert not Path("out.tsv").exists()
    done = call("caption", teller, "broken.png")  # alone, it is an error
    assert (done.code, done.out) == (2, "")


def test_bad_lines_of_a_list(call: Any, teller: str) -> None:
    Path("list.txt").write_bytes(b"a.png\nnone.png\n\xff.png\nempty\n")
    Path("empty").mkdir()
    done = call("caption", teller, "--input", "list.txt")
    assert done.code == 1
    assert done.out == told(teller, "a.png") + "none.png\t\n\t\nempty\t\n"  # one of them has no name
    assert "list.txt, line 2: none.png does not exist" in done.err
    assert "list.txt, line 3: " in done.err
    assert "list.txt, line 4: empty holds no images" in done.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "give image files, folders of them, or a list of their names with --input"),
        (["a.png", "--input", "list.txt"], "give images or --input, not both"),
        (["a.png", "--beam", "0"], "Invalid value for '--beam'"),
        (["a.png", "--show", "look.bmp"], "look.bmp"),
        (["a.png", "--show", "a.png"], "a.png is one of the inputs and would be overwritten"),
        (["a.png", "--show", "look.png", "--sites", "nothing"], "no site has a name like 'nothing'"),
        (["a.png", "--sites", "attend"], "--sites says what to draw; say where with --show FILE"),
        (["a.png", "--min-length", "8"], "min_length must be below max_length = 8"),
    ],
)
def test_what_was_asked_wrongly(call: Any, teller: str, words: list[str], error: str) -> None:
    done = call("caption", teller, *words)
    assert (done.code, done.out) == (2, "")
    assert error in " ".join(done.err.split())


def test_runs_that_cannot_be_asked(call: Any, teller: str) -> None:
    done = call("caption", "shapes", "a.png")
    assert done.code == 2
    assert "shapes has the model ViT, for `regard recognise` and not for `regard caption`" in done.err
    done = call("recognise", teller, "a.png")
    assert done.code == 2
    assert "has the model ShowAttendTell, for `regard caption` and not for `regard recognise`" in done.err


# ---- pictures


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_a_panel_for_each_word(call: Any, teller: str, suffix: str) -> None:
    done = call("caption", teller, "a.png", "--show", f"look.{suffix}", "--max-length", "4", "--min-length", "3")
    assert (done.code, done.err) == (0, f"wrote look.{suffix}\n")
    if suffix == "png":
        with Image.open("look.png") as drawn:
            assert drawn.size[0] > drawn.size[1] > 200
        return
    content = Path(f"look.{suffix}").read_text()
    for word in done.out.split("\t")[1].split():
        assert f">{word}<" in content or word in content
    assert not re.search(r"https?:(?!//www\.w3\.org)", content)  # nothing is fetched


def test_several_are_numbered_and_one_is_drawn_in_the_terminal(call: Any, teller: str) -> None:
    done = call("caption", teller, "photos", "--show", "look.svg")
    assert done.err == "wrote look-1.svg\nwrote look-2.svg\n"
    done = call("caption", teller, "a.png", "--show", "-")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) > 5


def test_what_the_network_and_the_lstm_opened(call: Any, teller: str, vector: str) -> None:
    for run, words in ((teller, ["--sites", "eye.*"]), (teller, ["--sites", "cell"]), (vector, [])):
        done = call("caption", run, "a.png", "--show", "gates.svg", *words)
        assert (done.code, done.err) == (0, "wrote gates.svg\n")
        assert ("excite" in Path("gates.svg").read_text()) == ("eye.*" in words)


# ---- training, evaluation, comparison


def test_training_says_what_it_made(call: Any, recipe: str) -> None:
    done = call("train", recipe, "--out", "mine", "--set", "model.weigh=hard")
    assert done.code == 0
    assert "exact_match" in done.err
    assert "cider" in done.err
    card = Path("mine/README.md").read_text()
    assert "generated set `scenes`, 24 images, 24 captions" in card
    assert "regard caption DIR FILE --show looks.png" in card
    assert call("caption", "mine", "a.png").code == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("data.made=shapes", "unknown generated set 'shapes'; there are scenes"),
        ("data.train=captions.tsv", "set either data.made to a generated set (scenes) or data.train to a file"),
        ("data.mixup=0.2", "unknown key of [data]: 'mixup'"),
        ("data.std=[0, 1, 1]", "std must be above 0"),
        ("data.mean=[0.5]", "data.mean needs a number for each channel, and model.channels is 3"),
        ("train.best_by=bleu", "best_by must be valid_loss or exact_match or bleu4 or cider"),
    ],
)
def test_settings_that_are_wrong(call: Any, recipe: str, change: str, error: str) -> None:
    done = call("train", recipe, "--out", "mine", "--set", change)
    assert (done.code, done.out) == (2, "")
    assert error in " ".join(done.err.split())


def test_evaluation_draws_a_sheet(call: Any, teller: str, vector: str) -> None:
    done = call("evaluate", teller, vector, "--show", "sheet.html", "--beam", "2")
    assert (done.code, done.err) == (0, "wrote sheet.html\n")
    for word in (
        "cider",
        "bleu4",
        "rouge_l",
        "pointing",
        "pointing_near_by_chance",
        "paired bootstrap",
        "6 generated examples (scenes)",
    ):
        assert word in done.out
    assert "soft: " in Path("sheet.html").read_text()
    found = json.loads(call("evaluate", teller, "--json", "--beam", "2").out)
    assert found["images"] == 6
    assert found["pointing"] <= found["pointing_near"]
    assert found["pointing_by_chance"] > 0


def test_captions_of_ones_own(call: Any, teller: str, recipe: str) -> None:
    """A file of captions beside the images, or with the images elsewhere; then what is wrong with it."""
    Path("captions.tsv").write_text("a.png\ta white triangle\na.png\ta triangle\nphotos/b c.jpg\ta green circle\n")
    found = json.loads(call("evaluate", teller, "--data", "captions.tsv", "--json").out)
    assert (found["images"], found["captions"], found["data"]) == (2, 3, "captions.tsv")
    assert "pointing" not in found
    Path("lists").mkdir()
    shutil.move("captions.tsv", "lists/captions.tsv")
    done = call("evaluate", teller, "--data", "lists/captions.tsv")
    assert done.code == 2
    assert "a.png" in done.err
    done = call("evaluate", teller, "--data", "lists/captions.tsv", "--images", ".")
    assert (done.code, done.err) == (0, "")
    changes = ("data.made=", "data.train=lists/captions.tsv", "data.images=.", "data.valid_fraction=0.4")
    done = call("train", recipe, "--out", "mine", *(word for one in changes for word in ("--set", one)))
    assert done.code == 0, done.err
    assert "`captions.tsv`, 1 images, " in Path("mine/README.md").read_text()
    done = call("evaluate", "mine")
    assert "the part held out of lists/captions.tsv" in done.out
    assert call("evaluate", "dates", "--images", ".").code == 2
    done = call("evaluate", teller, "--images", ".")
    assert (done.code, done.err) == (2, "error: images . are named, and scenes is generated; name captions too\n")


def test_parts_of_one_file_by_lists_of_names(call: Any, recipe: str) -> None:
    Path("captions.jsonl").write_text(
        "".join(
            json.dumps({"image": name, "caption": ["a star", "one star"]}) + "\n"
            for name in ("a.png", "photos/b c.jpg", "photos/more/d.webp")
        )
    )
    for part, name in (("train", "a.png"), ("valid", "photos/b c.jpg"), ("test", "photos/more/d.webp")):
        Path(f"{part}.txt").write_text(f"{name}\n")
    names = [f"data.{part}_names={part}.txt" for part in ("train", "valid", "test")]
    changes = ("data.made=", "data.train=captions.jsonl", *names)
    done = call("train", recipe, "--out", "mine", *(word for one in changes for word in ("--set", one)))
    assert done.code == 0, done.err
    assert "1 images, 2 captions" in Path("mine/README.md").read_text()
    done = call("evaluate", "mine")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "evaluated on captions.jsonl, test.txt"
    assert "images       1" in done.out


def test_a_comparison(call: Any, recipe: str, inline: None) -> None:
    done = call(
        *("compare", recipe, "--vary", "model.weigh=soft,hard", "--metric", "exact_match", "--seeds", "1"),
        *("--out", "twins"),
    )
    assert done.code == 0
    assert "| soft | 0.00 |" in done.out
    assert "| hard | 0.00 |" in done.out
