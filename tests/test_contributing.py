"""The worked examples of the docs, a new paper and a new task, on a copy of the package."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, blocks, read_page

PAGES = [blocks(read_page(f"docs/adding/{name}.md")) for name in ("paper", "task")]
FILES = {block.title: block.text for page in PAGES for block in page if block.title}


def insert(path: Path, before: str, line: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path} should have {before!r} once"
    path.write_text(text.replace(before, line + before), encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with both examples added as the docs say; what is compiled is copied too, unless it
    is just being written."""
    place = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "regard", place / "regard", ignore=shutil.ignore_patterns("de-en", "*.pyc.*"))
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    (place / "regard/tasks/rate/__init__.py").touch()
    models, tasks = place / "regard/models/__init__.py", place / "regard/tasks/core/table.py"
    for name, kind in (("key_value", "KeyValue"), ("rater", "Rater")):
        insert(models, "\nMODELS:", f"from regard.models.{name} import {kind}\n")
        insert(models, '    "vit": ViT,\n', f'    "{name}": {kind},\n')
    insert(tasks, "from regard.tasks.recall.card import", "from regard.tasks.rate.card import rate_card\n")
    insert(tasks, '    "recognise": recognise_card,\n', '    "rate": rate_card,\n')
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user stands: texts whose number is how often they say good."""
    place = tmp_path_factory.mktemp("user")
    words = ["good"] * 3 + ["plain", "film", "story", "bad"]
    texts = [" ".join(words[(row * step) % 7] for step in range(1, 6)) for row in range(40)]
    (place / "rated.tsv").write_text("".join(f"{text}\t{text.split().count('good')}\n" for text in texts))
    return place


# `regard compare` trains in the same process; tests/app/test_compare.py has one test with processes of their own.
DRIVER = """
import contextlib, io, json, sys
from regard.app.cli.main import app, main
from typer.main import get_command

assert "rate" in get_command(app).commands
assert "torch" not in sys.modules, "the card imports torch"

import regard
from regard.tasks.core import compare

def run_all(calls, jobs, tell):
    for number, call in enumerate(calls):
        tell(number, compare._run(*call))

compare._run_all = run_all
answers = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["regard", *words]
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    answers.append((code, out.getvalue(), err.getvalue()))
run = regard.load("run")
python = run.rate("good good").number, run.evaluate("rated.tsv").metrics, type(run).__name__
print(json.dumps(answers))
print(json.dumps(python))
"""


SERVES = all(map(find_spec, ("starlette", "httpx2")))  # the extra `serve`
SERVED = """
import json
from starlette.testclient import TestClient
from regard.app.serve.application import build
from regard.app.serve.counters import Counters
from regard.app.serve.limits import Limits
from regard.app.serve.shelf import Shelf

app = build(Shelf(["run"], limits=Limits(), counters=Counters(), device="cpu"))
with TestClient(app, base_url="http://localhost") as client:
    [task] = client.get("/api/models/run").json()["tasks"]
    [answer] = client.post("/api/models/run/rate", json={"inputs": ["good good"]}).json()["answers"]
    look = client.get(f"/api/models/run/answers/{answer['id']}/attention").json()
print(json.dumps({"number": answer["number"], "kind": look["kind"], "option": task["options"][0]["name"]}))
"""


# Step 4 of the page: the tests run over all of MODELS by themselves.
GRID = f"""
import pytest
print(flush=True)
words = ["-k", "key_value", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
words += ["-c", {str(ROOT / "pyproject.toml")!r}, "--rootdir", {str(ROOT)!r}]
pytest.main([{str(ROOT / "tests" / "models" / "test_grid.py")!r}, *words])
"""
FEW = ("data.train_count=200", "data.valid_count=20", "train.steps=2", "train.eval_every=1")
CHANGES = [word for change in FEW for word in ("--set", change)]
COMMANDS = {  # with the exit code that each should have
    ("train", "rater-texts", "--set", "train.steps=120", "--set", "train.eval_every=40", "--out", "run"): 0,
    ("evaluate", "run", "--json"): 0,
    ("evaluate", "run"): 0,
    ("rate", "run", "--input", "texts.txt", "--digits", "1"): 0,
    ("rate", "run", "good good", "--json", "--show", "look.svg"): 0,
    ("translate", "run", "good"): 2,
    ("compare", "rater-texts", "--set", "train.steps=2", "--seeds", "1", "--out", "compared"): 0,
    ("train", "key-value-dates", *CHANGES, "--out", "kv"): 0,
    ("translate", "kv", "3 May 1979", "--beam", "3", "--show", "kv.svg"): 0,
    ("models",): 0,
}


@pytest.fixture(scope="module")
def printed(copy: Path, folder: Path) -> tuple[list[Any], str]:
    """What one process prints that has the copy's `regard`, since each waits for torch: what the commands said,
    what the run answers from Python and, where that is installed, from a server; then what pytest says."""
    (folder / "texts.txt").write_text("good good\nbad\n")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER + SERVED * SERVES + GRID],
        env={**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        input=json.dumps(list(COMMANDS)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    asked, _, tested = done.stdout.partition("\n\n")
    return [json.loads(line) for line in asked.splitlines()], tested


def test_a_new_task_and_a_new_paper_are_trained_asked_evaluated_and_compared(
    folder: Path, printed: tuple[list[Any], str]
) -> None:
    answers, (number, metrics, kind), *served = printed[0]
    for (words, wanted), (code, out, err) in zip(COMMANDS.items(), answers, strict=True):
        assert code == wanted, f"regard {' '.join(words)}\n{out}\n{err}"
    _, judged, told, rated, asked, _, table, *_, models = (out for _, out, _ in answers)
    log = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    errors = [row["error"] for row in log if "error" in row]
    assert len(set(errors)) == 3
    found = json.loads(judged)
    assert found["texts"] == 40
    assert found["error"] == pytest.approx(min(errors))  # the lowest error was kept, not the highest
    assert "error" in told
    assert [len(line.partition(".")[2]) for line in rated.split()] == [1, 1]
    assert json.loads(asked)["text"] == "good good"
    assert "good" in (folder / "look.svg").read_text()
    assert "Use it: `regard rate DIR" in (folder / "run" / "README.md").read_text()
    assert "error on the validation data" in table
    assert "lower is better" in table
    assert json.loads(asked)["number"] == pytest.approx(number)
    assert metrics == {"error": pytest.approx(found["error"])}
    assert kind == "TextRater"
    assert "<svg" in (folder / "kv.svg").read_text()
    assert "Daniluk" in models
    assert served == [{"number": pytest.approx(number), "kind": "map", "option": "digits"}] * SERVES


def test_the_grid_of_models_takes_in_a_new_paper(printed: tuple[list[Any], str]) -> None:
    tested = printed[1]
    assert "failed" not in tested
    assert int(re.search(r"(\d+) passed", tested).group(1)) >= 6
