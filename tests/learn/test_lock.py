"""One training at a time in a folder."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from small_training import Run

from regard.errors import RunError
from regard.learn import lock
from regard.learn.lock import locked

HOLD = """
import sys
from pathlib import Path
from regard.errors import RunError
from regard.learn.lock import locked
sys.stdin.readline()
try:
    with locked(Path(sys.argv[1])):
        print("won", flush=True)
        sys.stdin.readline()
except RunError as error:
    print(error, flush=True)
"""


@contextmanager
def holder(folder):
    """A process that takes the folder when it gets a line, and gives it back at the next."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def go(child):
    child.stdin.write("\n")
    child.stdin.flush()


@contextmanager
def held_elsewhere(folder):
    """By another thread: as strange to this one as another process."""
    with ThreadPoolExecutor(1) as pool:
        context = locked(folder)
        pool.submit(context.__enter__).result()
        try:
            yield
        finally:
            pool.submit(context.__exit__, None, None, None).result()


@pytest.fixture(params=["flock", "names"])
def kind(request, monkeypatch):
    """With flock, and on a file system that has none."""

    class NoLocks:
        LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(handle, how):
            raise OSError(errno.ENOLCK, "No locks available")

    if request.param == "names":
        monkeypatch.setattr(lock, "fcntl", NoLocks)
    return request.param


def test_the_lock_of_a_live_process_is_respected_and_that_of_a_dead_one_taken(tmp_path):
    folder = tmp_path / "run"
    with holder(folder) as child:
        go(child)
        assert child.stdout.readline() == "won\n"
        said = rf"run is being trained by process {child.pid} on {socket.gethostname()}; wait until it ends, stop"
        with pytest.raises(RunError, match=said), locked(folder):
            pytest.fail("two hold one folder")
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert os.listdir(folder) == [lock.LOCK]
    with locked(folder):
        assert str(os.getpid()) in (folder / lock.LOCK).read_text()
    assert os.listdir(folder) == []


def test_of_many_processes_one_wins_an_empty_folder(tmp_path):
    with holder(tmp_path / "a/b") as one, holder(tmp_path / "a/b") as two, holder(tmp_path / "a/b") as three:
        children = [one, two, three]
        for child in children:
            go(child)
        said = [child.stdout.readline() for child in children]
        assert sorted(line.startswith("won") for line in said) == [False, False, True], said
        winner = children[said.index("won\n")]
        go(winner)
        assert winner.wait() == 0
    assert not list(tmp_path.rglob(".training*"))


def test_of_many_threads_one_holds_it_at_a_time(tmp_path, kind):
    """Taken and given back again and again, so that the file is deleted while others open it."""
    start, inside, won = threading.Barrier(4), [], []

    def work(number):
        start.wait()
        for _ in range(50):
            try:
                with locked(tmp_path / "run"):
                    inside.append(number)
                    assert inside == [number]
                    won.append(number)
                    inside.remove(number)
            except RunError:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert won
    assert not list(tmp_path.rglob(".training*"))


def test_it_nests_and_leaves_what_was_written(tmp_path, kind):
    folder = tmp_path / "run"
    with locked(folder), locked(tmp_path / "run" / ".." / "run"):
        (folder / "config.json").write_text("{}")
    assert os.listdir(folder) == ["config.json"]
    with held_elsewhere(folder), pytest.raises(RunError, match="is being trained"), locked(folder):
        pytest.fail("two hold one folder")
    for name in ("run", "a/new/one"):
        with pytest.raises(ZeroDivisionError), locked(tmp_path / name):
            raise ZeroDivisionError
    assert os.listdir(folder) == ["config.json"]
    assert os.listdir(tmp_path) == ["run"], "a new folder in which nothing was written is removed again"


def test_without_flock_a_dead_owner_is_replaced_and_an_unknown_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass  # its number is free now
    (tmp_path / lock.OWNER).write_text(f"process {child.pid} on {socket.gethostname()}")
    with locked(tmp_path):
        assert (tmp_path / lock.OWNER).read_text() == f"process {os.getpid()} on {socket.gethostname()}"
    assert os.listdir(tmp_path) == []
    os.mkfifo(tmp_path / lock.OWNER)  # reading it would wait for ever
    with pytest.raises(RunError, match="is being trained by another process"), locked(tmp_path):
        pytest.fail("a pipe was taken for a lock")
    (tmp_path / lock.OWNER).unlink()
    for owner in (f"process {child.pid} on another-host", f"process 1 on {socket.gethostname()}", ""):
        (tmp_path / lock.OWNER).write_text(owner)
        remedy = rf"{owner or 'another process'}; .* If that process is gone, delete .*{lock.OWNER}"
        with pytest.raises(RunError, match=remedy), locked(tmp_path):
            pytest.fail("two hold one folder")
        assert os.listdir(tmp_path) == [lock.OWNER]


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for name in ("file", "file/deeper"):
        with pytest.raises(RunError, match=r"file is a file, and a run is a folder"), locked(tmp_path / name):
            pytest.fail("a file was locked")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / lock.LOCK).symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match=lock.LOCK), locked(tmp_path / "run"):
        pytest.fail("a link was followed")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_second_training_is_refused_before_it_touches_anything(tmp_path):
    Run(tmp_path).fit()
    assert not list(tmp_path.glob(".*"))
    (tmp_path / ".tmp-log.jsonl").write_text("of the live one")
    with held_elsewhere(tmp_path):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        for resume in (False, True):
            with pytest.raises(RunError, match="is being trained"):
                Run(tmp_path, steps=20).fit(resume=resume)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert Run(tmp_path, steps=20).fit(resume=True).step == 20
