"""The page shows nothing untrue: what broke off, was refused or stopped, what belongs to another input."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from expected import DEADLINE, expect

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


def wait_for_the_last_try(page: Any, error: str) -> None:
    """By the clock of the page: it waits up to five seconds between two tries."""
    told, end = page.locator(error).filter(has_text="Is it still running?"), time.monotonic() + DEADLINE / 1000
    while not told.count() and time.monotonic() < end:
        page.clock.run_for(5_000)
        page.wait_for_timeout(20)
    expect(told).to_have_count(1)


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
    expect(answer(page)).to_be_empty()
    wait_for_the_last_try(page, ".ask .error")
    expect(page.locator("#notice")).to_be_empty()
    expect(answer(page)).to_be_empty()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    cable.mend()
    page.click("button.main")
    expect(answer(page)).to_contain_text("2008-08-08")
    page.troubles.clear()


# ---- what belongs to another question


def test_views_that_could_not_be_had_are_asked_for_again(page: Any, address: str) -> None:
    page.route(re.compile("views.js$"), lambda route: route.abort())  # the first time; then it has another address
    page.goto(f"{address}/#model=reviews")
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    page.wait_for_selector(".panel:not([aria-busy]) .regard-document .sentences")
    expect(page.locator("#notice")).to_be_empty()
    page.troubles.clear()


def test_a_refused_question_has_no_answer(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    page.click("text=Options")
    page.get_by_role("spinbutton", name="temperature").fill("0.5")
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
    assert choices == ["=word", "=layer", "=head"]


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


# ---- step by step


def written(page: Any) -> list[str]:
    return page.locator(".tokens button").all_inner_texts()


def test_arrow_keys_step_from_where_the_choice_leaves_the_focus(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    page.locator(".modes").get_by_text("Step by step").click()
    page.wait_for_selector(".candidates li")
    for count in (1, 2):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".tokens button")).to_have_count(count)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tokens button")).to_have_count(1)
    expect(page.locator(".stepping")).to_be_visible()


def test_steps_follow_the_answer_that_is_shown(visit: Visit) -> None:
    options = json.dumps({"max_tokens": 12, "temperature": 1.3, "seed": 5})
    page = visit(model="shakespeare", text="ROMEO", options=options)
    told = page.locator(".answer .written").inner_text()
    page.locator(".modes").get_by_text("Step by step").click()
    page.wait_for_selector(".candidates li")
    page.click("text=Write to the end")
    expect(page.locator(".stepping [role=status]")).to_have_text("The answer ends here.")
    expect(page.locator(".tokens button")).to_have_count(12)
    assert "".join(written(page)).replace("␣", " ").replace("⏎", "\n") == told
    greedy = visit(model="shakespeare", text="ROMEO", options='{"max_tokens": 12, "temperature": 0}')
    assert greedy.locator(".answer .written").inner_text() != told


def test_another_token_is_marked_with_what_it_changed(visit: Visit) -> None:
    page = visit(None, model="dates", text="3 May 1979", steps="")
    page.wait_for_selector(".candidates li")
    for count in (1, 2):
        page.click("text=Forward →")
        expect(page.locator(".tokens button")).to_have_count(count)
    page.locator(".candidates button").filter(has_text=re.compile("^8$")).click()
    expect(page.locator(".token.forced")).to_have_text("8")
    expect(page.locator(".against")).to_contain_text("The answer: 1979-05-03")
    page.click("text=Write to the end")
    expect(page.locator(".stepping [role=status]")).to_have_text("The text ends here.")
    expect(page.locator(".against mark").first).to_have_text("7")
    expect(page.locator(".token.forced")).to_have_text("8")


def test_a_step_says_which_place_it_shows(visit: Visit) -> None:
    page = visit(None, model="de-en", text="Wo ist der Bahnhof?", steps="", site="encoder.1.attend")
    expect(page.locator(".step-view")).to_contain_text(
        "looking at its own text · encoder.1.attend is not asked while the text is written"
    )
    page = visit(None, model="de-en", text="Wo ist der Bahnhof?", steps="", site="*")
    expect(page.locator(".step-view")).to_contain_text("looking at the source · decoder.1.cross, not all")
    page = visit(None, model="de-en", text="Wo ist der Bahnhof?", steps="", site="decoder.0.cross")
    shown = page.locator(".step-view .regard h3")
    expect(shown).to_have_text(
        "first layer of the decoder, looking at the source, mean of 4 heads · decoder.0.cross"
    )
    expect(page.locator(".step-view")).not_to_contain_text("not all")


def test_a_step_that_could_not_be_had_is_not_counted(cable: Any, page: Any) -> None:
    page.clock.install()
    page.goto(f"http://127.0.0.1:{cable.port}/#model=dates&steps=")
    page.wait_for_selector(".candidates li")
    cable.cut()
    page.click("text=Forward →")
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    wait_for_the_last_try(page, ".stepping .error")
    cable.mend()
    page.click("text=Forward →")
    expect(page.locator(".tokens button")).to_have_count(1)
    page.troubles.clear()


# ---- files


def kept(page: Any, form: str) -> tuple[str, bytes]:
    """The name and the content of a file from the menu."""
    page.click(".menu summary")
    with page.expect_download() as found:
        page.click(f".menu button:has-text('{form}')")
    return found.value.suggested_filename, found.value.path().read_bytes()


def test_a_file_holds_what_is_seen(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    seen = set()
    for way in ("Map", "Links", "Text"):
        page.locator(".panel .choices").get_by_text(way, exact=True).click()
        page.wait_for_selector(f".panel .stage .{ {'Map': 'cells', 'Links': 'links', 'Text': 'words'}[way] }")
        name, drawn = kept(page, "SVG")
        assert name == "dates.svg"
        assert "dates: 3 May 1979 → 1979-05-03" in drawn.decode()
        seen.add(drawn)
        assert kept(page, "PNG")[1].startswith(b"\x89PNG")
    assert len(seen) == 3


def test_a_file_holds_the_head_that_is_seen(visit: Visit) -> None:
    page = visit(".regard-heads canvas", model="de-en", text="Wo ist der Bahnhof?", site="*")
    page.locator(".regard-heads .heads button").nth(17).click()
    expect(page.locator(".chosen")).to_contain_text("head 1 · decoder.0.cross", use_inner_text=True)
    drawn = kept(page, "SVG")[1].decode()
    assert "first layer of the decoder, looking at the source, head 1" in drawn
    assert ">decoder.0.cross<" in drawn
    told = json.loads(kept(page, "JSON")[1])
    assert (told["model"], told["input"], told["answer"]) == (
        "de-en",
        "Wo ist der Bahnhof?",
        "Where is the station?",
    )


def test_a_file_holds_the_step_that_is_seen(visit: Visit) -> None:
    page = visit(None, model="scenes", example="0", steps="")
    page.wait_for_selector(".candidates li")
    page.locator(".candidates button").nth(1).click()
    expect(page.locator(".tokens button")).to_have_count(1)
    other = page.locator(".tokens button").inner_text()
    name, drawn = kept(page, "SVG")
    assert name == "scenes-attend-2.svg"
    assert f"scenes: image → {other}" in drawn.decode()
    rows = kept(page, "CSV")[1].decode().splitlines()
    assert rows[:5] == ["# model: scenes", "# site: attend", "# step: 2", "# input: image", f"# answer: {other}"]


@pytest.mark.parametrize(
    "view",
    [
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
    few = {"de-en": {"site": "*"}, "shakespeare": {"options": '{"max_tokens": 20}'}}
    for model, kind in {"de-en": "heads", "shakespeare": "map", "dates": "map", **kinds}.items():
        show(page, model=model, view=view, **few.get(model, {}))
        page.wait_for_selector(f".panel:not([aria-busy]) .regard-{kind} :is(canvas, img, .word)")
        expect(page.locator(".ask .error")).to_be_empty()


@pytest.mark.parametrize("view", ["{", "[]"])
def test_an_address_without_a_view_that_can_be_read_shows_the_usual_one(visit: Visit, view: str) -> None:
    page = visit(model="de-en")
    show(page, model="dates", view=view)
    page.wait_for_selector(".panel:not([aria-busy]) .regard-map canvas")
    expect(page.locator(".ask .error")).to_be_empty()


def test_a_thousand_steps_of_a_memory(visit: Visit) -> None:
    page = visit(
        ".regard-tape canvas", timeout=60_000, model="copy", text="", options=json.dumps({"length": 500, "seed": 1})
    )
    expect(answer(page)).to_contain_text("4,000")
    page.troubles.clear()  # the console names the picture that is too large, of which a part is shown
