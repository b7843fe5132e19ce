"""Runs rows of benchmarks: regard and every peer that is there, in turns.

    python -m benchmarks --list                    # the rows, and what each measures
    python -m benchmarks gpt2-decode               # one row; also a pattern: 'gpt2-*'; without a name, all
    python -m benchmarks gpt2-decode --peer nanoGPT=PATH --json results.json

Prints Markdown tables. A peer that is not installed is named as missing. What each number is stands in `frame.py`,
what each row measures in its own file."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import traceback
from contextlib import redirect_stdout
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from benchmarks.frame import FAILED, MEASURED, ROWS, Bench, Row, bench, machine, run, told
from benchmarks.peers import PEERS

MODULES = (
    "additive", "bert", "captions", "decoding_gpu", "documents", "elmo", "gpt2", "hard_attention", "lstmn",
    "ntm", "page", "recurrence", "recurrent", "scale", "senet", "server", "serving", "shards", "snail",
    "training", "transformer", "vit",
)  # fmt: skip


def load() -> dict[str, Row]:
    """All rows, by name."""
    for module in MODULES:
        importlib.import_module(f"benchmarks.{module}")
    return dict(sorted(ROWS.items()))


def chosen(words: list[str]) -> list[Row]:
    rows = list(load().values())
    picked: list[Row] = []
    for word in words or ["*"]:
        matching = [row for row in rows if fnmatchcase(row.name, word)]
        if not matching:
            raise SystemExit(f"there is no row {word!r}; there are {', '.join(row.name for row in rows)}")
        picked += [row for row in matching if row not in picked]
    return picked


def peer(word: str) -> tuple[str, Path]:
    """NAME=PATH of --peer."""
    name, _, path = word.partition("=")
    if name not in PEERS:
        raise SystemExit(f"--peer {word}: no peer is called {name!r}; there are {', '.join(PEERS)}")
    wanted = PEERS[name].file
    if not (Path(path) / wanted).exists():
        raise SystemExit(f"--peer {word}: there is no {wanted} in {path!r}; PATH is {PEERS[name].place}")
    return name, Path(path).resolve()


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a row's name or a pattern; without, all rows")
    parser.add_argument("--list", action="store_true", help="tell the rows and end")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, one call each: only to see that rows work"
    )
    parser.add_argument("--device", help="cpu, cuda or cuda:1; the GPU if there is one")
    parser.add_argument("--seconds", type=float, help="that each contender is measured for (CPU 4, GPU 1)")
    parser.add_argument("--threads", type=int, default=0, help="1: CPU time, for a machine that others use too")
    parser.add_argument("--json", metavar="FILE", help="write all numbers into FILE; - is stdout")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH", help=", ".join(PEERS))
    ways = Bench().ways
    parser.add_argument("--ways", default=",".join(ways), help="of training steps: some of %(default)s")
    return parser


def settle(given: argparse.Namespace) -> None:
    bench.device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    bench.quick = given.quick
    longer = 1.0 if bench.gpu else 4.0
    bench.seconds = given.seconds if given.seconds is not None else 0.0 if bench.quick else longer
    bench.threads = given.threads
    bench.peers = dict(map(peer, given.peer))
    bench.ways = tuple(given.ways.split(","))
    if odd := set(bench.ways) - set(Bench().ways):
        raise SystemExit(f"--ways takes some of {', '.join(Bench().ways)}, got {', '.join(sorted(odd))}")


def run_row(row: Row, out: Any) -> dict[str, Any]:
    """Measures one row; what went wrong is told and kept, so that other rows still run."""

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    result: dict[str, Any] = {"row": row.name, "about": row.about, "unit": row.unit, "lines": [], "missing": {}}
    say(f"\n## {row.name}\n\n{row.about}\n")
    if bench.kind not in row.devices:
        result["skipped"] = f"runs on {' and '.join(row.devices)} only"
        say(f"skipped: {result['skipped']}")
        return result
    try:
        with redirect_stdout(sys.stderr):  # what peers print
            run(row, say, result["lines"], result["missing"])
    except ModuleNotFoundError as error:
        result["skipped"] = f"{error}"
        say(f"skipped: {error}")
    except Exception as error:
        traceback.print_exc()
        result["failed"] = f"{FAILED} {type(error).__name__}: {error}"
        say(result["failed"])
    for name, reason in result["missing"].items():
        say(f"\nmissing: {name} ({reason})")
    return result


def main(words: list[str] | None = None) -> int:
    given = options().parse_args(words)
    settle(given)
    rows = chosen(given.rows)
    if given.list:
        for row in rows:
            print(f"{row.name:24} {row.about} [{', '.join(row.devices)}]")
        return 0
    out = sys.stderr if given.json == "-" else sys.stdout
    about = (
        machine() | ({"quick": True} if bench.quick else {}) | ({"threads": bench.threads} if bench.threads else {})
    )
    print(", ".join(f"{name} {value}" for name, value in about.items()), file=out, flush=True)
    results: list[dict[str, Any]] = []
    for row in rows:
        results.append(run_row(row, out))
        if given.json and (given.json != "-" or row is rows[-1]):  # a file also has what was measured before a stop
            text = json.dumps({"machine": about, "limits": MEASURED, "rows": results}, indent=1)
            print(text) if given.json == "-" else Path(given.json).write_text(text + "\n")
    if MEASURED:
        print("\nlimits: " + "; ".join(f"{name} {told(speed)}" for name, speed in MEASURED.items()), file=out)
    reasons = [reason for result in results for reason in (result.get("failed"), *result["missing"].values())]
    return int(any(reason and reason.startswith(FAILED) for reason in reasons))


if __name__ == "__main__":
    sys.exit(main())
