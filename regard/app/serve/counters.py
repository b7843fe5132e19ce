"""What is counted while serving, in Prometheus' text form."""

from __future__ import annotations

import os
import threading
from collections import defaultdict

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
SIZES = (1, 2, 4, 8, 16, 32, 64)  # of batches
HELP = {
    "regard_requests_total": "Requests answered, by route and status.",
    "regard_request_seconds": "Time from the end of a request's head to the end of its answer.",
    "regard_requests_running": "Requests that are being answered.",
    "regard_tokens_total": "Tokens written, by model.",
    "regard_batch_size": "Inputs that were computed at once, by model.",
    "regard_stopped_total": "Answers that were stopped because their client was gone.",
    "regard_models_loaded": "Models in memory.",
    "regard_models_bytes": "Bytes of the weights in memory.",
    "regard_resident_bytes": "Resident memory of the server.",
}
Labels = tuple[tuple[str, str], ...]


class Counters:
    """Counters, gauges and histograms; may be changed from any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: dict[tuple[str, Labels], float] = defaultdict(float)
        self.histograms: dict[tuple[str, Labels], list[float]] = {}  # counts of the buckets, their sum, the total

    def add(self, name: str, value: float = 1, **labels: str) -> None:
        with self.lock:
            self.values[name, tuple(labels.items())] += value

    def set(self, name: str, value: float) -> None:
        with self.lock:
            self.values[name, ()] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        edges = edges_of(name)
        with self.lock:
            found = self.histograms.setdefault((name, tuple(labels.items())), [0.0] * (len(edges) + 2))
            for place, edge in enumerate(edges):
                found[place] += value <= edge
            found[-2] += value
            found[-1] += 1

    def get(self, name: str, **labels: str) -> float:
        with self.lock:
            return self.values.get((name, tuple(labels.items())), 0.0)

    def text(self) -> str:
        """All of it, in Prometheus' text form."""
        self.set("regard_resident_bytes", resident())
        lines = []
        with self.lock:
            for name in HELP:
                kind = "histogram" if name in ("regard_request_seconds", "regard_batch_size") else "gauge"
                kind = "counter" if name.endswith("_total") else kind
                lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}"]
                for (own, labels), value in self.values.items():
                    if own == name:
                        lines.append(f"{name}{_braces(labels)} {value:g}")
                for (own, labels), found in self.histograms.items():
                    if own == name:
                        lines += _histogram(name, labels, found)
        return "\n".join(lines) + "\n"


def edges_of(name: str) -> tuple[float, ...]:
    return BUCKETS if name.endswith("_seconds") else SIZES


def _histogram(name: str, labels: Labels, found: list[float]) -> list[str]:
    rows = [
        f"{name}_bucket{_braces((*labels, ('le', f'{edge:g}')))} {count:g}"
        for edge, count in zip(edges_of(name), found, strict=False)
    ]
    rows.append(f"{name}_bucket{_braces((*labels, ('le', '+Inf')))} {found[-1]:g}")
    return [*rows, f"{name}_sum{_braces(labels)} {found[-2]:g}", f"{name}_count{_braces(labels)} {found[-1]:g}"]


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
