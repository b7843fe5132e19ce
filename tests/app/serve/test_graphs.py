"""A server writes by CUDA graphs, as on a GPU; here their steps run uncaptured on the CPU."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
from served_models import served
from starlette.testclient import TestClient

import regard
from regard.app.serve.counters import Counters
from regard.app.serve.limits import Limits
from regard.app.serve.worker import Ticket, Worker
from regard.attention import trace
from regard.decode import beams_ahead, graphs, rows_ahead
from regard.decode.rows_ahead import RowsAhead
from regard.tasks.core.table import TASKS

GREEDY = {"temperature": 0, "max_tokens": 30}
TEXTS = [
    ("ROMEO:", GREEDY),
    ("To be", GREEDY),
    ("First Citizen:\nWe", {**GREEDY, "max_tokens": 45}),
    ("A", {"temperature": 0.8, "seed": 3, "max_tokens": 30}),
    ("JULIET:", {**GREEDY, "repetition_penalty": 1.3}),
    ("O", {**GREEDY, "stop": [" "]}),
]


class Seen:
    def __init__(self) -> None:
        self.said: list[str] = []  # under --debug
        self.counts: list[int] = []  # rows of the graphs that were begun
        self.groups: list[int] = []  # ways of choosing among their rows


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Steps are graphs, however few."""
    found, begin = Seen(), RowsAhead.__init__

    def noted(self: RowsAhead, model: Any, rows: Any, *given: Any) -> None:
        begin(self, model, rows, *given)
        found.counts.append(self.count)
        found.groups.append(len(rows.groups))

    monkeypatch.setattr(graphs.log, "debug", lambda text, *parts: found.said.append(text % parts))
    monkeypatch.setattr(RowsAhead, "__init__", noted)
    monkeypatch.setattr(graphs, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(graphs, "captured", lambda step: step)
    for module, least in ((rows_ahead, 0), (beams_ahead, 1)):
        monkeypatch.setattr(module, "WORTH", least)
    return found


def alone(text: str, options: dict[str, Any]) -> str:
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(graphs, "on_gpu", lambda tensor: False)
        return regard.load("shakespeare", device="cpu").generate(text, **options).text


def ask(client: TestClient, model: str, task: str, text: str, **options: Any) -> Any:
    response = client.post(f"/api/models/{model}/{task}", json={"inputs": [text], "options": options})
    assert response.status_code == 200, response.text
    return response.json()["answers"][0]


def test_requests_are_written_by_graphs_and_their_attention_beside(seen: Seen) -> None:
    wanted = [alone(text, options) for text, options in TEXTS]
    seen.said.clear()
    with served("shakespeare") as client, ThreadPoolExecutor(len(TEXTS)) as pool:
        asked = [pool.submit(ask, client, "shakespeare", "generate", text, **options) for text, options in TEXTS]
        answers = [future.result() for future in asked]
        assert [answer["text"] for answer in answers] == wanted
        assert seen.counts, "graphs wrote them"
        assert set(seen.counts) <= set(graphs.SIZES)
        assert set(seen.groups) == {1}, "each way of choosing has graphs of its own"
        begun = len(seen.counts)
        look = client.get(f"/api/models/shakespeare/answers/{answers[0]['id']}/attention")
        assert look.status_code == 200
        assert len(seen.counts) == begun, "nothing is written again to see where the model looked"
        told = re.findall(r"\nregard_graphs(?:_bytes)?{model=\"shakespeare\"} (\S+)", client.get("/metrics").text)
        kept, size = map(float, told)
        assert 0 < kept <= graphs.KEPT
        assert size > 0
    assert not [text for text in seen.said if "step by step" in text and "does not pay" not in text]


@pytest.mark.parametrize(("model", "options"), [("dates", {}), ("de-en", {"beam": 1}), ("de-en", {"beam": 3})])
def test_translators_answer_by_graphs(seen: Seen, model: str, options: dict[str, Any]) -> None:
    text = {"dates": "3 May 1979", "de-en": "Ich habe heute keine Zeit."}[model]
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(graphs, "on_gpu", lambda tensor: False)
        wanted = regard.load(model, device="cpu").translate(text, **options).text
    with served(model) as client:
        assert ask(client, model, "translate", text, **options)["text"] == wanted
        assert "CUDA graphs of" in " ".join(seen.said)


# ---- the thread of a model


@asynccontextmanager
async def working(name: str) -> AsyncIterator[Worker]:
    worker = Worker(name, lambda: regard.load(name, device="cpu"), Limits(), Counters())
    try:
        yield worker
    finally:
        worker.close()
        await asyncio.to_thread(worker.thread.join)


def generating(worker: Worker, text: str, **options: Any) -> Ticket:
    return worker.ask(Ticket(TASKS["generate"], {**GREEDY, **options}, "", [text], streamed=True))


async def answer_of(ticket: Ticket) -> str:
    [text] = [str(what["text"]) async for kind, _, what in ticket.events() if kind == "answer"]
    return text


def test_a_text_does_not_wait_for_who_asks_where_the_model_looked(seen: Seen) -> None:
    """A trace is open in the second thread from before a text begins until it is written."""
    wanted = alone("ROMEO:", GREEDY)
    seen.said.clear()

    async def both() -> tuple[str, bool]:
        begun, written = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def look(run: Any) -> bool:
            with trace(run.model):
                loop.call_soon_threadsafe(begun.set)
                return written.wait(20)

        async with working("shakespeare") as worker:
            looking = asyncio.create_task(worker.call(look))
            await begun.wait()
            text = await answer_of(generating(worker, "ROMEO:"))
            written.set()
            return text, await looking

    assert asyncio.run(both()) == (wanted, True)
    assert seen.counts, "by graphs"
    assert not [text for text in seen.said if "traced" in text]


def test_texts_join_a_graph_together(seen: Seen) -> None:
    """The first text is written alone for some steps; then those that have come join it at once."""
    wanted = [alone(text, {**GREEDY, "max_tokens": 60}) for text, _ in TEXTS[:4]]

    async def all_of_them() -> list[str]:
        async with working("shakespeare") as worker:
            tickets = [generating(worker, text, max_tokens=60) for text, _ in TEXTS[:1]]
            await tickets[0].queue.get()  # it is being written
            for text, _ in TEXTS[1:4]:
                tickets.append(generating(worker, text, max_tokens=60))
                await asyncio.sleep(0)
            return list(await asyncio.gather(*map(answer_of, tickets)))

    assert asyncio.run(all_of_them()) == wanted
    assert seen.counts[0] == 1
    assert max(seen.counts) == 4
    assert len(seen.counts) <= 4, "not one more for each that joins"
