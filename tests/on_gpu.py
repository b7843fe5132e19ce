"""Runs the tests that need a GPU, and no others: those that are skipped where there is none.

    python tests/on_gpu.py                  # all of them, each file in a process of its own, some at the same time
    python tests/on_gpu.py capture resume   # of files with such a name

It needs pytest alone, none of its plugins. A file that needs a package which is not here is named, and is no
failure; a process that CUDA ended takes no other file with it."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NEEDS = re.compile(r"needs a (CUDA )?(GPU|card)")  # the reasons of their marks
MISSING = re.compile(r"No module named '([\w.]+)'")
LONGEST = 280  # seconds of a file


class OnlyThose:
    """Deselects tests that run without a GPU, and counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.missing: set[str] = set()
        self.why: Counter[str] = Counter()  # tests were skipped

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        chosen, others = [], []
        for item in items:
            reasons = [str(mark.kwargs.get("reason", "")) for mark in item.iter_markers("skipif")]
            (chosen if any(map(NEEDS.search, reasons)) else others).append(item)
        items[:] = chosen
        config.hook.pytest_deselected(items=others)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            found = MISSING.search(str(report.longrepr))
            self.counts["not collected" if found is None else "not here"] += 1
            self.missing |= {found.group(1)} if found else set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or (report.when == "setup" and not report.passed) or report.failed:
            self.counts[report.outcome] += 1
        if report.skipped:
            self.why[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1


def run_here(path: str, told: str) -> None:
    """In this process."""
    import pytest

    plugin = OnlyThose()
    options = ["-q", "--tb=short", "-W", "ignore::pytest.PytestConfigWarning", "-p", "no:cacheprovider"]
    pytest.main([*options, path], plugins=[plugin])
    found = {"counts": plugin.counts, "missing": sorted(plugin.missing), "why": plugin.why}
    Path(told).write_text(json.dumps(found))


def run(path: Path) -> tuple[Path, dict[str, Any], str, float]:
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        call = [sys.executable, __file__, "--here", str(path), str(told)]
        try:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
            done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONGEST)
            output = done.stdout + done.stderr
        except subprocess.TimeoutExpired as error:
            output = f"{error.stdout or ''}\nstopped after {LONGEST} seconds"
        found = json.loads(told.read_text()) if told.exists() else {"counts": {"broken off": 1}}
    return path, found, output, time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser("python tests/on_gpu.py", description="The tests that need a GPU.")
    parser.add_argument("names", nargs="*", help="of files, or parts of them; without, all")
    parser.add_argument("--processes", type=int, default=min(6, os.cpu_count() or 1))
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        run_here(*given.here)
        return 0
    files = [path for path in sorted(ROOT.glob("tests/**/test_*.py")) if NEEDS.search(path.read_text())]
    files = [path for path in files if not given.names or any(name in path.name for name in given.names)]
    files.sort(key=lambda path: -path.stat().st_size)  # the longest first
    total: Counter[str] = Counter()
    why: Counter[str] = Counter()
    begun = time.perf_counter()
    with ThreadPoolExecutor(given.processes) as pool:
        for path, found, output, seconds in pool.map(run, files):
            counts = Counter(found["counts"])
            total += counts
            why += Counter(found.get("why", {}))
            words = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"
            missing = f" ({', '.join(found['missing'])})" if found.get("missing") else ""
            print(f"{path.relative_to(ROOT)}: {words}{missing}, {seconds:.0f} s", flush=True)
            if counts["failed"] or counts["not collected"] or counts["broken off"]:
                print(output[-6000:], flush=True)
    words = ", ".join(f"{count} {kind}" for kind, count in total.items()) or "none"
    for reason, count in why.most_common():
        print(f"skipped {count}: {reason}")
    ran = total["passed"] + total["failed"]
    seconds = time.perf_counter() - begun
    print(f"{ran} GPU tests were run in {len(files)} files and {seconds:.0f} s: {words}")
    return int(any(total[kind] for kind in ("failed", "not collected", "broken off")))


if __name__ == "__main__":
    sys.exit(main())
