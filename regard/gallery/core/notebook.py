"""An example as a notebook: the same text and the same code in cells. It is written without outputs."""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

from regard.errors import BadInput
from regard.gallery.core.example import Example

REPOSITORY = "REGARD_REPOSITORY"
GITHUB = re.compile(r"(?:https://github\.com/)?([\w.-]+/[\w.-]+?)(?:\.git)?/?")
COLAB = "https://colab.research.google.com/github/{}/blob/main/docs/notebooks/gallery/{}.ipynb"
NEEDED = "It needs regard; in the folder of its sources: `pip install .`"
INSTALL = """# In Colab: install regard first. Elsewhere it is there already.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("regard") is None:
    address = "git+https://github.com/{}"
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", address])"""


def repository() -> str:
    """The public repository on GitHub, as "owner/name": what $REGARD_REPOSITORY says, else `Repository` in
    [project.urls] of pyproject.toml. Empty where neither names one: then there are no links to Colab, and notebooks
    say that regard is to be installed first."""
    named = os.environ.get(REPOSITORY, "")
    if not named:
        links = [link.partition(",") for link in _links()]
        named = next((address.strip() for name, _, address in links if name.strip().lower() == "repository"), "")
        return found[1] if (found := GITHUB.fullmatch(named)) else ""  # it may be published elsewhere
    if not (found := GITHUB.fullmatch(named)):
        raise BadInput(f"{REPOSITORY} must be owner/name or an address on https://github.com, got {named[:80]!r}")
    return found[1]


def _links() -> list[str]:
    try:
        return metadata("regard").get_all("Project-URL") or []
    except PackageNotFoundError:  # its sources alone
        return []


def colab_address(example: Example) -> str:
    """Empty where the repository is not named."""
    return COLAB.format(named, example.name) if (named := repository()) else ""


def notebook(example: Example) -> str:
    """The text of the .ipynb file."""
    colab = colab_address(example)
    head = f"[Open in Colab]({colab})" if colab else NEEDED
    cells = [_text("title", f"# {example.title}\n\n{head}\n\n{example.text}")]
    if colab:
        cells.append(_code("install", INSTALL.format(repository())))
    for number, step in enumerate(example.steps, 1):
        if step.text:
            head = f"## {step.heading}\n\n" if step.shown else ""
            cells.append(_text(f"text-{number}", head + step.text))
        cells.append(_code(f"code-{number}", f"{step.code}\n\n\n{step.name}()" if step.shown else step.code))
    try_this = "\n\n".join(filter(None, (example.try_this, example.hint)))
    cells.append(_text("end", f"## Try\n\n{try_this}\n\n## In the package\n\n{example.where}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _text(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(name: str, code: str) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {},
        "outputs": [],
    }
    return whole | {"source": code.splitlines(keepends=True)}
