"""The pages of results/ beside the claims: no number differs."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

import pytest

from regard.claims.claim import claims

RESULTS = Path(__file__).parents[2] / "results"
CODE = run_path(str(RESULTS / "claims.py"))


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text))


def test_the_table_is_made_of_the_rows():
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert CODE["with_table"](page) == page, "python results/claims.py writes it anew"


def test_every_claim_has_its_line():
    lines = CODE["table"]().splitlines()[2:]
    assert len(lines) == len(claims())
    for (name, claim), line in zip(claims().items(), lines, strict=True):
        assert line.startswith(f"| {claim.what} | {claim.number(claim.value)} ")
        assert line.endswith(f"]({claim.page}) | `{name}` |")


@pytest.mark.parametrize("name", claims())
def test_a_page_says_what_the_row_says(name):
    claim = claims()[name]
    text = " ".join((RESULTS / claim.page).read_text(encoding="utf-8").split())
    assert " ".join(claim.said.split()) in text, f"{claim.page} no longer says so"
    if claim.learned_below:
        assert f"{claim.value * len(claim.seeds) / 100:.0f} of {len(claim.seeds)}" in claim.said
    else:
        assert {claim.plain(value) for value in (claim.value, *claim.values)} <= numbers(claim.said)
