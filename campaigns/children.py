"""Work that may crash, hang or take all memory, in a process of its own: forked, so that it need not import torch
again, with limits, and watched from outside."""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

MIB = 1 << 20
OPENING = ("open", "openat", "openat2", "creat", "execve", "execveat", "connect")  # calls of the system
SAID = 20_000  # bytes of what it said that are kept
PATIENT = 10  # seconds of a clock for each of a processor, as others may use the cores too
FAILED = 70  # the exit status of a child whose work raised an exception


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    code: int  # its exit status; negative: the signal that ended it
    late: bool  # it was killed, as its time was over
    said: str  # on stderr
    result: Any  # what the work returned, by JSON; None if it did not
    peak: float  # MiB that it took at most, beyond what it had when it began
    seconds: float  # of a processor
    opened: frozenset[str] = frozenset()  # what was opened, run or connected to, where it was traced

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.said or "panicked at" in self.said


class Child:
    """A forked process that does some work; `wait` says how it ended."""

    def __init__(
        self, work: Callable[[], Any], *, memory: int = 0, folder: Path | None = None, traced: bool = False
    ) -> None:
        """`memory`: bytes that it may take beyond what it has; `folder`: where it works; `traced`: by strace,
        which notes what it opens."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - `wait` closes it
        self._told, theirs = os.pipe()
        go, ours = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._told)
            os.close(ours)
            os.read(go, 1)
            os.close(go)
            _live(work, theirs, self._said.fileno(), memory, folder)
        os.close(theirs)
        os.close(go)
        self._handle = os.pidfd_open(self.pid)
        self.ended: Ended | None = None
        self._trace = Trace(self.pid) if traced else None
        os.close(ours)  # it begins

    def running(self, seconds: float) -> bool:
        """Whether it still runs after so long; it returns as soon as it does not."""
        return self.ended is None and not select.select([self._handle], [], [], seconds)[0]

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.ended is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def said(self) -> str:
        """The end of what is on its stderr, while it runs."""
        length = os.fstat(self._said.fileno()).st_size  # the place in the file is the child's
        return os.pread(self._said.fileno(), SAID, max(0, length - SAID)).decode("utf-8", "replace")

    def wait(self, seconds: float = 120) -> Ended:
        """It is killed when its time is over, `seconds` of a processor, and with it what it has started."""
        if self.ended is not None:
            return self.ended
        late = self._late(seconds)
        with suppress(ProcessLookupError, PermissionError):
            if late:
                os.killpg(self.pid, signal.SIGKILL)
        self.kill(signal.SIGKILL if late else 0)
        _, status, used = os.wait4(self.pid, 0)
        os.close(self._handle)
        with os.fdopen(self._told) as told:
            text = told.read()
        said = self.said()
        self._said.close()
        answer = json.loads(text) if text.endswith("\n") else {}
        seconds = used.ru_utime + used.ru_stime
        code = os.waitstatus_to_exitcode(status)
        opened = self._trace.end() if self._trace else frozenset()
        self.ended = Ended(code, late, said, answer.get("result"), answer.get("peak", 0.0), seconds, opened)
        return self.ended

    def _late(self, seconds: float) -> bool:
        """Once it has ended, or its time is over."""
        last = time.monotonic() + PATIENT * seconds
        while self.running(min(1.0, seconds)):
            if used(self.pid) > seconds or time.monotonic() > last:
                return True
        return False


def used(pid: int) -> float:
    """Seconds of a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class Trace:
    """What a process opens, by strace, which sees what Rust and C open too."""

    def __init__(self, pid: int) -> None:
        self._file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - `end` closes it
        words = [
            "strace",
            "-f",
            "-qq",
            "-y",
            "-e",
            f"trace={','.join(OPENING)}",
            "-o",
            self._file.name,
            "-p",
            str(pid),
        ]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
            if self._process.poll() is not None:
                raise RuntimeError(f"strace cannot attach: {self._process.communicate()[1].decode()}")
            time.sleep(0.002)

    def end(self) -> frozenset[str]:
        """Files by their path without links; what was run, or connected to, as strace tells it."""
        self._process.communicate()
        lines = self._file.read().decode("utf-8", "replace").splitlines()
        self._file.close()
        found = set()
        for line in lines:
            if match := re.search(r"= \d+<(.*)>$", line):
                found.add(match[1])
            elif "execve(" in line or "connect(" in line:
                found.add(line)
        return frozenset(found)


def can_trace() -> bool:
    return shutil.which("strace") is not None


def in_child(
    work: Callable[[], Any],
    *,
    seconds: float = 60,
    memory: int = 0,
    folder: Path | None = None,
    traced: bool = False,
) -> Ended:
    return Child(work, memory=memory, folder=folder, traced=traced).wait(seconds)


def _live(work: Callable[[], Any], told: int, said: int, memory: int, folder: Path | None) -> None:
    code = FAILED
    try:
        os.setsid()
        gc.freeze()  # collections then leave alone what it shares with the process it is forked from
        torch.set_num_threads(1)  # the other threads of that process are not here, and would be waited for
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, stream in ((0, nothing), (1, nothing), (2, said)):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (  # also where they were replaced
            os.fdopen(number, mode, closefd=False) for number, mode in enumerate(("r", "w", "w"))
        )
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if folder is not None:
            os.chdir(folder)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = mib_of("VmRSS")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            most = int(mib_of("VmSize") * MIB) + memory
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        result = work()
        answer = {"result": result, "peak": mib_of("VmHWM") - before}
        with os.fdopen(told, "w") as file:
            file.write(json.dumps(answer) + "\n")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def mib_of(name: str, pid: int | str = "self") -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) / 1024


def own_mib(pid: int | str = "self") -> float:
    """Without pages of files, which the system may take back while they are not used."""
    return mib_of("RssAnon", pid) + mib_of("RssShmem", pid)
