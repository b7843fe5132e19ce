"""Everything from Python: train, load, move, save and export a run."""

from __future__ import annotations

import json
import shutil
import tomllib
from ast import literal_eval
from dataclasses import replace
from pathlib import Path
from typing import Any, get_overloads

import numpy as np
import pytest
import torch

import regard
from regard.data.made.glyphs import glyphs
from regard.data.made.scenes import scenes
from regard.learn.loop import Report
from regard.runs.shipped import shipped
from regard.tasks.core.table import TASKS, load


def sections(recipe: str) -> dict[str, Any]:
    return tomllib.loads(Path(recipe).read_text())


# ---- train


def test_it_trains_as_the_command_does(
    recipe: str, run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    found = regard.train(recipe, out=out, set={"train.steps": 6})
    assert isinstance(found, regard.Translator)
    assert found.report == run.report
    assert isinstance(found.report, Report)
    assert (out / "model.safetensors").read_bytes() == (run.folder / "model.safetensors").read_bytes()
    assert (out / "recipe.toml").read_bytes() == (run.folder / "recipe.toml").read_bytes()
    said = capsys.readouterr()
    assert "step 4/6" in said.err
    assert f"{out}: best at step" in said.err
    assert said.out == ""
    assert f"`regard.train({recipe!r}, set={{'train.steps': 6}})`" in (out / "README.md").read_text()
    assert found.translate("abc").text == run.translator.translate("abc").text


def test_a_dict_is_a_recipe(recipe: str, run: Any, tmp_path: Path) -> None:
    given = sections(recipe)
    before = json.dumps(given)
    found = regard.train(given, out=tmp_path / "out", set={"train.steps": 2, "decode.beam": 2})
    assert json.dumps(given) == before
    assert found.report is not None
    assert found.report.step == 2
    wanted = {**given, "train": {**given["train"], "steps": 2}, "decode": {**given["decode"], "beam": 2}}
    assert tomllib.loads((tmp_path / "out" / "recipe.toml").read_text()) == wanted
    assert "`regard.train('recipe.toml')`" in (tmp_path / "out" / "README.md").read_text()
    again = regard.train(tmp_path / "out" / "recipe.toml", out=tmp_path / "again")
    assert again.report == found.report


def test_values_of_python_are_written_as_toml(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a{n}\t{n}a\n" for n in range(60)))
    changes = {
        "data.made": "",
        "data.train": tmp_path / "pairs.tsv",
        "train.betas": (0.8, 0.9),
        "train.steps": 1,
    }
    regard.train(recipe, out=tmp_path / "out", set=changes)
    found = tomllib.loads((tmp_path / "out" / "recipe.toml").read_text())
    assert found["data"]["train"] == str(tmp_path / "pairs.tsv")
    assert found["train"]["betas"] == [0.8, 0.9]


def test_it_goes_on(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    regard.train(recipe, out=out, set={"train.steps": 2})
    with pytest.raises(regard.RunError, match=r"already holds a training: use --resume \(in Python: resume=True\)"):
        regard.train(recipe, out=out, set={"train.steps": 4})
    run = regard.train(recipe, out=out, set={"train.steps": 4}, resume=True)
    assert run.report is not None
    assert run.report.step == 4


def test_it_starts_from_a_run(recipe: str, run: Any, tmp_path: Path) -> None:
    found = regard.train(
        recipe, out=tmp_path / "out", set={"train.steps": 2, "train.learning_rate": 1e-9}, start=run.folder
    )
    one, other = (next(iter(x.model.parameters())) for x in (found, run.translator))
    assert torch.allclose(one, other.to(one.device), atol=1e-6)


def test_it_goes_to_runs_unless_told(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    regard.train(recipe, set={"train.steps": 1})
    assert (tmp_path / "runs" / "tiny" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"recipe": "bahdanau-date"}, "there is no recipe 'bahdanau-date'"),
        ({"set": {"train.step": 3}}, "unknown key of .train.: 'step'"),
        ({"set": {"steps": 3}}, "did you mean train.steps=3"),
        ({"set": {"train.steps": "many"}}, "steps must be"),
        ({"set": {"train.steps": None}}, "train.steps must be a string, a number, .* got None"),
        ({"set": {"train.betas": [0.9, {}]}}, r"train.betas must be a string, .* got \{\}"),
        ({"recipe": {"train": 3}}, "train must be a section, a dict of settings; got 3"),
        ({"recipe": {"model": {"name": "bahdanau"}, "odd": {}}}, "unknown section: 'odd'"),
        ({"recipe": {}}, "model.name must be one of"),
        ({"start": "nosuch"}, "there is no run 'nosuch'"),
    ],
)
def test_errors_are_those_of_the_command(given: dict[str, Any], said: str, recipe: str, tmp_path: Path) -> None:
    with pytest.raises(regard.BadInput, match=said):
        regard.train(**{"recipe": recipe, "out": tmp_path / "out", **given})
    assert not (tmp_path / "out").exists()


def test_a_dict_needs_a_folder(recipe: str) -> None:
    with pytest.raises(regard.RecipeError, match="out="):
        regard.train(sections(recipe))


# ---- load, to


def test_load_takes_a_device_and_a_task(run: Any) -> None:
    found = regard.load(run.folder, device="cpu", task="translate")
    assert found.to("cpu") is found
    with pytest.raises(regard.BadInput, match="device 'cuda:77' is not here"):
        regard.load(run.folder, device="cuda:77")
    with pytest.raises(regard.BadInput, match="device 'cuda:77' is not here"):
        found.to("cuda:77")
    with pytest.raises(regard.RunError, match="for `regard translate` and not for `regard generate`"):
        regard.load(run.folder, task="generate")
    with pytest.raises(regard.BadInput, match="task must be one of translate, generate"):
        regard.load(run.folder, task="sing")  # type: ignore[call-overload]


def test_what_load_is_said_to_return_is_what_it_returns() -> None:
    """Of every shipped run, and of every task."""
    told: dict[str, str] = {}
    for one in get_overloads(regard.load):
        kind = one.__annotations__["return"]
        for name in ("run", "task"):
            text = one.__annotations__[name]
            if text.startswith("Literal["):
                told |= dict.fromkeys(literal_eval(f"[{text[8:-1]}]"), kind)
    assert told.keys() == {*shipped(), *TASKS}
    for name in shipped():
        opened = load(name)
        assert opened.task is not None
        assert type(opened).__name__ == told[name] == told[opened.task.verb]


# ---- save, export


GLYPHS = glyphs("test", 2, examples=2).pixels
ASKED = {
    "associative-recall": lambda run: run.recall(length=3).line(),
    "bandits": lambda run: run.play(3, greedy=True).line(),
    "copy-lstm": lambda run: run.recall("01010101 11001100").line(),
    "dates-luong": lambda run: run.translate("3 May 1979").line(),
    "dates-seq2seq": lambda run: run.translate("3 May 1979").line(),
    "reviews-pooling": lambda run: run.classify("I thought it was superb.").line(),
    "scenes-show-and-tell": lambda run: run.caption(scenes("test", 1).images.read(0)).line(),
    "photos": lambda run: run.caption(np.zeros((80, 80, 3), np.uint8)).line(),
    "paragraphs": lambda run: run.follows("Where does Nora live?", "Nora lives in Oslo.").line(),
    "facts": lambda run: run.ask("Where does Nora live?", "Nora lives in Oslo. Tom lives in Rome.").line(),
    "sentences-bert": lambda run: run.fill("He [MASK] a book.").line(),
    "sentences-elmo": lambda run: run.embed("He reads a book.").tolist(),
    "sentences-lstmn": lambda run: run.generate("I don't", replace(run.decode, max_length=8)).line(),
    "shakespeare-rnnlm": lambda run: run.generate("ROMEO:", replace(run.decode, max_length=8)).line(),
    "copy": lambda run: run.recall("01010101 11001100").line(),
    "dates": lambda run: run.translate("3 May 1979").line(),
    "de-en": lambda run: run.translate("Guten Tag.").line(),
    "omniglot": lambda run: run.fewshot(GLYPHS[1], {"a": GLYPHS[0], "b": GLYPHS[2]}).line(),
    "reviews": lambda run: run.classify("My aunt found it dull. I thought it was superb.").line(),
    "scenes": lambda run: run.caption(scenes("test", 1).images.read(0)).line(),
    "shakespeare": lambda run: run.generate("ROMEO:", replace(run.decode, max_length=8)).line(),
    "shapes": lambda run: run.recognise(torch.zeros(48, 48, 3, dtype=torch.uint8).numpy()).line(),
    "shapes-senet": lambda run: run.recognise(torch.zeros(48, 48, 3, dtype=torch.uint8).numpy()).line(),
}


@pytest.mark.parametrize("name", shipped())
def test_a_saved_run_answers_the_same(name: str, tmp_path: Path) -> None:
    run = load(name)
    run.save(tmp_path / "a" / "saved")
    saved = load(tmp_path / "a" / "saved")
    assert ASKED[name](saved) == ASKED[name](run)
    assert saved.folder is not None
    assert run.folder is not None
    assert saved.folder.recipe == run.folder.recipe
    assert {path.name for path in saved.folder.path.iterdir()} == {path.name for path in run.folder.path.iterdir()}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["saved"]
    with pytest.raises(regard.RunError, match="saved already exists; name a folder that does not"):
        run.save(tmp_path / "a" / "saved")


def test_the_weights_that_are_saved_are_those_it_has_now(run: Any, tmp_path: Path) -> None:
    found = regard.load(run.folder, task="translate")
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.mul_(1.5)
    found.save(tmp_path / "saved")
    again = regard.load_model(tmp_path / "saved")
    for one, other in zip(again.parameters(), found.model.parameters(), strict=True):
        assert torch.equal(one, other.cpu())
    assert not (tmp_path / "saved" / "training").exists()
    assert found.evaluate().metrics == regard.load(tmp_path / "saved").evaluate().metrics


def test_export_writes_the_weights_it_has_now(tmp_path: Path) -> None:
    run = regard.load("shakespeare", device="cpu")
    with torch.no_grad():
        run.model.embed.weight.zero_()  # type: ignore[attr-defined]
    run.export(tmp_path / "out", dtype="bfloat16")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    assert not (tmp_path / "out" / "recipe.toml").exists()
    found: Any = regard.load_model(tmp_path / "out")
    assert not found.embed.weight.any()
    with pytest.raises(regard.RunError, match="already exists"):
        run.export(tmp_path / "out")
    with pytest.raises(regard.BadInput, match="dtype must be one of"):
        run.export(tmp_path / "other", dtype="int8")
    with pytest.raises(regard.RunError, match="cannot be exported: transformers has no model like bahdanau"):
        regard.load("dates").export(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_in_half_precision_is_saved_in_float32(tmp_path: Path) -> None:
    regard.load("shakespeare").export(tmp_path / "half", dtype="bfloat16")
    half = regard.load(tmp_path / "half", task="generate")
    half.save(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["dtype"] == "float32"
    again = regard.load(tmp_path / "saved", task="generate")
    for one, other in zip(again.model.parameters(), half.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_pickles_and_checkpoints_are_not_saved(run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    (folder / "pytorch_model.bin").write_bytes(b"x")
    (folder / "code.py").write_text("")
    regard.load(folder).save(tmp_path / "saved")
    wanted = {path.name for path in run.folder.iterdir() if path.is_file()}
    assert {path.name for path in (tmp_path / "saved").iterdir()} == wanted


def test_an_object_built_by_hand_has_no_folder(run: Any, tmp_path: Path) -> None:
    bare = regard.Translator(run.translator.model, run.translator.tokenizer)
    for ask in (bare.evaluate, lambda: bare.save(tmp_path / "a"), lambda: bare.export(tmp_path / "a")):
        with pytest.raises(regard.RunError, match="built by hand"):
            ask()
