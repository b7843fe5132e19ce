"""The search of the docs, opened from disk: its worker is replaced by a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SHIM = Path(__file__).parents[2] / "docs" / "assets" / "search_from_disk.js"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>search</title>
<script src="shim.js"></script></head><body><p id="found"></p><script>
const worker = new Worker(new URL("worker.js", location));
worker.addEventListener("message", message => { document.querySelector("#found").textContent += message.data; });
worker.postMessage("one ");
worker.postMessage("two ");
</script></body></html>"""
WORKER = """addEventListener("message", async message => { postMessage(message.data.toUpperCase()); });"""


def test_a_worker_answers_on_a_page_from_disk(page: Any, tmp_path: Path) -> None:
    (tmp_path / "shim.js").write_text(SHIM.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "worker.js").write_text(WORKER, encoding="utf-8")
    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    page.goto((tmp_path / "index.html").as_uri())
    page.wait_for_function("() => document.querySelector('#found').textContent === 'ONE TWO '")
