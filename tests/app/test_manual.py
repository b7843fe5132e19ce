"""The pages of commands in the docs are made of what `--help` prints."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

MANUAL: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "manual.py"))


@pytest.mark.parametrize("command", MANUAL["COMMANDS"])
def test_a_page_of_a_command_says_what_its_help_says(command: str, call: Any) -> None:
    page, told = MANUAL["manual_page"](command), call(command, "--help").out
    assert page.startswith(f"# regard {command}\n")
    flags = set(re.findall(r"(?<!\S)--[a-z][\w-]+(?= |$)", re.sub(r"^(?!│).*$", "", told, flags=re.MULTILINE)))
    tables = page.partition("## Options")[2]
    assert flags
    assert all(f"`{flag}`" in tables for flag in flags)
    for example in re.findall(r"^  (regard .*)$", told, re.MULTILINE):
        assert " ".join(example.split()) in " ".join(page.split())  # help breaks long lines
    for row in re.findall(r"^\| `.*$", page, re.MULTILINE):
        assert len(re.findall(r"(?<!\\)\|", row)) in (3, 4), row
        assert "| |" not in row.replace("|  |", ""), f"no meaning: {row}"
    assert not re.search(r"<(bool|str|int|float|list|Path)", page + told)
