"""`regard reproduce`: claims are listed, run again and judged."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from regard.app.cli import main as cli
from regard.claims import claim as rows
from regard.claims import reproduce as work
from regard.claims.claim import claims
from regard.errors import RunError

TINY = """
[copier]
what = "a tiny copier"
commands = [
    "regard train {recipe} --set train.seed={{seed}} --out {{out}}/copier-{{seed}}",
    "regard evaluate {{out}}/copier-{{seed}}",
]
metric = "perplexity"
value = {value}
low = {low}
high = {high}
seeds = [5, 6]
minutes = 1.5
hardware = "one core"
date = "2026-11-19"
page = "dates.md"
said = ""

[far]
what = "what needs data"
commands = ["regard evaluate dates --data no/such.tsv"]
metric = "exact_match"
value = 1
low = 0
high = 2
hardware = "one core"
date = "2026-11-19"
page = "dates.md"
said = ""
needs = "python make_it.py"
"""
SPEED = """
[speed]
what = "a speed"
commands = ["python -m benchmarks ntm --device cpu"]
metric = "1 heads, 3 vectors.regard.times"
value = 2
low = 1
high = 3
hardware = "one core"
date = "2026-11-19"
page = "ntm.md"
said = ""
"""
SAVES = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def save(*_):
    time.sleep(0.5)
    (folder / "saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
(folder / "begun").touch()
time.sleep(60)
"""
Claims = Callable[..., None]


@pytest.fixture
def tiny(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claims:
    """The claims are two of a test; the commands are carried out in this process."""

    def set_claims(value: float, low: float, high: float) -> None:
        path = tmp_path / "claims.toml"
        path.write_text(TINY.format(recipe=recipe, value=value, low=low, high=high))
        monkeypatch.setattr(rows, "claims", lambda: rows.read_claims(path))

    def run(words: list[str]) -> bytes:
        with redirect_stdout(io.StringIO()) as printed:
            cli.run(words)
        return printed.getvalue().encode()

    monkeypatch.setattr(work, "run_program", run)
    return set_claims


def test_claims_are_listed(call: Any) -> None:
    done = call("reproduce", "--list", "--json")
    listed = json.loads(done.out)
    assert done.code == 0
    assert [each["claim"] for each in listed] == list(claims())
    assert listed[0]["commands"] == ["regard evaluate dates"]
    done = call("reproduce", "--list", "copy")
    assert done.out.startswith("copy: ")
    assert "regard evaluate copy --lengths 120" in done.out
    table = call("reproduce", "--list").out
    assert all(f"\n{name} " in table for name in claims())


def test_a_value_in_its_interval_holds(call: Any, tiny: Claims) -> None:
    """Every seed is trained once, evaluated, and not trained again."""
    tiny(10.0, 1, 100)
    done = call("reproduce", "copier", "--json")
    first = json.loads(done.out)
    assert (done.code, first["holds"], first["recorded"]) == (0, True, 10.0)
    assert list(first["seeds"]) == ["5", "6"]
    assert first["value"] == pytest.approx(sum(first["seeds"].values()) / 2)
    assert first["seeds"]["5"] != first["seeds"]["6"]
    assert "copier: a tiny copier, seed 6 (2 of 2)" in done.err
    weights = Path("runs/reproduce/copier-5/model.safetensors").stat()
    again = call("reproduce", "copier", "--seeds", "1")
    assert again.code == 0
    assert "runs/reproduce/copier-5 is trained" in again.err
    assert "$ regard train" not in again.err
    assert f"copier: perplexity {first['seeds']['5']:.1f} lies in 1 to 100 (recorded 10.0: mean of 2" in again.out
    assert Path("runs/reproduce/copier-5/model.safetensors").stat() == weights


def test_a_value_elsewhere_does_not(call: Any, tiny: Claims) -> None:
    tiny(0.2, 0.1, 0.3)
    done = call("reproduce", "copier", "--seeds", "1", "--out", "mine")
    assert done.code == 1
    assert "does NOT lie in 0.1 to 0.3" in done.out
    assert Path("mine/copier-5/config.json").is_file()


def test_quick_judges_nothing_and_keeps_nothing(call: Any, tiny: Claims) -> None:
    tiny(0.2, 0.1, 0.3)
    done = call("reproduce", "copier", "--quick")
    assert done.code == 0
    assert "after 10 steps: the commands work, and the value is not judged" in done.out
    assert not Path("runs").exists()


def test_what_cannot_be_is_refused_before_any_work(call: Any, tiny: Claims) -> None:
    tiny(0.2, 0.1, 0.3)
    done = call("reproduce", "copier", "far")
    assert (done.code, done.out) == (2, "")
    assert "far: there is no file no/such.tsv" in done.err
    assert "made by: python make_it.py" in done.err
    assert not Path("runs").exists()
    for words, said in (
        ((), "name a claim"),
        (("copiers",), "did you mean 'copier'?"),
        (("copier", "--quick", "--seeds", "1"), "leave --seeds and --minutes out"),
    ):
        done = call("reproduce", *words)
        assert done.code == 2
        assert said in done.err


def test_what_fits_into_the_time_is_done(call: Any, tiny: Claims) -> None:
    """Of all claims: those without data are left out."""
    tiny(10.0, 1, 100)
    done = call("reproduce", "--minutes", "2", "--seeds", "1")
    assert done.code == 0
    assert "left out, as their data is not here: far\nabout 1.5 minutes" in done.err
    assert "copier: perplexity" in done.out
    done = call("reproduce", "copier", "--minutes", "1", "--out", "elsewhere")
    assert (done.code, done.out) == (2, "")
    assert "no claim fits into 1 minutes" in done.err
    assert "no time for copier (3.0)" in done.err


def test_a_speed_is_measured_by_a_benchmark(
    call: Any, tiny: Claims, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(0.2, 0.1, 0.3)
    with (tmp_path / "claims.toml").open("a") as file:
        file.write(SPEED)
    line = {"case": "1 heads, 3 vectors", "contender": "regard", "times": 2.5}
    asked: list[tuple[list[str], str]] = []

    def run(words: list[str], module: str) -> bytes:
        asked.append((words, module))
        return json.dumps({"rows": [{"lines": [line]}]}).encode()

    monkeypatch.setattr(work, "run_program", run)
    done = call("reproduce", "speed")
    assert asked == [(["ntm", "--device", "cpu", "--json", "-"], "benchmarks")]
    assert (done.code, "times 2 lies in 1 to 3" in done.out) == (0, True)
    monkeypatch.setattr(work, "CHECKOUT", tmp_path)
    done = call("reproduce", "speed")
    assert (done.code, "speeds are measured in a checkout of regard" in done.err) == (2, True)


def test_a_benchmark_is_a_program_of_its_own() -> None:
    rows = json.loads(work.run_program(["ntm", "--quick", "--device", "cpu", "--json", "-"], "benchmarks"))["rows"]
    assert work.by_case(rows)["1 heads, 3 vectors"]["regard"]["times"] > 0


def test_a_command_is_a_program_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    """Its stdout is ours to read, its errors go to stderr."""
    assert work.run_program(["--version"]).startswith(b"regard ")
    with pytest.raises(RunError, match="`regard train nowhere` failed with exit code 2; its message stands above"):
        work.run_program(["train", "nowhere"])
    assert "there is no recipe 'nowhere'" in capfd.readouterr().err


def test_ctrl_c_waits_until_a_training_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals_heard: None
) -> None:
    """The program stands for a training that takes a while to write its checkpoint."""
    program = [sys.executable, "-c", SAVES, str(tmp_path)]
    monkeypatch.setattr(work, "program_of", lambda module: (program, dict(os.environ)))

    def press_when_begun() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_when_begun, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        work.run_program([])
    assert (tmp_path / "saved").exists()
