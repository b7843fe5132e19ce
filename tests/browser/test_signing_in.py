"""Signing in to the page with a token, also within a frame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from expected import expect

Visit = Callable[..., Any]


def test_signing_in(serve: Callable[..., Any], new_page: Callable[..., Any]) -> None:
    page = new_page()
    with serve(token="s3cret") as address:
        page.goto(f"{address}/#model=dates&text=4+July+1776")
        page.fill("input[type=password]", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator(".sign-in .error")).to_contain_text("not the token")
        page.fill("input[type=password]", "s3cret")
        page.keyboard.press("Enter")
        page.wait_for_selector(".panel .regard-map .stage")
        other = new_page()
        other.goto(f"{address}/?token=s3cret#model=dates&text=4+July+1776")
        other.wait_for_selector(".panel .regard-map .stage")
        assert "s3cret" not in other.evaluate("() => location.href")
        assert other.evaluate("() => document.cookie") == ""
        for one in (page, other):
            one.goto("about:blank")
    page.troubles.clear()


class Course(BaseHTTPRequestHandler):
    """Another site, whose page shows the address after its question mark in a frame."""

    def do_GET(self) -> None:
        page = f'<iframe src="{self.path[2:]}/#model=dates" width="1100" height="800"></iframe>'.encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *told: Any) -> None:
        pass


def test_signing_in_within_a_frame_of_another_site(serve: Callable[..., Any], new_page: Callable[..., Any]) -> None:
    """Browsers keep no cookie there without https: the page brings the token itself, and asks for it once."""
    page, course = new_page(), ThreadingHTTPServer(("127.0.0.1", 0), Course)
    outside = f"http://localhost:{course.server_port}"
    threading.Thread(target=course.serve_forever, daemon=True).start()
    with serve(token="s3cret", frames=(outside,)) as address:
        page.goto(f"{outside}/?{address}")
        frame = page.frame_locator("iframe")
        frame.locator("input[type=password]").fill("s3cret")
        page.keyboard.press("Enter")
        expect(frame.locator(".panel .regard-map .stage")).to_be_visible()
        frame.get_by_role("button", name="Friday, 5 June 2020").click()
        frame.locator("button.main").click()
        expect(frame.locator(".panel .answer")).to_contain_text("2020-06-05")
        expect(frame.locator("dialog")).to_have_count(0)
        page.goto("about:blank")
    course.shutdown()
    course.server_close()
    page.troubles.clear()
