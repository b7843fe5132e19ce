"""`overwrite`: a run makes room for another, nothing else does, and not before the new training begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_data import ROWS, recipe

import regard
from regard.errors import BadInput, DataError, RunError

ROW = {"train": ROWS["classify"]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def contents(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def train(steps: int = 1, **options: object) -> regard.Run:
    return regard.train(recipe("classify"), out="run", set={"train.steps": steps}, data=ROW, **options)  # type: ignore[arg-type]


def test_a_run_is_replaced_only_when_the_new_training_begins() -> None:
    train(2, overwrite=True)  # nothing is there yet
    before = contents("run")
    with pytest.raises(RunError, match=r"run already holds a training: .* or --overwrite \(overwrite=True\)"):
        train()
    wrong = recipe("classify")
    wrong["model"] = {"name": "han", "embed": 4}
    for broken, error in (
        ({"train": "nothing.tsv"}, DataError),
        ({"train": [("alone", "a")] * 3}, DataError),
        ({**ROW, "valid": [("fine", "z")]}, DataError),
    ):
        with pytest.raises(error):
            regard.train(recipe("classify"), out="run", data=broken, overwrite=True)
    with pytest.raises(BadInput):
        regard.train({**wrong, "model": {"name": "pooling", "embed": -1}}, out="run", data=ROW, overwrite=True)
    with pytest.raises(BadInput, match=r"either go on with the run in the folder \(resume\) or replace it"):
        train(overwrite=True, resume=True)
    assert contents("run") == before
    run = train(1, overwrite=True)
    assert run.report is not None
    assert run.report.step == 1
    assert [path.name for path in Path("run/training").iterdir()] == ["step-00000001"]
    assert "steps = 1" in Path("run/recipe.toml").read_text()


@pytest.mark.parametrize("name", ["notes.txt", "training/mine.txt", ".git/config", "config.json/x", "more/a.png"])
def test_a_folder_with_anything_else_in_it_is_refused(name: str) -> None:
    Path("run/training").mkdir(parents=True)
    for own in ("recipe.toml", "README.md", "log.jsonl"):
        (Path("run") / own).write_text("")
    path = Path("run") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = contents("run")
    with pytest.raises(RunError, match=r"run is not overwritten, as more than a run is in it: "):
        train(overwrite=True)
    assert contents("run") == before


def test_a_folder_that_is_no_run_is_refused() -> None:
    Path("run").mkdir()
    Path("run/README.md").write_text("mine")
    with pytest.raises(RunError, match=r"run is no run, and is not overwritten: it has no recipe\.toml"):
        train(overwrite=True)
    assert Path("run/README.md").read_text() == "mine"


def test_a_run_does_not_replace_the_one_it_begins_with() -> None:
    train(1)
    before = contents("run")
    with pytest.raises(BadInput, match="is one of the inputs and would be overwritten"):
        train(1, overwrite=True, start="run")
    assert contents("run") == before
