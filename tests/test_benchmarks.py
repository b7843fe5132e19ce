"""The runner of the benchmarks: rows, turns, missing peers, JSON. Nothing here depends on how long a call takes."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import MODULES, load, main
from benchmarks.frame import Bench, Case, Row, bench, difference, run, same_rows, told

FOLDER = Path(__file__).parents[1] / "benchmarks"
CHEAP = ("additive", "bahdanau-train", "lm-decode", "lstmn", "ntm", "snail")


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """What a run has set is forgotten."""
    yield
    for one in fields(Bench):
        setattr(bench, one.name, getattr(Bench(), one.name))


def row_of(*cases: Case, **options) -> Row:
    settings = {"unit": "things", "devices": ("cpu",), "threads": 1, "memory": False, **options}
    return Row("row", "a row", lambda: iter(cases), **settings)


def measured(row: Row, say=print) -> tuple[list, dict]:
    lines, missing = [], {}
    run(row, say, lines, missing)
    return lines, missing


def test_every_row_is_declared_once_and_described():
    rows = load()
    declared = {path.stem for path in FOLDER.glob("*.py") if "\n@row(" in path.read_text()}
    assert declared == set(MODULES)
    assert sum(path.read_text().count("\n@row(") for path in FOLDER.glob("*.py")) == len(rows)
    for name, row in rows.items():
        assert name == row.name
        assert len(row.about.split()) > 4
        assert set(row.devices) <= {"cpu", "cuda"}


@pytest.mark.parametrize("name", CHEAP)
def test_rows_run(name, capsys):
    assert main([name, "--quick", "--device", "cpu", "--json", "-"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert set(written) == {"machine", "limits", "rows"}
    assert written["machine"]["quick"] is True
    (row,) = written["rows"]
    assert row["row"] == name
    assert row["missing"] == {}
    unit = f"{load()[name].unit}/s"
    for line in row["lines"]:
        assert line[unit] > 0
        assert line["ms"] > 0
        assert line["calls"] == 1
    assert row["lines"][0]["contender"].startswith("regard")


def test_contenders_take_turns():
    called: list[str] = []

    def maker(name: str):
        return lambda: lambda: called.append(name)

    bench.seconds = 1e-9  # each is called once after its first call
    lines, missing = measured(row_of(Case("one", 6, {"regard": maker("regard"), "peer": maker("peer")})))
    assert called == ["regard", "peer", "regard", "peer"]
    assert missing == {}
    ours, theirs = lines
    assert ours["things/s"] == pytest.approx(6000 / ours["ms"])
    assert theirs["times"] == 1
    assert ours["times"] == pytest.approx(theirs["ms"] / ours["ms"])


def test_the_best_peer_is_not_one_that_is_set_aside():
    makers = {"regard": list, "peer": list, "other": list}
    case = Case("one", 1, {name: lambda: list for name in makers}, aside=("other",))
    lines, _ = measured(row_of(case))
    assert [line["times"] for line in lines if line["contender"] == "peer"] == [1]


def test_a_missing_peer_is_named_and_a_failing_one_is_told(capsys):
    def absent():
        import no_such_package  # noqa: F401

    def broken():
        raise ValueError("no GPU of that kind")

    case = Case("one", 1, {"regard": lambda: list, "absent": absent, "broken": broken})
    lines, missing = measured(row_of(case))
    assert [line["contender"] for line in lines] == ["regard"]
    assert missing == {
        "absent": "No module named 'no_such_package'",
        "broken": "failed: ValueError: no GPU of that kind",
    }
    assert "ValueError" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no GPU"):
        measured(row_of(Case("one", 1, {"regard": broken})))


def test_memory_and_the_limit_are_measured():
    bench.quick = True
    x = torch.ones(1 << 20)

    def make():
        return lambda: x + 1

    case = Case("one", 1, {"regard": make}, reads=8 << 20, agree=difference)
    (line,), _ = measured(row_of(case, memory=True))
    assert line["peak MiB"] == pytest.approx(4, abs=0.1)
    assert line["of the limit"].endswith("%")
    assert line["as regard"] == "off 0e+00"


def test_lines_become_a_table():
    said: list[str] = []
    table = Row("row", "a row", lambda: iter([{"a": 1, "b": 0.5}, {"a": 2000}]), "", ("cpu",), 1, False)
    lines, _ = measured(table, said.append)
    assert lines == [{"a": 1, "b": 0.5}, {"a": 2000}]
    assert "\n".join(said) == "| a | b |\n|---|---|\n| 1 | 0.50 |\n| 2,000 |  |"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.5, "1,234"), (123.45, "123.5"), (0.256, "0.26"), (1.7e-22, "1.7e-22"), ("as is", "as is")],
)
def test_numbers_are_told_with_their_digits(value, text):
    assert told(value) == text


def test_rows_of_tokens_are_compared():
    assert same_rows([[1, 2], [3, 4]], [[1, 2], [3, 5]]) == "50% the same"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-such-row"], "there is no row 'no-such-row'; there are additive, additive-train"),
        (["--peer", "other=."], "no peer is called 'other'; there are nanoGPT, gpt-fast, vLLM"),
        (
            ["--peer", "nanoGPT=nowhere"],
            "there is no model.py in 'nowhere'; PATH is a checkout of karpathy/nanoGPT",
        ),
        (["--peer", "vLLM"], "there is no vllm/__init__.py in ''; PATH is the folder with the package vllm"),
    ],
)
def test_wrong_words_are_told(words, told):
    with pytest.raises(SystemExit, match=re.escape(told)):
        main(words)


def test_a_row_of_another_device_is_skipped(capsys):
    assert main(["scale", "--device", "cpu"]) == 0
    assert "skipped: runs on cuda only" in capsys.readouterr().out
