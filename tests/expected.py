"""What a page of the browser shows comes a little after what asks for it: tests wait for it until a deadline."""

from __future__ import annotations

from typing import Any

DEADLINE = 20_000  # milliseconds


def expect(seen: Any) -> Any:
    """Playwright's own, imported late: without Playwright tests of the browser are skipped."""
    from playwright.sync_api import expect as expect_soon

    expect_soon.set_options(timeout=DEADLINE)
    return expect_soon(seen)
