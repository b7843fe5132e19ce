"""`regard serve` as a program: how it starts and ends; clients that go away, and those that ask together."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import threading
import time
from typing import Any

import httpx2
import pytest
from served_models import Listening, Process

from regard.runs.shipped import shipped

LONG = {"inputs": ["ROMEO:"], "options": {"max_tokens": 1000, "min_length": 999}, "stream": True}


def metric(address: str, name: str) -> float:
    text = httpx2.get(f"{address}/metrics", timeout=60).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def eventually(check: Any) -> None:
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end, "it does not come to an end"
        time.sleep(0.02)


def begin_stream(port: int, body: dict[str, Any]) -> socket.socket:
    """A request whose answer has begun."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    data = json.dumps(body).encode()
    head = f"POST /api/models/shakespeare/generate HTTP/1.1\r\nHost: localhost:{port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)
    seen = b""
    while b"event: piece" not in seen:
        part = connection.recv(4096)
        assert part, seen
        seen += part
    return connection


def test_it_says_where_to_go_and_answers_and_sigterm_finishes_what_runs() -> None:
    """Without arguments: the shipped models. On an idle machine the first answer comes after about 3 seconds."""
    began = time.monotonic()
    process = Process()
    try:
        answer = httpx2.post(
            f"{process.address}/api/models/dates/translate", json={"inputs": ["3 May 1979"]}, timeout=60
        ).json()["answers"]
        seconds = time.monotonic() - began
        short = {**LONG, "options": {"max_tokens": 50, "min_length": 49}}
        connection = begin_stream(process.port, short)
        process.process.send_signal(signal.SIGTERM)
        seen = b""
        while part := connection.recv(65536):
            seen += part
        connection.close()
        code = process.process.wait(timeout=60)
    finally:
        errors = process.end()
    assert answer[0]["text"] == "1979-05-03"
    assert f"{len(shipped())} models: {', '.join(shipped())}" in process.said[0]
    assert f"Go to {process.address}/" in process.said[-1]
    assert "Traceback" not in errors
    assert seconds < 30
    assert b"event: end" in seen
    assert code in (0, 128 + signal.SIGTERM, -signal.SIGTERM)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", process.port), timeout=1)


def test_a_client_that_goes_away_stops_its_work(listening: Listening) -> None:
    """What is written with the next answer is all that is written."""

    def written() -> float:
        return metric(listening.address, "regard_tokens_total")

    def short() -> None:
        body = {"inputs": ["ROMEO:"], "options": {"max_tokens": 9, "seed": 0}}
        httpx2.post(f"{listening.address}/api/models/shakespeare/generate", json=body, timeout=60)

    short()
    alone = written()
    for _ in range(5):
        begin_stream(listening.port, LONG).close()
    eventually(lambda: metric(listening.address, "regard_stopped_total") == 5)
    before = written()
    short()
    assert written() - before == alone > 0
    eventually(lambda: metric(listening.address, "regard_requests_running") == 1)  # the one that asks for this


def test_a_client_that_does_not_stream_may_go_away_too(listening: Listening) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", listening.port, timeout=60)
    body = json.dumps({**LONG, "stream": False})
    headers = {"content-type": "application/json", "host": f"localhost:{listening.port}"}
    connection.request("POST", "/api/models/shakespeare/generate", body, headers)
    eventually(lambda: metric(listening.address, "regard_tokens_total") > 0)
    connection.close()
    eventually(lambda: metric(listening.address, "regard_stopped_total") == 1)


@pytest.mark.parametrize("listening", [("de-en",)], indirect=True)
def test_a_beam_is_stopped_too(listening: Listening) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", listening.port, timeout=60)
    asked = {"inputs": ["Ich habe heute keine Zeit. " * 8] * 32, "options": {"beam": 16, "min_length": 120}}
    headers = {"content-type": "application/json", "host": f"localhost:{listening.port}"}
    connection.request("POST", "/api/models/de-en/translate", json.dumps(asked), headers)
    eventually(lambda: metric(listening.address, "regard_batch_size_count") == 1)
    connection.close()
    eventually(lambda: metric(listening.address, "regard_stopped_total") == 1)


def test_beyond_this_machine_a_token_is_made_and_printed(started: Any) -> None:
    with started("serve", "dates", "--host", "0.0.0.0", "--port", 0, text=True) as child:
        said = []
        while not (found := re.search(r"http://\S+:(\d+)/", "".join(said))):
            said.append(child.stdout.readline())
            assert said[-1], "it did not start"
        [token] = [line.split()[1] for line in said if line.startswith("token: ")]
        assert len(token) >= 32
        address = f"http://127.0.0.1:{found[1]}/api/models"
        assert httpx2.get(address, timeout=60).status_code == 401
        assert httpx2.get(address, headers={"authorization": f"Bearer {token}"}, timeout=60).status_code == 200
        child.send_signal(signal.SIGTERM)


def test_a_port_that_is_taken(listening: Listening, call: Any) -> None:
    done = call("serve", "dates", "--port", listening.port)
    assert done.code == 2
    assert "take another --port" in done.err


def test_answers_do_not_depend_on_who_else_asks(listening: Listening) -> None:
    """Texts join a batch that is running, and leave it; each is written as if it were alone."""
    prompts = ["ROMEO:", "First Citizen:", "K", "\n", "To be, or not"]
    where = f"{listening.address}/api/models/shakespeare/generate"

    def ask(number: int) -> str:
        options = {"max_tokens": 8 + 4 * number, "seed": number, "temperature": number % 2 * 0.8}
        body = {"inputs": [prompts[number]], "options": options}
        return httpx2.post(where, json=body, timeout=60).json()["answers"][0]["text"]

    alone = [ask(number) for number in range(len(prompts))]
    found: dict[int, str] = {}

    def join(number: int) -> None:
        time.sleep(number * 0.01)
        found[number] = ask(number)

    threads = [threading.Thread(target=join, args=(number,)) for number in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(len(prompts))] == alone
    sizes = httpx2.get(f"{listening.address}/metrics", timeout=60).text
    assert 'regard_batch_size_bucket{le="1.0",model="shakespeare"}' in sizes
