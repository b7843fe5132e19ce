"""Runs the notebooks and writes their outputs into them, without Jupyter: python docs/run_notebooks.py [NAME...]
Those of the gallery, which are made from its examples, it writes anew without outputs.

Pictures are kept as SVG, which readers of the sources and the site can show. In Jupyter they are interactive."""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.gallery import GALLERY
from regard.gallery.core.example import read_example
from regard.gallery.core.notebook import notebook as notebook_of

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "docs" / "notebooks"


def outputs_of(notebook: dict[str, Any], change: Callable[[str], str] = str) -> list[list[dict[str, Any]]]:
    """Run the code in order, in one namespace and the current folder: the outputs of each cell. `change` may change
    the code first."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for number, cell in enumerate(notebook["cells"], 1):
        printed, value = io.StringIO(), None
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(printed):
                value = run_cell(change("".join(cell["source"])), names)
        shown = [{"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())}]
        result = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
        outputs.append(
            [*(shown if printed.getvalue() else []), *([result | {"data": shown_as(value)}] * (value is not None))]
        )
    return outputs


def run_cell(code: str, names: dict[str, Any]) -> Any:
    """The value of the last line, if that is an expression, as a notebook shows it."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def shown_as(value: Any) -> dict[str, list[str]]:
    """A value by the kinds of data that a notebook keeps: a picture as SVG, a run or an evaluation as a table."""
    data = {"text/plain": repr(value)}
    if hasattr(value, "svg"):
        data["image/svg+xml"] = value.svg()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_()
    return {kind: lines(text.replace(f"{ROOT}{os.sep}", "")) for kind, text in sorted(data.items())}


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(names: list[str]) -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            outputs = outputs_of(notebook)
        for number, (cell, shown) in enumerate(zip(notebook["cells"], outputs, strict=True), 1):
            if cell["cell_type"] == "code":
                cell |= {"execution_count": number, "outputs": shown}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))
    for name in GALLERY:
        if not names or name in names or "gallery" in names:
            path = NOTEBOOKS / "gallery" / f"{name}.ipynb"
            path.parent.mkdir(exist_ok=True)
            path.write_text(notebook_of(read_example(name)), encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
