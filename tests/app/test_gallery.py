"""`regard gallery`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.app.cli import gallery_command
from regard.gallery import GALLERY
from regard.gallery.core.example import title_of


def test_examples_are_listed(call: Any) -> None:
    done = call("gallery")
    assert (done.code, done.err) == (0, "")
    for name in GALLERY:
        [line] = [line for line in done.out.splitlines() if line.startswith(f"{name} ")]
        assert title_of(name)[:20] in line


def test_one_is_made(call: Any, tmp_path: Path) -> None:
    done = call("gallery", "apple", "--out", str(tmp_path / "pages"))
    assert (done.code, done.out) == (0, f"{tmp_path / 'pages' / 'apple.html'}\n")
    assert "apple: The sum" in done.err
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"apple.html", "apple.ipynb"}
    assert "index.html" not in (tmp_path / "pages" / "apple.html").read_text(encoding="utf-8")


def test_all_are_made_with_an_index(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery_command, "GALLERY", {"apple": 1, "cat": 1})
    done = call("gallery", "--all", "--out", str(tmp_path))
    assert done.code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "index.html",
        "apple.html",
        "apple.ipynb",
        "cat.html",
        "cat.ipynb",
    }
    assert 'href="cat.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="index.html"' in (tmp_path / "cat.html").read_text(encoding="utf-8")


def test_what_is_asked_wrongly(call: Any) -> None:
    done = call("gallery", "aple")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: there is no example 'aple'; did you mean 'apple'?; `regard gallery` lists all\n"
    done = call("gallery", "apple", "--all")
    assert (done.code, done.err) == (2, "error: --all makes every example; leave out apple, or --all\n")


def test_constants_are_changed(call: Any, tmp_path: Path) -> None:
    """The code on the page is the code that was run."""
    done = call("gallery", "norms", "--out", str(tmp_path), "--set", "STEPS=20", "--set", "BETA=5")
    assert done.code == 0
    text = (tmp_path / "norms.html").read_text(encoding="utf-8")
    assert "4.15" in text, "the mean of a row is 5 now"
    assert 'BETA = <span class="n">5.0</span>' in text
    assert 'STEPS = <span class="n">20</span>' in text
    assert 'href="norms.ipynb"' in text
    assert "STEPS = 20\\n" in (tmp_path / "norms.ipynb").read_text(encoding="utf-8")


def test_constants_are_checked(call: Any) -> None:
    for words, message in (
        (["apple", "--set", "STEPS=2"], "apple has no constant 'STEPS'; it has none that can be set"),
        (["norms", "--set", "STEP=2"], "norms has no constant 'STEP'; did you mean 'STEPS'?; it has GAMMA"),
        (["norms", "--set", "STEPS=many"], "STEPS must be a whole number, got 'many'"),
        (["norms", "--set", "STEPS"], "--set wants NAME=VALUE, as STEPS=2000; got 'STEPS'"),
        (["--set", "STEPS=2"], "--set changes one example; name it"),
        (["excitation", "--set", "STEPS=2"], "it has none"),
    ):
        done = call("gallery", *words)
        assert (done.code, done.out) == (2, "")
        assert message in done.err
