"""The page on a dark screen, on paper and for a room: in every style it says what is seen in that style."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from expected import expect, place

Visit = Callable[..., Any]


def answer(page: Any) -> Any:
    """Where the first model's answer stands."""
    return page.locator(".panel .answer").first


def told(page: Any) -> Any:
    return page.locator(".panel .told").first


@pytest.fixture
def projector(visit: Visit, same_page: Any, resized: Callable[..., None]) -> Callable[..., Any]:
    """Visits in the style for a room, at the size of a small screen: chosen when the first picture is seen."""
    resized(same_page, 1280, 720)
    same_page.goto("about:blank")

    def go(*given: Any, **state: str) -> Any:
        page = visit(*given, **state)
        room = page.get_by_role("button", name="Projector")
        if room.get_attribute("aria-pressed") != "true":
            room.click()
        return page

    return go


def hover(page: Any, selector: str, across: float, down: float) -> None:
    """Points at a fraction of an element."""
    box = place(page.locator(selector).first)
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


# ---- on a dark screen


def test_what_is_dark_on_paper_is_called_bright_on_a_dark_screen(
    visit: Visit, same_page: Any, resized: Callable[..., None]
) -> None:
    resized(same_page, 1280, 720, "dark")
    for model, said in {
        "de-en": "; bright is where it looked",
        "reviews": "Bright words",
        "facts": "The brighter",
    }.items():
        page = visit(".told", model=model)
        expect(told(page)).to_contain_text(said, use_inner_text=True)
    same_page.emulate_media(color_scheme="light")
    expect(told(page)).to_contain_text("The darker", use_inner_text=True)


# ---- for a room


def test_in_a_room_the_place_that_is_pointed_at_is_told(projector: Callable[..., Any]) -> None:
    page = projector(model="de-en")
    hover(page, ".cells canvas", 0.3, 3.5 / 6)
    expect(told(page)).to_contain_text(re.compile("^station looks at"))
    expect(page.locator(".row.on")).to_have_text("station")
    page.get_by_text("Links", exact=True).click()
    hover(page, ".links .from", 0.8, 3.5 / 6)
    expect(page.locator(".links .from .on")).to_have_text("station")
    page = projector(".regard-tape .heads-and", model="copy")
    hover(page, ".track canvas", 0.5, 6.5 / 9)
    expect(told(page)).to_contain_text("Step 6")


def test_in_a_room_the_picture_fits_the_screen_and_no_name_covers_another(projector: Callable[..., Any]) -> None:
    for model, picture in {
        "de-en": ".cells",
        "dates": ".cells",
        "scenes": ".large .frame",
        "copy": ".track",
    }.items():
        page = projector(f".regard {picture}", model=model)
        box = place(page.locator(f".seen > .regard {picture}").first)
        assert box["y"] + box["height"] <= 720, model
        expect(page.locator(".panel .cell")).to_be_hidden()
    page = projector(model="scenes-show-and-tell")
    name, tools = place(page.locator(".panel > .panel-head h2")), place(page.locator(".panel-tools"))
    assert name["x"] + name["width"] <= tools["x"]


def test_in_a_room_all_panels_of_a_tape_are_seen(projector: Callable[..., Any]) -> None:
    page = projector(".regard-tape .heads-and", model="copy")
    tape, memory = (place(page.locator(f".regard-tape {part}")) for part in (".track", ".memory"))
    assert tape["x"] + tape["width"] <= memory["x"] + 1
    names = ["input", "output", "target", "write head", "read head"]
    expect(page.locator(".regard-tape .name")).to_have_text(names)
    page = projector(model="de-en")
    expect(page.locator(".modes")).to_be_hidden()
    name, said = (place(page.locator(part)) for part in (".panel > .panel-head h2", ".panel .answer .text"))
    assert said["y"] < name["y"] + name["height"], "they stand in one line: the picture has the rest"


def test_in_a_room_an_answer_of_numbers_alone_stays(projector: Callable[..., Any]) -> None:
    page = projector(model="bandits")
    expect(answer(page)).to_contain_text("reward", use_inner_text=True)


# ---- on paper


def test_what_is_printed_stands_on_one_page_in_the_colours_of_paper(
    visit: Visit, new_page: Callable[..., Any]
) -> None:
    page = new_page(viewport={"width": 1280, "height": 720})
    page.add_init_script("localStorage.setItem('regard-theme', 'dark')")
    for model in ("dates", "copy", "facts", "photos", "shapes", "shapes-senet", "omniglot"):
        visit(".told", page=page, model=model)
        page.wait_for_selector(".panel:not([aria-busy]) .seen > .regard > .view")
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 1, model
    page.emulate_media(media="print")
    expect(page.locator("body")).to_have_css("color", "rgb(17, 24, 39)")
    expect(page.locator(".panel .cell")).to_be_hidden()
    visit(".track", page=page, model="copy")
    tape, memory = (place(page.locator(f".regard-tape {part}")) for part in (".panels", ".memory"))
    assert tape["y"] + tape["height"] <= memory["y"]


def test_print_and_projector_show_question_answer_and_picture(visit: Visit, same_page: Any) -> None:
    page = visit(model="dates", fresh=True)
    before = place(answer(page))["height"]
    page.get_by_role("button", name="Projector").click()
    assert place(answer(page))["height"] > 1.2 * before
    for way in ("projector", "print"):
        expect(page.locator(".models")).to_be_hidden()
        expect(page.locator(".tried")).to_be_hidden()
        for seen in ("textarea >> nth=0", ".panel .answer", ".panel .cells"):
            expect(page.locator(seen)).to_be_visible()
        if way == "projector":
            page.get_by_role("button", name="Projector").click()
            page.emulate_media(media="print")
    expect(page.locator(".panel-tools")).to_be_hidden()
    page.emulate_media(media="screen")
    page.click("text=Compare")
    page.wait_for_selector(".panel + .panel .regard .stage")
    page.emulate_media(media="print")
    for panel in (".panel:first-child", ".panel + .panel"):
        told, seen = (place(page.locator(f"{panel} {part}").first) for part in (".answer", ".seen"))
        assert told["y"] + told["height"] <= seen["y"] + 1
    page.emulate_media(media="screen")


def test_light_and_dark_by_a_button(visit: Visit, new_page: Callable[..., Any]) -> None:
    page = visit(page=new_page(color_scheme="light"), model="dates")
    light = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Colours: as the system").click()
    expect(page.locator("body")).not_to_have_css("background-color", light)
    page.reload()
    page.wait_for_selector(".panel .stage")
    expect(page.locator("body")).not_to_have_css("background-color", light)
