"""What the page explains: opened weights, names, sentences, terms and the tour."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import pytest
from expected import expect, expect_state, place

Visit = Callable[..., Any]


def answer(page: Any) -> Any:
    """Where the first model's answer stands."""
    return page.locator(".panel .answer").first


# ---- opening a weight


def opened(page: Any) -> Any:
    return page.locator(".cell")


def test_a_weight_opens_into_query_key_scores_values_and_read(visit: Visit) -> None:
    page = visit(".cell table", model="dates")  # in a wide window the first one opens by itself
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
    page = visit(".cell table", model="dates")
    cells = page.locator(".panel .cells")
    side = place(cells)["width"] / 11
    cells.click(position={"x": 4.5 * side, "y": 5.5 * side})
    expect(opened(page)).to_contain_text("came to look at y")
    there = re.compile(rf"translate\({4 * side:g}px, {5 * side:g}px\)")
    expect(page.locator(".ring.opened")).to_have_attribute("style", there)  # the picture marks it
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
    visit: Visit,
    same_page: Any,
    resized: Callable[..., None],
    violations: Callable[..., list[str]],
    model: str,
    steps: list[str],
    setting: str,
) -> None:
    """What the page works out from the scores is the weight of the model, for every way to weigh."""
    resized(same_page, scheme="dark")
    options = {"options": '{"max_tokens": 20}'} if model == "shakespeare" else {}
    page = visit(".seen > .regard *", model=model, **options)
    if model == "copy":
        page.locator(".track canvas").last.click(position={"x": 60, "y": 150})
    page.wait_for_selector(".cell table")
    expect(opened(page).locator("thead th")).to_have_text(["place", "score", *steps, "mask"])
    expect(opened(page).locator(".result")).to_contain_text("of what is read comes from here")
    opened(page).get_by_label(setting).first.fill("0.7")
    expect(opened(page).locator(".result b")).to_have_text(re.compile(r"[01]\.\d\d"))
    assert violations(page, ".cell") == []
    if model == "reviews":
        expect(page.locator(".regard-document .word.opened")).to_have_count(1)
        page.get_by_role("button", name="Close the opened weight").click()
        expect(page.locator(".regard-document .word.opened")).to_have_count(0)


def test_a_picture_made_of_several_looks_leads_to_those_that_open(visit: Visit) -> None:
    page = visit(".regard-document .word", model="facts")
    page.locator(".regard-document .word").first.click()
    expect(opened(page)).to_contain_text("it was made of several")
    opened(page).get_by_role("button", name="Show the heads of: ").click()
    page.wait_for_selector(".cell table")
    expect(page.locator(".regard-heads .ring.opened")).to_be_visible()
    page.troubles.clear()  # the refusal


def test_a_gate_opens_into_its_sigmoid(visit: Visit) -> None:
    page = visit(".regard-heads canvas", model="dates-seq2seq")
    page.locator(".chosen .cells").click(position={"x": 5, "y": 60})
    expect(opened(page)).to_contain_text("of each number goes through")
    expect(opened(page)).to_contain_text("Here x =")
    page.locator(".chosen .cells").click(position={"x": 5, "y": 5})
    expect(opened(page)).to_contain_text("the mean over all gates of the layer")
    expect(opened(page)).not_to_contain_text("Here x =")
    page = visit(".regard-gates canvas", model="shapes-senet")
    page.locator(".regard-gates .plot").first.click(position={"x": 60, "y": 30})
    expect(opened(page)).to_contain_text("at block 1.1, gates of channels · stages.0.0.excite", use_inner_text=True)
    expect(opened(page)).to_contain_text("the mean of each channel over the image")


def test_places_of_an_image_are_told_apart(visit: Visit) -> None:
    page = visit(".cell table", model="scenes")
    names = opened(page).locator("tbody th").all_inner_texts()
    assert len(set(names)) == len(names) > 3
    assert all(re.fullmatch(r"row \d+, column \d+", name) for name in names)


# ---- in words


def test_layers_have_names_that_a_person_would_say(visit: Visit) -> None:
    page = visit(model="de-en")
    names = page.locator(".panel-tools option").all_inner_texts()
    assert "second layer of the decoder, looking at the source · decoder.1.cross (4 heads)" in names
    assert "first layer of the encoder, looking at its own text · encoder.0.attend (4 heads)" in names
    models = page.request.get(urljoin(page.url, "/api/models")).json()["models"]
    assert [one["name"] for model in models for one in model["sites"] if not one["said"]] == []


def test_the_sentence_and_the_name_of_a_picture_say_of_what_it_is(visit: Visit) -> None:
    page = visit(".regard-map .told", model="de-en")
    expect(page.locator(".told").first).to_contain_text(
        "written in English; dark is where it looked in the German", use_inner_text=True
    )
    expect(page.locator(".seen > .regard-map h3")).to_have_text(
        "second layer of the decoder, looking at the source, mean of 4 heads · decoder.1.cross"
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
    page = visit(".cell table", model="dates")
    page.get_by_role("button", name="Tour").click()
    box, told = page.get_by_role("dialog", name="Tour"), []
    for _ in range(7):
        told.append(box.locator("p").inner_text())
        if len(told) in (1, 7):  # those between are as the first
            assert violations(page, ".tour") == []
        page.keyboard.press("ArrowRight")
    assert len(set(told)) == 7
    assert len(" ".join(told).split()) < 60 * 3, "it is read in a minute"
    expect(box).to_be_hidden()
    expect(page.locator(".toured")).to_have_count(0)
