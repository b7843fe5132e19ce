"""The page in a real browser, over the shipped models."""

from __future__ import annotations

import io
import json
import re
import threading
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urljoin

import pytest
from expected import does_not_scroll_sideways, expect, expect_state, place, state
from PIL import Image

Visit = Callable[..., Any]
VIEWS = {  # of shipped models, one of each kind
    "bandits": "map",
    "copy": "tape",
    "dates": "map",
    "dates-seq2seq": "heads",
    "de-en": "map",
    "omniglot": "examples",
    "reviews": "document",
    "scenes": "looks",
    "sentences-bert": "map",
    "shakespeare": "map",
    "shapes": "overlay",
    "shapes-senet": "gates",
}
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
    page = visit(model="shakespeare")
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


def test_an_image_of_ones_own_is_not_in_the_address(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    url = page.locator(".drop img").get_attribute("src")
    other = page.locator(".tried-image img").nth(2).get_attribute("src")
    mine = {"name": "mine.png", "mimeType": "image/png", "buffer": b64decode(other.partition(",")[2])}
    page.locator(".drop input").set_input_files(mine)
    expect_state(page, image="true")
    expect(answer(page)).to_contain_text("circle")
    expect(page.locator(".drop img")).not_to_have_attribute("src", url)
    page.reload()
    expect(page.locator(".ask .error")).to_contain_text("cannot hold one")


def test_an_image_is_dropped_or_pasted(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    for number, event in enumerate(("drop", "paste"), start=1):
        if number == 2:  # back to an example
            page.locator(".tried-image").first.click()
            expect_state(page, example="0")
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
        own = re.compile("," + re.escape(other.partition(",")[2]) + "$")
        expect(page.locator(".drop img")).to_have_attribute("src", own)
        expect_state(page, model="shapes", image="true", example=None)


def test_an_image_that_is_read_late_does_not_replace_the_next(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    wanted = page.locator(".tried-image img").nth(2).get_attribute("src")
    page.evaluate(
        """async () => {
            const file = new File([new Uint8Array(1 << 20)], "a.png", {type: "image/png"});
            const moved = new DataTransfer();
            moved.items.add(file);
            const made = new DragEvent("drop", {dataTransfer: moved, bubbles: true, cancelable: true});
            document.querySelector(".drop").dispatchEvent(made);
            document.querySelectorAll(".tried-image")[2].click();
            const reader = new FileReader();
            await new Promise(done => { reader.onload = done; reader.readAsDataURL(file); });
        }"""
    )
    page.wait_for_selector(".panel:not([aria-busy]) .regard-overlay *")
    expect(page.locator(".drop img")).to_have_attribute("src", wanted)
    expect_state(page, example="2", image=None)


def test_a_view_that_was_removed_before_its_image_came_is_no_error(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    ramp = page.evaluate(
        """async () => {
            const {readRamp} = await import("/views/parts.js");
            const view = document.querySelector(".regard-overlay");
            return [view, document.createElement("div")].map(element => new Set(readRamp(element)).size);
        }"""
    )
    assert ramp[0] > 9
    assert ramp[1] == 1, "an element outside the document has no style"


def test_an_episode(same_page: Any, address: str, violations: Callable[..., list[str]]) -> None:
    """Examples of two classes, and an image to classify."""
    page = same_page
    page.goto(f"{address}/health")
    page.goto(f"{address}/#model=few")
    page.wait_for_selector(".class-row")
    files = [{"name": "one.png", "mimeType": "image/png", "buffer": square(shade)} for shade in (0, 255, 20)]
    for number in (0, 1):
        page.locator(".class-row input[type=text]").nth(number).fill(("dark", "light")[number])
        page.locator(".class-row input[type=file]").nth(number).set_input_files(files[number])
        expect(page.locator(".class-row img")).to_have_count(number + 1)
    page.locator(".drop input").set_input_files(files[2])
    page.wait_for_selector(".regard-examples *")
    expect(answer(page).locator(".label")).to_have_text(re.compile("^(dark|light)$"))
    assert violations(page) == []
    expect_state(page, options={"support": True})  # an address cannot hold images
    page.click("text=Compare")
    page.wait_for_selector(".panel + .panel .regard-examples *")
    page.go_back()
    expect(page.locator(".panel")).to_have_count(1)
    expect(page.locator(".class-row img")).to_have_count(2)  # examples are kept as long as the page is
    page.reload()
    expect(page.locator(".ask .error")).to_contain_text("cannot hold")
    expect(page.locator(".class-row img")).to_have_count(0)


def test_examples_of_the_run_are_seen_again(visit: Visit) -> None:
    page = visit(".regard-examples *", fresh=True, model="omniglot")
    page.locator(".tried-image").nth(2).click()
    expect_state(page, example="2", options={"top": 5})
    page.wait_for_selector(".panel:not([aria-busy])")
    told = answer(page).inner_text()
    page.reload()
    page.wait_for_selector(".panel:not([aria-busy]) .regard-examples *")
    assert answer(page).inner_text() == told
    expect(page.locator(".class-row img")).to_have_count(5)
    page.locator(".episode summary").click()
    page.locator(".class-row").first.get_by_role("button", name="Remove").click()
    page.locator(".tried-image").nth(1).click()
    expect_state(page, example="1", options={"support": True, "top": 5})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied, but an address cannot hold your images.").wait_for()
    page.reload()
    page.get_by_text("Give images of each class first.").wait_for()


def square(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (28, 28), shade).save(file, "png")
    return file.getvalue()


# ---- opening a weight


def opened(page: Any) -> Any:
    return page.locator(".cell")


def test_a_weight_opens_into_query_key_scores_values_and_read(visit: Visit) -> None:
    page = visit(".cell table", model="dates", fresh=True)  # in a wide window the first one opens by itself
    page.locator(".panel .scroll").first.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(opened(page)).to_contain_text("How 1 came to look at 3", use_inner_text=True)
    expect(opened(page).locator(".formula")).to_have_text("score = v · tanh(W q + U k)")
    expect(opened(page).locator(".strip-of")).to_have_count(7)
    shares = opened(page).locator("tbody td:nth-child(3)")
    assert sum(map(float, shares.all_inner_texts())) == pytest.approx(1, abs=0.06)
    expect_state(page, view={"row": 0, "cell": [0, 0]})
    page.get_by_role("button", name="Close the opened weight").click()
    expect(opened(page)).to_be_hidden()


def test_settings_of_an_opened_weight_act_at_once(visit: Visit) -> None:
    page = visit(".cell table", model="dates", fresh=True)
    cells = page.locator(".panel .cells")
    side = place(cells)["width"] / 11
    cells.click(position={"x": 4.5 * side, "y": 5.5 * side})
    expect(opened(page)).to_contain_text("came to look at y")
    result = opened(page).locator(".result")
    weight = float(result.locator("b").inner_text())
    assert 0.5 < weight < 0.95
    page.get_by_label("temperature", exact=False).last.fill("0.1")
    assert float(result.locator("b").inner_text()) > weight
    page.get_by_label("scale of the score").fill("0")
    expect(result).to_contain_text("0.09 instead of")  # eleven places, all alike
    page.get_by_role("button", name="As the model has it").click()
    page.get_by_label("mask y").check()
    expect(result).to_contain_text("0.00 instead of")
    page.get_by_label("mask y").uncheck()
    page.get_by_label("place of the word").fill("0")
    assert float(result.locator("b").inner_text()) == weight, "keys that have no place take their weight along"


@pytest.mark.parametrize(
    ("model", "steps", "setting"),
    [
        ("dates-luong", ["in window", "× bell"], "centre of the window"),
        ("copy", ["content", "gate", "shift", "sharpen"], "gate g"),
        ("scenes", ["softmax"], "temperature"),
        ("reviews", ["softmax"], "temperature"),
        ("omniglot", ["softmax"], "temperature"),
        ("shakespeare", ["softmax"], "temperature"),
    ],
)
def test_the_page_computes_the_weights_that_the_model_had(
    visit: Visit, violations: Callable[..., list[str]], model: str, steps: list[str], setting: str
) -> None:
    """What the page works out from the scores is the weight of the model, for every way to weigh."""
    page = visit(".seen > .regard *", model=model, fresh=True)
    if model == "copy":
        page.locator(".track canvas").last.click(position={"x": 60, "y": 150})
    page.wait_for_selector(".cell table")
    expect(opened(page).locator("thead th")).to_have_text(["place", "score", *steps, "mask"])
    expect(opened(page).locator(".result")).to_contain_text("of what is read comes from here")
    opened(page).get_by_label(setting).first.fill("0.7")
    expect(opened(page).locator(".result b")).to_have_text(re.compile(r"[01]\.\d\d"))
    assert violations(page, ".cell") == []


def test_a_gate_opens_into_its_sigmoid(visit: Visit) -> None:
    page = visit(".regard-heads canvas", model="dates-seq2seq", fresh=True)
    page.locator(".chosen .cells").click(position={"x": 5, "y": 60})
    expect(opened(page)).to_contain_text("of each number goes through")
    expect(opened(page)).to_contain_text("Here x =")


# ---- explained


def test_layers_have_names_that_a_person_would_say(visit: Visit) -> None:
    page = visit(model="de-en", fresh=True)
    names = page.locator(".panel-tools option").all_inner_texts()
    assert "second layer of the decoder, looking at the source · decoder.1.cross (4 heads)" in names
    assert "first layer of the encoder, looking at its own text · encoder.0.attend (4 heads)" in names
    models = page.request.get(urljoin(page.url, "/api/models")).json()["models"]
    assert [one["name"] for model in models for one in model["sites"] if not one["said"]] == []


def test_every_picture_says_in_a_sentence_what_it_shows(visit: Visit) -> None:
    for model, view in VIEWS.items():
        page = visit(f".regard-{view} .told", model=model, fresh=True)
        told = page.locator(f".seen > .regard-{view}").inner_text()
        assert re.search(r"(Each|Dark|Time|What was|The bar)\b[^.]+\.", told), (model, told)
    page = visit(".regard-map .told", model="de-en")
    expect(page.locator(".told").first).to_contain_text(
        "written in English; dark is where it looked in the German", use_inner_text=True
    )
    expect(page.get_by_title("decoder.1.cross")).to_have_text(
        "second layer of the decoder, looking at the source, mean of 4 heads"
    )


def test_terms_tell_their_meaning_also_to_the_keyboard(visit: Visit) -> None:
    page = visit(model="dates", fresh=True)
    term = answer(page).locator(".term").first
    term.focus()
    shown = page.evaluate("() => getComputedStyle(document.activeElement, '::after').content")
    assert "logarithm of its probability" in shown
    assert page.locator(".cells").first.is_visible()
    assert page.locator(".column .token").last.get_attribute("title").startswith("The end of a text")


def test_a_tour_leads_through_the_page(visit: Visit, violations: Callable[..., list[str]]) -> None:
    page = visit(".cell table", model="dates", fresh=True)
    page.get_by_role("button", name="Tour").click()
    box, told = page.get_by_role("dialog", name="Tour"), []
    for _ in range(7):
        told.append(box.locator("p").inner_text())
        assert violations(page, ".tour") == []
        page.keyboard.press("ArrowRight")
    assert len(set(told)) == 7
    assert len(" ".join(told).split()) < 60 * 3, "it is read in a minute"
    expect(box).to_be_hidden()
    expect(page.locator(".toured")).to_have_count(0)


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


# ---- stepping


def expect_written(page: Any, *tokens: str) -> None:
    expect(page.locator(".tokens button")).to_have_text(list(tokens))


def test_stepping_forward_back_and_what_if(visit: Visit) -> None:
    page = visit(None, model="dates", text="3 May 1979", steps="")
    page.wait_for_selector(".candidates li")
    for count in (1, 2, 3):
        page.click("text=Forward →")
        expect_written(page, *"197"[:count])
    page.wait_for_selector(".stepping .regard-shaded .stage")
    page.keyboard.press("ArrowLeft")
    expect_written(page, "1", "9")
    page.locator(".candidates button").filter(has_text=re.compile("^8$")).click()  # what if it were 198...?
    expect_written(page, *"198")
    page.click("text=Write to the end")
    expect(page.locator(".stepping [role=status]")).to_contain_text("ends here")
    end = "".join(page.locator(".tokens button").all_inner_texts())
    assert re.fullmatch(r"198\d-05-03", end)
    expect(page).to_have_url(re.compile(r"[#&]steps=(\d+\.){9}\d+(&|$)"))
    again = page.evaluate("() => location.href")
    page.goto("about:blank")
    page.goto(again)
    expect_written(page, *end)


def test_quick_presses_write_no_token_where_it_does_not_belong(visit: Visit) -> None:
    """While the next candidates are on their way, a press is for those that are shown."""
    page = visit(None, model="dates", text="3 May 1979", steps="")
    page.wait_for_selector(".candidates li")
    forward = page.get_by_role("button", name="Forward →")
    page.locator(".candidates button").nth(1).click()  # here it leaves the answer, which is known
    expect_written(page, "9")
    forward.evaluate("one => { one.click(); one.click(); one.click(); }")
    expect(page.locator(".tokens button")).to_have_count(2)
    begun = page.locator(".tokens button").all_inner_texts()
    second = page.locator(".candidates .what").nth(1).inner_text()
    forward.evaluate(
        """async one => {
            const other = document.querySelectorAll(".candidates button")[1];
            one.click();
            await new Promise(done => setTimeout(done));
            other.click();
        }"""
    )
    expect_written(page, *begun, second)


def test_another_model_is_not_written_on(visit: Visit) -> None:
    page = visit(None, model="dates", text="3 May 1979", steps="")
    page.wait_for_selector(".candidates li")
    page.click("text=Write to the end")
    page.check("input[value=de-en]")
    page.wait_for_selector(".panel:not([aria-busy]) .regard-map .stage")
    expect(page.locator(".stepping")).to_be_hidden()
    expect_state(page, model="de-en", steps=None)


def test_stepping_over_an_image(visit: Visit) -> None:
    page = visit(None, model="scenes", example="0", steps="")
    page.wait_for_selector(".stepping .regard-overlay canvas")
    page.click("text=Forward →")
    expect_written(page, "a")


def test_stepping_a_language_model(visit: Visit) -> None:
    page = visit(None, model="shakespeare", text="ROMEO", options='{"max_tokens": 20}', steps="")
    page.wait_for_selector(".candidates li")
    page.locator(".stepping select").select_option("3")
    expect(page.locator(".stepping .regard")).to_contain_text("head 3")
    page.click("text=Forward →")
    expect(page.locator(".tokens button")).to_have_count(1)


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


@pytest.mark.parametrize(("scheme", "width"), [("dark", 375), ("light", 1200), ("dark", 1200)])
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


def test_every_kind_of_shipped_model_has_its_view_also_on_a_phone(
    visit: Visit, same_page: Any, resized: Callable[..., None], violations: Callable[..., list[str]]
) -> None:
    resized(same_page, 375, 780)
    for model, view in VIEWS.items():
        page = visit(f".regard-{view} *", model=model)
        expect(page.locator(".model-card:has(:checked) strong")).to_have_text(model)
        assert answer(page).inner_text().strip(), model
        assert does_not_scroll_sideways(page), model
        assert violations(page) == [], model


FIRST = ".cells, canvas:not(.sign-line), .words, .sentences, .query img, .sheet .grid"  # the first of a picture


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_answer_and_picture_are_seen_without_scrolling(
    visit: Visit, same_page: Any, resized: Callable[..., None], width: int, height: int
) -> None:
    resized(same_page, width, height)
    for model, view in VIEWS.items():
        page = visit(f".regard-{view} *", model=model, fresh=True)
        told = place(page.locator(".panel .answer > *").first)
        seen = place(page.locator(f".seen > .regard-{view}").locator(FIRST).first)
        assert told["y"] + 20 < height / 2, model
        assert seen["y"] < 0.8 * height, model


def test_a_map_uses_the_room_of_the_window_and_fits_into_it(
    visit: Visit, same_page: Any, resized: Callable[..., None]
) -> None:
    for width, height in ((1280, 720), (1440, 900)):
        resized(same_page, width, height)
        box = place(visit(fresh=True, model="dates").locator(".panel .cells"))
        assert box["y"] + box["height"] < height
    assert box["height"] > 450


def test_an_image_keeps_its_colours_and_opens_on_the_most_telling_word(visit: Visit) -> None:
    page = visit(".regard-looks .painted", model="scenes", fresh=True)
    expect(page.locator(".thumb[aria-pressed=true]")).to_contain_text("circle")
    strongest = page.evaluate("""() => {
        const canvas = document.querySelector(".frame canvas"), pen = canvas.getContext("2d");
        const {data} = pen.getImageData(0, 0, canvas.width, canvas.height);
        let blue = 0;
        for (let at = 0; at < data.length; at += 4) blue = Math.max(blue, data[at + 2] - data[at]);
        return blue;
    }""")
    assert strongest > 80, "the blue circle is blue"


def test_images_that_open_a_channel_most_stand_beside_the_gates(visit: Visit) -> None:
    page = visit(".regard-gates .opening figure", model="shapes-senet")
    page.focus(".plots section:nth-child(2) .plot")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".opening p")).to_have_text("channel 0 is opened most by")
    gates = [float(text) for text in page.locator(".opening figcaption").all_inner_texts()]
    assert len(gates) == 3
    assert gates == sorted(gates, reverse=True)


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
