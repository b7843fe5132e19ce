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
import torch
from torch import nn

from regard.errors import RunError
from regard.learn import fit, lock
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


def no_flock(handle, how):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.fixture(params=["flock", "names"])
def kind(request, monkeypatch):
    """With flock, and on a file system that has none."""
    if request.param == "names":
        monkeypatch.setattr("fcntl.flock", no_flock)
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


def test_a_second_lock_is_refused_and_what_was_written_stays(tmp_path, kind):
    folder = tmp_path / "run"
    with locked(folder):
        (folder / "config.json").write_text("{}")
        with pytest.raises(RunError, match="is being trained"), locked(tmp_path / "run" / ".." / "run"):
            pytest.fail("one thread took it twice")
    assert os.listdir(folder) == ["config.json"]
    said = rf"is being trained by process {os.getpid()} on {socket.gethostname()}; wait"
    with held_elsewhere(folder), pytest.raises(RunError, match=said), locked(folder):
        pytest.fail("two hold one folder")
    for name in ("run", "a/new/one"):
        with pytest.raises(ZeroDivisionError), locked(tmp_path / name):
            raise ZeroDivisionError
    assert os.listdir(folder) == ["config.json"]
    assert os.listdir(tmp_path) == ["run"], "a new folder in which nothing was written is removed again"


@pytest.mark.parametrize("missing", sorted(lock.NO_FLOCK))
def test_without_flock_a_dead_owner_is_replaced_and_an_unknown_one_is_not(tmp_path, monkeypatch, missing):
    def no_flock(handle, how):
        raise OSError(missing, os.strerror(missing))

    monkeypatch.setattr("fcntl.flock", no_flock)
    with locked(tmp_path):
        pid, host = (tmp_path / lock.OWNER).read_text().splitlines()[:2]
        assert int(pid) == os.getpid()
    assert os.listdir(tmp_path) == []
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass  # its number is free now
    (tmp_path / lock.OWNER).write_text(f"{child.pid}\n{host}\n")
    with locked(tmp_path):
        assert (tmp_path / lock.OWNER).read_text().startswith(f"{os.getpid()}\n{host}\n")
    assert os.listdir(tmp_path) == []
    name = host.partition("?")[0]
    owners = {
        f"{child.pid}\nanother-host\n": f"process {child.pid} on another-host",
        f"1\n{host}\n": f"process 1 on {name}",
        "": "another process",
        "x" * 10_000_000: "another process",
        "\x1b[31m\nhost\n": "another process",
    }
    for text, owner in owners.items():
        (tmp_path / lock.OWNER).write_text(text)
        remedy = rf"{owner}; .* If that process is gone, delete .*{lock.OWNER}"
        with pytest.raises(RunError, match=remedy), locked(tmp_path):
            pytest.fail("two hold one folder")
        assert os.listdir(tmp_path) == [lock.OWNER]


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for name in ("file", "file/deeper"):
        with pytest.raises(RunError, match=r"file is a file, and a run is a folder"), locked(tmp_path / name):
            pytest.fail("a file was locked")


def test_what_is_no_lock_file_is_refused(tmp_path, monkeypatch):
    """A link is not followed, and a pipe is not read, which would wait for ever."""
    (tmp_path / "file").write_text("mine")
    kinds = (lambda path: path.symlink_to(tmp_path / "file"), os.mkfifo, os.mkdir)
    for name in (lock.LOCK, lock.OWNER):
        if name == lock.OWNER:
            monkeypatch.setattr("fcntl.flock", no_flock)
        for number, make in enumerate(kinds):
            folder = tmp_path / f"{name}{number}"
            folder.mkdir()
            make(folder / name)
            with pytest.raises(RunError, match=rf"{name} is no file of a training; move it away"), locked(folder):
                pytest.fail("this is no lock")
            assert os.listdir(folder) == [name]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_huge_lock_file_is_not_read(tmp_path):
    with open(tmp_path / lock.LOCK, "wb") as file:
        file.truncate(10**10)
    with held_elsewhere(tmp_path):
        with open(tmp_path / lock.LOCK, "wb") as file:
            file.truncate(10**10)
        with pytest.raises(RunError, match="is being trained by another process"), locked(tmp_path):
            pytest.fail("two hold one folder")
    assert os.listdir(tmp_path) == []


def test_a_second_training_is_refused_before_it_touches_anything(tmp_path):
    def train(steps, resume):
        model, rows = nn.Linear(2, 1), [torch.ones(4, 2)]
        return fit(
            model, rows, loss=lambda model, batch: model(batch).square().mean(), validate=rows, out=tmp_path,
            steps=steps, resume=resume, device="cpu",
        )  # fmt: skip

    train(10, resume=False)
    assert not list(tmp_path.glob(".*"))
    (tmp_path / ".tmp-log.jsonl").write_text("of the live one")
    with held_elsewhere(tmp_path):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        for resume in (False, True):
            with pytest.raises(RunError, match="is being trained"):
                train(20, resume=resume)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert train(20, resume=True).step == 20
