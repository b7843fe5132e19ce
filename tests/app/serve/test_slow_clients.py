"""Clients that send slowly, or what is not HTTP, and requests that are much work: nobody else waits for them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from served_models import Listening, served

from regard.app.serve.connections import Connection
from regard.app.serve.limits import Limits

HEAD = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
TRANSLATE = "/api/models/dates/translate"
ASKED = {"inputs": ["3 May 1979"]}


@pytest.fixture
def serve() -> Iterator[Callable[..., Listening]]:
    begun: list[Listening] = []

    def start(*runs: str, **settings: Any) -> Listening:
        begun.append(Listening(*runs, **settings))
        return begun[-1]

    yield start
    for server in begun:
        server.end()


def sent(server: Listening, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(text.encode())
    return connection


def received(connection: socket.socket) -> str:
    """All until the server ends the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    connection.close()
    return b"".join(parts).decode()


def test_bodies_that_come_slowly_take_no_place(serve: Callable[..., Listening]) -> None:
    server = serve("dates", token="s3cret", limits=Limits(requests=2))
    bearer = {"authorization": "Bearer s3cret"}
    head = HEAD.format("/sign-in") + "Content-Length: 1000\r\n\r\n{"
    slow = [sent(server, head) for _ in range(8)]
    answer = httpx2.post(server.address + TRANSLATE, json=ASKED, headers=bearer, timeout=60)
    assert answer.json()["answers"][0]["text"] == "1979-05-03"
    for connection in slow:
        connection.close()
    assert received(sent(server, head.replace("1000", "5000"))).startswith("HTTP/1.1 413"), "without a token"


def test_a_body_that_does_not_come_ends(serve: Callable[..., Listening]) -> None:
    server = serve("dates", limits=Limits(seconds=0.1))
    assert received(sent(server, HEAD.format(TRANSLATE) + "Content-Length: 9\r\n\r\n{")).startswith("HTTP/1.1 408")


def test_too_many_bytes_that_are_being_sent_wait(serve: Callable[..., Listening]) -> None:
    server = serve("dates", limits=Limits(received=1000))
    head = HEAD.format(TRANSLATE) + "Connection: close\r\nContent-Length: 2000\r\n\r\n"
    assert received(sent(server, head + 1500 * "x")).startswith("HTTP/1.1 429")
    assert httpx2.post(server.address + TRANSLATE, json=ASKED, timeout=60).status_code == 200


@pytest.mark.parametrize("before", ["", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_that_is_dripped_ends(
    serve: Callable[..., Listening], monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """The second time behind a request that was answered."""
    monkeypatch.setattr(Connection, "head_seconds", 0.1)
    connection = sent(serve("dates"), before)
    if before:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    try:
        for letter in "GET / HTTP/1.1" * 1000:
            connection.sendall(letter.encode())
            connection.settimeout(0.01)
            try:
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
        else:
            pytest.fail("the connection is still open")
    except OSError:  # it was reset
        pass
    connection.close()


@pytest.mark.parametrize("where", [TRANSLATE, "/nothing"])
@pytest.mark.parametrize("body", ["zz\r\nhello\r\n", "5\r\nhello\r\nzz\r\n"])
def test_chunks_that_are_none_log_no_traceback(
    serve: Callable[..., Listening], capfd: pytest.CaptureFixture[str], where: str, body: str
) -> None:
    server = serve("dates")
    answer = received(sent(server, HEAD.format(where) + "Transfer-Encoding: chunked\r\n\r\n" + body))
    assert answer.startswith("HTTP/1.1 400")
    assert "Traceback" not in capfd.readouterr().err


def test_what_is_wrong_behind_an_answer_logs_no_traceback(
    serve: Callable[..., Listening], capfd: pytest.CaptureFixture[str]
) -> None:
    connection = sent(serve("dates", token="s3cret"), HEAD.format("/api") + "Transfer-Encoding: chunked\r\n\r\n")
    assert connection.recv(4096).startswith(b"HTTP/1.1 401")
    connection.sendall(b"zz\r\nhello\r\n")
    received(connection)
    assert "Traceback" not in capfd.readouterr().err


def test_a_request_has_a_budget_of_work() -> None:
    with served("dates", "shakespeare") as client:
        options = {"beam": 16, "max_length": 100}
        response = client.post(TRANSLATE, json={"inputs": ["3 May 1979"] * 64, "options": options})
        assert response.status_code == 413
        assert "64 inputs x 16 beams x 100 tokens, and a request may write 65,536" in response.text
        few = client.post(TRANSLATE, json={"inputs": ["3 May 1979"] * 2, "options": options})
        assert few.status_code == 200
        long = {"prompt": ["a"] * 2, "n": 16, "max_tokens": 10, "model": "shakespeare"}
        assert client.post("/v1/completions", json=long).status_code == 200


@pytest.mark.parametrize("options", [{"beam": 4}, {}], ids=["beam", "joined"])
def test_a_small_request_does_not_wait_for_a_large_one(
    serve: Callable[..., Listening], options: dict[str, int]
) -> None:
    server, done, began = serve("dates", limits=Limits(rows=8)), list[str](), threading.Event()

    def ask(name: str, inputs: int) -> None:
        body = {"inputs": ["Friday, 5 June 2020"] * inputs, "options": options, "stream": True}
        with httpx2.stream("POST", server.address + TRANSLATE, json=body, timeout=60) as response:
            for line in response.iter_lines():
                if line == "event: answer":
                    began.set()
        done.append(name)

    large = threading.Thread(target=ask, args=("large", 64))
    large.start()
    assert began.wait(60)
    ask("small", 1)
    large.join()
    assert done == ["small", "large"]
