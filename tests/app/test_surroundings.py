"""Warnings in plain words; other locales, closed streams, a full disk, no home."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regard.app.cli import main as cli
from regard.app.cli.surroundings import DEBUG, in_plain_words

ROOT = Path(__file__).parents[2]


def warn() -> None:
    warnings.warn("the first line\n   and the second", UserWarning, stacklevel=2)


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_plain_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEBUG, "")
    with in_plain_words():
        warn()
    assert capsys.readouterr() == ("", "warning: the first line and the second\n")
    monkeypatch.setenv(DEBUG, "1")
    with in_plain_words():
        warn()
    assert f"{__file__}:" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_which_warnings_there_are_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    filters, show = list(warnings.filters), warnings.showwarning
    with in_plain_words():
        assert list(warnings.filters) == filters
        warn()
    assert capsys.readouterr().err == ""
    assert warnings.showwarning is show


@pytest.mark.filterwarnings("default")
def test_a_command_warns_in_plain_words(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture with a character that no font has."""
    monkeypatch.setattr("regard.show.fonts._covered", lambda path, characters: set())
    done = call("translate", "dates", "3 May 1979 \u0378", "--show", "a.png")
    assert done.code == 0
    warned = [line for line in done.err.splitlines() if "font" in line]
    assert len(warned) == 1
    assert warned[0].startswith("warning: no font installed here has ")
    assert ".py" not in done.err


def test_an_error_without_a_file_is_said_without_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.explain(OSError(28, "No space left on device")) == 1
    assert cli.explain(PermissionError(13, "Permission denied", "run/training/step-1/model")) == 1
    assert cli.explain(PermissionError(13, "Permission denied", "my.tmp-1.txt")) == 1  # the user's own name
    assert capsys.readouterr().err.splitlines() == [
        "error: No space left on device",
        "error: run/training/step-1/model: Permission denied",
        "error: my.tmp-1.txt: Permission denied",
    ]


# ---- processes: all commands do without torch, so each takes half a second


def shell(line: str, folder: Path, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """`regard` stands for this checkout's."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **changes}
    environment.pop("PYTHONUNBUFFERED", None)
    start = f"regard() {{ '{sys.executable}' -m regard \"$@\"; }}\n"
    return subprocess.run(
        ["bash", "-c", start + line], env=environment, cwd=folder, capture_output=True, timeout=120, check=False
    )


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("line", "locale", "said"),
    [
        ("regard train Käse", ASCII, "there is no recipe 'Käse'"),
        ("regard Käse", {"PYTHONIOENCODING": "latin-1"}, "No such command 'Käse'"),
    ],
    ids=["ascii", "latin-1"],
)
def test_texts_are_utf8_in_every_locale(tmp_path: Path, line: str, locale: dict[str, str], said: str) -> None:
    """And a name that does not exist is refused before torch is imported."""
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    done = shell(line, tmp_path, **locale, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 2
    assert said in done.stderr.decode("utf-8")


def test_stdout_is_utf8_in_every_locale_and_help_comes_without_numpy(tmp_path: Path) -> None:
    """The frames of the help are no ASCII. A numpy that cannot be imported shows that nobody wants it."""
    (tmp_path / "numpy.py").write_text("raise SystemExit('numpy was imported')")
    done = shell("regard --help", tmp_path, **ASCII, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Usage" in done.stdout.decode("utf-8")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("regard --version >&-", 0, ""),
        ("regard --help >&- 2>&- <&-", 0, ""),
        ("regard --version > /dev/full", 1, "error: No space left on device\n"),
        ("regard --help | true; exit ${PIPESTATUS[0]}", 1, ""),
        ("regard --version | true; exit ${PIPESTATUS[0]}", 1, ""),  # less than a buffer: found when it ends
        ("regard --help | head -1 > /dev/null", 0, ""),
        ("unset HOME; regard --version > /dev/null", 0, ""),
        ("export HOME=/proc/nosuch; regard --version > /dev/null", 0, ""),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path: Path, line: str, code: int, said: str) -> None:
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    done = shell(line, tmp_path)
    assert (done.returncode, done.stderr.decode()) == (code, said)


def test_a_picture_needs_no_home(tmp_path: Path) -> None:
    """matplotlib says where it keeps its cache instead: in a temporary folder, which is nobody's concern."""
    code = """
import logging, os
from regard.app.cli.surroundings import in_plain_words
with in_plain_words():
    import matplotlib
    matplotlib.get_configdir()
"""
    environment = {**os.environ, "HOME": "/proc/nosuch", "PYTHONPATH": str(ROOT)}
    for name in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.filterwarnings("default")
def test_large_images_are_no_reason_to_warn(capsys: pytest.CaptureFixture[str]) -> None:
    with in_plain_words():
        warnings.warn("could be decompression bomb", Image.DecompressionBombWarning, stacklevel=1)
        warn()
    assert capsys.readouterr().err == "warning: the first line and the second\n"
