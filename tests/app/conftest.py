from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from regard.app.cli import DEBUG, main
from regard.app.recipe import read
from regard.tasks import load
from regard.tasks.folder import save_weights
from regard.tasks.training import train

RECIPE = """# A few tiny steps.
[data]
made = "reverse"
train_count = 200
valid_count = 20
test_count = 20
batch_tokens = 512

[tokens]
kind = "character"

[model]
name = "bahdanau"
embed = 8
encoder = 8
decoder = 16
readout = 8
longest = 40

[train]
steps = 4
rate = 0.02
every = 2
"""


VECTOR = """
[model]
name = "seq2seq"
embed = 8
dim = 16
longest = 40
"""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Outcome]


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return str(path)


def trained(folder: Path, recipe: str, *changes: str) -> str:
    job, text = read(recipe, changes)
    train(job, folder, recipe=text, command="regard train tiny")
    return str(folder)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> str:
    """The folder of a trained run. Tests only read it, and the others below."""
    return trained(tmp_path_factory.mktemp("run") / "tiny", recipe)


@pytest.fixture(scope="session")
def lively(run: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy of the run with drawn weights, whose answers differ from text to text."""
    folder = tmp_path_factory.mktemp("lively") / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("training"))
    model = load(folder).model.cpu()
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    save_weights(folder, model)
    return str(folder)


@pytest.fixture(scope="session")
def worded(recipe: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that knows few words, so that its answers are mostly <unk>."""
    changes = ("tokens.kind=word", "tokens.size=12", "train.steps=8", "train.every=4")
    return trained(tmp_path_factory.mktemp("worded") / "worded", recipe, *changes)


@pytest.fixture(scope="session")
def vector(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A seq2seq run: it looks at nothing."""
    folder = tmp_path_factory.mktemp("vector")
    before, after = RECIPE.split("[model]")[0], RECIPE.split("[train]")[1]
    (folder / "vector.toml").write_text(f"{before}{VECTOR}\n[train]{after}")
    return trained(folder / "vector", str(folder / "vector.toml"))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """`regard ...` in this process and in an empty folder: its exit code, stdout and stderr."""
    monkeypatch.setenv(DEBUG, "")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return Outcome(code, *capfd.readouterr())

    return run
