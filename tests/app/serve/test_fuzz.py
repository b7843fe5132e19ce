"""Requests that are damaged or drawn from the description: refused, never a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from served_models import Listening

from benchmarks.server import fuzz
from regard.app.serve.limits import Limits

FEW = settings(
    max_examples=3,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
REFUSED = [400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429]
# What may be asked is narrower than a schema can say: a beam and a temperature, an image that is one.
CONFIG = {
    "request-timeout": 60,
    "checks": {
        "positive_data_acceptance": {"enabled": False},
        "negative_data_rejection": {"expected-statuses": REFUSED},
    },
}


@pytest.fixture
def listening(capfd: pytest.CaptureFixture[str]) -> Iterator[Listening]:
    found = Listening("dates", "shakespeare", "reviews", "shapes", limits=Limits(tokens=20, beams=3))
    yield found
    found.end()
    assert "Traceback" not in capfd.readouterr().err


def test_damaged_requests_are_refused(listening: Listening) -> None:
    statuses = asyncio.run(fuzz(listening.port, 120, seed=5))
    assert sum(statuses.values()) == 120
    assert statuses[200]
    assert max(statuses) < 500, statuses


def test_requests_drawn_from_the_description(listening: Listening) -> None:
    schemathesis: Any = pytest.importorskip("schemathesis", reason="the package `schemathesis` is not installed")
    config = schemathesis.Config.from_dict(CONFIG)
    schema = schemathesis.openapi.from_url(f"{listening.address}/openapi.json", config=config)
    seen = []
    schema = schema.exclude(path_regex=r"^/api/gallery/\{")  # examples that train would be made; see test_learn.py
    for found in schema.get_all_operations():
        operation = found.ok()
        modes = [schemathesis.GenerationMode.POSITIVE]
        if operation.path_parameters or operation.body:
            modes.append(schemathesis.GenerationMode.NEGATIVE)
        for mode in modes:

            @FEW
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case: Any) -> None:
                response = case.call(timeout=120)
                seen.append(response.status_code)
                case.validate_response(response)

            check()
    assert len(seen) > 50
    assert set(seen) <= {200, *REFUSED}
