"""A server over the shipped models."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

NEEDED = ("starlette", "uvicorn", "multipart", "httpx2")
# `make test` installs them all; without the extra `serve` there is nothing to test here.
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    from served_models import served

    with served() as found:
        yield found


@pytest.fixture(scope="session")
def image() -> str:
    """A red square, as base64 of a PNG."""
    from served_models import png

    pixels = np.full((40, 40, 3), 255, np.uint8)
    pixels[10:30, 10:30] = (200, 20, 20)
    return png(pixels)


@pytest.fixture
def listening(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server that other threads connect to."""
    from served_models import Listening

    found = Listening(*getattr(request, "param", ("shakespeare", "dates")))
    yield found
    found.end()
