"""The answers whose attention can still be asked for take a bounded amount of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from served_models import served

import regard
from regard.app.serve.limits import Limits
from regard.app.serve.past_answers import PastAnswers, size_of

KIB = 1 << 10


@dataclass(frozen=True)
class Table:
    numbers: np.ndarray


Table.__module__ = "regard.tests"


def table(kib: int) -> Any:
    return Table(np.zeros(kib * KIB, np.uint8))


def test_the_oldest_go_where_there_are_too_many_bytes() -> None:
    past = PastAnswers(10, 100 * KIB)
    for number in range(5):
        past.add(str(number), table(30))
    assert [name for name in "01234" if past.get(name)] == ["2", "3", "4"]
    past.add("large", table(500))
    assert (len(past), past.get("large") is past.latest) == (1, True), "the latest one stays"
    past.add("small", table(1))
    assert past.get("large") is None
    assert past.bytes == sum(size for _, size in past.answers.values()) < 2 * KIB


@pytest.mark.parametrize(
    ("run", "verb", "options"),
    [("dates", "translate", {}), ("reviews", "classify", {}), ("shakespeare", "generate", {"max_tokens": 60})],
)
def test_an_answer_is_measured_without_its_model(run: str, verb: str, options: dict[str, int]) -> None:
    opened: Any = regard.load(run, device="cpu")
    answer = getattr(opened, verb)("It was superb, it was superb.", **options)
    assert 100 < size_of(answer) < 100 * KIB < 900 * KIB
    if run != "reviews":
        before = size_of(answer)
        answer.attention  # noqa: B018 # it is kept
        assert size_of(answer) > 2 * before


def test_images_count() -> None:
    scenes: Any = regard.load("scenes", device="cpu")
    pixels = np.zeros((300, 400, 3), np.uint8)
    assert size_of(scenes.caption(pixels)) >= pixels.nbytes


def test_pictures_that_were_asked_for_take_no_memory_afterwards() -> None:
    with served("dates", limits=Limits(kept=2 * KIB)) as client:
        for number in range(6):
            response = client.post("/api/models/dates/translate", json={"inputs": [f"{number + 1} May 1979"]})
            name = response.json()["answers"][0]["id"]
            where = f"/api/models/dates/answers/{name}"
            for query in ({}, {"site": "cell"}, {"form": "png"}):
                assert client.get(f"{where}/attention", params=query).status_code == 200
            cell = {"table": "weights", "row": 0, "column": 0}
            assert client.get(f"{where}/cell", params=cell).status_code == 200
        past = client.shelf.served["dates"].worker.answers  # type: ignore[attr-defined]
    assert 2 < len(past) < 6
    assert sum(size_of(answer) for answer, _ in past.answers.values()) == past.bytes <= 2 * KIB
