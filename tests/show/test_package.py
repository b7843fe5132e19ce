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
@pytest.mark.parametrize("name", [name for name in VIEWS if name.endswith(".js")])
def test_a_view_is_a_module_of_correct_syntax_that_touches_nothing_when_loaded(name, tmp_path):
    # Without a browser there is no document: loading fails if anything outside the functions needs one.
    shutil.copytree(FOLDER, tmp_path / "views")
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    subprocess.run(["node", str(tmp_path / "views" / name)], check=True, timeout=60)
