"""Data of one's own, of every task: in files that may change before a training goes on, or as rows in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_data import FILES, ROWS, picture, recipe
from PIL import Image

import regard
from regard.base.memory_rows import rows_of
from regard.errors import BadInput, DataError, RecipeError, RunError
from regard.runs.replacing import check_replaceable


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """The folder with a task's data and its run in `run`, and the run. Tests only read it."""

    @cache
    def train(task: str) -> tuple[Path, Any]:
        folder = tmp_path_factory.mktemp(task)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            return folder, regard.train(recipe(task), out="run", set={"data.train": FILES[task](folder)})

    return train


@pytest.fixture
def begun(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Callable[..., regard.Run]]:
    """A copy of that as the current folder, and a function that goes on with the training."""

    def copy(task: str) -> Callable[..., regard.Run]:
        shutil.copytree(trained(task)[0], tmp_path / "copy")
        monkeypatch.chdir(tmp_path / "copy")
        name = {"recognise": "images", "fewshot": "images", "generate": "train.txt"}.get(task, "train.tsv")
        name = "train.txt" if task in ("fill", "embed") else name
        changes = {"data.train": name, "train.steps": 3}
        return lambda **options: regard.train(recipe(task), out="run", set=changes, resume=True, **options)

    return copy


def lines_changed(change: Callable[[list[str]], list[str]]) -> Callable[[], str]:
    def go() -> str:
        path = Path("train.tsv") if Path("train.tsv").exists() else Path("train.txt")
        path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
        return path.name

    return go


def swapped(lines: list[str]) -> list[str]:
    return [*lines[:20], lines[20].replace("the", "any"), *lines[21:]]


TEXT = {
    "a word": lines_changed(swapped),
    "appended": lines_changed(lambda lines: [*lines, *lines[:3]]),
    "halved": lines_changed(lambda lines: lines[: len(lines) // 2]),
    "sorted": lines_changed(sorted),
    "the last line moved": lines_changed(lambda lines: [lines[-1], *lines[:-1]]),
}
LABELS = {
    "a label": lines_changed(lambda lines: [lines[0].replace("\ta", "\tb"), *lines[1:]]),
    "a class removed": lines_changed(lambda lines: [line for line in lines if not line.endswith("\tc\n")]),
    "a class renamed": lines_changed(lambda lines: [line.replace("\tc", "\td") for line in lines]),
}


def image_changed() -> str:
    Image.fromarray(picture(99)).save("images/a/0.png")
    return "images/a"


def image_moved() -> str:
    Path("images/a/0.png").rename("images/b/0.png")
    return "images/b"


def image_removed() -> str:
    Path("images/c/2.png").unlink()
    return "images/c: 10 files then, 9 now"


def image_added() -> str:
    shutil.copy("images/c/2.png", "images/c/copy.png")
    return "images/c: 10 files then, 11 now"


def class_removed() -> str:
    shutil.rmtree("images/d")
    return "images/d: no longer there"


def photo_changed() -> str:
    Image.fromarray(picture(99)).save("photos/3.png")
    return "photos: "


IMAGES = {each.__name__: each for each in (image_changed, image_moved, image_removed, image_added, class_removed)}
WAYS = [
    *(("classify", change) for change in {**TEXT, **LABELS}.values()),
    *(("translate", change) for change in TEXT.values()),
    *((task, change) for task in ("generate", "fill", "embed") for change in (TEXT["a word"], TEXT["appended"])),
    *((task, change) for task in ("recognise", "fewshot") for change in IMAGES.values()),
    *(("caption", change) for change in (TEXT["a word"], photo_changed)),
]


@pytest.mark.parametrize(("task", "change"), WAYS)
def test_data_that_changed_is_refused_by_name(task: str, change: Callable[[], str], begun: Any) -> None:
    go_on = begun(task)
    log, checkpoint = Path("run/log.jsonl").read_bytes(), sorted(Path("run").rglob("*"))
    name = change()
    with pytest.raises(DataError, match=r"the data is not what the training in run was begun with: ") as caught:
        go_on()
    assert name in str(caught.value)
    assert "--accept-changed-data (in Python: accept_changed_data=True)" in str(caught.value)
    assert (Path("run/log.jsonl").read_bytes(), sorted(Path("run").rglob("*"))) == (log, checkpoint)


@pytest.mark.parametrize("task", FILES)
def test_data_that_is_the_same_goes_on(task: str, begun: Any) -> None:
    go_on = begun(task)
    for path in (path for path in Path().rglob("*") if "run" not in path.parts):
        path.touch()  # a time says nothing
    assert go_on().report.step == 3
    check_replaceable(Path("run"))  # nothing is in it that `overwrite` does not know


def test_changed_data_is_accepted_once_and_noted(begun: Any, capsys: pytest.CaptureFixture[str]) -> None:
    go_on = begun("classify")
    size = Path("train.tsv").stat().st_size
    TEXT["appended"]()
    said = f"train.tsv: {size:,} bytes then, {Path('train.tsv').stat().st_size:,} now"
    go_on(accept_changed_data=True)
    assert f"Going on with changed data: {said}" in capsys.readouterr().err
    rows = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    assert {"step": 2, "changed_data": [said]} in rows
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3]
    before = Path("run/log.jsonl").read_bytes()
    go_on()  # this is its data now, and it is already trained
    assert Path("run/log.jsonl").read_bytes() == before


def test_a_run_without_a_record_goes_on_as_before(begun: Any) -> None:
    go_on = begun("classify")
    Path("run/data.json").unlink()
    TEXT["a word"]()
    assert go_on().report.step == 3
    assert json.loads(Path("run/data.json").read_text()).keys() == {"train.tsv"}


def test_a_record_that_cannot_be_read_is_refused(begun: Any) -> None:
    go_on = begun("classify")
    for text in ("{", "[1]", '{"train.tsv": 3}'):
        Path("run/data.json").write_text(text)
        with pytest.raises(RunError, match=r"run/data\.json cannot be read .*; delete it to go on without"):
            go_on()


# ---- rows in memory


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("task", FILES)
def test_rows_train_and_are_evaluated_as_files_are(task: str, trained: Any, here: Path) -> None:
    folder, of_files = trained(task)
    rows = ROWS[task]
    run: Any = regard.train(recipe(task), out="run", data={"train": rows, "test": rows})
    assert run.report.best == of_files.report.best
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        wanted = of_files.evaluate(of_files.folder.recipe["data"]["train"]).metrics
    assert run.evaluate(rows).metrics == wanted
    assert run.evaluate().metrics == wanted, "the rows given for test"
    assert 'train = "(rows in memory)"' in Path("run/recipe.toml").read_text()
    card = Path("run/README.md").read_text()
    assert "`regard.train('recipe.toml', data=...)`" in card
    assert "the data was given in memory and is in no file; give the same rows again" in card
    with pytest.raises(DataError, match="the data was given in memory and is in no file"):
        regard.load("run").evaluate()


def test_an_array_of_images_has_its_labels_in_an_array_or_a_list() -> None:
    images, labels = np.zeros((2, 4, 4, 3), np.uint8), ["a", "b"]
    for held in (labels, np.array(labels), tuple(labels)):
        assert [label for _, label in rows_of((images, held), "data").rows] == labels


def test_rows_go_on_only_with_the_same_rows(here: Path) -> None:
    rows, changes = ROWS["classify"], {"train.steps": 3}
    regard.train(recipe("classify"), out="run", data={"train": rows})
    other = [*rows[:-1], (rows[-1][0], "a")]
    with pytest.raises(DataError, match=r"train \(rows in memory\): other contents"):
        regard.train(recipe("classify"), out="run", set=changes, resume=True, data={"train": other})
    with pytest.raises(DataError, match=r"train \(rows in memory\): 60 rows then, 59 now"):
        regard.train(recipe("classify"), out="run", set=changes, resume=True, data={"train": rows[1:]})
    with pytest.raises(DataError, match="the data was given in memory and is in no file; give the same rows again"):
        regard.train("run/recipe.toml", out="run", set=changes, resume=True)
    run = regard.train(recipe("classify"), out="run", set=changes, resume=True, data={"train": rows})
    assert run.report is not None
    assert run.report.step == 3


class Frame:
    """As pandas has it: iterating gives the names of the columns."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.columns = rows, list(rows[0])

    def __iter__(self) -> Any:
        return iter(self.columns)

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


class Dataset:
    """As Hugging Face has it: iterating gives dicts, and numbers of classes have names."""

    def __init__(self, rows: list[dict[str, Any]], names: list[str]) -> None:
        self.rows = [{**row, "label": names.index(row["label"])} for row in rows]
        self.features = {"text": object(), "label": type("ClassLabel", (), {"names": names})()}

    def __iter__(self) -> Any:
        return iter(self.rows)


def test_rows_may_have_any_form_that_people_hold(trained: Any) -> None:
    """Each is evaluated as the pairs are."""
    _, run = trained("classify")
    pairs = ROWS["classify"]
    dicts = [{"text": text, "label": label} for text, label in pairs]
    texts, labels = zip(*pairs, strict=True)
    wanted = run.evaluate(pairs)
    for rows in (
        [list(pair) for pair in pairs],
        dicts,
        [{"sentence": text, "category": label, "id": 3} for text, label in pairs],
        Frame(dicts),
        Dataset(dicts, ["c", "b", "a"]),
        {"text": list(texts), "label": list(labels)},
        (pair for pair in pairs),
    ):
        assert run.evaluate(rows) == wanted
    named = [{"body": text, "said": label} for text, label in pairs]
    assert run.evaluate(named, columns="body,said") == wanted


def test_images_in_memory_may_be_of_any_form(trained: Any, tmp_path: Path) -> None:
    _, run = trained("recognise")
    rows = ROWS["recognise"]
    wanted = run.evaluate(rows).metrics
    files = []
    for place, (image, label) in enumerate(rows):
        Image.fromarray(image).save(tmp_path / f"{place}.png")
        files.append((tmp_path / f"{place}.png", label))
    pillow = [(Image.fromarray(image), label) for image, label in rows]
    encoded = [{"image": {"bytes": path.read_bytes(), "path": None}, "label": label} for path, label in files]
    floats = [(image / 255, label) for image, label in rows]
    tensors = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in rows]
    mixed = [pair[place % 3] for place, pair in enumerate(zip(pillow, floats, tensors, strict=True))]
    named = [(str(path), label) for path, label in files]
    for form in (files, named, pillow, encoded, floats, tensors, mixed):
        assert run.evaluate(form).metrics == pytest.approx(wanted)


def test_a_training_with_tensors_goes_on_with_the_same_ones(here: Path) -> None:
    """Of any precision: their contents are noted too."""
    held = [(torch.from_numpy(image).permute(2, 0, 1), label) for image, label in ROWS["recognise"]]
    rows = [(image.div(255).bfloat16(), label) for image, label in held]
    run = regard.train(recipe("recognise"), out="run", data={"train": rows, "valid": rows})
    assert run.evaluate(rows).counts["images"] == len(rows)
    other = [(1 - rows[0][0], rows[0][1]), *rows[1:]]
    with pytest.raises(DataError, match=r"train \(rows in memory\): other contents"):
        regard.train(recipe("recognise"), out="run", data={"train": other, "valid": rows}, resume=True)


@pytest.mark.parametrize(
    ("task", "rows", "said"),
    [
        ("classify", [("a", "b", "c", 1, 2)], r"data\[0\]: 'label' must be text"),
        (
            "classify",
            [("fine", "a"), "alone"],
            r"data\[1\] must be a dict or \(text, label\) or \(text1, .*'alone'",
        ),
        ("classify", [{"text": 3, "label": "a"}], r"data\[0\]: 'text' must be text, got 3"),
        ("classify", [("", "a")], r"data\[0\]: the text is empty"),
        ("classify", [("fine", "z")], r"data\[0\]: the label 'z' is no class of this model"),
        ("classify", [], "data has no rows; it needs at least one"),
        ("classify", {"text": ["a"], "label": []}, "data: columns must be of one length, got 1, 0"),
        ("translate", [("alone",)], r"data\[0\] must be a dict or \(source, target\)"),
        ("generate", [3], r"data\[0\]: 'text' must be text, got 3"),
        ("recognise", [(picture(1) / 1.0, "a")], r"data\[0\]: an image must be .* got .*float64.* divide by 255"),
        ("recognise", [(object(), "a")], r"data\[0\]: an image must be .* a torch tensor .* got object"),
        ("caption", [(picture(1), "")], r"data\[0\]: the caption is empty"),
    ],
)
def test_rows_that_cannot_be_used_say_which(task: str, rows: Any, said: str, trained: Any) -> None:
    with pytest.raises(DataError, match=said):
        trained(task)[1].evaluate(rows)


def test_data_is_rows_by_the_names_of_splits(here: Path) -> None:
    rows = ROWS["classify"]
    for data in (
        {"valid": rows},
        rows,
        {"train": rows, "dev": rows},
        {"train": rows, "valid": rows, "validation": 1},
    ):
        with pytest.raises(
            RecipeError, match=r'data must be a dict with rows under "train"|allowed are train, valid'
        ):
            regard.train(recipe("classify"), out="run", data=data)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"data\['train'\] must be rows .* got 3 \(int\)"):
        regard.train(recipe("classify"), out="run", data={"train": 3})  # type: ignore[dict-item]
    with pytest.raises(RecipeError, match=r"data\.train is set to 'x\.tsv' and given as rows too; give one"):
        regard.train(recipe("classify"), out="run", set={"data.train": "x.tsv"}, data={"train": rows})
    assert not Path("run").exists()


def test_rows_stand_beside_files_and_replace_a_generated_set(here: Path) -> None:
    Path("valid.tsv").write_text("the cat\ta\nthe dog\tb\n")
    reviews = recipe("classify")
    reviews["data"] |= {"made": "reviews"}
    run = regard.train(reviews, out="run", data={"train": ROWS["classify"], "validation": "valid.tsv"})
    assert run.model.config.labels == ("a", "b", "c")
    assert json.loads(Path("run/data.json").read_text()).keys() == {"train (rows in memory)", "valid.tsv"}


def test_several_references_are_further_places_or_a_list(trained: Any) -> None:
    _, run = trained("translate")
    once = run.evaluate([("the cat", "THE CAT", "A CAT")])
    assert once == run.evaluate([{"source": "the cat", "target": ["THE CAT", "A CAT"]}])
