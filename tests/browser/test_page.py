"""The page in a real browser, over the shipped models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from expected import VIEWS, does_not_scroll_sideways, expect, expect_state, place, state

Visit = Callable[..., Any]
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)></script>\u202eevil\u2066\0 💥&lt;b&gt;{{7*7}}'


def answer(page: Any) -> Any:
    """Where the first model's answer stands."""
    return page.locator(".panel .answer").first


# ---- asking


def test_the_first_view_appears_without_typing(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(".panel .regard-map .stage")
    expect(answer(page)).to_contain_text("1979-05-03")
    expect(page.locator("textarea").first).to_have_value("3 May 1979")


def test_a_text_appears_as_it_is_written(visit: Visit) -> None:
    page = visit(model="shakespeare", options='{"max_tokens": 40}')
    page.evaluate("""() => {
        window.lengths = [];
        const seen = () => lengths.push(document.querySelector('.answer').textContent.length);
        const all = {childList: true, subtree: true, characterData: true};
        new MutationObserver(seen).observe(document.querySelector('.answer'), all);
    }""")
    page.click("button.main")
    page.wait_for_function("() => lengths.length")
    page.wait_for_selector(".panel:not([aria-busy])")
    lengths = page.evaluate("() => lengths")
    assert len(set(lengths)) > 10
    page.wait_for_selector(".panel .regard-map .stage")


def test_what_is_stopped_can_be_asked_again(visit: Visit) -> None:
    page = visit(model="dates")
    page.route("**/dates/translate", lambda route: None, times=1)  # never answered
    page.fill("textarea", "7 July 2007")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.get_by_role("button", name="Translate").click()
    expect(answer(page)).to_contain_text("2007-07-07")


def test_an_error_is_told_beside_the_input_and_nothing_is_lost(visit: Visit) -> None:
    page = visit(model="dates")
    page.click("text=Options")
    page.get_by_role("spinbutton", name="temperature").fill("0.5")
    page.get_by_label("beam", exact=True).fill("4")
    page.fill("textarea >> nth=0", "5 May 1955")
    page.click("button.main")
    expect(page.locator(".ask .error")).to_contain_text("temperature samples")
    expect(page.locator("textarea").first).to_have_value("5 May 1955")
    page.get_by_role("spinbutton", name="temperature").fill("")
    page.click("button.main")
    expect(answer(page)).to_contain_text("1955-05-05")
    expect(page.locator(".ask .error")).to_be_empty()
    expect_state(page, options={"beam": 4})
    page.troubles.clear()  # the console names the refused request


def test_what_was_not_read_is_said(visit: Visit) -> None:
    page = visit(".answer .label", model="reviews", text="It was warm. " * 20)
    expect(answer(page)).to_contain_text("Only a part of the input was read: 16 of 20 sentences")
    page.fill("textarea >> nth=0", "It was lovely.")
    page.click("button.main")
    expect(page.locator(".unread")).to_have_count(0)


def test_hostile_tokens_are_text(visit: Visit) -> None:
    page = visit(model="de-en", text=HOSTILE, options='{"max_length": 20}')
    assert page.locator("textarea").first.input_value() == HOSTILE
    assert page.locator(".panel img, .panel script").count() == 0
    for way, drawn in {"Links": ".links", "Text": ".words", "Map": ".cells"}.items():
        page.locator(".panel .choices").get_by_text(way, exact=True).click()
        page.wait_for_selector(f".panel .stage {drawn}")
        assert page.locator(".panel img, .panel script").count() == 0
    page.locator(".modes").get_by_text("Step by step").click()
    page.wait_for_selector(".candidates li")
    expect(page.locator(".stepping .regard")).to_contain_text("<script>", use_inner_text=True)
    assert page.locator(".panel img, .panel script").count() == 0


def test_a_number_says_what_it_is_of(visit: Visit, same_page: Any, resized: Callable[..., None]) -> None:
    resized(same_page, 390, 844)
    page = visit(model="bandits")
    expect(page.get_by_label("environment number")).to_have_value("0")
    assert place(page.get_by_text("environment number", exact=True))["width"] > 100, "no letter is cut"
    expect(page.locator(".told").first).to_contain_text("Each row is one arm; dark", use_inner_text=True)


# ---- seeing


def test_all_heads_and_one_enlarged(visit: Visit) -> None:
    page = visit(".regard-heads canvas", model="de-en", text="Wo ist der Bahnhof?", site="*")
    expect(page.locator(".regard-heads .heads button")).to_have_count(36)
    page.locator(".regard-heads .heads button").nth(17).click()
    expect_state(page, view={"site": "decoder.0.cross", "head": 1})
    expect(page.locator(".chosen")).to_contain_text("head 1 · decoder.0.cross", use_inner_text=True)


def test_gates_of_a_recurrent_layer(visit: Visit) -> None:
    page = visit(model="dates")
    page.locator(".panel-tools select").select_option("cell")
    expect(page.locator(".regard-heads .grid")).to_contain_text("cell, reset", use_inner_text=True)
    expect(page.locator(".told").first).to_contain_text("Each column is a character that was read")


def test_vectors_without_attention_are_seen_beside_those_of_the_examples(visit: Visit) -> None:
    page = visit(".strip-of >> nth=2", model="sentences-elmo", text="We sat on the bank of the lake.")
    named = page.locator(".regard-vectors .strip-of > span")
    expect(named).to_have_count(4)
    near = [named.nth(at).inner_text() for at in range(1, 4)]
    assert near == sorted(near, reverse=True)
    assert near[0].endswith("They sat on the bank of the river.")
    page.locator(".panel .menu summary").click()
    with page.expect_download() as kept:
        page.locator(".panel .menu").get_by_text("Numbers (CSV)").click()
    rows = kept.value.path().read_text().splitlines()
    assert sum(row.startswith("cosines,") for row in rows) == 16, "of all four with each other"
    page.locator(".options summary").click()
    page.get_by_label("tokens").select_option("true")
    page.click("button.main")
    expect(named.first).to_have_text("We")
    expect(named).to_have_count(9)


def test_the_address_restores_what_was_seen(visit: Visit, new_page: Callable[..., Any]) -> None:
    page = visit(".regard-heads canvas", model="de-en", text="Wo ist der Bahnhof?", site="encoder.1.attend")
    page.locator(".regard-heads .heads button").nth(2).click()
    page.locator(".chosen .choices").get_by_text("Links").click()
    seen = {"site": "encoder.1.attend", "head": 2, "way": "links"}
    expect_state(page, model="de-en", site="encoder.1.attend", text="Wo ist der Bahnhof?", view=seen)
    other = new_page()
    other.goto(page.evaluate("() => location.href"))
    other.wait_for_selector(".panel:not([aria-busy]) .regard-heads .chosen .stage")
    expect(other.locator(".chosen")).to_contain_text("head 2")
    expect(other.locator(".chosen input:checked")).to_have_value("links")
    expect(other.locator(".panel-tools select")).to_have_value("encoder.1.attend")
    other.get_by_role("button", name="Copy link").click()  # brings the address up to date
    other.get_by_text(re.compile("^Cop(ied|y it)")).wait_for()
    assert state(other) == state(page)


def test_a_link_is_copied(visit: Visit) -> None:
    page = visit(model="dates", text="7 July 2007")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied.").wait_for()
    copied, shown = page.evaluate("async () => [await navigator.clipboard.readText(), location.href]")
    assert copied == shown


def test_back_and_forward(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    page.click(".chip >> nth=1")
    expect(answer(page)).to_contain_text("2020-06-05")
    page.go_back()
    expect(answer(page)).to_contain_text("1979-05-03")
    expect(page.locator("textarea").first).to_have_value("3 May 1979")
    page.go_forward()
    expect(answer(page)).to_contain_text("2020-06-05")


def test_what_is_seen_can_be_kept(visit: Visit) -> None:
    page = visit(model="dates")
    for form in ("PNG", "SVG", "CSV", "JSON"):
        page.click(".menu summary")
        with page.expect_download() as found:
            page.click(f".menu button:has-text('{form}')")
        assert found.value.suggested_filename == f"dates.{form.lower()}"
        data = found.value.path().read_bytes()
        assert len(data) > 500
        if form == "JSON":
            assert json.loads(data)["kind"] == "map"
            assert json.loads(data)["answer"] == "1979-05-03"


def test_an_answer_that_is_lost_is_asked_for_again(visit: Visit, address: str) -> None:
    page = visit(model="dates")
    page.route(
        re.compile("/answers/.*/attention"),
        lambda route: route.fulfill(status=404, json={"error": {"message": "no longer kept", "code": 404}}),
        times=1,
    )
    page.locator(".panel-tools select").select_option("cell")
    page.wait_for_selector(".regard-heads .grid")
    page.troubles.clear()


def test_a_server_that_restarts_is_asked_again(serve: Callable[..., Any], new_page: Callable[..., Any]) -> None:
    page = new_page()
    with serve() as address:
        page.goto(address)
        page.wait_for_selector(".panel .regard-map .stage")
    page.fill("textarea", "8 August 2008")
    with page.expect_event("requestfailed"):
        page.keyboard.press("Enter")
    with serve(port=int(address.rpartition(":")[2])):
        expect(answer(page)).to_contain_text("2008-08-08")
        page.wait_for_selector(".panel .regard-map .stage")
        page.goto("about:blank")
    page.troubles.clear()


# ---- long inputs


def test_a_thousand_tokens_with_24_layers_of_16_heads(visit: Visit) -> None:
    text = ("To be, or not to be, that is the question. " * 30)[:990]
    options = json.dumps({"max_tokens": 10, "temperature": 0})
    page = visit(".regard *", timeout=60_000, model="long", text=text, options=options, site="blocks.20.attend")
    page.wait_for_selector(".regard-heads .heads canvas", timeout=60_000)
    expect(page.locator(".regard-heads .heads button")).to_have_count(16)
    page.wait_for_selector(".regard-heads .chosen .stage *", timeout=60_000)
    page.locator(".regard-heads .heads button").nth(5).click()
    expect(page.locator(".chosen .sub").first).to_contain_text(
        "21st layer, looking at its own input, head 5 · blocks.20.attend"
    )
    expect(page.locator(".chosen [aria-busy]")).to_have_count(0, timeout=60_000)
    assert does_not_scroll_sideways(page)


# ---- everybody


def test_by_keyboard_alone(same_page: Any, address: str) -> None:
    page = same_page
    page.goto(address)
    page.wait_for_selector(".panel .regard-map .stage")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".ask")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("textarea").first).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("1 January 2001")
    page.keyboard.press("Enter")
    expect(answer(page)).to_contain_text("2001-01-01")
    page.wait_for_selector(".panel:not([aria-busy])")
    seen = []
    for _ in range(24):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("""() => {
            const style = getComputedStyle(document.activeElement), own = document.activeElement;
            const around = getComputedStyle(own.parentElement), beside = own.nextElementSibling;
            const shown = [style, around, ...beside ? [getComputedStyle(beside)] : []];
            const outlined = shown.some(one => one.outlineStyle !== 'none');
            return [own.tagName, own.getAttribute('aria-label') ?? own.textContent.slice(0, 20), outlined];
        }""")
        )
    assert all(outlined for tag, _, outlined in seen if tag != "BODY"), seen
    assert any(name.startswith("Download") for _, name, _ in seen)


def test_skipping_to_the_input_keeps_what_is_asked(visit: Visit) -> None:
    page = visit(model="de-en", text="Wo ist der Bahnhof?")
    page.focus(".skip")
    page.keyboard.press("Enter")
    expect(page.locator(".ask")).to_be_focused()
    assert state(page)["text"] == "Wo ist der Bahnhof?"
    expect(page.locator("textarea").first).to_have_value("Wo ist der Bahnhof?")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 375), ("light", 1200)])
def test_nothing_is_in_the_way_of_assistive_technology(
    visit: Visit,
    same_page: Any,
    resized: Callable[..., None],
    violations: Callable[..., list[str]],
    scheme: str,
    width: int,
) -> None:
    resized(same_page, width, 800, scheme)
    page = visit(model="dates", text="3 May 1979")
    assert violations(page) == []
    assert does_not_scroll_sideways(page)
    if (folded := page.get_by_role("button", name="Controls")).is_visible():
        folded.click()
        assert violations(page) == []
    page.locator(".modes").get_by_text("Step by step").click()
    page.wait_for_selector(".candidates li")
    page.wait_for_selector(".stepping .regard-shaded .stage")
    assert violations(page) == []
    assert does_not_scroll_sideways(page)


def test_every_kind_of_shipped_model_has_its_view_and_says_what_it_shows_also_on_a_phone(
    visit: Visit, same_page: Any, resized: Callable[..., None], violations: Callable[..., list[str]]
) -> None:
    resized(same_page, 375, 780)
    seen = ""
    for model, view in VIEWS.items():
        page = visit(f".regard-{view} .told", model=model, options='{"max_tokens": 40}')
        expect(page.locator(".model-card:has(:checked) strong")).to_have_text(model)
        assert answer(page).inner_text().strip(), model
        told = page.locator(f".seen > .regard-{view}").inner_text()
        assert re.search(r"(Each|Dark|Time|What was|The bar)\b[^.]+\.", told), (model, told)
        assert does_not_scroll_sideways(page), model
        assert violations(page, without=seen) == [], model
        seen = ".models"


FIRST = ".cells, canvas:not(.sign-line), .words, .sentences, .query img, .sheet .grid"  # the first of a picture


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_answer_and_picture_are_seen_without_scrolling(
    visit: Visit, same_page: Any, resized: Callable[..., None], width: int, height: int
) -> None:
    resized(same_page, width, height)
    same_page.goto("about:blank")  # nothing of tests before
    for model, view in VIEWS.items():
        page = visit(f".regard-{view} *", model=model)
        told = place(page.locator(".panel .answer > *").first)
        seen = place(page.locator(f".seen > .regard-{view}").locator(FIRST).first)
        assert told["y"] + 20 < height / 2, model
        assert seen["y"] < 0.8 * height, model


def test_a_map_uses_the_room_of_the_window_and_fits_into_it(
    visit: Visit, same_page: Any, resized: Callable[..., None]
) -> None:
    for width, height in ((1280, 720), (1440, 900)):
        resized(same_page, width, height)
        box = place(visit(model="dates").locator(".panel .cells"))
        assert box["y"] + box["height"] < height
    assert box["height"] > 450


def test_heads_stay_in_sight_while_a_tape_plays(visit: Visit, same_page: Any, resized: Callable[..., None]) -> None:
    resized(same_page, 1280, 720)
    page = visit(".regard-tape .heads-and", model="copy", fresh=True)
    expect(page.locator(".regard-tape .key")).to_contain_text("of 128 places were used")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".memory .sub")).to_have_text(re.compile("after step [0-7]$"))
    for part in (".track", ".step", ".memory canvas >> nth=1"):
        box = place(page.locator(f".regard-tape {part}"))
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 720
