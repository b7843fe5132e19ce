"""The gallery over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from served_models import served

from regard.app.serve import learn
from regard.gallery import GALLERY
from regard.gallery.core.example import Step, read_example
from regard.gallery.core.making import Made, make


def test_examples_are_listed(client: Any) -> None:
    listed = client.get("/api/gallery").json()["examples"]
    assert [one["name"] for one in listed] == list(GALLERY)
    assert all(one["title"] for one in listed)
    assert client.get("/learn").headers["content-type"].startswith("text/html")


def test_an_example_is_made_and_kept(client: Any) -> None:
    first = client.get("/api/gallery/cat").json()
    assert first["title"] == "YOUR CAT IS A LOVELY CAT"
    began = time.monotonic()
    assert client.get("/api/gallery/cat").json() == first
    assert time.monotonic() - began < 1


def test_a_reader_types_another_sentence(client: Any) -> None:
    found = client.post("/api/gallery/cat/without_positions", json={"values": {"text": "the dog and the cat"}})
    assert found.json()["rows"] == ["the", "dog", "and", "the", "cat"]
    assert client.post("/api/gallery/cat/without_positions", json={}).json()["rows"][0] == "YOUR"


@pytest.mark.parametrize(
    ("address", "values", "status", "message"),
    [
        ("cat/without_positions", {"text": "x" * 201}, 422, "text must be a text of 1 to 200 characters"),
        ("cat/without_positions", {"words": "x"}, 422, "values must be an object with no names but text"),
        ("cat/without_positions", ["text"], 422, "values must be an object with no names but text"),
        ("cat/embed", {}, 404, "cat has inputs for without_positions, "),
        ("cat/from_input_to_output", {}, 404, "cat has inputs for without_positions, "),
        ("core/make", {}, 404, "there is no example 'core'"),
        ("lookup/by_number", {"number": 9}, 422, "number must be a whole number from 0 to 4, got 9"),
    ],
)
def test_what_is_refused(client: Any, address: str, values: Any, status: int, message: str) -> None:
    found = client.post(f"/api/gallery/{address}", json={"values": values})
    assert found.status_code == status
    assert message in found.json()["error"]["message"]


def test_the_random_numbers_of_others_stay_their_own(client: Any) -> None:
    """Examples set seeds, in a thread of the server."""
    import torch

    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    client.post("/api/gallery/cat/without_positions", json={"values": {"text": "a b"}})
    assert torch.rand(1) == wanted


def test_a_long_example_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered with what is being made, and its inputs wait until it is there."""
    go_on = threading.Event()

    def slow(name: str, told: Callable[[Step], object]) -> Made:
        told(read_example(name).step("the_sum"))
        go_on.wait(60)
        return make(name, told)

    monkeypatch.setattr(learn, "make", slow)
    monkeypatch.setitem(GALLERY, "lookup", 100)
    monkeypatch.setitem(GALLERY, "apple", 100)
    with served("dates") as client:
        first = client.get("/api/gallery/apple")
        assert (first.status_code, first.json()["making"]) == (202, "The sum")
        assert client.get("/api/gallery/lookup").json()["making"] == "waiting"
        refused = client.post("/api/gallery/lookup/by_number", json={})
        assert refused.status_code == 409
        assert "not made yet" in refused.json()["error"]["message"]
        go_on.set()
        end = time.monotonic() + 60
        while (last := client.get("/api/gallery/apple")).status_code == 202 and time.monotonic() < end:
            time.sleep(0.05)
        assert last.json()["steps"][-1]["heading"] == "By attention"
