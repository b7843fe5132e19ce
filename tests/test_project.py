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
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import regard
from regard.base.tensors import CHECKSUM, checksum
from regard.models import MODELS
from regard.runs.folder import Folder
from regard.runs.shipped import SHIPPED, shipped
from regard.tasks.core.recipe import read
from regard.tasks.core.recipe_files import RECIPES, recipes

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "regard"
LEAVES = ("show", "metrics")
# Imports point to the left only.
ORDER = "base show,metrics data,attention layers models learn,decode foreign wrapped runs tasks gallery,claims app"
LAYERS = tuple(tuple(names.split(",")) for names in ORDER.split())
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> list[str]:
    """The full names of all that a file imports, wherever in the file."""
    names = []
    for node in ast.walk(tree_of(path)):
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


def test_imports_point_one_way():
    """Everyone may import errors.py and the version; the other files beside the packages stand above them all."""
    for path in SOURCES:
        package = package_of(path)
        names = [name for name in imported(path) if name != "regard.__version__"]
        if package == "gallery":  # its examples are scripts, as a reader would write them
            names = [name for name in names if name != "regard"]
        ours = [name.split(".") for name in names if name.split(".")[0] == "regard"]
        for _, other, *_ in ours if package else ():
            assert other in RANK or other == "errors", f"{path} imports regard.{other}, which is in no package"
            allowed = other in ("errors", package) or RANK[other] < RANK[package]
            assert allowed, f"{path}: {package} may not import {other}"
    assert not [name for name in imported(PACKAGE / "errors.py") if not name.startswith("__future__")]


def test_no_two_files_import_each_other_in_a_circle():
    """Imports inside functions and under TYPE_CHECKING count too."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in SOURCES}
    modules = {name: path for name, path in names.items() if path.name != "__init__.py"}
    graph = {}
    for name, path in modules.items():
        found = {one for full in imported(path) for one in (full, full.rpartition(".")[0])}
        graph[name] = (found & set(modules)) - {name}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"a circle: {' -> '.join((*path[path.index(name) :], name))}"
        if name not in done:
            for other in graph[name]:
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_only_the_table_knows_all_tasks():
    """No code outside a task's own room asks which task it serves."""
    verbs = {path.name for path in (PACKAGE / "tasks").iterdir() if path.is_dir() and path.name != "__pycache__"}
    for path in SOURCES:
        inside = package_of(path) in ("models", "foreign") or any(part in verbs for part in path.parts)
        for node in ast.walk(tree_of(path)) if not inside else ():
            if isinstance(node, ast.Compare):
                values = [one.value for part in (node.left, *node.comparators) for one in ast.walk(part)
                          if isinstance(one, ast.Constant)]  # fmt: skip
                told = any("task" in ast.unparse(part) for part in (node.left, *node.comparators))
                assert not (told and verbs & {v for v in values if isinstance(v, str)}), (
                    f"{path}:{node.lineno} asks which task it serves: {ast.unparse(node)}"
                )


def test_leaves_do_without_torch():
    paths = [path for path in SOURCES if package_of(path) in LEAVES]
    assert not [path for path in paths if any(name.split(".")[0] == "torch" for name in imported(path))]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    python(f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)")


def test_nothing_is_pickled():
    refused = ("pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "torch.load")
    for path in SOURCES:
        parts = [ast.unparse(node) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)]
        assert not [name for name in (*imported(path), *parts) if name.startswith(refused)], path


def test_no_file_mentions_a_path_of_one_machine():
    places = re.compile(r"(?<![\w.])/(?:work|root|home|Users|opt)/\w")
    folders = (".ci", "regard", "tests", "docs", "benchmarks", "results")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for path in files:
        if not {"__pycache__", ".mypy_cache"} & set(path.parts):
            found = places.search(path.read_bytes().decode("utf-8", errors="ignore"))
            assert not found, f"{path} mentions {found.group()}"


def test_every_model_names_its_paper_and_has_a_recipe():
    trained = [tomllib.loads(path.read_text())["model"]["name"] for path in RECIPES.glob("*.toml")]
    for name, model in MODELS.items():
        assert re.search(r"\w+.* (19|20)\d\d\b", model.paper)
        assert name in trained


def test_every_recipe_builds():
    for name, words in recipes().items():
        own = not tomllib.loads((RECIPES / f"{name}.toml").read_text())["data"].get("made")
        job, _ = read(name, ["data.train=pairs.tsv"] if own else [])
        with torch.device("meta"):
            model = MODELS[job.model](job.config)
        assert sum(parameter.numel() for parameter in model.parameters()) > 0
        assert words, f"{name}.toml should begin with a comment that says what it is for"


def test_help_does_not_wait_for_torch():
    """Neither `regard --help` nor that of any command."""
    python("""
import sys
from typer.main import get_command
from regard.app.cli import main as cli

commands = list(get_command(cli.app).commands)
assert {"demo", "models", "train", "evaluate", "align", "translate", "compare"} <= set(commands), commands
for words in ([], *([name] for name in commands)):
    sys.argv = ["regard", *words, "--help"]
    cli.main()
sys.argv = ["regard", "--version"]
cli.main()
sys.exit("torch" in sys.modules)
""")


def test_no_test_can_hang_the_suite(pytestconfig, monkeypatch):
    """A test that hangs in Python is failed; one that hangs below it ends its process some time later."""
    armed = []
    watchdog = pytestconfig.pluginmanager.getplugin("watchdog")
    with monkeypatch.context() as patch:
        patch.setattr("faulthandler.dump_traceback_later", lambda *words, **options: armed.append((words, options)))
        patch.setattr(watchdog, "armed", 0.0)
        watchdog.pytest_runtest_logstart()
        watchdog.pytest_runtest_logstart()
    [((killed,), options)] = armed
    assert 0 < float(pytestconfig.getini("timeout")) < killed
    assert options["exit"]


def test_versions_agree():
    """The package tells its version, and pyproject.toml reads it from there."""
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "regard.__version__"}
    assert f"## [{regard.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_constraints_pin_all_that_is_asked_for():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.]*", version) for version in pins.values())  # no +cpu, no address
    project = PYPROJECT["project"]
    extras = (project["optional-dependencies"][name] for name in ("dev", "docs", "release"))
    asked = [*project["dependencies"], *(one for extra in extras for one in extra)]
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
    # What `pip wheel` calls, without the processes in which it does so.
    script = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    python(script, path=source, cwd=source)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the installed copy, and an empty one to stand in."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-compile", "--target", str(target), str(wheel))
    return target, tmp_path_factory.mktemp("empty")


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"regard/py.typed", "regard/app/page/index.html", "regard/show/views/parts.js"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"regard", f"regard-{regard.__version__}.dist-info"}
    here = {path.relative_to(ROOT).as_posix() for path in SOURCES}
    assert here <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert wheel.stat().st_size < 25_000_000  # bytes, shipped runs and all


def test_every_system_has_a_run_that_is_shipped_and_small():
    assert {Folder(SHIPPED / name).name for name in shipped()} == set(MODELS)
    for name in shipped():
        files = [path for path in (SHIPPED / name).rglob("*") if path.is_file()]
        wanted = {"config.json", "model.safetensors", "recipe.toml", "log.jsonl", "README.md"}
        wanted |= {"preprocessor_config.json"} if name.startswith(("shapes", "scenes", "omniglot")) else set()
        wanted |= (
            set()
            if name.startswith(("shapes", "omniglot", "copy", "bandits", "associative"))
            else {"tokenizer.json"}
        )
        assert wanted <= {path.name for path in files}
        assert sum(path.stat().st_size for path in files) < 8_000_000


def test_every_shipped_run_has_the_checksum_of_its_weights():
    for path in SHIPPED.glob("*/*.safetensors"):
        with safe_open(path, framework="pt") as file:
            tensors = [(name, file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118
            assert file.metadata()[CHECKSUM] == checksum(tensors), path


def test_an_installed_copy_has_its_recipes_and_shipped_runs(installed):
    target, empty = installed
    script = """
import json, regard
from regard.data.made.shapes import shapes
from regard.runs.shipped import shipped
from regard.tasks.core.recipe_files import recipes
from regard.tasks.core.systems import describe_recipe
runs = [regard.load(name) for name in shipped()]
image = shapes("test", 1).pixels[0]
asked = {"recognise": [image], "caption": [image], "recall": []}
asked["fewshot"] = [image, {"a": image, "b": image[::-1]}]
asked |= {"fill": ["I [MASK] you."], "play": [0], "follows": ["Anna is a baker.", "She gets up at four."]}
asked["ask"] = ["Where does Nora live?", "Nora lives in Oslo."]
options = {"generate": {"max_tokens": 20}}
texts = []
for run in runs:
    verb = run.task.verb
    answer = getattr(run, verb)(*asked.get(verb, ["3 May 1979"]), **options.get(verb, {}))
    texts.append(str(answer) if verb == "embed" else answer.line())
html = regard.load("dates").translate("3 May 1979").attention.html()
assert "function show(" in html
told = describe_recipe("bert-labelled").settings
assert all(setting.meaning for settings in told.values() for setting in settings)  # read from the sources
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
    assert launch(str(script), "--version", path=target, cwd=empty) == f"regard {regard.__version__}\n"


def test_an_installed_copy_is_typed(installed, tmp_path):
    """A user's script is checked strictly against it: py.typed is there, and the main calls have their types.
    Types of other libraries are left out, in their stubs too: reading them takes longest."""
    target, _ = installed
    usual = ("torch", "matplotlib", "tokenizers", "sacrebleu", "typer", "rich")
    extra = ("transformers", "optuna", "datasets", "huggingface_hub", "onnx", "onnxscript", "onnxruntime")
    untyped = ",".join(f"{name}.*" for name in usual + extra)
    skip = "follow_imports = skip\nfollow_imports_for_stubs = true\n"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\n[mypy-{untyped}]\n{skip}")
    shutil.copy(ROOT / "tests" / "user_script.py", tmp_path)
    assert "Success" in launch("-m", "mypy", "--cache-dir", os.devnull, "user_script.py", path=target, cwd=tmp_path)


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
