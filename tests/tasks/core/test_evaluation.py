"""Evaluating runs: options, broken recipes, data that can be read once, tasks whose settings have other names."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import BadInput, DataError, RunError
from regard.runs.folder import Folder
from regard.runs.shipped import SHIPPED
from regard.tasks.core.evaluation import SideBySide, check_data
from regard.tasks.core.results import Evaluation
from regard.tasks.core.table import TASKS
from regard.tasks.translate.desk import TranslateDesk


@pytest.fixture
def dates(tmp_path: Path) -> Path:
    shutil.copytree(SHIPPED / "dates", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, r"^beam must lie in \[1, 1,000\), got 0"),
        ({"beam": "wide"}, "^beam must be a whole number, got 'wide'"),
        ({"beam": True}, "^beam must be a whole number, got True"),
    ],
)
def test_options_are_checked_from_python_too(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        regard.load("dates").evaluate(**options)


def test_a_broken_data_section_names_the_run(dates: Path) -> None:
    recipe = (dates / "recipe.toml").read_text()
    (dates / "recipe.toml").write_text("data = 3\n")
    with pytest.raises(RunError, match=r"run, recipe.toml: data must be a section \[data\], got 3"):
        regard.load(dates).evaluate()
    (dates / "recipe.toml").write_text(recipe.replace("train_count", "trian_count"))
    with pytest.raises(RunError, match=r"run, recipe.toml: unknown key of \[data\]: 'trian_count'; did you mean"):
        regard.load(dates).evaluate()


def test_without_a_recipe_the_file_is_still_named(dates: Path, tmp_path: Path) -> None:
    (dates / "recipe.toml").unlink()
    (tmp_path / "long.tsv").write_text("1 May 1979\t1979-05-01\n" + "9" * 100 + "\t1979-05-01\n")
    with pytest.raises(DataError, match=r"long\.tsv, pair 2: "):
        regard.load(dates).evaluate(tmp_path / "long.tsv")


def test_a_pipe_is_not_evaluated_by_several_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe can be read only once, and there are 2 runs"):
        check_data(TASKS["translate"], ["dates", "de-en"], str(tmp_path / "pipe"), "", {})


def test_parts_of_files_of_one_name_are_not_the_same_data() -> None:
    settings = TASKS["translate"].Settings
    first, second = (settings(train=f"{name}/train.tsv").test_name for name in "ab")
    assert first != second


@dataclass(frozen=True)
class OwnSettings:
    folder: str = ""
    name: str = "own"

    @classmethod
    def of_test_file(cls, file: str) -> dict[str, object]:
        return {"folder": file}


def test_a_task_whose_settings_have_other_names_says_how_a_file_is_read() -> None:
    task = replace(TASKS["translate"], settings_name=f"{__name__}:OwnSettings")
    assert TranslateDesk(task).test_settings(None, "here").folder == "here"


def test_what_a_model_does_not_read_is_said() -> None:
    with pytest.raises(RunError, match="a vit reads no text"):
        Folder("shapes").tokenizer()
    with pytest.raises(RunError, match="a bahdanau reads no images"):
        Folder("dates").pixels()
    assert TASKS["recognise"].desk.artifacts(Folder("shapes")).pixels is not None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (["test.tsv"], r"data\[0\] must be a dict or \(source, target\), got 'test\.tsv'"),
        (3, r"data must be rows \(a list of .*\) or the name of a file, got 3 \(int\)"),
        ({"a": 1}, "data must have a list under each key, got 1 under 'a'"),
    ],
)
def test_data_is_rows_or_the_name_of_a_file(data: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        regard.load("dates").evaluate(data)


def test_tables_that_differ_between_runs_are_each_shown() -> None:
    found = {
        "a": Evaluation({}, {"count": 2}, notes=("same", "label  f1\nx      1")),
        "b": Evaluation({}, {"count": 2}, notes=("same", "label  f1\nx      2")),
    }
    text = SideBySide(TASKS["classify"], "test.tsv", found, {}).text()
    assert text.split("\n\n")[1:] == [
        *("same", "a:\nlabel  f1\nx      1", "b:\nlabel  f1\nx      2", "evaluated on test.tsv")
    ]
