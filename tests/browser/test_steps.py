"""Step by step in the page: forward, back and what would have followed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from expected import expect, expect_state

Visit = Callable[..., Any]


def answer(page: Any) -> Any:
    """Where the first model's answer stands."""
    return page.locator(".panel .answer").first


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
