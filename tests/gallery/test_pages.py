"""Examples are read from their files, and become pages, notebooks and plain data."""

from __future__ import annotations

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standalone import Checker, check_page

from regard.errors import BadInput
from regard.gallery import GALLERY
from regard.gallery.core import notebook as notebooks
from regard.gallery.core import page
from regard.gallery.core.example import LONGEST, read_example, title_of
from regard.gallery.core.making import make, run_step
from regard.gallery.core.markup import blocks
from regard.gallery.core.notebook import notebook
from regard.gallery.core.plain import plain_example
from regard.show import Line, Looks

DOCS = Path(__file__).parent.parent.parent / "docs"
outputs_of = runpy.run_path(str(DOCS / "run_notebooks.py"))["outputs_of"]


@pytest.mark.parametrize("name", GALLERY)
def test_every_example_teaches(name: str) -> None:
    """A title, a text with a formula, functions with words and code that fits a screen, something to try, and
    where the same is in the package."""
    example = read_example(name)
    assert title_of(name) == example.title
    assert len(example.text) > 100
    assert example.try_this
    assert "`" in example.where
    assert any(block["kind"] == "math" for block in blocks(example.text))
    shown = [step for step in example.steps if step.shown]
    assert shown
    for step in example.steps:
        ast.parse(step.code)
        assert "fmt:" not in step.code  # what only a formatter reads
        assert not step.name or len(step.text) > 20, f"{name}.{step.name} says nothing"
        most = 15 if step.name and not step.code.startswith("class") else 30  # imports and constants may be more
        assert len(step.code.splitlines()) <= most, f"{name}.{step.name} is too long to be taken in at once"
    assert not re.search(r"\b(issue|TODO)\b", page.html(example.text))


def test_a_page_stands_alone_and_shows_the_code_that_was_run() -> None:
    example = read_example("apple")
    told: list[str] = []
    text = page.page(make("apple", lambda step: told.append(step.name)), back=True)
    checker = check_page(text)
    assert told == ["weights", "the_sum", "by_attention"]
    for step in example.steps:
        assert step.code in checker.text
    assert "[2.3, 1.7, 0.3, 1.6]" in checker.text
    assert 'href="index.html"' in text
    assert "default-src 'none'" in text
    check_page(page.index([read_example(name) for name in GALLERY]))


def test_what_to_try_is_told_where_there_are_no_sliders() -> None:
    example = read_example("lookup")
    assert example.hint.endswith("In the notebook, call a function with another value, as `by_number(number=2)`.")
    assert f"{example.hint}\n" in json.loads(notebook(example))["cells"][-1]["source"]
    assert not read_example("apple").hint


def test_rows_of_panels_are_as_wide_as_a_page_at_most() -> None:
    weights = np.ones((12, 2, 2))
    panels = Looks(np.zeros((64, 64, 3), np.uint8), [Line([*"abcdefghijkl"], weights)])
    assert panels.drawing().width > page.COLUMN >= panels.drawing(page.COLUMN).width - 40
    assert f'width="{panels.drawing(page.COLUMN).width:g}"' in page._drawn(panels, "looks")


def test_markup() -> None:
    found = blocks("a `b*c*` *d*\ne $x_i$ f\n\n$$y$$\n\n- one\n- two `2`")
    assert found == [
        {
            "kind": "text",
            "spans": [("text", "a "), ("code", "b*c*"), ("text", " "), ("stress", "d"), ("text", " e "),
                      ("math", "x_i"), ("text", " f")],
        },
        {"kind": "math", "tex": "y"},
        {"kind": "list", "entries": [[("text", "one")], [("text", "two "), ("code", "2")]]},
    ]  # fmt: skip


def test_code_in_colours_is_the_same_code() -> None:
    for name in GALLERY:
        for step in read_example(name).steps:
            checker = Checker()
            checker.feed(page._code(step.code))
            assert checker.text == step.code


@pytest.mark.parametrize(
    ("name", "step", "values", "message"),
    [
        ("cat", "without_positions", {"text": " "}, "text must be a text of 1 to 200 characters"),
        ("cat", "without_positions", {"text": "a " * LONGEST}, "text must be a text of 1 to 200 characters"),
        ("lookup", "by_number", {"number": 5}, "number must be a whole number from 0 to 4, got 5"),
        ("lookup", "by_number", {"number": 1.5}, "number must be a whole number from 0 to 4, got 1.5"),
        (
            "lookup",
            "from_mean_to_dictionary",
            {"beta": float("nan")},
            "beta must be a number from 0 to 10, got nan",
        ),
    ],
)
def test_inputs_are_checked(name: str, step: str, values: dict[str, Any], message: str) -> None:
    example = read_example(name)
    with pytest.raises(BadInput, match=message):
        run_step(example, example.step(step), values)


def test_names_are_checked() -> None:
    with pytest.raises(BadInput, match="there is no example 'aple'; did you mean 'apple'"):
        read_example("aple")
    with pytest.raises(BadInput, match="apple has no picture 'core'; it has weights, the_sum, by_attention"):
        read_example("apple").step("core")


def test_plain_data_is_json() -> None:
    data = plain_example(make("cat"), live=True)
    assert json.loads(json.dumps(data)) == data
    steps = {step["name"]: step for step in data["steps"]}
    assert steps["without_positions"]["result"]["kind"] == "map"
    assert steps["without_positions"]["inputs"] == [
        {"name": "text", "default": "YOUR CAT IS A LOVELY CAT", "longest": LONGEST}
    ]
    assert "inputs" not in steps["embed"]


# ---- notebooks


@pytest.mark.parametrize("name", GALLERY)
def test_a_notebook_is_what_the_example_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_REPOSITORY", raising=False)  # of one build alone
    path = DOCS / "notebooks" / "gallery" / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    assert text == notebook(read_example(name)), f"run `python docs/run_notebooks.py {name}` to write it anew"
    found = json.loads(text)
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])


def test_links_to_colab_appear_when_the_repository_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_REPOSITORY", raising=False)
    monkeypatch.setattr(
        notebooks, "_links", lambda: ["Issues, https://example.org", "Repository, https://example.org/x"]
    )
    apple = read_example("apple")
    assert "colab" not in notebook(apple).lower() + page.page(make("apple")).lower()
    for address in ("someone/regard", "https://github.com/someone/regard.git"):
        monkeypatch.setattr(notebooks, "_links", lambda address=address: [f"Repository, {address}"])
        assert notebooks.repository() == "someone/regard"
    monkeypatch.setenv("REGARD_REPOSITORY", "nowhere")
    with pytest.raises(BadInput, match="must be owner/name or an address"):
        notebooks.repository()
    monkeypatch.setenv("REGARD_REPOSITORY", "someone/regard")
    text = notebook(apple)
    place = "colab.research.google.com/github/someone/regard/blob/main/docs/notebooks/gallery/apple.ipynb"
    assert f"[Open in Colab](https://{place})" in text
    assert f'<a href="https://{place}">in Colab</a>' in page.page(make("apple"))
    assert "git+https://github.com/someone/regard" in text
    json.loads(text)


def test_there_are_no_other_notebooks() -> None:
    assert {path.stem for path in (DOCS / "notebooks" / "gallery").glob("*.ipynb")} == set(GALLERY)


def test_a_notebook_runs_and_shows_what_the_page_shows() -> None:
    made = make("apple")
    outputs = outputs_of(json.loads(notebook(made.example)))
    shown = [output["data"] for cell in outputs for output in cell if "data" in output]
    assert len(shown) == len(made.results)
    assert "".join(shown[0]["image/svg+xml"]) == made.results["weights"].svg()  # type: ignore[union-attr]
    assert "[2.3, 1.7, 0.3, 1.6]" in "".join(shown[1]["text/html"])


@pytest.mark.parametrize("name", GALLERY)
def test_a_notebook_uses_nothing_before_it_is_there(name: str) -> None:
    """A cell is run where it stands; a module only when all of it is there."""
    known: set[str] = set()
    steps = read_example(name).steps
    functions = {step.name for step in steps}
    for step in steps:
        used = {node.id for node in ast.walk(ast.parse(step.code)) if isinstance(node, ast.Name)}
        known |= {step.name}
        assert not (used & functions) - known, f"{step.name} uses what stands below it"


def test_every_slider_belongs_to_a_parameter() -> None:
    for name in GALLERY:
        example = read_example(name)
        for step in example.steps:
            for one in step.inputs:
                assert one.check(one.default) == one.default
