from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.app.recipe import read
from regard.learn.loop import Report
from regard.tasks import Translator, load
from regard.tasks.training import train

RECIPE = """
[data]
made = "copy"
train_count = 200
valid_count = 30
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
steps = 6
rate = 0.02
every = 2
"""


@dataclass(frozen=True)
class Run:
    folder: Path
    report: Report
    translator: Translator


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a recipe of a few tiny steps."""
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> Run:
    """A trained run. Tests only read it."""
    folder = tmp_path_factory.mktemp("run") / "tiny"
    job, text = read(recipe)
    report = train(job, folder, recipe=text, command="regard train tiny")
    return Run(folder, report, load(folder))
