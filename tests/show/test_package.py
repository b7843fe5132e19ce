"""The package as a whole: quick to import, and complete when installed."""

import shutil
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

FOLDER = Path(str(files("regard.show"))) / "views"
VIEWS = sorted(path.name for path in FOLDER.iterdir())


def test_importing_show_is_cheap():
    heavy = "matplotlib", "torch", "rich.console", "PIL"
    code = f"import sys, regard.show; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_installed_copy_has_the_views():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "show/views/*" in project["tool"]["setuptools"]["package-data"]["regard"]
    assert {"parts.js", "parts.css"} <= set(VIEWS)


@pytest.mark.skipif(not shutil.which("node"), reason="needs node to check the syntax of the views")
def test_views_are_modules_of_correct_syntax_that_touch_nothing_when_loaded(tmp_path):
    # Without a browser there is no document: loading fails if anything outside the functions needs one.
    shutil.copytree(FOLDER, tmp_path / "views")
    modules = [name for name in VIEWS if name.endswith(".js")]
    assert len(modules) > 10
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (tmp_path / "all.js").write_text("".join(f'import "./views/{name}";\n' for name in modules), encoding="utf-8")
    subprocess.run(["node", str(tmp_path / "all.js")], check=True, timeout=60)
