"""`hf://dataset:split`: datasets as files of this machine, without a network."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.base.digests import known_as
from regard.base.files import find_data, find_files
from regard.base.hf_datasets import dataset_file
from regard.base.patterns import form_by_name
from regard.data.images.labelled_images import open_image_set
from regard.data.text.documents import read_documents
from regard.data.text.labelled_texts import read_labelled
from regard.data.text.pairs import read_pairs
from regard.errors import DataError
from regard.tasks.core.recipe import read
from regard.tasks.core.training import train

TEXTS = ["a fine film", "a dull film", "good acting", "bad acting", "a good plot", "a bad plot"] * 20


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    library = pytest.importorskip("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_OFFLINE", True)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    dataset_file.cache_clear()
    return library


def saved(datasets: Any, rows: dict[str, list[Any]], features: Any = None) -> None:
    """The folder `set` with the splits train and test."""
    data = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": data, "test": data.select(range(2))}).save_to_disk("set")


def labelled(datasets: Any) -> None:
    names = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    saved(datasets, {"text": TEXTS, "label": [number % 2 for number in range(len(TEXTS))]}, features)


def test_labels_come_by_their_names(datasets: Any) -> None:
    labelled(datasets)
    rows = list(read_labelled("hf://set:train"))
    assert [(row[0], row[-1]) for row in rows[:2]] == [("a fine film", "bad"), ("a dull film", "good")]
    assert len(rows) == len(TEXTS)
    assert len(list(read_labelled("hf://set:test"))) == 2


def test_a_dataset_is_written_once_and_again_when_it_changes(datasets: Any) -> None:
    labelled(datasets)
    path = find_data("hf://set:train")
    assert find_files("hf://set:train") == [path]
    assert path.is_relative_to(Path("cache").resolve())
    assert known_as(path) == f"datasets/{path.name}"
    written = path.stat().st_mtime_ns
    dataset_file.cache_clear()
    assert find_data("hf://set:train") == path
    assert path.stat().st_mtime_ns == written
    datasets.Dataset.from_dict({"text": ["new"], "label": ["x"]}).save_to_disk("other")
    assert [row[0] for row in read_labelled("hf://other:train")] == ["new"]
    assert find_data("hf://other:train") != path
    assert not list(path.parent.glob("*.partial"))


def test_pairs_documents_and_tables_of_a_folder(datasets: Any) -> None:
    Path("files").mkdir()
    lines = [{"de": "hallo", "en": "hello", "text": "one"}, {"de": "welt", "en": "world", "text": "two"}]
    Path("files/train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pairs = read_pairs("hf://./files:train", source="de", target="en")
    assert list(pairs) == [("hallo", "hello"), ("welt", "world")]
    assert list(map("".join, read_documents("hf://./files:train"))) == ["one", "two"]
    assert list(map("".join, read_documents("hf://./files:train[1:]"))) == ["two"]


def test_images_come_with_their_classes(datasets: Any) -> None:
    from PIL import Image

    images = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "red")]
    kinds = datasets.ClassLabel(names=["red", "blue"])
    features = datasets.Features({"image": datasets.Image(), "label": kinds})
    saved(datasets, {"image": images, "label": [0, 1, 0]}, features)
    found = open_image_set("hf://set:train")
    assert sorted(found.classes) == ["blue", "red"]
    assert [found.classes[label] for label in found.labels] == ["red", "blue", "red"]


RECIPE = """
[data]
train = "hf://set:train"
valid = "hf://set:test"
batch_tokens = 64

[tokens]
kind = "word"

[model]
name = "pooling"
embed = 8
dim = 8

[train]
steps = 8
eval_every = 4
learning_rate = 0.01
"""


def test_a_training_goes_on_exactly_where_it_was(datasets: Any) -> None:
    labelled(datasets)
    Path("recipe.toml").write_text(RECIPE)

    def trained(folder: str, *changes: str, resume: bool = False) -> bytes:
        job, text = read("recipe.toml", changes)
        train(job, Path(folder), recipe=text, command="regard train", resume=resume)
        return (Path(folder) / "model.safetensors").read_bytes()

    whole = trained("whole")
    trained("parts", "train.steps=4")
    dataset_file.cache_clear()
    assert trained("parts", resume=True) == whole
    assert 'train = "hf://set:train"' in Path("whole/recipe.toml").read_text()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf://set", "must be hf://dataset:split, as in hf://stanfordnlp/imdb:train"),
        ("hf://:train", "must be hf://dataset:split"),
        ("hf://set:", "must be hf://dataset:split"),
        ("hf://set:valid", "hf://set:valid: there is no split 'valid'; there are train, test"),
        ("hf://nobody/nothing:train", "hf://nobody/nothing:train cannot be opened by datasets: "),
        ("hf://one:test", "hf://one:test: that folder holds the split train"),
    ],
)
def test_what_is_not_there_is_said(name: str, said: str, datasets: Any) -> None:
    labelled(datasets)
    datasets.Dataset.from_dict({"text": ["a"]}, split="train").save_to_disk("one")
    with pytest.raises(DataError) as raised:
        list(read_documents(name))
    assert said in str(raised.value)
    assert not list(Path("cache").rglob("*.parquet"))


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset_file.cache_clear()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"needs one more package: pip install 'regard\[datasets\]'"):
        find_data("hf://stanfordnlp/imdb:train")


def test_the_form_of_a_dataset_is_known_before_it_is_written() -> None:
    assert form_by_name(Path("hf://stanfordnlp/imdb:train")) == "parquet"
