"""Connections to clients that send slowly, or what is not HTTP."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0  # to send the head of a request


class Connection(H11Protocol):
    """uvicorn's, with a time limit for the head of a request, however many bytes of it come meanwhile: uvicorn
    waits for ever. The limit begins with the connection, and again with the first byte of each later request."""

    head_seconds = SECONDS
    waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self.await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()
        else:
            self.await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        super().connection_lost(exc)

    def await_head(self) -> None:
        if self.waiting is None:
            self.waiting = self.loop.call_later(self.head_seconds, self.transport.close)

    def stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def send_400_response(self, msg: str) -> None:
        """Where the request has its answer already, as what is wrong comes behind it, the connection only ends."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
