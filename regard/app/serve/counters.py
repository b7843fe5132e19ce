"""What is counted while serving, in Prometheus' text form."""

from __future__ import annotations

import os
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)  # of batches


class Counters:
    """Counters, gauges and histograms; may be changed from any thread. Each server has a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "regard_requests_total",
            "Requests answered, by route and status.",
            ["route", "status"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "regard_request_seconds",
            "Time from the end of a request's head to the end of its answer.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.requests_running = Gauge(
            "regard_requests_running", "Requests that are being answered.", registry=registry
        )
        self.tokens = Counter("regard_tokens_total", "Tokens written, by model.", ["model"], registry=registry)
        self.batch_size = Histogram(
            "regard_batch_size",
            "Inputs that were computed at once, by model.",
            ["model"],
            buckets=SIZES,
            registry=registry,
        )
        self.stopped = Counter(
            "regard_stopped_total", "Answers that were stopped because their client was gone.", registry=registry
        )
        self.models_loaded = Gauge("regard_models_loaded", "Models in memory.", registry=registry)
        self.models_bytes = Gauge("regard_models_bytes", "Bytes of the weights in memory.", registry=registry)
        self.graphs = Gauge("regard_graphs", "CUDA graphs that are kept, by model.", ["model"], registry=registry)
        self.graphs_bytes = Gauge(
            "regard_graphs_bytes", "GPU memory of the CUDA graphs, by model.", ["model"], registry=registry
        )
        resident = Gauge("regard_resident_bytes", "Resident memory of the server.", registry=registry)
        resident.set_function(resident_bytes)

    def collect(self) -> Iterator[Metric]:
        """Without the times at which series began, which prometheus_client leaves out per process only."""
        for metric in self.registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric

    def text(self) -> str:
        """All of it, in Prometheus' text form."""
        return generate_latest(self).decode()


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
