"""An example as a notebook: the same text and the same code in cells. It is written without outputs."""

from __future__ import annotations

import json
from typing import Any

from regard.gallery.core.example import Example

REPOSITORY = "OWNER/REPO"  # the one place that names the public repository
COLAB = f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/docs/notebooks/gallery"
INSTALL = f"""# In Colab: install regard first. Elsewhere it is there already.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("regard") is None:
    address = "git+https://github.com/{REPOSITORY}"
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", address])"""


def colab_address(example: Example) -> str:
    return f"{COLAB}/{example.name}.ipynb"


def notebook(example: Example) -> str:
    """The text of the .ipynb file."""
    link = f"[Open in Colab]({colab_address(example)})"
    cells = [_text("title", f"# {example.title}\n\n{link}\n\n{example.text}"), _code("install", INSTALL)]
    for number, step in enumerate(example.steps, 1):
        if step.text:
            head = f"## {step.heading}\n\n" if step.shown else ""
            cells.append(_text(f"text-{number}", head + step.text))
        cells.append(_code(f"code-{number}", f"{step.code}\n\n\n{step.name}()" if step.shown else step.code))
    cells.append(_text("end", f"## Try\n\n{example.try_this}\n\n## In the package\n\n{example.where}"))
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
