"""The tab Learn in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from expected import expect, place

from regard.gallery import GALLERY
from regard.show import Tape


def test_the_tab_shows_examples_and_answers_what_is_typed(
    page: Any, address: str, violations: Callable[..., list[str]]
) -> None:
    page.goto(address)
    page.get_by_role("link", name="Learn").click()
    expect(page.locator(".lessons a")).to_have_count(len(GALLERY))
    page.get_by_role("link", name="YOUR CAT IS A LOVELY CAT").click()
    page.wait_for_selector("#lesson[data-shown=cat]")
    first = page.locator("section").filter(has=page.get_by_role("heading", name="Without positions"))
    expect(first.locator(".regard-map")).to_contain_text("LOVELY")
    first.get_by_label("text", exact=True).fill("the dog sees the dog")
    expect(first.locator(".regard-map")).to_contain_text("dog")
    expect(first.locator(".regard-map")).not_to_contain_text("LOVELY")
    expect(page.locator("#lesson table").first).to_contain_text("LOVELY")
    assert not violations(page, without=".regard")  # maps have tests of their own


def test_hostile_text_is_text_and_an_error_is_told(page: Any, address: str) -> None:
    page.goto(f"{address}/learn#cat")
    page.wait_for_selector("#lesson[data-shown=cat]")
    first = page.locator("section").filter(has=page.get_by_role("heading", name="Without positions"))
    first.get_by_label("text", exact=True).fill("<img src=x onerror=alert(1)> {{7*7}}")
    expect(first.locator(".regard-map")).to_contain_text("onerror=alert(1)>", use_inner_text=True)
    assert page.locator("#lesson .regard img").count() == 0
    first.get_by_label("text", exact=True).fill(" ")
    expect(first.get_by_role("alert")).to_contain_text("text must be a text of 1 to 200 characters")
    page.troubles.clear()  # the console names the refused request


def test_a_slider_on_a_phone_in_the_dark(
    new_page: Callable[..., Any], address: str, violations: Callable[..., list[str]]
) -> None:
    page = new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.goto(f"{address}/learn#lookup")
    page.wait_for_selector("#lesson[data-shown=lookup]")
    part = page.locator("section").filter(has=page.get_by_role("heading", name="By number"))
    expect(part).to_contain_text("the age read is 62")
    part.get_by_role("slider", name="number").focus()
    page.keyboard.press("ArrowRight")
    expect(part).to_contain_text("the age read is 58")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert not violations(page)


def test_a_tape_keeps_its_size_when_a_slider_moves(page: Any, address: str) -> None:
    tape = Tape({"input": np.eye(4, 40)}, memory=np.zeros((40, 6, 4))).data()
    slider = {"name": "length", "default": 20, "least": 1, "most": 60, "step": 1}
    text = [{"kind": "text", "spans": [{"kind": "text", "words": "A long text. " * 800}]}]
    step = {"name": "one", "heading": "One", "text": text, "code": "", "inputs": [slider], "result": tape}
    example = {"name": "turing", "title": "T", "text": [], "try": [], "where": [], "notebook": "", "steps": [step]}
    page.route("**/api/gallery/turing", lambda route: route.fulfill(json=example))
    page.route("**/api/gallery/turing/one", lambda route: route.fulfill(json={**tape, "title": "anew"}))
    page.goto(f"{address}/learn#turing")
    before = place(page.locator(".regard-tape .track"))
    assert before["height"] > 300
    page.get_by_role("slider", name="length").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".regard-tape h4")).to_have_text("anew")
    assert place(page.locator(".regard-tape .track"))["height"] == before["height"]
