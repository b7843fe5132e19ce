"""The helper carries out commands as they would themselves, for its own user alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.app.helper.client import connected, hear, tell
from regard.app.helper.control import sentence, start, stop, told
from regard.app.helper.place import folder, is_own, own_folder, socket_path
from regard.errors import BadInput, RunError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runtime folder of the user, of this process too."""
    runtime = tmp_path_factory.mktemp("runtime")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        patch.setenv("OMP_NUM_THREADS", "1")
        for name in ("LOCAL_RANK", "REGARD_HELPER"):
            patch.delenv(name, raising=False)
        yield runtime


@pytest.fixture(scope="module")
def call(place: Path) -> Call:
    def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "regard", *map(str, words)]
        environment = {**os.environ, **options.pop("environment", {})}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, **options)

    return run


@pytest.fixture(scope="module")
def helper(call: Call) -> Iterator[int]:
    """Its process."""
    started = call("serve", "--background")
    assert started.returncode == 0, started.stderr
    yield int(started.stdout.split("process ")[1].split(")")[0])
    stop()


def asked() -> Any:
    connection = connected()
    assert connection is not None
    with connection:
        tell(connection, {"words": ["state"]})
        return hear(connection)["commands"]


def test_it_answers_draws_and_fails_as_the_command_itself(call: Call, helper: int, tmp_path: Path) -> None:
    words = ("translate", "dates", "3 May 1979", "--json", "--show")
    before = asked()
    done = call(*words, "a.svg", cwd=tmp_path)
    assert asked() == before + 1
    alone = call(*words, "b.svg", cwd=tmp_path, environment={"REGARD_HELPER": "0"})
    assert asked() == before + 1
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout) == (0, done.stdout)
    assert json.loads(done.stdout)["text"] == "1979-05-03"
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    refused = call("translate", "nothing", "x")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: there is no run 'nothing'")


def test_it_reads_stdin(call: Call, helper: int) -> None:
    done = call("translate", "dates", input="3 May 1979\n4 May 1979\n")
    assert done.stdout == "1979-05-03\n1979-05-04\n"


def test_it_is_seen_and_other_commands_are_not_its_work(call: Call, helper: int) -> None:
    assert f"process {helper}" in call("serve", "--status").stdout
    before = asked()
    assert call("models").returncode == 0
    assert asked() == before


def test_files_have_the_rights_that_the_command_gives_them(call: Call, helper: int, tmp_path: Path) -> None:
    for mask, mode in ((0o077, 0o600), (0o022, 0o644)):
        before = os.umask(mask)
        try:
            call("translate", "dates", "3 May 1979", "--show", f"{mode}.svg", cwd=tmp_path)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{mode}.svg").stat().st_mode) == mode


@pytest.mark.usefixtures("signals_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_its_work_as_it_ends_the_command(helper: int, number: signal.Signals) -> None:
    before = told("state")["commands"]
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "translate", "dates"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write("3 May 1979\n" * 200)
    process.stdin.flush()
    until = time.monotonic() + 60
    while told("state")["commands"] == before and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.3)  # it waits for more
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"process {helper}" in sentence(told("state"))


def test_nobody_else_reaches_it(helper: int, place: Path) -> None:
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert stat.S_IMODE(socket_path().stat().st_mode) == 0o600


def test_a_message_that_is_none_does_not_end_it(call: Call, helper: int) -> None:
    for line in (b"no json\n", b"[1]\n", b'{"words": ["translate"]}\n', b""):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with connection:
            connection.connect(str(socket_path()))
            connection.sendall(line)
    assert f"process {helper}" in sentence(told("state"))


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    own_folder().chmod(0o755)
    assert connected() is None
    with pytest.raises(BadInput, match="nobody else may enter"):
        own_folder()
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert not is_own(link, stat.S_ISDIR)


def test_another_version_is_not_asked(helper: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.app.helper.place.__version__", "another")
    assert connected() is None


def test_one_that_was_killed_is_not_waited_for_and_its_successor_is_stopped(call: Call, helper: int) -> None:
    os.kill(helper, signal.SIGKILL)
    until = time.monotonic() + 30
    while told("state") is not None and time.monotonic() < until:
        time.sleep(0.1)
    assert socket_path().exists()  # it could not remove it
    assert call("translate", "dates", "3 May 1979").stdout == "1979-05-03\n"
    started = call("serve", "--background")
    assert started.returncode == 0, started.stderr
    assert f"process {helper})" not in started.stdout
    assert call("serve", "--stop").stdout == "helpers stopped: 1\n"
    assert connected() is None
    assert "no helper" in sentence(told("state"))
    assert stop() == 0


def test_one_of_another_package_is_not_waited_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.app.helper.place.__version__", "another")
    monkeypatch.setattr("regard.app.helper.control.PATIENCE", 1e9)
    with pytest.raises(RunError, match="did not start"):
        start()
    assert not list(folder().glob("*.sock"))


def test_it_ends_when_nobody_asks(place: Path) -> None:
    program = "from regard.app.helper import server; server.IDLE = 0.5; server.serve()"
    ended = subprocess.run([sys.executable, "-c", program], timeout=120, env=dict(os.environ))
    assert ended.returncode == 0
    assert not socket_path().exists()
