"""Two answers side by side in a real browser: models, layers and heads, and a changed word."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from expected import does_not_scroll_sideways, expect, expect_state, place

Visit = Callable[..., Any]


def test_two_models_side_by_side(visit: Visit) -> None:
    page = visit(model="dates", text="3 May 1979")
    page.click("text=Compare")
    page.wait_for_selector(".panel + .panel .regard-heads .grid")  # gates, as it looks at nothing
    choices = page.get_by_label("Compare with")
    expect(choices).to_have_value("dates-seq2seq/translate")
    expect(page.locator(".versus")).to_have_text(
        "The same question, by a model without attention.Both answers are the same."
    )
    choices.select_option("dates-luong/translate")
    page.wait_for_selector(".differs .cells")
    expect(page.locator(".differs .told")).to_contain_text("They differ most where 0 looks at", use_inner_text=True)
    page.locator(".panel + .panel .panel-tools select").select_option("cells.0")
    page.wait_for_selector(".panel + .panel .regard-heads .grid")
    expect(page.locator(".differs")).to_be_hidden()
    expect_state(page, **{"2.site": "cells.0", "site": None})
    page.reload()
    page.wait_for_selector(".panel + .panel .regard-heads .grid")
    page.click("text=Compare")
    expect(page.locator(".panel")).to_have_count(1)
    expect(page.locator(".versus")).to_be_hidden()


def told(page: Any, within: str) -> Any:
    return page.locator(f"{within} .told").first


def test_a_word_is_changed_and_one_pointing_serves_all(
    visit: Visit, same_page: Any, resized: Callable[..., None], violations: Callable[..., list[str]]
) -> None:
    resized(same_page, 390, 844, "dark")
    page = visit(model="dates", text="3 May 1979")
    page.click("text=Compare")
    page.get_by_label("Compare with").select_option("=word")
    expect(page.locator(".versus")).to_contain_text("Change a word of the second text")
    page.get_by_label("The text, changed").fill("4 May 1979")
    page.keyboard.press("Enter")
    expect(page.locator(".versus")).to_contain_text("The answers differ")
    expect(page.locator(".panel + .panel mark")).to_have_text("4")
    page.wait_for_selector(".differs .cells")
    assert violations(page) == []
    assert does_not_scroll_sideways(page)
    page.locator(".panel .scroll").first.focus()
    for key in ("End", "ArrowUp", "ArrowRight"):  # "3" looks at "3"
        page.keyboard.press(key)
    expect(told(page, ".panel + .panel")).to_contain_text(re.compile("^4 looks at 4"), use_inner_text=True)
    expect(told(page, ".differs")).to_contain_text(re.compile("^3→4 looks at 3→4: first"), use_inner_text=True)
    page.keyboard.press("Escape")
    expect(told(page, ".differs")).to_contain_text("They differ most")
    cells = place(page.locator(".differs .cells"))
    page.locator(".differs .cells").hover(position={"x": 5, "y": cells["height"] - 5})
    for panel in (".panel:first-child", ".panel + .panel"):
        expect(told(page, panel)).to_contain_text(re.compile("^</s> looks at"), use_inner_text=True)
    page.locator(".differs .menu summary").click()
    with page.expect_download() as found:
        page.locator(".differs .menu").get_by_text("Numbers (CSV)").click()
    assert "# input: 3 May 1979 / 4 May 1979" in found.value.path().read_text(encoding="utf-8")
    expect_state(page, text="3 May 1979", **{"2.text": "4 May 1979", "2.within": "word"})
    page.click(".chip >> nth=1")  # another text: it is to be changed anew
    expect(page.get_by_label("The text, changed")).to_have_value("Friday, 5 June 2020")


def test_layers_and_heads_of_one_answer(visit: Visit) -> None:
    page, asked = visit(model="de-en", text="Wo ist er?"), []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/translate") else None)
    page.click("text=Compare")
    page.get_by_label("Compare with").select_option("=layer")
    page.wait_for_selector(".panel + .panel .regard-map .stage")
    page.wait_for_selector(".differs .cells")
    expect(page.locator(".versus")).to_contain_text("second layer of the decoder, looking at the source, and first")
    page.get_by_label("Compare with").select_option("=head")
    page.wait_for_selector(".panel + .panel .regard-heads .chosen .cells")
    before = told(page, ".differs").inner_text()
    page.locator(".panel + .panel .heads button").nth(2).click()
    expect(told(page, ".differs")).not_to_have_text(before, use_inner_text=True)
    assert len(asked) <= 1, "both panels show one answer"


def test_two_looks_over_an_image_have_their_difference_drawn(visit: Visit) -> None:
    page = visit(".regard-overlay .painted", model="shapes", fresh=True)
    page.click("text=Compare")
    page.get_by_label("Compare with").select_option("=layer")
    page.wait_for_selector(".panel + .panel .regard-overlay .painted")
    difference = page.locator(".differs .regard-image_difference")
    expect(difference.locator(".told")).to_have_text(
        re.compile(r"^They differ most at row \d+, column \d+: .*elsewhere\.$")
    )
    reds = difference.locator("canvas").evaluate("""canvas => {
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const found = [0, 0];
        for (let at = 0; at < data.length; at += 4) {
            const warm = data[at] - data[at + 2];
            [found[0], found[1]] = [Math.max(found[0], warm), Math.min(found[1], warm)];
        }
        return found;
    }""")
    assert reds[0] > 40, "where the second looks more"
    assert reds[1] < -40, "where it looks less"
    before = difference.locator(".told").inner_text()
    page.locator(".panel + .panel .thumb").nth(2).click()
    expect(difference.locator(".told")).not_to_have_text(before)
    box = place(difference.locator(".frame"))
    difference.locator(".frame").hover(position={"x": box["width"] * 0.3, "y": box["height"] * 0.7})
    expect(difference.locator(".told")).to_have_text(re.compile(r"^row 6, column 3: "))
    for panel in (".panel:first-child", ".panel + .panel"):
        expect(told(page, panel)).to_contain_text("row 6, column 3: ")


def test_how_a_model_is_another_is_said_plainly(visit: Visit) -> None:
    page = visit(None, model="dates")
    said = page.evaluate("""async () => {
        const {otherModel} = await import("/page/pairs.js");
        const sites = [{name: "attend", kind: "attention"}];
        const model = settings => ({about: {model: "GPT2"}, settings, sites, tasks: []});
        const first = model({heads: 4, layers: 2, seed: 0});
        const others = [{heads: 1}, {seed: 3}, {layers: 6}, {}];
        return others.map(other => otherModel(first, model({heads: 4, layers: 2, seed: 0, ...other}))[0]);
    }""")
    assert said == [
        "the same model with 1 head instead of 4",
        "the same model, trained from other first weights (seed 3 instead of 0)",
        "the same kind of model, with layers 6 instead of 2",
        "a model of the same kind, with the same settings",
    ]


def test_a_model_that_needs_examples_is_compared_only_where_they_are_asked_for(visit: Visit) -> None:
    page = visit(".regard-overlay *", model="shapes")
    page.click("text=Compare")
    choices = page.locator(".panel + .panel select").first
    assert "scenes/caption" in choices.evaluate("list => [...list.options].map(one => one.value)")
    assert "omniglot/fewshot" not in choices.evaluate("list => [...list.options].map(one => one.value)")
    page.check("input[value=omniglot]")
    page.wait_for_selector(".regard-examples *")
    page.wait_for_selector(".panel + .panel .regard-gates *")
    choices.select_option("=layer")
    page.wait_for_selector(".panel + .panel .regard-examples *")
    page.check("input[value=shapes]")  # a layer of this one
    page.wait_for_selector(".panel + .panel .regard-overlay *")
    page.check("input[value=copy]")  # which has one place alone
    expect(page.locator(".panel")).to_have_count(1)
