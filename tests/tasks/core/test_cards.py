"""A task's card has all that recipes, the command line and a page need to know of it; its desk does the work."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.errors import BadInput, RecipeError, RunError
from regard.learn.settings import Training
from regard.models import MODELS, blank, task_of
from regard.tasks.core.desk import Desk
from regard.tasks.core.inputs import InputKind
from regard.tasks.core.options import Option
from regard.tasks.core.recipe import NOT_FOR_ALL, SECTIONS, model_config, read
from regard.tasks.core.recipe_files import RECIPES, read_table
from regard.tasks.core.results import Metric
from regard.tasks.core.run import Run
from regard.tasks.core.table import TASKS, AnyTask, load
from regard.tasks.translate.run import Translator

TRAINED = [task for task in TASKS.values() if task.metrics]
UNREAD = [TASKS["play"], TASKS["recall"]]  # their data is always generated


def test_importing_the_table_does_not_import_torch() -> None:
    """`regard --help` answers at once."""
    code = "import sys, regard.tasks.core.table; print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("verb", TASKS)
def test_a_card_is_complete(verb: str) -> None:
    task = TASKS[verb]
    assert task.verb == verb
    assert task.summary.endswith(".")
    assert "\n" not in task.summary
    assert f"regard {verb} " in task.help, "with an example"
    assert isinstance(task.inputs, InputKind)
    assert all((task.inputs.what, task.inputs.metavar, task.inputs.help, task.inputs.example))
    for option in (*task.options, *task.evaluate_options):
        check_option(option)
    for options in (task.options, task.evaluate_options):
        assert len({option.name for option in options}) == len(options)


@pytest.mark.parametrize("verb", TASKS)
def test_a_card_has_one_desk(verb: str) -> None:
    """The desk is imported by its name, so that a card imports no torch."""
    task = TASKS[verb]
    assert isinstance(task.desk, Desk)
    assert task.desk is task.desk
    assert task.desk.card is task
    assert issubclass(task.desk.kind, Run)
    assert type(task.desk).__module__ == f"regard.tasks.{verb}.desk"
    own = {"follows": "fill"}.get(verb, verb)  # it reads what fill reads
    assert task.Settings.__module__ == f"regard.tasks.{own}.settings"


@pytest.mark.parametrize("verb", TASKS)
def test_cards_and_desks_import_at_the_top(verb: str) -> None:
    """A method that imports what it calls would only forward."""
    for module in (f"regard.tasks.{verb}.card", type(TASKS[verb].desk).__module__):
        tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        inside = [node for function in functions for node in ast.walk(function)]
        assert not [node for node in inside if isinstance(node, ast.Import | ast.ImportFrom)]


def check_option(option: Option) -> None:
    assert option.name.isidentifier()
    assert option.kind in (int, float, str, bool, Path)
    assert option.help.endswith(".")
    assert option.default is None or isinstance(option.default, option.kind)
    assert not option.choices or option.default in (None, *option.choices)


@pytest.mark.parametrize("task", TRAINED, ids=lambda task: task.verb)
def test_metrics_have_a_direction_and_validation_gives_some_of_them(task: AnyTask) -> None:
    for name, metric in task.metrics.items():
        assert isinstance(metric, Metric)
        low = any(part in name for part in ("loss", "perplexity", "bits", "regret", "errors"))
        assert metric.better == ("min" if low else "max")
    assert set(task.chosen_by) <= set(task.validated), "what chooses the best weights"
    assert set(task.validated) <= set(task.metrics)
    assert task.unit


@pytest.mark.parametrize("task", [one for one in TRAINED if one not in UNREAD], ids=lambda task: task.verb)
def test_settings_are_a_frozen_dataclass(task: AnyTask) -> None:
    assert dataclasses.is_dataclass(task.Settings)
    settings: Any = task.Settings(train="some/file.tsv")
    assert "file.tsv" in settings.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.train = "other"
    fields = {field.name for field in dataclasses.fields(settings)}
    assert {"train", "valid", "test"} <= fields
    assert {name for shape in task.columns for name in shape} <= fields
    with pytest.raises(ValueError, match="set"):
        task.Settings()


@pytest.mark.parametrize("task", TRAINED, ids=lambda task: task.verb)
def test_what_a_task_trains_with_are_settings_of_training(task: AnyTask) -> None:
    assert task.trains_with <= NOT_FOR_ALL.keys() <= {field.name for field in dataclasses.fields(Training)}
    assert set(task.sections) <= set(SECTIONS) - {"data", "model", "train"}


def test_what_nothing_is_trained_for_says_so() -> None:
    """A model without a head that predicts can be asked for vectors alone."""
    embed, card = TASKS["embed"].desk, TASKS["embed"]
    for name, head in (("bert", "none"), ("elmo", "none")):
        assert embed.metrics_of(MODELS[name].Config(**blank(name), head=head)) == {}
    assert embed.metrics_of(MODELS["elmo"].Config(**blank("elmo"))) == card.metrics
    with pytest.raises(RecipeError, match="a model that can only embed is not trained and has no metrics"):
        read("elmo-text", ["data.train=x.txt", "model.head=none"])


def test_every_model_and_every_recipe_has_a_task() -> None:
    for name, model in MODELS.items():
        assert task_of(name, model.Config(**blank(name))) in TASKS
    for path in RECIPES.glob("*.toml"):
        table = read_table(path.stem)
        name = table["model"].pop("name")
        assert task_of(name, model_config(name, table["model"])) in TASKS


def test_columns_are_named_as_the_task_says() -> None:
    change = TASKS["classify"].desk.column_changes
    assert change("body,stars") == {"text": "body", "second": "", "label": "stars"}
    assert change("a,b,c") == {"text": "a", "second": "b", "label": "c"}
    for wrong in ("a", "a,", "a,b,c,d"):
        with pytest.raises(BadInput, match=r"columns must be TEXT,LABEL or TEXT,SECOND,LABEL, got"):
            change(wrong)
    assert TASKS["generate"].desk.column_changes("body") == {"column": "body"}
    with pytest.raises(BadInput, match="columns must be COLUMN, got 'a,b'"):
        TASKS["generate"].desk.column_changes("a,b")
    without = dataclasses.replace(TASKS["generate"], columns=())
    with pytest.raises(BadInput, match="which `generate` does not read"):
        without.desk.column_changes("a,b")


# ---- a run as Python has it


def test_a_run_tells_what_it_is(run: Any) -> None:
    count = sum(parameter.numel() for parameter in run.translator.model.parameters())
    assert repr(run.translator) == f"<Translator: Bahdanau, {count:,} parameters from {run.folder}>"
    assert isinstance(run.translator, Run)
    assert run.translator.task is TASKS["translate"]
    assert run.translator.folder.path == run.folder


def test_options_that_there_are_not_are_refused(run: Any) -> None:
    with pytest.raises(BadInput, match="evaluate has no option 'stride'; there are data, columns, beam"):
        run.translator.evaluate(stride=3)
    with pytest.raises(RunError, match="`translate` is not evaluated with stride; there are beam"):
        TASKS["translate"].desk.evaluate_on(run.translator, None, options={"stride": 3})


def test_what_was_built_by_hand_is_not_evaluated(run: Any) -> None:
    built = Translator(run.translator.model, run.translator.tokenizer)
    with pytest.raises(RunError, match=r"built by hand; open a run with regard\.load to evaluate it"):
        built.evaluate("test.tsv")
    assert repr(built).endswith(" parameters>")


def test_a_run_without_a_recipe_wants_data(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_bytes((run.folder / name).read_bytes())
    with pytest.raises(RunError, match="does not say what it was trained on; name data to evaluate on"):
        load(folder).evaluate()
    (tmp_path / "test.tsv").write_text("a b\ta b\nc\tc\n")
    assert load(folder).evaluate(tmp_path / "test.tsv").counts == {"pairs": 2}
