"""The project as a whole: which way imports point, what an installed copy holds, what may not be in any file."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import torch

import regard
from regard.app.recipe import RECIPES, read, recipes
from regard.models import MODELS, blank
from regard.tasks.folder import SHIPPED, shipped

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "regard"
LEAVES = ("show", "metrics")
LAYERS = (LEAVES, ("data",), ("attention",), ("layers",), ("models",), ("learn", "decode"), ("tasks",), ("app",))
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def imported(path: Path) -> list[str]:
    """The full names of all that a file imports, wherever in the file."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports in full, from regard on"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def package_of(path: Path) -> str:
    """The package a file belongs to; "" for the files beside the packages."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def test_every_package_has_its_place():
    assert {package_of(path) for path in SOURCES} - {""} == set(RANK)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    package = package_of(path)
    ours = [name.split(".") for name in imported(path) if name.split(".")[0] == "regard"]
    for _, other, *_ in ours:
        if package:  # the files beside the packages stand above them all
            assert other in RANK, f"{path} imports regard.{other}, which is in no package"
            allowed = other == package or RANK[other] < RANK[package]
            assert allowed, f"{path}: {package} may not import {other}"


def test_leaves_do_without_torch():
    paths = [path for path in SOURCES if package_of(path) in LEAVES]
    assert not [path for path in paths if any(name.split(".")[0] == "torch" for name in imported(path))]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    python(f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_pickled(path):
    refused = ("pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "torch.load")
    found = [name for name in imported(path) if name.startswith(refused)]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found += [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in found if name.startswith(refused)]


def test_no_file_mentions_a_path_of_one_machine():
    places = re.compile(r"(?<![\w.])/(?:work|root|home|Users|opt)/\w")
    folders = (".ci", "regard", "tests", "docs", "benchmarks", "results")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for path in files:
        if not {"__pycache__", ".mypy_cache"} & set(path.parts):
            found = places.search(path.read_bytes().decode("utf-8", errors="ignore"))
            assert not found, f"{path} mentions {found.group()}"


@pytest.mark.parametrize("name", MODELS)
def test_every_model_names_its_paper_and_has_a_recipe(name):
    assert re.search(r"\w+.* (19|20)\d\d\b", MODELS[name].paper)
    assert name in [tomllib.loads(path.read_text())["model"]["name"] for path in RECIPES.glob("*.toml")]


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_builds(name):
    own = not tomllib.loads((RECIPES / f"{name}.toml").read_text())["data"].get("made")
    job, _ = read(name, ["data.train=pairs.tsv"] if own else [])
    with torch.device("meta"):
        model = MODELS[job.model](MODELS[job.model].Config(**blank(job.model), **job.config))
    assert sum(parameter.numel() for parameter in model.parameters()) > 0
    assert recipes()[name], f"{name}.toml should begin with a comment that says what it is for"


def test_help_does_not_wait_for_torch():
    """Neither `regard --help` nor that of any command."""
    python("""
import sys
from typer.main import get_command
from regard.app import cli

commands = list(get_command(cli.app).commands)
assert {"demo", "models", "train", "evaluate", "align", "translate", "compare"} <= set(commands), commands
for words in ([], *([name] for name in commands)):
    sys.argv = ["regard", *words, "--help"]
    cli.main()
sys.exit("torch" in sys.modules)
""")


def test_versions_agree():
    version = PYPROJECT["project"]["version"]
    assert regard.__version__ == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_constraints_pin_all_that_is_asked_for():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.]*", version) for version in pins.values())  # no +cpu, no address
    project = PYPROJECT["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert {re.match(r"[\w-]+", one).group() for one in asked} <= set(pins)
    assert pins["torch"] == "2.13.0"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that no build folder with files of the past is left, or found, in the checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / "regard", ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(source))
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the installed copy, and an empty one to stand in."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--target", str(target), str(wheel))
    return target, tmp_path_factory.mktemp("empty")


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "regard/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"regard", f"regard-{regard.__version__}.dist-info"}
    here = {path.relative_to(ROOT).as_posix() for path in SOURCES}
    assert here <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_a_run_is_shipped_and_small():
    assert shipped()
    for name in shipped():
        files = [path for path in (SHIPPED / name).rglob("*") if path.is_file()]
        read_by = "preprocessor_config.json" if name == "shapes" else "tokenizer.json"
        wanted = {"config.json", "model.safetensors", read_by, "recipe.toml", "log.jsonl", "README.md"}
        assert wanted <= {path.name for path in files}
        assert sum(path.stat().st_size for path in files) < 8_000_000


def test_an_installed_copy_has_its_recipes_and_shipped_runs(installed):
    target, empty = installed
    script = """
import json, regard
from regard.app.recipe import recipes
from regard.tasks import load, shipped
runs = [load(name) for name in shipped()]
from regard.data.shapes import shapes
from regard.tasks import Recogniser
texts = [
    run.recognise(shapes("test", 1).pixels[0]).label if isinstance(run, Recogniser)
    else getattr(run, run.model.task)("3 May 1979").text
    for run in runs
]
print(json.dumps([regard.__file__, list(recipes()), shipped(), texts]))
"""
    where, there, runs, texts = json.loads(python(script, path=target, cwd=empty))
    assert Path(where).is_relative_to(target)
    assert there == list(recipes())
    assert runs == shipped()
    assert runs
    assert all(texts)


def test_an_installed_copy_answers(installed):
    target, empty = installed
    answer = launch("-m", "regard", "--help", path=target, cwd=empty)
    assert "translate" in answer
    script = target / "bin" / "regard"
    assert "translate" in launch(str(script), "--help", path=target, cwd=empty)


def pip(*words: str) -> None:
    launch("-m", "pip", "--disable-pip-version-check", "--quiet", *words)


def python(code: str, *, path: Path = ROOT, cwd: Path = ROOT) -> str:
    return launch("-c", code, path=path, cwd=cwd)


def launch(*words: str, path: Path = ROOT, cwd: Path = ROOT) -> str:
    """What a fresh Python, with `path` before all else, prints; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
