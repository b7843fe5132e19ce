"""What the site is made of: pages of systems, tables of settings, equations, notebooks; without MkDocs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from regard.app.cli.main import COMMANDS
from regard.base.described import describe
from regard.gallery import GALLERY
from regard.learn.settings import Training
from regard.models import MODELS
from regard.tasks.core.table import TASKS

DOCS = Path(__file__).parent.parent / "docs"
MANUAL: dict[str, Any] = runpy.run_path(str(DOCS / "manual.py"))
PARTS: dict[str, Any] = runpy.run_path(str(DOCS / "parts.py"))
EQUATION = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)


def page_of(name: str) -> str:
    return (DOCS / "systems" / f"{name}.md").read_text(encoding="utf-8")


def test_every_system_has_a_page() -> None:
    pages = {path.stem for path in (DOCS / "systems").glob("*.md")}
    assert pages == {*MODELS, "index"}
    which = page_of("index")
    for name in MODELS:
        assert f"]({name}.md)" in which, f"`Which system should I use?` does not name {name}"


@pytest.mark.parametrize("name", MODELS)
def test_a_page_of_a_system_has_its_equations_file_recipes_and_settings(name: str) -> None:
    page = PARTS["with_system"](page_of(name), name)
    heads = re.findall(r"^#+ (.+)$", page.partition('??? note "The whole file"')[0], re.MULTILINE)
    assert heads[1:4] == ["Equations", "What to know", "Where it looks"]
    assert heads[4:] == ["Recipes", "Settings of `[model]`", "The file { data-search-exclude }"]
    assert f"`{MODELS[name].__module__.replace('.', '/')}.py`" in page
    assert MODELS[name].paper in page
    text = re.sub(r"^```.*?^```$", "", page_of(name), flags=re.MULTILINE | re.DOTALL)
    found = [(block or inline).strip() for block, inline in EQUATION.findall(text)]
    assert found
    for tex in found:  # each can be drawn
        svg = PARTS["equation"](tex, display=True)
        assert svg.count("<path") == 1
        assert 'd="M' in svg


def test_settings_of_every_section_stand_on_their_page() -> None:
    page = PARTS["with_settings"]((DOCS / "settings.md").read_text(encoding="utf-8"))
    assert "<!--" not in page
    for one in describe(Training):
        assert f"| `{one.name}` | " in page
    heads = re.findall(r"^### (.+)$", page, re.MULTILINE)
    assert heads == [*TASKS, *MODELS]
    for row in re.findall(r"^\| `.*$", page, re.MULTILINE):
        assert len(re.findall(r"(?<!\\)\|", row)) == 5, row
        assert row.rpartition("|")[0].rstrip()[-1] != "|", f"no meaning: {row}"


def test_equations_of_a_page_become_pictures() -> None:
    content = (
        r'<p>a <span class="arithmatex">\(a_i &lt; b\)</span></p><div class="arithmatex">\[\frac{1}{2}\]</div>'
    )
    page = PARTS["with_equations"](content)
    assert page.count("<svg") == 2
    assert "arithmatex" not in page
    assert 'aria-label="a_i &lt; b"' in page
    assert "vertical-align" in page.partition("</p>")[0], "an inline equation stands on the line"


def test_a_notebook_becomes_a_page_with_its_outputs() -> None:
    text, pictures = PARTS["notebook_page"](DOCS / "notebooks" / "translate.ipynb", "pictures")
    assert text.startswith("# Translate")
    assert "[translate.ipynb](translate.ipynb)" in text
    assert "``` {.text .output}\n'1979-05-03'\n```" in text
    assert all(svg.startswith("<svg") for svg in pictures.values())
    assert re.findall(r"\]\((pictures/[^)]+)\)", text) == list(pictures)


def test_an_example_of_the_gallery_becomes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS["kept_body"].__globals__, "ROOT", tmp_path)
    text = PARTS["gallery_page"]("apple")
    assert text.startswith("# The green apple\n\n[The notebook](../notebooks/gallery/apple.ipynb)\n")
    assert "[2.3, 1.7, 0.3, 1.6]" in text
    [kept] = (tmp_path / "build" / "gallery").iterdir()
    kept.write_text("kept", encoding="utf-8")
    assert "kept</div>" in PARTS["gallery_page"]("apple"), "made once"
    menu = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    listed = PARTS["with_gallery"]("<!-- gallery -->")
    for name in GALLERY:
        assert f": gallery/{name}.md\n" in menu
        assert f"(gallery/{name}.md): `regard gallery {name}`" in listed


def test_every_command_has_a_page_in_the_menu_and_in_the_table_of_commands() -> None:
    menu = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    listed = MANUAL["with_commands"]((DOCS / "commands.md").read_text(encoding="utf-8"))
    names = [command.__name__.replace("_", "-") for command in COMMANDS]
    assert set(names) == set(MANUAL["COMMANDS"]), "what is typed is what the functions are called"
    for name in names:
        assert f"      - regard {name}: commands/{name}.md\n" in menu
        assert f"| [`{name}`](commands/{name}.md) |" in listed
    assert menu.count(": commands/") == len(names)
