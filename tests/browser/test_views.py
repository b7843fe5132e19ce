"""Every kind of HTML picture in a real browser, opened from disk; and the search of the docs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_picture import HOSTILE, PICTURES, TITLE, image, weights
from expected import expect, place

from regard.show import Document, Gates, Heads, Line, Looks, Map, Overlay, ShadedText, Sheet, Tape, Words
from regard.show.html_page import html_page, json_text
from regard.show.sheet import Entry

PHONE = {"width": 375, "height": 700}
WORDS = ["the", "black", "cat", "sat", "here", "."]
MAP = np.array([[0.7, 0.2, 0.1], [0.05, 0.15, 0.8]])


@pytest.fixture
def opened(same_page: Any, tmp_path: Path) -> Callable[..., Any]:
    """The page of a picture, from disk, in place of what the browser shows."""
    page = same_page

    def opening(picture: Any) -> Any:
        path = tmp_path / "picture.html"
        path.write_text(picture if isinstance(picture, str) else picture.html(), encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector(".regard .told, .regard .card")
        page.wait_for_selector(".view:has(.frame):not(.painted)", state="detached")  # an image is drawn
        return page

    return opening


def expect_told(page: Any, text: str, *, more: bool = False) -> None:
    """What is told of what is pointed at; `more`: it begins so."""
    begins = re.compile(r"^\s*" + r"\s+".join(map(re.escape, text.split())))
    expect(page.locator(".told")).to_have_text(begins if more else text, use_inner_text=True)


def hover(page: Any, selector: str, across: float, down: float) -> None:
    """Points at a fraction of an element."""
    found = page.locator(selector).first
    found.scroll_into_view_if_needed()
    box = place(found)
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


def whole_width(page: Any) -> int:
    return page.evaluate("document.documentElement.scrollWidth")


def test_hostile_words_are_text_on_a_phone_and_nothing_is_wrong(
    opened: Callable[..., Any], same_page: Any, resized: Callable[..., None], violations: Callable[..., list[str]]
) -> None:
    resized(same_page, **PHONE)
    for kind, draw in PICTURES.items():
        page = opened(draw(HOSTILE, TITLE))
        assert page.evaluate("window.broken") is None, kind
        assert page.locator("main img[src=x], main b b, main script").count() == 0, kind
        assert "<script>window.broken = 1</script>" in page.inner_text("h1"), kind
        shown = page.inner_text("main")
        for visible in ("\\u202eabc", "\\x00\\x1b[31m\\x07", "\\ud800"):
            assert visible in shown, kind
        assert whole_width(page) == PHONE["width"], f"{kind}: the page never scrolls sideways"
        assert violations(page) == [], kind


def test_dark_is_dark_and_legible(
    opened: Callable[..., Any], same_page: Any, resized: Callable[..., None], violations: Callable[..., list[str]]
) -> None:
    resized(same_page, scheme="dark")
    for kind, draw in PICTURES.items():
        page = opened(draw(WORDS, "T"))
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 21, 28)", kind
        assert violations(page) == [], kind
        page.evaluate("document.documentElement.dataset.theme = 'light'")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", kind


def test_a_map_names_what_a_row_looks_at(opened: Callable[..., Any]) -> None:
    page = opened(Map(MAP, ["die", "Katze"], ["the", "black", "cat"], "T"))
    expect_told(page, "Each row is a word", more=True)
    hover(page, ".cells canvas", 0.5, 0.75)
    expect_told(page, "Katze looks at cat 0.80 black 0.15 the 0.05 · here black 0.15")
    expect(page.locator(".row.on")).to_have_text("Katze")
    expect(page.locator(".column").nth(2)).to_have_css("color", "rgb(255, 255, 255)")
    page.mouse.move(0, 0)
    expect_told(page, "Each row is a word", more=True)
    hover(page, ".cells canvas", 0.1, 0.25)
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(0, 0)
    expect_told(page, "die looks at the 0.70", more=True)  # a click keeps it


def test_what_is_pointed_at_stays_under_the_pointer(
    opened: Callable[..., Any], same_page: Any, resized: Callable[..., None]
) -> None:
    """Where the hint has more lines than what is told in its place."""
    resized(same_page, width=390, height=844)
    page = opened(Map(MAP, ["die", "Katze"], ["the", "black", "cat"], "T"))
    before, line = place(page.locator(".cells canvas")), place(page.locator(".told"))
    hover(page, ".cells canvas", 0.5, 0.75)
    expect_told(page, "Katze looks at", more=True)
    assert page.evaluate("""() => {
      const line = document.querySelector(".told"), {height} = line.getBoundingClientRect();
      line.style.minHeight = "0px";
      return line.getBoundingClientRect().height < height;
    }""")  # it would have been lower
    page.mouse.move(0, 0)
    hover(page, ".cells canvas", 0.1, 0.25)
    expect_told(page, "die looks at", more=True)
    assert (place(page.locator(".cells canvas")), place(page.locator(".told"))) == (before, line)


def test_the_keyboard_alone_reaches_everything(opened: Callable[..., Any]) -> None:
    page = opened(Map(MAP, ["die", "Katze"], ["the", "black", "cat"], "T"))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect_told(page, "die looks at the 0.70", more=True)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect_told(page, "Katze looks at cat 0.80 black 0.15 the 0.05 · here the 0.05")
    expect(page.locator("[role=slider]")).to_have_attribute("aria-valuetext", "2 of 2: Katze")
    page.keyboard.press("Escape")
    expect_told(page, "Each row is a word", more=True)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".links")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    expect_told(page, "Katze looks at cat 0.80", more=True)


def test_links_tell_both_ways(opened: Callable[..., Any]) -> None:
    page = opened(Map(MAP, ["die", "Katze"], ["the", "black", "cat"], "T"))
    page.click("text=Links")
    hover(page, ".from li:nth-child(1)", 0.5, 0.5)
    expect_told(page, "die looks at the 0.70 black 0.20 cat 0.10")
    hover(page, ".to li:nth-child(3)", 0.5, 0.5)
    expect_told(page, "cat is looked at by Katze 0.80 die 0.10 · on average 0.45")


def test_hidden_places_windows_and_centres_are_explained(opened: Callable[..., Any]) -> None:
    mask = np.tril(np.ones((3, 3), bool))
    page = opened(Map(mask / mask.sum(1, keepdims=True), "abc", "abc", "T", mask=mask))
    hover(page, ".cells canvas", 0.9, 0.1)
    expect_told(page, "a looks at a 1.00 · here c may not be looked at")
    assert "may not be looked at" in page.inner_text(".key")
    page = opened(Map(weights(3, 9), "abc", "abcdefghi", "T", centres=[1.5, 4, np.nan], window=2))
    assert "centre p_t" in page.inner_text(".key")
    assert "window ± 2" in page.inner_text(".key")


def test_words_and_pieces(opened: Callable[..., Any]) -> None:
    merged = Words(["unable", "!"], [0, 0, 1])
    page = opened(Map(weights(3, 3), ["un", "able", "!"], ["un", "able", "!"], "T").in_words(merged, merged))
    expect(page.locator(".row")).to_have_text(["unable", "!"])
    page.click("text=Pieces of words")
    expect(page.locator(".row")).to_have_text(["un", "able", "!"])
    page.click("text=Pieces of words")
    expect(page.locator(".row")).to_have_text(["unable", "!"])


def test_pieces_that_come_late_do_not_replace_the_words(opened: Callable[..., Any]) -> None:
    """They are asked for, and no longer wanted when they come."""
    shown = Map(weights(2, 2), ["unable", "!"], ["unable", "!"], "T").data()
    pieces = Map(weights(3, 3), ["un", "able", "!"], ["un", "able", "!"], "T").data()
    host = "{level: 1, part: () => new Promise(done => { window.come = done; })}"
    page = opened(html_page("map", "T", {**shown, "pieces": True}).replace("{level: 1}", host))
    page.click("text=Pieces of words")
    page.click("text=Pieces of words")
    page.evaluate("async pieces => { await come(pieces); await new Promise(done => setTimeout(done)); }", pieces)
    expect(page.locator(".row")).to_have_text(["unable", "!"])
    page.click("text=Pieces of words")
    page.evaluate("pieces => come(pieces)", pieces)
    expect(page.locator(".row")).to_have_text(["un", "able", "!"])


def test_a_thousand_tokens_are_a_text_that_answers_at_once(opened: Callable[..., Any]) -> None:
    count = 1000
    words = [f"w{at}" for at in range(count)]
    table = np.eye(count, k=-1) * 0.75
    table[0, 0] = 1
    page = opened(Map(table, words, words, "T"))
    hover(page, ".word:nth-child(501)", 0.5, 0.5)
    expect_told(page, "w500 looks at w499 (500) 0.75 · here w500 (501) 0.00")
    page.click("text=Map")
    assert place(page.locator(".cells canvas"))["width"] <= 1100
    hover(page, ".cells canvas", 0.1005, 0.1005)
    expect_told(page, "w100 looks at w99 (100) 0.75", more=True)
    assert whole_width(page) <= 1200


def test_a_text_is_spaced_and_its_queries_are_found(opened: Callable[..., Any]) -> None:
    """All words ask (an encoder), or those that were written (a language model, whose last word is no memory)."""
    words = ["he", "said", '"', "no", '"', "(", "twice", ")", ",", "我", "喜", "cats", "."]
    page = opened(ShadedText(weights(13, 13), words, words, "T"))
    assert page.inner_text(".words") == 'he said "no" (twice), 我喜 cats.'
    assert page.locator(".asks").count() == 13
    page = opened(ShadedText(weights(3, 4), ["▁the", "▁c", "at", "s"], ["at", "s", "▁sat"], "T"))
    assert page.inner_text(".words").strip() == "the cats sat"
    assert page.locator(".asks").all_inner_texts() == ["at", "s", " sat"]
    page = opened(ShadedText(weights(2, 3), ["a", "b", "c"], ["x", "y"], "T"))
    assert page.locator(".asked .asks").all_inner_texts() == ["x", "y"]
    hover(page, ".asked .word:nth-child(2)", 0.5, 0.5)
    expect_told(page, "y looks at", more=True)


def test_pointing_builds_no_word_anew(opened: Callable[..., Any]) -> None:
    """So that it takes less than a frame; how long is measured by a benchmark."""
    words = [f"w{at}" for at in range(200)]
    page = opened(Map(weights(200, 200), words, words, "T"))
    script = """() => {
      const spans = [...document.querySelectorAll(".word")], seen = new MutationObserver(() => {});
      seen.observe(document.querySelector(".words"), {childList: true, subtree: true});
      for (const span of spans.slice(0, 60)) span.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
      return [spans.length, seen.takeRecords().length];
    }"""
    assert page.evaluate(script) == [200, 0]
    expect_told(page, "w59 looks at", more=True)


def test_a_head_is_chosen_by_click_and_by_arrow(opened: Callable[..., Any]) -> None:
    heads = Heads({"a.0": weights(3, 4, 4), "a.1": np.eye(4)[None].repeat(2, 0)}, WORDS[:4], WORDS[:4], "T")
    page = opened(heads)
    expect(page.locator(".chosen .sub")).to_contain_text("a.0, head 0")
    page.click("button[title$='a.1, head 1']")
    expect(page.locator(".chosen .sub")).to_contain_text("a.1, head 1")
    hover(page, ".cells canvas", 0.4, 0.4)
    expect_told(page, "black looks at black 1.00")
    page.focus("button[title$='a.1, head 1']")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chosen .sub")).to_contain_text("a.0, head 2")
    page.click("text=Links")
    page.focus("button[title$='a.0, head 2']")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".chosen .sub")).to_contain_text("a.0, head 1")
    expect(page.locator(".links")).to_have_count(1)  # another head is shown in the same way


def test_an_overview_fetches_a_head_when_it_is_asked_for(opened: Callable[..., Any]) -> None:
    count = 80
    words = [f"w{at}" for at in range(count)]
    heads = Heads({"a": np.eye(count)[None].repeat(3, 0), "b": weights(3, count, count)}, words, words, "T")
    page = html_page("heads", "T", heads.overview(16))
    part = json_text(Heads({"b": heads.panels["b"][1:2]}, words, words).data())
    host = f"""{{level: 1, state: {{site: "b", head: 1}}, changed: state => {{ window.state = state; }},
      part: async asked => {{ window.asked = asked; return {part}; }}}}"""
    whole = page.replace("{level: 1}", host)
    page = opened(whole)
    assert page.evaluate("window.asked") == {"site": "b", "head": 1, "pieces": False}
    expect(page.locator(".words .word")).to_have_count(count)
    expect(page.locator(".chosen .sub")).to_have_text("b, head 1")
    page.click("button[title='a, head 2']")
    expect(page.locator(".chosen .sub")).to_have_text("a, head 2")
    assert page.evaluate("[window.asked.site, window.state.site, window.state.head]") == ["a", "a", 2]


def test_a_word_of_a_caption_shows_its_look(opened: Callable[..., Any]) -> None:
    soft = np.array([[[3.0, 1.0]], [[0.0, 1.0]], [[1.0, 1.0]]])
    page = opened(Looks(image(), [Line(["dog", "and", "cat"], soft, [0.9, 0.1, 0.5])], "T"))
    expect_told(page, "dog looks most at row 1, column 1: 75.0 %, gate 0.90")
    page.hover(".thumb:nth-child(2)")
    expect_told(page, "and looks most at row 1, column 2: 100.0 %, gate 0.10")
    assert "one place" in page.inner_text(".thumb:nth-child(2)")
    page.focus(".thumb:nth-child(2)")
    page.keyboard.press("ArrowRight")
    expect_told(page, "cat looks everywhere alike, gate 0.50")
    hover(page, ".frame canvas", 0.9, 0.5)
    expect_told(page, "cat, row 1, column 2: 50.0 %")
    expect(page.locator(".thumb:nth-child(1)")).to_contain_text("25.0 %")
    page.mouse.move(0, 0)
    page.click("text=Play")
    page.wait_for_selector(".thumb:first-child[aria-pressed=true]")
    page.click("text=Play")
    page.hover(".thumb:nth-child(2)")
    expect_told(page, "and looks most at row 1, column 2: 100.0 %, gate 0.10")


def test_a_patch_of_an_overlay_tells_its_share_in_every_map(opened: Callable[..., Any]) -> None:
    maps = {"rollout": [[3, 1], [0, 0]], "a, head 0": [[1, 0, 999]], "a, head 1": [[0, 0], [0, 1]]}
    page = opened(Overlay(image(30, 20), maps, "T", "a cat"))
    hover(page, ".frame canvas", 0.9, 0.1)
    expect_told(page, "all layers together, row 1, column 2: 25.0 %")
    expect(page.locator(".thumb .small")).to_have_text(["25.0 %", "99.9 %", "0.00 %"])
    page.focus(".frame")
    page.keyboard.press("ArrowLeft")
    expect_told(page, "all layers together, row 1, column 1: 75.0 %")
    page.focus(".thumb:first-child")
    page.keyboard.press("End")
    expect(page.locator(".large .sub")).to_have_text("a, head 1")


def test_a_document_tells_words_and_sentences(opened: Callable[..., Any]) -> None:
    found = Document([["Dull", "."], ["Superb", "!"]], [[0.6, 0.4], [0.9, 0.1]], [0.25, 0.75], "T")
    page = opened(found)
    page.hover(".sentence:nth-child(2) .word:nth-child(1)")
    expect_told(page, "Superb 0.90 in its sentence, shaded by 0.78")
    page.mouse.move(0, 0)
    page.focus(".sentence:nth-child(1)")
    expect_told(page, "Sentence 1 has weight 0.25; its words: Dull 0.60 . 0.40")
    page.keyboard.press("ArrowDown")
    expect_told(page, "Sentence 2 has weight 0.75; its words: Superb 0.90", more=True)


def test_a_channel_tells_its_gate_in_every_row(opened: Callable[..., Any]) -> None:
    page = opened(
        Gates({"a": [[0.5], [0.5]], "b": [[0.25, 0.5, 0.75], [0.1, 0.2, 0.3]]}, rows=["cat", "dog"], title="T")
    )
    page.focus(".plots section:nth-child(2) .plot")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    expect_told(page, "b, channel 2: cat 0.750 dog 0.300")
    hover(page, ".plots section:nth-child(2) .plot", 0.5, 0.5)
    expect_told(page, "b, channel 1: cat 0.500 dog 0.200")


def test_a_step_of_a_tape_tells_its_largest_places(opened: Callable[..., Any]) -> None:
    memory = np.random.default_rng(0).normal(size=(3, 4, 2))
    page = opened(
        Tape({"input": np.eye(3), "read 0": [[0.1, 0.3, 0.2], [0.9, 0.7, 0.8]]}, memory=memory, title="T")
    )
    assert page.inner_text(".memory .sub") == "Memory after step 2"
    page.focus(".scroll")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect_told(page, "Step 1 · input: 010 · read head: place 1 0.70")
    expect(page.locator(".memory .sub")).to_have_text("Memory after step 1")


def test_an_example_tells_its_weight_and_that_of_its_class(opened: Callable[..., Any]) -> None:
    page = opened(PICTURES["examples"](["star", "ring", "star", "cross"], "T"))
    page.focus(".thumb:first-child")
    weight = re.compile(r"^\s*star\s+[\d.]+\s+%\s+·\s+all of its class\s+[\d.]+\s+%\s+·\s+star\s*$")
    expect(page.locator(".told")).to_have_text(weight, use_inner_text=True)
    expect(page.locator(".thumb.same")).to_have_count(2)
    before = page.inner_text(".shares")
    page.select_option("select", "1")
    expect(page.locator(".shares")).not_to_have_text(before, use_inner_text=True)


def test_typing_shows_the_captions_that_have_the_text(opened: Callable[..., Any]) -> None:
    texts = [("a red Dog", "right"), ("a cat", "right"), ("cats", "unrelated")]
    page = opened(Sheet([Entry(image(), text, ["a dog"], 1.0, grade) for text, grade in texts], "T"))
    page.fill("input", " dog ")
    expect(page.locator(".card:visible .caption")).to_have_text(["a red Dog"])
    expect(page.locator("section:visible")).to_have_count(1)


def test_two_pictures_in_one_notebook(same_page: Any, tmp_path: Path) -> None:
    """Each in a frame of its own, as high as its content, in the notebook's theme."""
    page, path = same_page, tmp_path / "notebook.html"
    pictures = [Map(MAP, rows, ["x", "y", "z"], "T") for rows in (["a", "b"], ["c", "d"])]
    body = "".join(picture._repr_html_() for picture in pictures)
    path.write_text(f'<!doctype html><body data-jp-theme-light="false">{body}</body>', encoding="utf-8")
    page.goto(path.as_uri())
    frames = [page.frame_locator("iframe >> nth=0"), page.frame_locator("iframe >> nth=1")]
    for frame, names in zip(frames, (["a", "b"], ["c", "d"]), strict=True):
        expect(frame.locator(".row")).to_have_text(names)
    assert page.locator("body > svg, body > div > svg").count() == 0, "the SVG is for where there are no scripts"
    inside = place(frames[0].locator("body"))["height"]
    expect(page.locator("iframe").first).to_have_css("height", f"{math.ceil(inside)}px")
    expect(frames[0].locator("html")).to_have_attribute("data-theme", "dark")


# ---- the docs

SHIM = Path(__file__).parents[2] / "docs" / "assets" / "search_from_disk.js"
SEARCH = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>search</title>
<script src="shim.js"></script></head><body><p id="found"></p><script>
const worker = new Worker(new URL("worker.js", location));
worker.addEventListener("message", message => { document.querySelector("#found").textContent += message.data; });
worker.postMessage("one ");
worker.postMessage("two ");
</script></body></html>"""
WORKER = """addEventListener("message", async message => { postMessage(message.data.toUpperCase()); });"""


def test_a_worker_answers_on_a_page_from_disk(same_page: Any, tmp_path: Path) -> None:
    """The search of the docs, opened from disk: its worker is replaced by a frame."""
    page = same_page
    (tmp_path / "shim.js").write_text(SHIM.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "worker.js").write_text(WORKER, encoding="utf-8")
    (tmp_path / "index.html").write_text(SEARCH, encoding="utf-8")
    page.goto((tmp_path / "index.html").as_uri())
    page.wait_for_function("() => document.querySelector('#found').textContent === 'ONE TWO '")
