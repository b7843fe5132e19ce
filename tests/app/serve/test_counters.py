"""What is counted, and the form it is told in."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from regard.app.serve.counters import Counters

SERIES = {
    "regard_requests_total": ("counter", "Requests answered, by route and status."),
    "regard_request_seconds": ("histogram", "Time from the end of a request's head to the end of its answer."),
    "regard_requests_running": ("gauge", "Requests that are being answered."),
    "regard_tokens_total": ("counter", "Tokens written, by model."),
    "regard_batch_size": ("histogram", "Inputs that were computed at once, by model."),
    "regard_stopped_total": ("counter", "Answers that were stopped because their client was gone."),
    "regard_models_loaded": ("gauge", "Models in memory."),
    "regard_models_bytes": ("gauge", "Bytes of the weights in memory."),
    "regard_graphs": ("gauge", "CUDA graphs that are kept, by model."),
    "regard_graphs_bytes": ("gauge", "GPU memory of the CUDA graphs, by model."),
    "regard_resident_bytes": ("gauge", "Resident memory of the server."),
}


def test_every_series_has_its_name_kind_and_help() -> None:
    counters = Counters()
    counters.requests.labels(route="/x", status=200).inc()
    counters.request_seconds.labels(route='a "quoted"\nroute').observe(0.3)
    text = counters.text()
    for name, (kind, told) in SERIES.items():
        assert f"# HELP {name} {told}\n# TYPE {name} {kind}\n" in text
    assert set(re.findall(r"# TYPE (\w+) ", text)) == set(SERIES), "and no other, such as when a series began"
    assert 'regard_requests_total{route="/x",status="200"} 1.0\n' in text
    assert r'regard_request_seconds_sum{route="a \"quoted\"\nroute"} 0.3' in text
    assert float(text.partition("\nregard_resident_bytes ")[2]) > 1e6


def test_buckets_are_cumulative_and_each_server_counts_for_itself() -> None:
    first, second = Counters(), Counters()
    for size in (1, 3, 3, 100):
        first.batch_size.labels(model="m").observe(size)
    buckets = re.findall(r'regard_batch_size_bucket{le="(\S+)",model="m"} (\S+)', first.text())
    assert [(edge, float(count)) for edge, count in buckets] == [
        ("1.0", 1), ("2.0", 1), ("4.0", 3), ("8.0", 3), ("16.0", 3), ("32.0", 3), ("64.0", 3), ("+Inf", 4),
    ]  # fmt: skip
    assert "regard_batch_size_bucket" not in second.text()
    first.request_seconds.labels(route="/").observe(0)
    edges = re.findall(r'regard_request_seconds_bucket{le="(\S+?)"', first.text())
    assert edges == ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf"]


def test_threads_lose_no_count() -> None:
    counters = Counters()

    def work(_: int) -> None:
        for _ in range(1000):
            counters.tokens.labels(model="m").inc(2)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert 'regard_tokens_total{model="m"} 8000.0\n' in counters.text()
