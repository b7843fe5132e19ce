"""A real browser: Debian's chromium, better the one that has no windows, driven by Playwright. Without a browser
these tests are skipped, and fail where REGARD_BROWSER=required is set."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from expected import DEADLINE

SIZE = {"width": 1200, "height": 900}
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# No GPU and no sandbox: tests may run as root in a container. No optimising compilers: no script runs long enough.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--js-flags=--no-opt,--no-maglev",
    "--process-per-site",
    "--renderer-process-limit=1",
    "--force-color-profile=srgb",
)

# What the page does when somebody goes back or forward in the history, if it has its models.
SHOW = """address => {
    if (!document.querySelector("#work:not([hidden])")) return false;
    scrollTo(0, 0);
    history.pushState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
    return true;
}"""
# All that axe has to tell fills megabytes, so only what is asserted leaves the browser.
VIOLATIONS = """async ([within, without]) => {
    const seen = without ? {exclude: [[without]]} : within || document;
    const {violations} = await axe.run(seen, {resultTypes: ["violations"]});
    return violations.flatMap(one => one.nodes.map(node => `${one.id}: ${node.target} ${node.failureSummary}`));
}"""


def missing() -> str:
    """Why there is no browser; "": there is one."""
    for name in ("playwright", "axe_playwright_python"):
        if find_spec(name) is None:
            return f"{name} is not installed: pip install 'regard[dev]'"
    if not any(map(shutil.which, NAMES)):
        return f"none of {', '.join(NAMES)} is installed: apt-get install chromium-headless-shell"
    return ""


RUNNING: list[Any] = []  # Playwright and its browser


@pytest.fixture(scope="module")
def browser() -> Any:
    """One for all tests, until the next needs none: while Playwright runs, no other can run an event loop in this
    thread."""
    if why := missing():
        if os.environ.get("REGARD_BROWSER") == "required":
            pytest.fail(f"a browser is required here, and {why}")
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, NAMES)))
    if not RUNNING:
        playwright = sync_playwright().start()
        RUNNING.append(playwright)
        RUNNING.append(playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS)))
    return RUNNING[-1]


def close_browser() -> None:
    for browser in RUNNING[1:]:
        browser.close()
    for playwright in RUNNING[:1]:
        playwright.stop()
    RUNNING.clear()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if "browser" not in getattr(nextitem, "fixturenames", ()):
        close_browser()


def pytest_sessionfinish() -> None:
    close_browser()


@pytest.fixture
def new_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages, each in a context of its own, as `browser.new_context` takes it. What goes wrong in one fails
    the test: an error of a script, a message of the console, a dialog, a request to another machine. Messages that
    a test expects are taken out of `page.troubles`."""
    pages: list[Any] = []
    troubles: list[str] = []

    def new(**settings: Any) -> Any:
        pages.append(watched(browser, troubles, **settings))
        return pages[-1]

    yield new
    for page in pages:
        page.context.close()
    assert not troubles


@pytest.fixture(scope="module")
def kept_page(browser: Any) -> Iterator[Any]:
    """One page for a file of tests, for `same_page`."""
    page = watched(browser, [])
    yield page
    page.context.close()


@pytest.fixture
def same_page(kept_page: Any) -> Iterator[Any]:
    """As from `new_page`, but shared with other tests, since a new one takes half a second: for those that keep
    nothing in the browser, and begin with a document or state of their own. `look` changes its size and colours."""
    kept_page.troubles.clear()
    kept_page.mouse.move(0, 0)
    yield kept_page
    kept_page.evaluate("() => new Promise(done => setTimeout(done))")  # what was said late arrives now
    look(kept_page)
    assert not kept_page.troubles


def look(page: Any, width: int = SIZE["width"], height: int = SIZE["height"], scheme: str = "light") -> None:
    if page.viewport_size != {"width": width, "height": height}:
        page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)


def watched(browser: Any, troubles: list[str], **settings: Any) -> Any:
    """A page in a context of its own; what goes wrong in it is added to `troubles`."""
    context = browser.new_context(**{"viewport": SIZE, **settings})
    context.set_default_timeout(DEADLINE)
    page = context.new_page()
    page.on("pageerror", lambda error: troubles.append(f"error: {error.stack or error}"))
    page.on("console", lambda said: said.type in ("error", "warning") and troubles.append(said.text))
    page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: is_far(request.url) and troubles.append(f"asked {request.url}"))
    page.troubles = troubles
    return page


def is_far(address: str) -> bool:
    return not address.startswith(("http://127.0.0.1:", "http://localhost:", "file:", "data:", "blob:", "about:"))


@pytest.fixture
def page(new_page: Callable[..., Any]) -> Any:
    return new_page()


@pytest.fixture
def violations() -> Callable[..., list[str]]:
    """What axe-core finds wrong with a page for people who use assistive technology; best practices too.
    `within`: only this part; `without`: all but this part, which takes long and is checked elsewhere."""

    def check(page: Any, within: str = "", without: str = "") -> list[str]:
        if not page.evaluate("() => 'axe' in window"):
            axe = files("axe_playwright_python").joinpath("axe.min.js")
            page.evaluate(axe.read_text(encoding="utf-8"))
        return page.evaluate(VIOLATIONS, [within, without])

    return check


# ---- the page


@pytest.fixture(scope="session")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model with 24 layers of 16 heads that sees 1,024 letters; its weights are random."""
    from dataclasses import replace

    import torch

    import regard
    from regard.data.artifacts import Artifacts
    from regard.runs.folder import begin, save_weights

    small: Any = regard.load("shakespeare", device="cpu")
    torch.manual_seed(0)
    model = type(small.model)(replace(small.model.config, dim=64, layers=24, heads=16, max_positions=1024))
    folder = tmp_path_factory.mktemp("long") / "long"
    folder.mkdir()
    begin(folder, model, Artifacts(small.tokenizer), "")
    save_weights(folder, model)
    return folder


@pytest.fixture(scope="session")
def few_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few-shot learner with random weights."""
    import small_models

    from regard.runs.folder import begin, save_weights

    model = small_models.build("snail")
    folder = tmp_path_factory.mktemp("few") / "few"
    folder.mkdir()
    begin(folder, model, small_models.artifacts(model), "")
    save_weights(folder, model)
    return folder


@pytest.fixture(scope="session")
def address(long_run: Path, few_run: Path) -> Iterator[str]:
    """A server over the shipped runs and these two, in a thread of this process."""
    with listening(str(long_run), str(few_run)) as found:
        yield found


@contextmanager
def listening(
    *more: str, token: str = "", port: int = 0, root: str = "", frames: tuple[str, ...] = ()
) -> Iterator[str]:
    import uvicorn

    from regard.app.serve.application import build
    from regard.app.serve.counters import Counters
    from regard.app.serve.limits import Limits
    from regard.app.serve.shelf import Shelf
    from regard.app.serve.start import bind
    from regard.runs.shipped import shipped

    shelf = Shelf([*shipped(), *more], limits=Limits(), counters=Counters(), device="cpu")
    listener = bind("127.0.0.1", port)
    config = uvicorn.Config(
        build(shelf, token=token, root=root, frames=frames),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        listener.close()


class Cable:
    """Between a browser and a server: `cut` ends every connection in the middle and refuses others until `mend`."""

    def __init__(self, port: int) -> None:
        self.server, self.ends = port, list[socket.socket]()
        self.listener = self.listen(0)
        self.port = self.listener.getsockname()[1]

    def listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()
        return listener

    def accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                browser, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server))
                self.ends += [browser, server]
                for both in ((browser, server), (server, browser)):
                    threading.Thread(target=self.carry, args=both, daemon=True).start()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        for end in (self.listener, *self.ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.ends.clear()

    def mend(self) -> None:
        self.listener = self.listen(self.port)


@pytest.fixture
def cable(address: str) -> Iterator[Cable]:
    """To the server of `address`."""
    found = Cable(int(address.rpartition(":")[2]))
    yield found
    found.cut()


@pytest.fixture
def resized() -> Callable[..., None]:
    return look


@pytest.fixture
def serve() -> Callable[..., Any]:
    return listening


@pytest.fixture
def visit(address: str, same_page: Any) -> Callable[..., Any]:
    """Shows a state of the page, given as its parameters, and waits for the answer and its view. The page is loaded
    only where there is none yet, or where `fresh` wants nothing of a visit before. For what is kept in the browser,
    or for other settings of it, give a new page."""

    def go(
        view: str | None = ".regard .stage",
        page: Any = same_page,
        timeout: int = DEADLINE,
        fresh: bool = False,
        **state: str,
    ) -> Any:
        found = f"{address}/#{urlencode(state)}"
        if fresh:
            page.goto(f"{address}/health")  # else only the state would change
        if not page.evaluate(SHOW, found):
            page.goto(found)
        page.wait_for_selector(".panel:not([aria-busy]) .answer > *", timeout=timeout)
        if view:
            page.wait_for_selector(f".panel {view}")
        return page

    return go
