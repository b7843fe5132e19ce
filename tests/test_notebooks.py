"""The notebooks under docs/notebooks are run: their code in order, in one namespace, each last value shown."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def run_cell(code: str, names: dict[str, Any]) -> Any:
    """The value of the last line, if that is an expression, as a notebook shows it."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_there_is_one_for_each() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["classify", "generate", "recognise", "translate"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_small(path: Path) -> None:
    """nbformat 4.5, as far as a reader needs it, and without outputs."""
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
        assert not cell.get("outputs")
    assert found["cells"][0]["source"][0].startswith("# ")
    assert path.stat().st_size < 10_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values that a comment `# -> value` foretells are these; what is shown last shows itself."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = 0
    cells = ["".join(cell["source"]) for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    for code in [*cells, *(code for code in cells if "regard.train(" in code)]:  # these again, as people do
        value = run_cell(code, names)
        if foretold := re.search(r"# -> (.*)$", code):
            assert repr(value) == foretold[1]
        if hasattr(value, "_repr_html_"):
            assert len(value._repr_html_()) > 100
            shown += 1
    assert shown >= 2
    assert "Traceback" not in capsys.readouterr().err
