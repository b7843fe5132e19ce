"""What a page of the browser shows comes a little after what asks for it: tests wait for it until a deadline."""

from __future__ import annotations

from typing import Any

DEADLINE = 20_000  # milliseconds


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
