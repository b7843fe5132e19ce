"""The page as one HTML file without a server: its modules, its style and the views are in it, and what it answers
was kept. Files of a disk may not import each other, so the modules are `data:` addresses in an import map."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from regard.app.serve.static import PRELOADED, File, read_files
from regard.show.html_page import json_text

Entry = tuple[str, Any, Any, int]  # address, body or None, answer, status
TABLE = "<!-- kept -->"  # where the page puts the answers when it saves itself
IMPORT = re.compile(r"(\bfrom |\bimport\()([\"`])\.(/|\./views/)")
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'self' data:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
LINK = re.compile(r'<(link|script)[^>]* (href|src)="(page|views)/[^>]*>(</script>)?\n')
TABS = re.compile(r'<nav class="tabs".*?</nav>')


def kept_page(table: str = TABLE, gallery: str = "") -> str:
    """`table`: the element with the answers; `gallery`: the address of the gallery's pages, if there are some."""
    files = dict(read_files())
    page = LINK.sub("", files["/page/index.html"].data.decode())
    style = "\n".join(
        file.data.decode() for name, file in sorted(files.items(), key=by_use) if name.endswith(".css")
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<style>\n{style}</style>\n'
        f'<script type="importmap">{json.dumps({"imports": modules(files)})}</script>\n'
    )
    tabs = f'<nav class="tabs" aria-label="Pages"><a href="{gallery}">Learn</a></nav>' if gallery else ""
    start = f"<script>\n{files['/page/kept.js'].data.decode()}</script>\n"
    start += '<script type="module">import "page/main.js";</script>\n'
    page = TABS.sub(lambda found: tabs, page)
    page = page.replace(PRELOADED, head)
    return page.replace("</body>", f"{table}\n{start}</body>")


def by_use(file: tuple[str, File]) -> tuple[bool, bool, str]:
    """What all views share first, the page's own last."""
    return file[0].startswith("/page/"), not file[0].endswith("/parts.css"), file[0]


def modules(files: Mapping[str, File]) -> dict[str, str]:
    """page/main.js -> data:text/javascript;base64,..."""
    made = {}
    for address, file in files.items():
        if address.endswith(".js"):
            folder = address.split("/")[1]
            text = IMPORT.sub(partial(renamed, folder), file.data.decode())
            code = base64.b64encode(text.encode()).decode()
            made[address[1:]] = f"data:text/javascript;base64,{code}"
    return made


def renamed(folder: str, found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{'views' if found[3] == './views/' else folder}/"


def kept_table(answers: Sequence[Entry], files: Mapping[str, str]) -> str:
    """The element with the answers; `files`: those of models whose answers lie in a file of their own."""
    data = {"answers": answers, "files": files, "hash": ""}
    return f'<script type="application/json" id="kept">{json_text(data)}</script>'
