"""One recipe in several ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.app.compare import _folder, _run, _table
from regard.tasks import RunError, load


def test_two_ways_with_one_seed(call: Any, recipe: str) -> None:
    few = ["--set", "train.steps=2", "--set", "data.train_count=60"]
    done = call("compare", recipe, "--vary", "model.score=dot,general", *few, "--seeds", "1", "--out", "all")
    assert done.code == 0
    assert done.out.startswith(
        "| model.score | seed 0 | mean | spread | perplexity |\n|---|---|---|---|---|\n| dot | "
    )
    assert [line.split()[0] for line in done.err.splitlines()] == ["1/2", "2/2"]
    assert Path("all/table.md").read_text() == done.out.removesuffix("\n")
    for score in ("dot", "general"):
        model: Any = load(f"all/{score}-0").model
        assert model.config.score == score
        result = json.loads(Path(f"all/{score}-0/result.json").read_text())
        assert f"| {score} | {result['exact_match']:.1f} |" in done.out
        assert f"{result['perplexity']:.4f} |" in done.out
        assert "step 2/2" in Path(f"all/{score}-0/progress.txt").read_text()


@pytest.mark.parametrize("vary", ["model.score=dot,dott", "model.embed=8,wide", "model.scroe=dot"])
def test_a_mistake_is_found_before_anything_is_trained(call: Any, recipe: str, vary: str) -> None:
    done = call("compare", recipe, "--vary", vary, "--out", "all")
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert not Path("all").exists()


def test_what_is_finished_is_not_trained_again_but_never_taken_for_something_else(
    recipe: str, tmp_path: Path
) -> None:
    folder = tmp_path / "dot-0"
    changes = ["model.score=dot", "train.steps=2", "data.train_count=60"]
    first = _run(recipe, changes, folder, 1)
    (folder / "result.json").write_text(json.dumps(first | {"exact_match": 12.5}))
    assert _run(recipe, changes, folder, 1)["exact_match"] == 12.5
    with pytest.raises(RunError, match=r"was begun with other settings: model\.embed was 8, now it is 9"):
        _run(recipe, [*changes, "model.embed=9"], folder, 1)
    longer = _run(recipe, [*changes, "train.steps=3"], folder, 1)
    assert longer["exact_match"] != 12.5
    assert longer["perplexity"] != first["perplexity"]


def test_folders_stay_inside_the_one_that_was_named() -> None:
    out = Path("out")
    assert _folder(out, ("model.score=dot", "model.embed=8"), 2) == out / "dot-8-2"
    assert _folder(out, ("data.train=/etc/passwd",), 0).parent == out
    assert _folder(out, ("data.train=../../x",), 0).parent == out


def test_the_table_has_mean_and_spread() -> None:
    rows = [[{"exact_match": 90.0, "perplexity": 1.5}, {"exact_match": 95.0, "perplexity": 1.25}]]
    lines = _table([("model.score=dot",)], rows).splitlines()
    assert lines[0] == "| model.score | seed 0 | seed 1 | mean | spread | perplexity |"
    assert lines[2] == "| dot | 90.0 | 95.0 | 92.5 | 5.0 | 1.3750 |"
