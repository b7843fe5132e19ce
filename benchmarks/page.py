"""The page in a real browser, against `regard serve` on loopback: how long until something is seen.

first view: from opening the page in a new browser context until the first map is drawn; the server is started, and
the model loaded unless it says otherwise. switching heads: from the key until the other head is drawn. hovering:
from the pointer's move until the row is marked, in a map of 200 tokens. The last two are counted in the page, up to
the end of the script that draws; a frame has 16.7 ms. It needs chromium and Playwright: pip install playwright."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from benchmarks.frame import Line, bench, row
from benchmarks.server import Server

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
LONG = ("Now is the winter of our discontent made glorious summer by this sun of York. " * 3)[:150]
SEEN = ".panel .regard .stage"
# Sends an event and waits until all that follows from it in the page is done.
TIMED = """async ([selector, kind, settings]) => {
    const target = document.querySelector(selector), began = performance.now();
    const Kind = kind.startsWith("key") ? KeyboardEvent : PointerEvent;
    target.dispatchEvent(new Kind(kind, {bubbles: true, ...settings}));
    await Promise.resolve();
    return performance.now() - began;
}"""


def opened(browser: Any, address: str, **state: str) -> tuple[Any, float]:
    """The page at a state, in a new context, and the seconds until its view is there."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    began = time.perf_counter()
    page.goto(f"{address}#{urlencode(state)}")
    page.wait_for_selector(SEEN)
    return page, time.perf_counter() - began


def first_view(browser: Any, address: str, times: int) -> list[float]:
    """In milliseconds."""
    milliseconds = []
    for _ in range(times):
        page, seconds = opened(browser, address)
        milliseconds.append(1000 * seconds)
        page.context.close()
    return milliseconds


def switch_heads(browser: Any, address: str, times: int) -> list[float]:
    page, _ = opened(browser, address, model="de-en", site="*", text="Er hat ein neues Auto gekauft.")
    page.focus(".heads button[tabindex='0']")
    milliseconds = []
    for number in range(times):
        key = "ArrowRight" if number % 2 == 0 else "ArrowLeft"
        milliseconds.append(page.evaluate(TIMED, [".heads button[tabindex='0']", "keydown", {"key": key}]))
        page.wait_for_timeout(30)
    page.context.close()
    return milliseconds


def hover(browser: Any, address: str, times: int) -> list[float]:
    """Rows of a map, as the arrow keys and the pointer reach them."""
    options = '{"max_tokens": 50, "temperature": 0}'
    view = '{"way": "map", "pieces": true}'
    page, _ = opened(browser, address, model="shakespeare", text=LONG, options=options, view=view)
    page.wait_for_selector(f"{SEEN} canvas")
    assert page.locator(f"{SEEN} canvas").first.evaluate("canvas => canvas.width") >= 195, "a map of 200 tokens"
    box = page.locator(f"{SEEN} canvas").first.bounding_box()
    milliseconds = []
    for number in range(times):
        place = {"clientX": box["x"] + 20 + 7 * (number % 30), "clientY": box["y"] + 10 + 9 * (number % 30)}
        milliseconds.append(page.evaluate(TIMED, [f"{SEEN} canvas", "pointermove", place]))
        page.wait_for_timeout(10)
    page.context.close()
    return milliseconds


@row("page", "The page in chromium: milliseconds until something is seen")
def page() -> Iterator[Line]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise ModuleNotFoundError(f"a browser is needed, one of {', '.join(NAMES)}")
    times = bench.pick(1, 10)
    measured: list[tuple[str, float, Callable[..., list[float]], int]] = [
        ("first view, models not loaded", 1000.0, first_view, 1),
        ("first view", 1000.0, first_view, times),
        ("switching heads (of 36)", 16.7, switch_heads, 3 * times),
        ("hovering at 200 tokens", 16.7, hover, 10 * times),
    ]
    with Server() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, aim, measure, count in measured:
            every = measure(browser, f"http://localhost:{server.port}/", count)
            middle, most = statistics.median(every), max(every)
            yield {"what": name, "median, ms": middle, "most": most, "times": count, "aim": aim}
        browser.close()
