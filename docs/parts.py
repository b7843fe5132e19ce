"""Parts of pages that are made when the site is built: tables of settings, what there is of a system, notebooks
with their outputs, and equations. Used by site.py."""

import hashlib
import html
import json
import pathlib
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from regard.base.described import Described, describe
from regard.decode.settings import Decoding
from regard.gallery import GALLERY
from regard.gallery.core.example import read_example, title_of
from regard.gallery.core.making import make
from regard.gallery.core.notebook import colab_address
from regard.gallery.core.page import body
from regard.learn.settings import Training
from regard.show.equation import equation
from regard.tasks.core.settings import Tokens
from regard.tasks.core.systems import System, data_settings, systems
from regard.tasks.core.table import TASKS

ROOT = pathlib.Path(__file__).parent.parent
MARK = re.compile(r"^<!-- settings of (\w+) -->$", re.MULTILINE)
MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)

every_system = cache(systems)


# ---- settings


def settings_table(settings: Iterable[Described]) -> str:
    rows = ["| setting | type and values | default | meaning |", "|---|---|---|---|"]
    for setting in settings:
        default = f"`{setting.default_text}`" if setting.default_text else "must be set"
        values = f"{setting.type}: {setting.allowed}" if setting.allowed else setting.type
        cells = [f"`{setting.name}`", in_cell(values), default, in_cell(setting.meaning)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def in_cell(text: str) -> str:
    """Words of a comment as they are, in a cell of a Markdown table."""
    text = html.escape(text, quote=False).replace("|", "\\|").replace("*", "\\*")
    return re.sub(r"\$\w+", lambda name: f"`{name[0]}`", text)


def tables_of(section: str) -> str:
    """All tables of one section of a recipe."""
    if section == "data":
        parts = [
            f"### {verb}\n\nOf recipes for [{verb}](tasks/{verb}.md).\n\n{settings_table(data_settings(verb))}"
            for verb in TASKS
        ]
    elif section == "model":
        parts = [
            f"### {name}\n\n[{system.paper}](systems/{name}.md)\n\n{settings_table(system.settings)}"
            for name, system in every_system().items()
        ]
    else:
        parts = [settings_table(describe({"train": Training, "decode": Decoding, "tokens": Tokens}[section]))]
    return "\n".join(parts)


def with_settings(markdown: str) -> str:
    """A page in which `<!-- settings of train -->` is the table of that section."""
    return MARK.sub(lambda mark: tables_of(mark[1]), markdown)


# ---- systems


def with_system(markdown: str, name: str) -> str:
    """The page of a system: below its title what there is of it, at its end recipes, settings and the file."""
    system = every_system()[name]
    title, _, text = markdown.partition("\n")
    return f"{title}\n\n{facts(system)}\n{text}\n{recipes_table(system)}\n{model_part(system)}"


def facts(system: System) -> str:
    tasks = ", ".join(f"[{verb}](../tasks/{verb}.md)" for verb in system.tasks)
    rows = {
        "paper": system.paper,
        "in regard": f"`{system.name}`, in `{system.file}`",
        "tasks": tasks,
        "shipped runs": ", ".join(f"`{run}`" for run in system.shipped),
    }
    return "".join(f"- **{name}**: {words}\n" for name, words in rows.items() if words)


def recipes_table(system: System) -> str:
    rows = [f"| `{name}` | {in_cell(words)} |" for name, words in system.recipes.items()]
    how = "`regard recipe NAME` tells the settings of one, `regard train NAME` trains it."
    return "\n".join(["## Recipes\n", f"{how}\n", "| recipe | what it is for |", "|---|---|", *rows]) + "\n"


def model_part(system: System) -> str:
    source = (ROOT / system.file).read_text(encoding="utf-8").rstrip()
    beside = sorted(path.name for path in (ROOT / system.file).parent.glob("*.py") if path.stem != "__init__")
    folder = f" Beside it: {', '.join(f'`{name}`' for name in beside)}." if system.file.count("/") > 2 else ""
    code = "\n".join(f"    {line}".rstrip() for line in ["```python", *source.splitlines(), "```"])
    return (
        f"## Settings of `[model]`\n\n{settings_table(system.settings)}\n"
        f"## The file {{ data-search-exclude }}\n\n`{system.file}`.{folder}\n\n"
        f'??? note "The whole file"\n\n{code}\n'
    )


# ---- notebooks


def notebook_page(path: pathlib.Path, pictures: str) -> tuple[str, dict[str, str]]:
    """A notebook as Markdown with its outputs, and its pictures: SVG by the name that the page links to."""
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    drawn: dict[str, str] = {}
    parts: list[str] = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/svg+xml" in data:
                name = f"{pictures}/{path.stem}-{len(drawn)}.svg"
                drawn[name] = "".join(data["image/svg+xml"])
                parts.append(f"![{''.join(data['text/plain']).strip('<>')}]({name})")
            elif "text/html" in data:
                parts.append(f'<div class="output">{"".join(data["text/html"]).strip()}</div>')
            else:
                text = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"``` {{.text .output}}\n{text}\n```")
        if len(parts) == 1:
            parts.append(f"The notebook itself: [{path.name}]({path.name}).")
    return "\n\n".join(parts) + "\n", drawn


# ---- the gallery


def gallery_page(name: str) -> str:
    """An example as a page of the site: as `regard gallery` makes it, with a link to its notebook."""
    example = read_example(name)
    colab = colab_address(example)
    links = f"[The notebook](../notebooks/gallery/{name}.ipynb)" + (f", [in Colab]({colab})" if colab else "")
    return f'# {example.title}\n\n{links}\n\n<div class="gallery">\n{kept_body(name)}</div>\n'


def kept_body(name: str) -> str:
    """The page below its title. Some examples train for a minute: a page is kept as long as no file of the package
    changes."""
    files = sorted((ROOT / "regard").rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    path = ROOT / "build" / "gallery" / f"{name}-{digest}.html"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{name}-*.html"):
            old.unlink()
        path.write_text(body(make(name)), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def with_gallery(markdown: str) -> str:
    """A page in which `<!-- gallery -->` is the list of all examples."""
    rows = [f"- [{title_of(name)}](gallery/{name}.md): `regard gallery {name}`" for name in GALLERY]
    return markdown.replace("<!-- gallery -->", "\n".join(rows))


# ---- equations


def with_equations(content: str) -> str:
    """Equations, which the Markdown extension leaves as TeX, drawn as SVG: they look the same in every browser, and
    nothing is loaded for them."""
    return MATH.sub(lambda found: equation(html.unescape(found[2]).strip(), display=found[1] == "div"), content)
