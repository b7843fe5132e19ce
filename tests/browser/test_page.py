"""The page in a real browser, over the shipped models."""

from __future__ import annotations

import io
import json
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from PIL import Image

Visit = Callable[..., Any]
VIEWS = {
    "copy": "tape",
    "dates": "map",
    "de-en": "map",
    "omniglot": "examples",
    "reviews": "document",
    "scenes": "looks",
    "shakespeare": "map",
    "shapes": "overlay",
    "shapes-senet": "gates",
}
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)></script>\u202eevil\u2066\0 💥&lt;b&gt;{{7*7}}'


def answer(page: Any) -> str:
    return str(page.locator(".panel").first.locator(".answer").inner_text())


def state(page: Any) -> dict[str, str]:
    """What the address says, once it is up to date."""
    page.wait_for_timeout(150)
    return dict(parse_qsl(urlsplit(page.url).fragment, keep_blank_values=True))


def does_not_scroll_sideways(page: Any) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


# ---- asking


def test_the_first_view_appears_without_typing(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(".panel .regard-map .stage")
    assert "1979-05-03" in answer(page)
    assert page.locator("textarea").first.input_value() == "3 May 1979"


def test_another_model_keeps_what_was_typed(visit: Visit) -> None:
    page = visit(model="dates")
    page.fill("textarea", "7 July 2007")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.answer').textContent.includes('2007-07-07')")
    page.check("input[value=de-en]")
    page.wait_for_function("() => location.hash.includes('de-en')")
    assert page.locator("textarea").first.input_value() == "7 July 2007"


def test_a_text_appears_as_it_is_written(visit: Visit) -> None:
    page = visit(model="shakespeare")
    page.evaluate("""() => {
        window.lengths = [];
        const seen = () => lengths.push(document.querySelector('.answer').textContent.length);
        const all = {childList: true, subtree: true, characterData: true};
        new MutationObserver(seen).observe(document.querySelector('.answer'), all);
    }""")
    page.click("button.main")
    page.wait_for_selector(".panel:not([aria-busy])")
    lengths = page.evaluate("() => lengths")
    assert len(set(lengths)) > 10
    page.wait_for_selector(".panel .regard-map .stage")


def test_an_error_is_told_beside_the_input_and_nothing_is_lost(visit: Visit) -> None:
    page = visit(model="dates")
    page.click("text=Options")
    page.get_by_label("temperature").fill("0.5")
    page.get_by_label("beam", exact=True).fill("4")
    page.fill("textarea >> nth=0", "5 May 1955")
    page.click("button.main")
    page.wait_for_function(
        "() => document.querySelector('.ask .error').textContent.includes('temperature samples')"
    )
    assert page.locator("textarea").first.input_value() == "5 May 1955"
    page.get_by_label("temperature").fill("")
    page.click("button.main")
    page.wait_for_function("() => document.querySelector('.answer').textContent.includes('1955-05-05')")
    assert page.locator(".ask .error").inner_text() == ""
    assert json.loads(state(page)["options"]) == {"beam": 4}
    page.troubles.clear()  # the console names the refused request


def test_hostile_tokens_are_text(visit: Visit) -> None:
    page = visit(model="de-en", text=HOSTILE)
    assert page.locator("textarea").first.input_value() == HOSTILE
    assert page.locator(".panel img, .panel script").count() == 0
    for way in ("Links", "Text", "Map"):
        page.locator(".panel .choices").get_by_text(way, exact=True).click()
        assert page.locator(".panel img, .panel script").count() == 0
    page.locator(".modes").get_by_text("Step by step").click()
    page.wait_for_selector(".candidates li")
    assert page.locator(".panel img, .panel script").count() == 0
    assert "<script>" in page.locator(".stepping .regard").inner_text()


def test_an_image_of_ones_own_is_not_in_the_address(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    url = page.locator(".drop img").get_attribute("src")
    other = page.locator(".tried-image img").nth(2).get_attribute("src")
    mine = {"name": "mine.png", "mimeType": "image/png", "buffer": b64decode(other.partition(",")[2])}
    page.locator(".drop input").set_input_files(mine)
    page.wait_for_function("() => location.hash.includes('image=true')")
    page.wait_for_function("() => document.querySelector('.answer').textContent.includes('circle')")
    assert page.locator(".drop img").get_attribute("src") != url
    page.reload()
    page.wait_for_function("() => document.querySelector('.ask .error').textContent.includes('cannot hold one')")


def test_an_image_is_dropped_or_pasted(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    for number, event in enumerate(("drop", "paste"), start=1):
        if number == 2:  # back to an example
            page.locator(".tried-image").first.click()
            page.wait_for_function("() => location.hash.includes('example=0')")
        before = page.locator(".drop img").get_attribute("src")
        other = page.locator(".tried-image img").nth(number).get_attribute("src")
        page.evaluate(
            """([event, code]) => {
                const moved = new DataTransfer(), bytes = Uint8Array.from(atob(code), one => one.charCodeAt(0));
                moved.items.add(new File([bytes], "other.png", {type: "image/png"}));
                const made = event === "drop"
                    ? new DragEvent(event, {dataTransfer: moved, bubbles: true, cancelable: true})
                    : new ClipboardEvent(event, {clipboardData: moved, bubbles: true});
                (event === "drop" ? document.querySelector(".drop") : document.body).dispatchEvent(made);
            }""",
            [event, other.partition(",")[2]],
        )
        page.wait_for_function("before => document.querySelector('.drop img').src !== before", arg=before)
        page.wait_for_function("() => location.hash.includes('image=true')")
        assert page.locator(".drop img").get_attribute("src").partition(",")[2] == other.partition(",")[2]
        assert state(page)["model"] == "shapes"
        assert "example" not in state(page)


def test_an_episode(new_page: Callable[..., Any], address: str, violations: Callable[..., list[str]]) -> None:
    """Examples of two classes, and an image to classify."""
    page = new_page()
    page.goto(f"{address}/#model=few")
    page.wait_for_selector(".class-row")
    files = [{"name": "one.png", "mimeType": "image/png", "buffer": square(shade)} for shade in (0, 255, 20)]
    for number in (0, 1):
        page.locator(".class-row input[type=text]").nth(number).fill(("dark", "light")[number])
        page.locator(".class-row input[type=file]").nth(number).set_input_files(files[number])
        page.wait_for_function(
            "count => document.querySelectorAll('.class-row img').length === count", arg=number + 1
        )
    page.locator(".drop input").set_input_files(files[2])
    page.wait_for_selector(".regard-examples *")
    assert page.locator(".answer .label").inner_text() in ("dark", "light")
    assert violations(page) == []
    assert state(page)["options"] == '{"support":true}', "an address cannot hold images"
    page.click("text=Compare")
    page.wait_for_selector(".panel + .panel .regard-examples *")
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('.panel').length === 1")
    assert page.locator(".class-row img").count() == 2, "examples are kept as long as the page is"
    page.reload()
    page.wait_for_function("() => document.querySelector('.ask .error').textContent.includes('cannot hold')")
    assert page.locator(".class-row img").count() == 0


def test_examples_of_the_run_are_seen_again(visit: Visit) -> None:
    page = visit(".regard-examples *", model="omniglot")
    page.locator(".tried-image").nth(2).click()
    page.wait_for_function("() => location.hash.includes('example=2')")
    assert state(page)["options"] == '{"top":5}'
    told = answer(page)
    page.reload()
    page.wait_for_selector(".regard-examples *")
    assert answer(page) == told
    assert page.locator(".class-row img").count() == 5
    page.locator(".class-row").first.get_by_role("button", name="Remove").click()
    page.locator(".tried-image").nth(1).click()
    page.wait_for_function("() => location.hash.includes('example=1')")
    assert json.loads(state(page)["options"]) == {"support": True, "top": 5}
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied, but an address cannot hold your images.").wait_for()
    page.reload()
    page.get_by_text("Give images of each class first.").wait_for()


def square(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (28, 28), shade).save(file, "png")
    return file.getvalue()


# ---- seeing


def test_all_heads_and_one_enlarged(visit: Visit) -> None:
    page = visit(".regard-heads canvas", model="de-en", text="Wo ist der Bahnhof?", site="*")
    assert page.locator(".regard-heads .heads button").count() == 36
    page.locator(".regard-heads .heads button").nth(17).click()
    assert json.loads(state(page)["view"]) == {"site": "decoder.0.cross", "head": 1}
    assert "decoder.0.cross, head 1" in page.locator(".chosen").inner_text()


def test_gates_of_a_recurrent_layer(visit: Visit) -> None:
    page = visit(model="dates")
    page.locator(".panel-tools select").select_option("cell")
    page.wait_for_selector(".regard-heads .grid")
    assert "cell reset" in page.locator(".regard-heads .grid").inner_text()


def test_the_address_restores_what_was_seen(visit: Visit, new_page: Callable[..., Any]) -> None:
    page = visit(".regard-heads canvas", model="de-en", text="Wo ist der Bahnhof?", site="encoder.1.attend")
    page.locator(".regard-heads .heads button").nth(2).click()
    page.locator(".chosen .choices").get_by_text("Links").click()
    page.wait_for_function("() => location.hash.includes('links')")
    other = new_page()
    other.goto(page.url)
    other.wait_for_selector(".regard-heads .chosen .stage")
    other.wait_for_function("() => document.querySelector('.chosen').textContent.includes('head 2')")
    assert other.locator(".chosen input:checked").get_attribute("value") == "links"
    assert other.locator(".panel-tools select").input_value() == "encoder.1.attend"
    assert state(other) == state(page)


def test_a_link_is_copied(visit: Visit) -> None:
    page = visit(model="dates", text="7 July 2007")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == page.url


def test_back_and_forward(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    page.click(".chip >> nth=1")
    page.wait_for_function("() => document.querySelector('.answer').textContent.includes('2020-06-05')")
    page.go_back()
    page.wait_for_function("() => document.querySelector('.answer').textContent.includes('1979-05-03')")
    assert page.locator("textarea").first.input_value() == "3 May 1979"
    page.go_forward()
    page.wait_for_function("() => document.querySelector('.answer').textContent.includes('2020-06-05')")


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
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    with serve(port=int(address.rpartition(":")[2])):
        page.wait_for_function("() => document.querySelector('.answer').textContent.includes('2008-08-08')")
        page.wait_for_selector(".panel .regard-map .stage")
        page.goto("about:blank")
    page.troubles.clear()


# ---- stepping


def written(page: Any) -> str:
    return "".join(page.locator(".tokens button").all_inner_texts())


def test_stepping_forward_back_and_what_if(visit: Visit) -> None:
    page = visit(None, model="dates", text="3 May 1979", steps="")
    page.wait_for_selector(".candidates li")
    for count in (1, 2, 3):
        page.click("text=Forward →")
        page.wait_for_function("count => document.querySelectorAll('.tokens button').length === count", arg=count)
    assert written(page) == "197"
    page.wait_for_selector(".stepping .regard-shaded .stage")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelectorAll('.tokens button').length === 2")
    page.locator(".candidates button").filter(has_text=re.compile("^8$")).click()  # what if it were 198...?
    page.wait_for_function("() => document.querySelectorAll('.tokens button').length === 3")
    assert written(page) == "198"
    page.click("text=Write to the end")
    page.wait_for_function(
        "() => document.querySelector('.stepping [role=status]').textContent.includes('ends here')"
    )
    assert re.fullmatch(r"198\d-05-03", written(page))
    assert len(state(page)["steps"].split(".")) == 10
    again = page.url
    page.goto("about:blank")
    page.goto(again)
    page.wait_for_function("() => document.querySelectorAll('.tokens button').length === 10")


def test_stepping_over_an_image(visit: Visit) -> None:
    page = visit(None, model="scenes", example="0", steps="")
    page.wait_for_selector(".stepping .regard-overlay canvas")
    page.click("text=Forward →")
    page.wait_for_function("() => document.querySelectorAll('.tokens button').length === 1")
    assert written(page) == "a"


def test_stepping_a_language_model(visit: Visit) -> None:
    page = visit(None, model="shakespeare", text="ROMEO", options='{"max_tokens": 20}', steps="")
    page.wait_for_selector(".candidates li")
    page.locator(".stepping select").select_option("3")
    page.wait_for_function("() => document.querySelector('.stepping .regard').textContent.includes('head 3')")
    page.click("text=Forward →")
    page.wait_for_function("() => document.querySelectorAll('.tokens button').length === 1")


# ---- comparing


def test_two_models_side_by_side(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    page.click("text=Compare")
    page.wait_for_selector(".panel + .panel .regard-map .stage")
    assert page.locator(".panel + .panel select").first.input_value() == "de-en/translate"
    page.locator(".panel + .panel select").first.select_option("dates/translate")
    page.wait_for_function("() => document.querySelectorAll('.answer')[1].textContent.includes('1979-05-03')")
    page.locator(".panel + .panel .panel-tools select").select_option("cell")
    page.wait_for_selector(".panel + .panel .regard-heads .grid")
    assert state(page)["2.site"] == "cell"
    assert "site" not in state(page)
    page.reload()
    page.wait_for_selector(".panel + .panel .regard-heads .grid")
    page.click("text=Compare")
    assert page.locator(".panel").count() == 1


def test_a_model_that_needs_examples_is_compared_only_where_they_are_asked_for(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    page.click("text=Compare")
    choices = page.locator(".panel + .panel select").first
    assert "scenes/caption" in choices.evaluate("list => [...list.options].map(one => one.value)")
    assert "omniglot/fewshot" not in choices.evaluate("list => [...list.options].map(one => one.value)")
    page.check("input[value=omniglot]")
    page.wait_for_selector(".regard-examples *")
    page.wait_for_selector(".panel + .panel .regard-gates *")
    choices.select_option("omniglot/fewshot")
    page.wait_for_selector(".panel + .panel .regard-examples *")
    page.check("input[value=shapes]")
    page.wait_for_selector(".regard-overlay *")
    assert page.locator(".panel").count() == 1


# ---- long inputs


def test_a_thousand_tokens_with_24_layers_of_16_heads(visit: Visit) -> None:
    text = ("To be, or not to be, that is the question. " * 30)[:990]
    options = json.dumps({"max_tokens": 10, "temperature": 0})
    page = visit(".regard *", model="long", text=text, options=options, site="blocks.20.attend")
    page.wait_for_selector(".regard-heads .heads canvas", timeout=60_000)
    assert page.locator(".regard-heads .heads button").count() == 16
    page.wait_for_selector(".regard-heads .chosen .stage *", timeout=60_000)
    page.locator(".regard-heads .heads button").nth(5).click()
    page.wait_for_function(
        "() => document.querySelector('.chosen').textContent.includes('head 5')"
        " && !document.querySelector('.chosen [aria-busy]')",
        timeout=60_000,
    )
    assert does_not_scroll_sideways(page)


# ---- everybody


def test_by_keyboard_alone(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(".panel .regard-map .stage")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.tagName") == "TEXTAREA"
    page.keyboard.press("Control+A")
    page.keyboard.type("1 January 2001")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.answer').textContent.includes('2001-01-01')")
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


@pytest.mark.parametrize(("scheme", "width"), [("dark", 375), ("light", 1200), ("dark", 1200)])
def test_nothing_is_in_the_way_of_assistive_technology(
    visit: Visit, new_page: Callable[..., Any], violations: Callable[..., list[str]], scheme: str, width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    visit(page=page, model="dates", text="3 May 1979")
    assert violations(page) == []
    assert does_not_scroll_sideways(page)
    page.locator(".modes").get_by_text("Step by step").click()
    page.wait_for_selector(".candidates li")
    page.wait_for_selector(".stepping .regard-shaded .stage")
    assert violations(page) == []
    assert does_not_scroll_sideways(page)


def test_every_shipped_model_has_its_view_also_on_a_phone(
    visit: Visit, new_page: Callable[..., Any], violations: Callable[..., list[str]]
) -> None:
    page = new_page(viewport={"width": 375, "height": 780})
    for model, view in VIEWS.items():
        visit(f".regard-{view} *", page=page, model=model)
        assert page.locator(".model-card:has(:checked) strong").inner_text() == model
        assert answer(page).strip(), model
        assert does_not_scroll_sideways(page), model
        assert violations(page) == [], model


def test_light_and_dark_by_a_button(visit: Visit, new_page: Callable[..., Any]) -> None:
    page = visit(page=new_page(color_scheme="light"), model="dates")
    colour = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_label("Colours: as the system").click()
    assert page.evaluate(colour) != light
    page.reload()
    page.wait_for_selector(".panel .stage")
    assert page.evaluate(colour) != light


def test_signing_in(serve: Callable[..., Any], new_page: Callable[..., Any]) -> None:
    page = new_page()
    with serve(token="s3cret") as address:
        page.goto(f"{address}/#model=dates&text=4+July+1776")
        page.fill("input[type=password]", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "() => document.querySelector('.sign-in .error').textContent.includes('not the token')"
        )
        page.fill("input[type=password]", "s3cret")
        page.keyboard.press("Enter")
        page.wait_for_selector(".panel .regard-map .stage")
        other = new_page()
        other.goto(f"{address}/?token=s3cret#model=dates&text=4+July+1776")
        other.wait_for_selector(".panel .regard-map .stage")
        assert "s3cret" not in other.url
        assert other.evaluate("() => document.cookie") == ""
        for one in (page, other):
            one.goto("about:blank")
    page.troubles.clear()
