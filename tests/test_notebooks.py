"""The notebooks under docs/notebooks are run, and their outputs are those they were written with."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from regard.tasks.core.table import TASKS

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
# Those that train for long are run with two steps: what they then print is not compared.
LONG = ("embed", "fill", "play")
AGAIN = "run `python docs/run_notebooks.py {}` to write its outputs anew"

outputs_of = runpy.run_path(str(DOCS / "run_notebooks.py"))["outputs_of"]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_there_is_one_for_each_task() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(TASKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_small(path: Path) -> None:
    """nbformat 4.5, as far as a reader needs it."""
    found = read(path)
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert set(found) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert found["metadata"]["kernelspec"]["language"] == "python"
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])
    for cell in found["cells"]:
        own = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert cell["cell_type"] in ("code", "markdown")
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | own
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        assert all(isinstance(line, str) for line in cell["source"])
    assert found["cells"][0]["source"][0].startswith("# ")
    assert sum(len("".join(cell["source"])) for cell in found["cells"]) < 5_000
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_the_outputs_it_has_and_trains_a_second_time(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = read(path)
    long = path.stem in LONG
    given = outputs_of(notebook, shorter if long else str)
    kept = [cell.get("outputs", []) for cell in notebook["cells"]]
    assert [list(map(kinds, cell)) for cell in given] == [list(map(kinds, cell)) for cell in kept], path.stem
    if not long:
        assert [[text_of(one) for one in cell] for cell in given] == [
            [text_of(one) for one in cell] for cell in kept
        ], AGAIN.format(path.stem)
    assert sum("image/svg+xml" in kinds(one) or "text/html" in kinds(one) for cell in kept for one in cell) >= 2
    assert "Traceback" not in capsys.readouterr().err
    run_training_again(notebook)


def run_training_again(notebook: dict[str, Any]) -> None:
    """The folder of a run that is there already must not stop it."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    last = max(
        (number for number, cell in enumerate(code) if "regard.train(" in "".join(cell["source"])), default=-1
    )
    outputs_of({"cells": code[: last + 1]}, shorter)


def shorter(code: str) -> str:
    code = re.sub(r'steps": \d+', 'steps": 2', code)
    return re.sub(r'(eval_every": |batch_size": |valid_count": )\d+', r"\g<1>8", code)


def kinds(output: dict[str, Any]) -> list[str]:
    return [output["output_type"], *sorted(output.get("data", {}))]


def text_of(output: dict[str, Any]) -> str:
    """What it says. Fractions are left out: another processor rounds otherwise."""
    data = output.get("data", {})
    text = "".join(output.get("text") or data["text/plain"])
    text += " ".join(re.findall(r"<text[^>]*>([^<]*)", "".join(data.get("image/svg+xml", ""))))
    return re.sub(r"-?\d+\.\d+(e-\d+)?", "0.0", text)
