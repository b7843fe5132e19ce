"""The page shows nothing that is untrue: what broke off, was refused or stopped, and what belongs to another input."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from expected import expect

Visit = Callable[..., Any]
LONG = json.dumps({"max_tokens": 1000, "min_length": 999})


def show(page: Any, **state: str) -> None:
    """As when somebody goes back in the history."""
    page.evaluate(
        "address => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')); }",
        f"#{urlencode(state)}",
    )


def answer(page: Any) -> Any:
    return page.locator(".panel .answer").first


# ---- a server that goes away


def test_an_answer_that_broke_off_is_asked_for_again(cable: Any, page: Any) -> None:
    page.goto(
        f"http://127.0.0.1:{cable.port}/#{urlencode({'model': 'shakespeare', 'text': 'ROMEO', 'options': LONG})}"
    )
    page.wait_for_selector(".panel .written")
    cable.cut()
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    cable.mend()
    expect(page.locator("#notice")).to_be_empty()
    page.wait_for_selector(".panel[aria-busy] .written")
    page.get_by_role("button", name="Stop").click()
    page.troubles.clear()  # the console names the connection


def test_a_server_that_is_gone_is_said_at_once_and_at_last(cable: Any, page: Any) -> None:
    page.clock.install()
    page.goto(f"http://127.0.0.1:{cable.port}/#model=dates")
    page.wait_for_selector(".panel .regard-map .stage")
    cable.cut()
    page.fill("textarea", "8 August 2008")
    page.click("button.main")
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    for _ in range(8):
        page.clock.run_for(5_000)
        page.wait_for_timeout(20)
    expect(page.locator(".ask .error")).to_contain_text("Is it still running?")
    expect(page.locator("#notice")).to_be_empty()
    expect(answer(page)).to_be_empty()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    cable.mend()
    page.click("button.main")
    expect(answer(page)).to_contain_text("2008-08-08")
    page.troubles.clear()


# ---- what belongs to another question


def test_a_refused_question_has_no_answer(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    page.click("text=Options")
    page.get_by_label("temperature").fill("0.5")
    page.get_by_label("beam", exact=True).fill("4")
    page.click("button.main")
    expect(page.locator(".ask .error")).to_contain_text("temperature samples")
    expect(answer(page)).to_be_empty()
    expect(page.locator(".panel .regard .stage")).to_have_count(0)
    expect(page.locator(".panel .menu")).to_be_hidden()
    page.troubles.clear()


def test_what_was_stopped_has_no_picture_of_before(visit: Visit) -> None:
    page = visit(model="shakespeare", options=json.dumps({"max_tokens": 5}))
    page.click("text=Options")
    page.get_by_label("max tokens").fill("1000")
    page.click("button.main")
    page.wait_for_selector(".panel[aria-busy] .written")
    expect(page.locator(".panel .regard .stage")).to_have_count(0)
    page.get_by_role("button", name="Stop").click()
    expect(answer(page)).to_contain_text("Stopped here.")
    expect(page.locator(".panel .regard .stage")).to_have_count(0)
    expect(page.locator(".panel .menu")).to_be_hidden()


def test_nothing_can_be_kept_before_there_is_an_answer(visit: Visit) -> None:
    page = visit(model="dates")
    page.route("**/dates/translate", lambda route: None, times=1)  # never answered
    page.click("button.main")
    expect(page.locator(".panel .menu")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    expect(answer(page)).to_be_empty()


def test_an_empty_text_has_no_score(visit: Visit) -> None:
    page = visit(".answer .label", model="reviews")
    page.fill("textarea >> nth=0", " \n ")
    page.click("button.main")
    expect(page.locator(".ask .error")).to_contain_text("Type something first.")
    expect(page.locator(".answer .label")).to_have_count(0)


def test_a_text_follows_to_models_that_it_is_for(visit: Visit) -> None:
    page, box = visit(model="dates"), "textarea >> nth=0"
    page.fill(box, "7 July 2007")
    page.check("input[value=de-en]")
    expect(page.locator(box)).to_have_value("Wo ist der Bahnhof?")
    page.check("input[value=dates-luong]")
    expect(page.locator(box)).to_have_value("7 July 2007")
    expect(answer(page)).to_contain_text("2007-07-07")


def test_an_image_of_ones_own_follows_and_comes_back(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    url = page.locator(".tried-image img").nth(2).get_attribute("src")
    mine = {"name": "mine.png", "mimeType": "image/png", "buffer": b64decode(url.partition(",")[2])}
    page.locator(".drop input").set_input_files(mine)
    page.wait_for_selector(".panel:not([aria-busy]) .answer .label")
    shown = page.locator(".drop img").get_attribute("src")
    page.check("input[value=shapes-senet]")
    expect(page.locator(".drop img")).to_have_attribute("src", shown)
    page.wait_for_selector(".panel:not([aria-busy]) .regard-gates *")
    page.locator(".tried-image").first.click()
    expect(page.locator(".drop img")).not_to_have_attribute("src", shown)
    page.go_back()
    expect(page.locator(".drop img")).to_have_attribute("src", shown)
    page.wait_for_selector(".panel:not([aria-busy]) .regard-gates *")


def test_a_model_that_is_not_here_is_said(visit: Visit) -> None:
    page = visit(model="dates")
    show(page, model="nothing", text="hello")
    expect(page.locator(".ask .error")).to_contain_text("no model named “nothing”")
    expect(answer(page)).to_be_empty()


def test_compare_offers_what_the_input_is_for(visit: Visit) -> None:
    page = visit(model="de-en", text="Wo ist der Bahnhof?")
    page.click("text=Compare")
    page.wait_for_selector(".panel + .panel .regard .stage")
    choices = page.locator(".panel + .panel select").first.evaluate(
        "list => [...list.options].map(one => one.value)"
    )
    assert choices == ["de-en/translate"]


def test_an_error_of_the_second_model_stands_with_it(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979", **{"2.model": "dates-luong", "2.task": "translate"})
    page.wait_for_selector(".panel + .panel .regard-map .stage")
    page.route(
        "**/dates-luong/translate",
        lambda route: route.fulfill(status=422, json={"error": {"message": "not this one", "code": 422}}),
        times=1,
    )
    page.click("button.main")
    expect(page.locator(".panel + .panel .answer .error")).to_have_text("not this one")
    expect(page.locator(".ask .error")).to_be_empty()
    expect(answer(page)).to_contain_text("1979-05-03")
    page.troubles.clear()


@pytest.mark.parametrize(
    "view",
    [
        "{",
        "[]",
        '{"row": "x", "way": 3, "head": {}, "site": ["a"], "pieces": "p"}',
        '{"row": -1, "head": 1e9, "site": "none", "way": "no"}',
        '{"row": 1e400, "way": null, "look": "x", "strength": "y"}',
        '{"__proto__": 1, "row": {"a": 1}, "look": 1.5, "strength": -9}',
    ],
)
def test_a_broken_view_in_an_address_shows_the_usual_one(visit: Visit, view: str) -> None:
    page = visit(model="dates")
    kinds = {
        "copy": "tape",
        "scenes": "looks",
        "shapes-senet": "gates",
        "omniglot": "examples",
        "reviews": "document",
    }
    for model, kind in {"de-en": "heads", "shakespeare": "map", "dates": "map", **kinds}.items():
        show(page, model=model, view=view, **({"site": "*"} if kind == "heads" else {}))
        page.wait_for_selector(f".panel:not([aria-busy]) .regard-{kind} :is(canvas, img, .word)")
        expect(page.locator(".ask .error")).to_be_empty()


def test_a_thousand_steps_of_a_memory(visit: Visit) -> None:
    page = visit(".regard-tape canvas", model="copy", text="", options=json.dumps({"length": 500, "seed": 1}))
    expect(answer(page)).to_contain_text("4,000")
    page.troubles.clear()  # the console names the picture that is too large, of which a part is shown
