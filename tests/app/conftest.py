from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from regard.app.cli import DEBUG, main
from regard.app.recipe import read
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


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> str:
    """The folder of a trained run. Tests only read it."""
    folder = tmp_path_factory.mktemp("run") / "tiny"
    job, text = read(recipe)
    train(job, folder, recipe=text, command="regard train tiny")
    return str(folder)


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
