"""The table of speeds, made of what the benchmarks measured."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

CODE = run_path(str(Path(__file__).parents[2] / "results/cpu_speed.py"))


def line(case: str, contender: str, unit: str, speed: float, same: str = "100% the same") -> dict[str, Any]:
    return {"case": case, "contender": contender, f"{unit}/s": speed, "as regard": same}


def test_speeds_stand_beside_each_other() -> None:
    translator = [
        line("greedy", "regard", "sentences", 300.4),
        line("greedy", "regard int8", "sentences", 1200.0, "95% the same"),
        line("greedy", "CTranslate2 float32", "sentences", 200.0),
    ]
    prompt = [line("1 x 1 after 512", "regard", "tokens", 2.0)]
    measured = {
        "machine": {"machine": "x86_64 CPU", "torch": "2.13"},
        "rows": [
            {"row": "transformer-translate", "unit": "sentences", "lines": translator},
            {"row": "gpt2-decode", "unit": "tokens", "lines": prompt},
        ],
    }
    before = f"head\n{CODE['BEGIN']}old\n{CODE['END']}\ntail"
    page = CODE["with_table"](before, measured)
    assert "| work | regard | regard int8 | CTranslate2 float32 | regard : CTranslate2 float32 |" in page
    assert "| translator, greedy, sentences/s | 300 | 1,200 (95%) | 200 | 1.50 |" in page
    assert "| a prompt of 512, tokens/s | 1,024 |  |  |  |" in page
    assert page.startswith("head\n")
    assert page.endswith("\ntail")
    assert "old" not in page
    assert CODE["with_table"](page, measured) == page
