"""`regard compare`: recipes in several variants."""

from __future__ import annotations

import json
import os
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from regard.errors import Interrupted, RunError
from regard.tasks.core import at_once, compare
from regard.tasks.core.compare import _folder, _run, _settings, _table, choices_of
from regard.tasks.core.results import Metric
from regard.tasks.core.table import load


def test_two_variants_with_one_seed(call: Any, inline: None, recipe: str) -> None:
    """One of them was done before."""
    few = ["--set", "train.steps=2", "--set", "data.train_count=60"]
    _run(recipe, [*few[1::2], "train.seed=0", "model.score=general"], Path("all/general-0"), 1)
    done = call("compare", recipe, "--vary", "model.score=dot,general", *few, "--seeds", "1", "--out", "all")
    assert done.code == 0
    assert done.out.startswith(
        "| model.score | seed 0 | mean | spread | perplexity | parameters |\n|---|---|---|---|---|---|\n| dot | "
    )
    assert [line.split()[0] for line in done.err.splitlines()] == ["1/2", "2/2"]
    assert Path("all/table.md").read_text() == done.out.removesuffix("\n")
    for score in ("dot", "general"):
        model: Any = load(f"all/{score}-0").model
        assert model.config.score == score
        result = json.loads(Path(f"all/{score}-0/result.json").read_text())
        assert f"| {score} | {result['exact_match']:.2f} |" in done.out
        assert f"{result['perplexity']:.4f} |" in done.out
        assert "step 2/2" in Path(f"all/{score}-0/progress.txt").read_text()


def test_two_recipes_one_changed_stand_in_one_table(call: Any, inline: None, recipe: str, vector: str) -> None:
    other = f"{vector}.toml,model.embed=9"
    few = ["--set", "train.steps=2", "--set", "data.train_count=60", "--seeds", "1"]
    done = call("compare", recipe, other, *few, "--metric", "chrf", "--out", "all")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "| recipe | seed 0 | mean | spread | perplexity | parameters |"
    assert "\nchrf on the test data; higher is better\n" in done.out
    for line, named, folder in zip(lines[2:4], (recipe, other), ("tiny-0", "vector-embed=9-0"), strict=True):
        translator = load(f"all/{folder}")
        result = json.loads(Path(f"all/{folder}/result.json").read_text())
        weights = sum(parameter.numel() for parameter in translator.model.parameters())
        chrf = f"{result['chrf']:.2f}"
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells == [named.replace(",", " "), chrf, chrf, "0.00", f"{result['perplexity']:.4f}", f"{weights:,}"]
    assert translator.model.config.embed == 9  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["RECIPE", "--vary", "model.score=dot,dott"], "score must be one of 'dot'"),
        (["RECIPE", "--vary", "model.embed=8,wide"], "embed must be a whole number, got 'wide'"),
        (["RECIPE", "--vary", "model.scroe=dot"], "did you mean 'score'?"),
        (["RECIPE", "--vary", "model.score=dot,dot"], "give each recipe and value once"),
        (["RECIPE", "RECIPE"], "give each recipe and value once"),
        (["RECIPE,model.embed=9", "RECIPE,model.embed=9"], "give each recipe and value once"),
        (["RECIPE", "nosuch"], "there is no recipe 'nosuch'"),
        (["RECIPE", "RECIPE,model.embed"], "section.key=value"),
        (["RECIPE", "RECIPE,"], "section.key=value"),
        (["RECIPE", "RECIPE,model.embd=9"], "did you mean 'embed'?"),
        (["RECIPE", "--set", "model.embd=9"], "did you mean 'embed'?"),
        (["RECIPE", "--metric", "BLEU"], "--metric must be one of exact_match, bleu, tokenised_bleu, chrf"),
        (["RECIPE", "--metric", ""], "--metric must be one of exact_match, bleu, tokenised_bleu, chrf"),
        (["RECIPE", "--metric", "pairs"], "--metric must be one of exact_match, bleu, tokenised_bleu, chrf"),
    ],
)
def test_a_mistake_is_found_before_anything_is_trained(call: Any, recipe: str, words: list[str], said: str) -> None:
    done = call("compare", *(word.replace("RECIPE", recipe) for word in words), "--out", "all")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
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


def folder_of(recipe: str, *varied: str, several: bool = False) -> Path:
    return _folder(Path("out"), (recipe, varied), 2, several=several)


def test_folders_stay_inside_the_one_that_was_named() -> None:
    assert folder_of("tiny.toml", "model.score=dot", "model.embed=8") == Path("out/dot-8-2")
    assert folder_of("tiny.toml") == Path("out/2")
    assert folder_of("a/tiny.toml,model.embed=9", "model.score=dot", several=True) == Path("out/tiny-embed=9-dot-2")
    assert folder_of("tiny.toml", "data.train=/etc/passwd").parent == Path("out")
    assert folder_of("tiny.toml", "data.train=../../x").parent == Path("out")
    assert folder_of("../../tiny.toml,data.train=../x", several=True).parent == Path("out")


def test_the_same_value_of_another_key_is_another_training() -> None:
    first, second = (folder_of(f"tiny.toml,model.{key}=9", several=True) for key in ("embed", "encoder"))
    assert first != second


def test_the_table_has_mean_and_spread() -> None:
    row = {"parameters": 1234, "bleu": 0.0}
    rows = [[row | {"exact_match": 90.0, "perplexity": 1.5}, row | {"exact_match": 95.0, "perplexity": 1.25}]]
    lines = _table(
        [("tiny.toml", ("model.score=dot",))], rows, "exact_match", Metric("max"), tested=True
    ).splitlines()
    assert lines[0] == "| model.score | seed 0 | seed 1 | mean | spread | perplexity | parameters |"
    assert lines[2] == "| dot | 90.00 | 95.00 | 92.50 | 5.00 | 1.3750 | 1,234 |"
    assert _table([("tiny.toml", ())], rows, "bleu", Metric("max"), tested=True).splitlines()[2] == (
        "| 0.00 | 0.00 | 0.00 | 0.00 | 1.3750 | 1,234 |"
    )


def test_a_table_of_validation_data_says_so() -> None:
    rows = [[{"exact_match": 90.0, "perplexity": 1.5, "parameters": 7}]]
    ways = [("tiny.toml", ())]
    assert "exact_match on the test data; higher is better\n" in _table(
        ways, rows, "exact_match", Metric("max"), tested=True
    )
    assert "exact_match on the validation data, by which" in _table(
        ways, rows, "exact_match", Metric("max"), tested=False
    )


def test_a_comma_in_braces_parts_nothing() -> None:
    told = "luong-pairs,data.train=train.{en,de}.gz,model.dim=8"
    assert _settings((told, ("train.seed=1",)), ["x.y=1"]) == (
        "luong-pairs",
        ["x.y=1", "data.train=train.{en,de}.gz", "model.dim=8", "train.seed=1"],
    )
    assert choices_of('data.train=["a.tsv","b.tsv"],c.tsv') == ['data.train=["a.tsv","b.tsv"]', "data.train=c.tsv"]
    assert choices_of('data.train=["a.tsv","b.{en,de}"],c') == ['data.train=["a.tsv","b.{en,de}"]', "data.train=c"]
    assert choices_of("model.depths=[1,1,1],[2, 2]") == ["model.depths=[1,1,1]", "model.depths=[2, 2]"]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_each_training_has_a_process_of_its_own_and_every_result_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked off this one, they need not import torch; test_process.py has those that the command starts."""
    monkeypatch.setattr(at_once, "new_context", lambda: get_context("fork"))
    monkeypatch.setattr(compare, "_finished", lambda *call: None)
    monkeypatch.setattr(compare, "_run", lambda number: {"number": number, "process": os.getpid()})
    told: dict[int, Any] = {}
    compare._run_all([(0,), (1,), (2,)], 2, told.__setitem__)
    assert {place: result["number"] for place, result in told.items()} == {0: 0, 1: 1, 2: 2}
    assert len({os.getpid(), *(result["process"] for result in told.values())}) == 4
    monkeypatch.setattr(compare, "_run", lambda number: 1 / number)
    with pytest.raises(ZeroDivisionError):
        compare._run_all([(0,)], 1, told.__setitem__)


def test_after_a_training_was_stopped_no_other_is_begun(
    call: Any, recipe: str, inline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []

    def stopped(recipe: str, changes: list[str], folder: Path, *args: Any) -> None:
        begun.append(folder)
        raise Interrupted("saved", 15)

    monkeypatch.setattr(compare, "_run", stopped)
    done = call("compare", recipe, "--seeds", 5, "--jobs", 2, "--out", "all")
    assert (done.code, done.out, done.err) == (143, "", "saved\n")
    assert begun == [Path("all/0")]
