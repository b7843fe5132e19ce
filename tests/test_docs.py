"""What the README and the docs tell people to do is done here, and what they point to is there."""

import pkgutil
import re
import runpy
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from every_picture import PICTURES
from hub_server import hub_here
from pages import (
    DOCS,
    PAGES,
    ROOT,
    agrees,
    blocks,
    carry_out,
    end_servers,
    evaluate_once,
    is_shown,
    read_page,
    results,
    shown_commands,
    write_files,
    write_foreign,
)
from typer.main import get_command

import regard
from regard.app.cli import main as cli
from regard.models import MODELS
from regard.runs.folder import Folder
from regard.runs.shipped import SHIPPED, shipped
from regard.tasks.core.run import Run

README = read_page("README.md")
EXTRA = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "results/README.md")}
NUMBER = r"\d+(?:\.\d+)?"  # in a picture
ELSEWHERE = ("docs/adding/paper.md", "docs/adding/task.md")  # carried out by test_contributing.py


@pytest.fixture(scope="module", autouse=True)
def servers():
    """Those that pages start."""
    yield
    end_servers()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    here = tmp_path_factory.mktemp("files")
    write_files(here)
    return here


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """A fresh folder with the files that the pages speak of."""
    here = tmp_path / "here"
    shutil.copytree(files, here)
    monkeypatch.chdir(here)
    return here


# Said by what huggingface_hub uploads with, of its own call.
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
@pytest.mark.parametrize("name", [name for name in PAGES if name not in ELSEWHERE])
def test_a_page_gives_what_it_shows(name, folder, monkeypatch, capsys):
    text = read_page(name)
    if "org/name" in text:
        pytest.importorskip("huggingface_hub")
        pytest.importorskip("transformers")
        write_foreign(folder)
    with hub_here(folder / "hub", monkeypatch) if "org/name" in text else nullcontext() as hub:
        if hub:
            hub.put("org/name", {path.name: path.read_bytes() for path in (folder / "runs" / "mine").iterdir()})
        carry_out(text, monkeypatch, capsys)


def test_the_pages_show_every_command():
    shown = {re.search(r"\bregard (\w+)", line).group(1) for line, _ in shown_commands()}
    assert shown == set(get_command(cli.app).commands)


def test_results_are_shown():
    python = [block.text for name in PAGES for block in blocks(read_page(name)) if block.language == "python"]
    assert sum(text.count("# ->") for text in python) >= 20
    assert len([answer for _, answer in shown_commands() if answer]) >= 4


@pytest.mark.parametrize(
    ("value", "shown", "same"),
    [
        (0.9976, "0.998", True),
        (0.9974, "0.998", False),
        (3, "3", True),
        (4, "3", False),
        ("a", "'a'", True),
        ("ab", "'a'", False),
        ("a b c", "'a ...'", True),
        ("b a c", "'a ...'", False),
        (torch.Size([2, 3]), "(2, 3)", True),
        (torch.Size([2, 4]), "(2, 3)", False),
    ],
)
def test_a_wrong_result_would_be_noticed(value, shown, same):
    assert agrees(value, shown) is same
    [(_, _, found)] = results(f"value = {shown}\nvalue  # -> {shown}  and words\n", {})
    assert found == shown


@pytest.mark.parametrize("page", ["```python\n1 + 1  # -> 3\n```\n", "```console\n$ regard models\nnothing\n```\n"])
def test_a_page_that_shows_something_wrong_fails(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        carry_out(page, monkeypatch, capsys)


def test_names_last_over_a_page(tmp_path, monkeypatch, capsys):
    carry_out("```python\na = 1\n```\n\n```python\na + 1  # -> 2\n```\n", monkeypatch, capsys)


def test_shown_output_may_leave_out_parts():
    assert is_shown("", "anything")
    assert is_shown("a\n...\nd\n", "a\nb\nc\nd\ne\n")
    assert not is_shown("a\n...\nd\n", "b\na\nd\n")


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 110


def test_the_table_has_every_system_and_a_run_of_it():
    rows = re.findall(r"^\| `(\w+)` \| .+ \| `([\w-]+)`(?:, `[\w-]+`)* \|$", README, re.MULTILINE)
    assert dict(rows).keys() == set(MODELS)
    assert all(Folder(SHIPPED / run).name == name for name, run in rows)
    text = read_page("docs/index.md")
    assert all(f"`{name}`" in text for name in shipped())


@pytest.mark.parametrize("name", [*PAGES, *EXTRA])
def test_links_and_make_targets_are_there(name):
    """Every link, of the docs too, leads to a file here and, where it names one, to a heading of it."""
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE)) <= set(targets)
    for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        led = place(path, file) if file else path
        assert led.is_file(), f"{name}: there is no {link}"
        assert not anchor or anchor in anchors(led), f"{name}: {file or name} has no heading #{anchor}"


def place(page: Path, link: str) -> Path:
    """The file a link leads to. The site has pages from outside docs/, see docs/site.py."""
    led = (page.parent / link).resolve()
    if led.exists() or not led.is_relative_to(DOCS):
        return led
    within = led.relative_to(DOCS).as_posix()
    return ROOT / {"changelog.md": "CHANGELOG.md"}.get(within, within)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", head).strip().lower().replace(" ", "-") for head in heads}


def test_what_the_reference_describes_is_there():
    names = re.findall(r"^::: (regard[\w.]*)$", read_page("docs/reference.md"), re.MULTILINE)
    assert len(names) == len(set(names)) >= 30
    for name in names:
        assert pkgutil.resolve_name(name).__doc__, f"{name} has no docstring"


def test_runs_and_pictures_are_in_the_docs():
    """Every kind of run that `regard.load` gives and every kind of picture, with its class."""
    reference, table = read_page("docs/reference.md"), read_page("docs/pictures.md")
    runs = [getattr(regard, name) for name in regard.__all__]
    runs = [kind for kind in runs if isinstance(kind, type) and issubclass(kind, Run)]
    pictures = [type(draw(["a", "b", "c", "d"], "")) for draw in PICTURES.values()]
    assert regard.Recaller in runs
    for kind in (*runs, *pictures):
        assert f"::: {kind.__module__}.{kind.__name__}\n" in reference
    for kind in pictures:
        assert f"| `regard.show.{kind.__name__}` |" in table


def test_words_of_the_glossary_are_defined_where_it_says():
    rows = [line.split(" | ") for line in read_page("docs/glossary.md").splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row[0].startswith("| word")]
    assert len({row[0] for row in rows}) == len(rows) >= 30, "a word stands there once"
    for word, *_, place in rows:
        path = ROOT / place.strip("|` ")
        assert path.exists(), f"{word}: {path} is not there"


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in DOCS.rglob("*.md"):
        assert f": {path.relative_to(DOCS).as_posix()}\n" in menu, f"{path} is not in the nav of mkdocs.yml"


def test_the_pictures_of_the_docs_are_made_by_the_library(tmp_path, monkeypatch):
    """docs/pictures.py draws every picture that the pages show, with the same words in it. The last digit of a
    number may differ: another processor rounds otherwise."""
    monkeypatch.setattr(Run, "_evaluate", evaluate_once)
    runpy.run_path(str(DOCS / "pictures.py"))["main"](tmp_path)
    drawn = {path.name: words_of(path) for path in tmp_path.iterdir()}
    shown = {path.name: words_of(path) for path in (DOCS / "pictures").iterdir()}
    assert drawn.keys() == shown.keys()
    for name, words in drawn.items():
        assert [re.sub(NUMBER, "0", word) for word in words] == [re.sub(NUMBER, "0", word) for word in shown[name]]
        for ours, theirs in zip(numbers_of(words), numbers_of(shown[name]), strict=True):
            last_digit = 10.0 ** -len(ours.partition(".")[2])
            assert float(ours) == pytest.approx(float(theirs), abs=1.01 * last_digit), name
    links = [link for name in PAGES for link in re.findall(r"pictures/([\w-]+\.svg)", read_page(name))]
    assert set(links) == set(drawn)


def words_of(picture: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)", picture.read_text(encoding="utf-8"))


def numbers_of(words: list[str]) -> list[str]:
    return [number for word in words for number in re.findall(NUMBER, word)]


def test_the_citation_has_the_version():
    assert f"version: {regard.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
