"""Parts of pages that are made when the site is built: tables of settings, what there is of a system, notebooks
with their outputs, and equations. Used by site.py."""

import html
import json
import pathlib
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from regard.base.described import Described, describe
from regard.decode.settings import Decoding
from regard.learn.settings import Training
from regard.tasks.core.settings import Tokens
from regard.tasks.core.systems import System, data_settings, systems
from regard.tasks.core.table import TASKS

ROOT = pathlib.Path(__file__).parent.parent
MARK = re.compile(r"^<!-- settings of (\w+) -->$", re.MULTILINE)
MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)

SUM = re.compile(r"\\sum_(\{[^}]*\}|\w)")  # matplotlib leaves no space behind its index
FONT = FontProperties(size=10, math_fontfamily="stix")
MARGIN = 1.0  # round an equation, in units of which a letter has ten

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


# ---- equations


def with_equations(content: str) -> str:
    """Equations, which the Markdown extension leaves as TeX, drawn as SVG: they look the same in every browser, and
    nothing is loaded for them."""
    return MATH.sub(lambda found: drawn(html.unescape(found[2]).strip(), display=found[1] == "div"), content)


@cache
def drawn(tex: str, *, display: bool) -> str:
    """One equation as outlines of its glyphs, in the colour of the text around it; depth is what lies below the
    line."""
    label = html.escape(tex)
    tex = SUM.sub(r"\g<0>\\,", tex.replace(r"\frac", r"\dfrac") if display else tex)
    width, height, depth, *_ = MathTextParser("path").parse(f"${tex}$", prop=FONT)
    path = TextPath((0, 0), f"${tex}$", prop=FONT)
    numbers = [command(vertices, code) for vertices, code in path.iter_segments(simplify=False, curves=True)]
    em = FONT.get_size()
    size = f'width="{width / em:.3f}em" height="{(height + MARGIN) / em:.3f}em"'
    box = f"0 {-height + depth - MARGIN / 2:.2f} {width:.2f} {height + MARGIN:.2f}"
    style = "" if display else f' style="vertical-align:{-(depth + MARGIN / 2) / em:.3f}em"'
    svg = (
        f'<svg class="equation" role="img" aria-label="{label}" viewBox="{box}" {size}{style}>'
        f'<path transform="scale(1 -1)" fill="currentColor" d="{"".join(numbers)}"/></svg>'
    )
    return f'<div class="equation">{svg}</div>' if display else svg


def command(vertices: Any, code: int) -> str:
    """A piece of a path in the letters of SVG."""
    letter = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}[code]
    return letter + (
        "" if letter == "Z" else " ".join(f"{number:.2f}".rstrip("0").rstrip(".") for number in vertices)
    )
