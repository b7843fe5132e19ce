"""A page without a server: the site that `regard page` writes, and the page that saves itself, opened from disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from expected import expect, place

Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from regard.app.serve.site import new_shelf, write_site

    out = tmp_path_factory.mktemp("site")
    told: list[str] = []
    with ThreadPoolExecutor(1) as thread:  # it runs an event loop
        shelf = new_shelf(["dates", "shapes"], "cpu")
        written = thread.submit(write_site, shelf, out, [], gallery="", told=told.append).result()
    assert told == ["dates", "shapes"]
    assert [path.name for path in written] == ["index.html", "0.js", "1.js"]
    return out


def test_a_site_opens_from_disk(site: Path, page: Any, violations: Callable[..., list[str]]) -> None:
    page.goto(f"{(site / 'index.html').as_uri()}")
    expect(page.locator(".panel .answer")).to_contain_text("1979-05-03")
    page.wait_for_selector(".panel .regard-map .stage")
    page.click(".chip >> nth=1")
    expect(page.locator(".panel .answer")).to_contain_text("2020-06-05")
    page.locator(".panel .choices").get_by_text("Links", exact=True).click()
    page.wait_for_selector(".panel .stage .links")
    assert violations(page) == []
    page.locator(".modes").get_by_text("Step by step").click()
    page.wait_for_selector(".candidates li")
    for count in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".tokens button")).to_have_count(count)
    page.check("input[value=shapes]")
    page.wait_for_selector(".panel .regard-overlay canvas")
    expect(page.locator(".panel .answer .label")).not_to_be_empty()


def test_what_is_not_in_a_site_is_said(site: Path, page: Any) -> None:
    page.goto(f"{(site / 'index.html').as_uri()}#model=dates&text=7+July+2007")
    expect(page.locator(".ask .error")).to_contain_text("has no server behind it")
    expect(page.locator(".panel .answer")).to_be_empty()


def test_a_page_saves_itself(visit: Visit, new_page: Callable[..., Any], tmp_path: Path) -> None:
    page = visit(".regard-heads canvas", model="de-en", text="Wo ist er?", site="*")
    page.locator(".regard-heads .heads button").nth(17).click()
    page.locator(".chosen .choices").get_by_text("Links").click()
    page.wait_for_selector(".regard-heads .chosen .stage .links")
    with page.expect_download() as found:
        page.click(".menu summary")
        page.click(".menu button:has-text('This page')")
    assert found.value.suggested_filename == "de-en.html"
    found.value.save_as(tmp_path / "page.html")
    told = page.locator(".answer").inner_text()
    saved = new_page()
    saved.goto((tmp_path / "page.html").as_uri())
    saved.wait_for_selector(".regard-heads .chosen .stage .links")
    expect(saved.locator(".chosen")).to_contain_text("head 1 · decoder.0.cross", use_inner_text=True)
    assert saved.locator(".answer").inner_text() == told
    expect(saved.locator("textarea").first).to_have_value("Wo ist er?")
    saved.locator(".panel-tools select").select_option("decoder.1.cross")
    saved.wait_for_selector(".regard-heads canvas")


def test_a_page_saves_itself_with_the_weight_that_is_open(
    visit: Visit, new_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(".cell table", model="dates", text="3 May 1979", fresh=True)
    page.locator(".panel .scroll").first.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".cell h3")).to_have_text("How 1 came to look at 3", use_inner_text=True)
    with page.expect_download() as found:
        page.click(".menu summary")
        page.click(".menu button:has-text('This page')")
    found.value.save_as(tmp_path / "page.html")
    saved = new_page()
    saved.goto((tmp_path / "page.html").as_uri())
    expect(saved.locator(".cell h3")).to_have_text("How 1 came to look at 3", use_inner_text=True)
    before = saved.locator(".cell .result").inner_text()
    saved.get_by_role("slider", name="temperature").fill("3")
    expect(saved.locator(".cell .result")).not_to_have_text(before, use_inner_text=True)
    box = place(saved.locator(".panel .cells"))
    saved.locator(".panel .cells").click(position={"x": box["width"] - 5, "y": 5})
    expect(saved.locator(".cell")).to_contain_text("weights that were open")


def test_a_comparison_saves_itself(visit: Visit, new_page: Callable[..., Any], tmp_path: Path) -> None:
    changed = {"2.model": "dates", "2.within": "word", "2.text": "4 May 1979"}
    page = visit(".regard-map .stage", model="dates", text="3 May 1979", **changed)
    expect(page.locator(".differs .told")).to_contain_text("They differ most")
    told = page.locator(".differs .told").inner_text()
    with page.expect_download() as found:
        page.click(".menu summary >> nth=0")
        page.click(".menu button:has-text('This page') >> nth=0")
    found.value.save_as(tmp_path / "page.html")
    saved = new_page()
    saved.goto((tmp_path / "page.html").as_uri())
    expect(saved.locator(".differs .told")).to_have_text(told, use_inner_text=True)
    expect(saved.locator(".panel + .panel .answer")).to_contain_text("1979-05-04")
    values = saved.get_by_label("Compare with").evaluate("list => [...list.options].map(one => one.value)")
    assert values == ["=word"]


def test_a_page_with_an_image_of_ones_own_saves_itself(
    visit: Visit, new_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(".regard-overlay canvas", model="shapes", example="2")
    shown = page.locator(".drop img").get_attribute("src")
    with page.expect_download() as found:
        page.click(".menu summary")
        page.click(".menu button:has-text('This page')")
    found.value.save_as(tmp_path / "page.html")
    saved = new_page()
    saved.goto((tmp_path / "page.html").as_uri())
    saved.wait_for_selector(".regard-overlay canvas")
    expect(saved.locator(".drop img")).to_have_attribute("src", shown)


def test_the_page_about_the_api(address: str, page: Any, violations: Callable[..., list[str]]) -> None:
    page.goto(f"{address}/docs")
    page.wait_for_selector(".route")
    page.locator(".route summary").get_by_text("/api/models/{model}/translate", exact=True).click()
    opened = page.locator(".route[open]")
    expect(opened).to_contain_text("inputs (needed)")
    expect(opened).to_contain_text("beam")
    command = f"curl '{address}/api/models/dates/translate' -H 'Content-Type: application/json' -d"
    expect(opened.locator("pre")).to_contain_text(command)
    assert violations(page) == []


def test_the_page_below_the_root_of_a_proxy(serve: Callable[..., Any], new_page: Callable[..., Any]) -> None:
    page = new_page()
    with serve(root="/user/one/proxy/8000") as address:
        page.goto(f"{address}/user/one/proxy/8000/#model=dates")
        page.wait_for_selector(".panel .regard-map .stage")
        page.get_by_role("link", name="API").click()
        page.wait_for_selector(".route")
        page.get_by_role("link", name="Ask").click()
        page.wait_for_selector(".panel .regard-map .stage")
        page.goto("about:blank")
