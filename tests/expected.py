"""What a page of the browser shows comes a little after what asks for it: tests wait for it until a deadline."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import parse_qsl

DEADLINE = 20_000  # milliseconds
VIEWS = {  # of shipped models, one of each kind
    "bandits": "map",
    "copy": "tape",
    "dates": "map",
    "dates-seq2seq": "heads",
    "de-en": "map",
    "omniglot": "examples",
    "reviews": "document",
    "scenes": "looks",
    "sentences-bert": "map",
    "sentences-elmo": "vectors",
    "shakespeare": "map",
    "shapes": "overlay",
    "shapes-senet": "gates",
}


def expect(seen: Any) -> Any:
    """Playwright's own, imported late: without Playwright tests of the browser are skipped."""
    from playwright.sync_api import expect as expect_soon

    expect_soon.set_options(timeout=DEADLINE)
    return expect_soon(seen)


def place(seen: Any) -> dict[str, float]:
    """Where something stands once it is drawn and has come to rest: a map is drawn anew when its room changes."""
    expect(seen).to_be_visible()
    before = None
    for _ in range(DEADLINE // 50):
        found = seen.bounding_box()
        if found and found == before:
            return found
        before = found
        seen.page.wait_for_timeout(50)
    raise AssertionError(f"{seen} did not come to rest")


def state(page: Any) -> dict[str, Any]:
    """What the address says now; it may be behind what is shown."""
    found = parse_qsl(page.evaluate("() => location.hash.slice(1)"), keep_blank_values=True)
    return {name: json.loads(text) if name in ("options", "view") else text for name, text in found}


def expect_state(page: Any, **wanted: Any) -> None:
    """The address comes to say this; None: nothing of this name."""
    end = time.monotonic() + DEADLINE / 1000
    while (found := {name: state(page).get(name) for name in wanted}) != wanted and time.monotonic() < end:
        page.wait_for_timeout(20)
    assert found == wanted


def does_not_scroll_sideways(page: Any) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))
