"""Long texts on the page: an overview of every head, then one head, some rows at a time."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest
import torch
from expected import does_not_scroll_sideways, expect, expect_state
from wrapped_folders import TEXTS, make_folder

import regard
from regard.attention import trace

pytest.importorskip("transformers")

READ, WRITTEN, HEADS = 2000, 220, 32
SITE, HEAD = "blocks.1.attend", 7
MOST = 1_000_000  # bytes of a response
SLOW = 60_000  # milliseconds
WORDS = " ".join(TEXTS).split()
CHOICE = random.Random(0)
TEXT = " ".join(CHOICE.choice(WORDS) for _ in range(READ))  # after it, no token ends what is written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"num_attention_heads": HEADS, "num_key_value_heads": 8, "hidden_size": 64, "head_dim": 2}
    return make_folder(
        "llama", tmp_path_factory.mktemp("wrapped") / "long", max_position_embeddings=4096, **settings
    )


@pytest.fixture
def address(serve: Callable[..., Any], folder: Path) -> Iterator[str]:
    with serve(str(folder)) as found:
        yield found


def exact(folder: Path) -> np.ndarray:
    """The weights of one head for every written token."""
    run: Any = regard.load(folder, device="cpu")
    written = run.generate(TEXT, max_tokens=WRITTEN, temperature=0.0).written
    assert len(written) == WRITTEN
    fed = [*run.read(TEXT), *written][:-1]
    with torch.inference_mode(), trace(run.model, SITE, heads=[HEAD]) as seen:
        run.model.states(torch.tensor([fed]))
    return seen[SITE][0, 0].numpy()[-len(written) :]


def test_a_long_text_is_an_overview_and_tiles(page: Any, address: str, folder: Path) -> None:
    """Some 2,200 tokens with 32 heads: every picture is small, and only the rows that are seen are asked for."""
    answers: list[Any] = []
    page.on("response", lambda response: answers.append(response) if "/api/" in response.url else None)

    def is_tile(response: Any) -> bool:
        return "/attention?" in response.url and "head=" in response.url

    def rows_of(response: Any) -> list[int]:
        query = {name: value for name, [value] in parse_qs(urlsplit(response.url).query).items()}
        assert query["site"] == SITE
        return [int(end) for end in query["rows"].split("-")]

    options = json.dumps({"max_tokens": WRITTEN, "temperature": 0})
    state = {"model": "long", "text": TEXT, "options": options, "site": SITE}
    with page.expect_response(is_tile, timeout=SLOW):
        page.goto(f"{address}/#{urlencode(state)}")
    expect(page.locator(".heads button")).to_have_count(HEADS)
    expect(page.locator(".chosen .words .word").first).to_be_visible(timeout=SLOW)

    with page.expect_response(is_tile, timeout=SLOW) as first:
        page.locator(".heads button").nth(HEAD).click()
    expect(page.locator(".chosen .sub").first).to_contain_text(f"head {HEAD}")
    [begin, last] = rows_of(first.value)
    assert begin == 0
    expect(page.get_by_text(f"Rows 1 to {last + 1} of {WRITTEN}")).to_be_visible(timeout=SLOW)
    with page.expect_response(is_tile, timeout=SLOW) as second:
        page.get_by_role("button", name="Later rows").click()
    assert rows_of(second.value) == [last + 1, WRITTEN - 1]
    expect(page.get_by_text(f"Rows {last + 2} to {WRITTEN} of {WRITTEN}")).to_be_visible(timeout=SLOW)

    weights = exact(folder)
    for response, rows in ((first.value, slice(0, last + 1)), (second.value, slice(last + 1, None))):
        table = response.json()["panels"][SITE]
        np.testing.assert_allclose(unpacked(table)[0], weights[rows], atol=table["top"] / 4000)

    page.get_by_role("slider").first.focus()
    page.keyboard.press("End")
    expect_state(page, view={"site": SITE, "head": HEAD, "row": WRITTEN - last - 2})
    told = page.locator(".chosen .told")
    best = np.argsort(-weights[-1], kind="stable")[:3]
    expect(told).to_contain_text(re.compile(".*".join(rf"\({at + 1}\)" for at in best)))
    assert does_not_scroll_sideways(page)
    assert all(len(one.body()) < MOST for one in answers if one.request.method == "GET")
    page.troubles.remove(next(said for said in page.troubles if "413" in said))  # the whole is too much


def unpacked(table: dict[str, Any]) -> np.ndarray:
    """A table as the views read it: two digits of base 64 for each number."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    digits = np.array([letters.index(one) for one in table["code"]]).reshape(-1, 2)
    numbers = digits @ [64, 1]
    return (table["low"] + numbers * (table["top"] - table["low"]) / 4095).reshape(table["shape"])
