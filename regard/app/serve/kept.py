"""The page as one HTML file without a server: its modules, its style and the views are in it, and what it answers
was kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from regard.app.serve.bundle import EARLY, framed, whole
from regard.app.serve.static import read_texts
from regard.show.html_page import json_text

Entry = tuple[str, Any, Any, int]  # address, body or None, answer, status
TABLE = "<!-- kept -->"  # where the page puts the answers when it saves itself
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'self'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
LINK = re.compile(r'<link rel="icon"[^>]*>\n')  # to a server
TABS = re.compile(r'<nav class="tabs".*?</nav>')


def kept_page(table: str = TABLE, gallery: str = "") -> str:
    """`table`: the element with the answers; `gallery`: the address of the gallery's pages, if there are some."""
    files = read_texts()
    page = EARLY.sub("", LINK.sub("", framed(files["page/index.html"], files)))
    page = whole(page, files, every_view=True).text
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    tabs = f'<nav class="tabs" aria-label="Pages"><a href="{gallery}">Learn</a></nav>' if gallery else ""
    page = TABS.sub(lambda found: tabs, page).replace("<style>", f"{policy}<style>", 1)
    # A module waits for the end of the page: this script, which answers it, comes before.
    start = f"<script>\n{files['page/kept.js']}</script>\n"
    return page.replace("</body>", f"{table}\n{start}</body>")


def kept_table(answers: Sequence[Entry], files: Mapping[str, str]) -> str:
    """The element with the answers; `files`: those of models whose answers lie in a file of their own."""
    data = {"answers": answers, "files": files, "hash": ""}
    return f'<script type="application/json" id="kept">{json_text(data)}</script>'
