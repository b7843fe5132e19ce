"""Images in the page: one's own, episodes of examples, and where they are looked at."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from expected import expect, expect_state
from PIL import Image

Visit = Callable[..., Any]


def answer(page: Any) -> Any:
    """Where the first model's answer stands."""
    return page.locator(".panel .answer").first


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
    expect(page.locator(".opening p")).to_have_text("block 1.2, gates of channels: channel 0 is opened most by")
    gates = [float(text) for text in page.locator(".opening figcaption").all_inner_texts()]
    assert len(gates) == 3
    assert gates == sorted(gates, reverse=True)


def test_a_frame_is_around_the_place_with_most_weight(visit: Visit) -> None:
    page = visit(".regard-looks .painted", model="photos", fresh=True)
    told = page.locator(".told").first.inner_text()
    row, column = (int(number) - 1 for number in re.findall(r"row (\d+), column (\d+)", told)[0])
    side = round((int(page.locator(".frame").first.get_attribute("aria-valuemax")) + 1) ** 0.5)
    seen = page.locator(".large canvas").evaluate(
        """(canvas, [row, column, side]) => {
            const x = Math.round((column + .5) * canvas.width / side), y = Math.round(row * canvas.height / side);
            return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
        }""",
        [row, column, side],
    )
    assert min(seen) > 240, "white over black"
