"""One thread for each model in memory: it loads the model, and answers requests in batches.

Inputs with the same options that wait together are one batch. Texts that are generated token by token join the
running batch, and leave it when they are done or nobody waits for them any more. What is asked about answers, such
as where the model looked, is computed in a second thread beside it, so that no text waits for it."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.app.serve.limits import Limits, Refused
from regard.app.serve.past_answers import PastAnswers
from regard.base.device import current
from regard.decode.generator import Stopped, unwanted
from regard.learn.progress import silent
from regard.tasks.core.card import Options
from regard.tasks.core.results import Answer
from regard.tasks.core.run import Run
from regard.tasks.core.table import AnyTask
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.writing import Together, Writing, Written

if TYPE_CHECKING:
    from regard.app.serve.counters import Counters

LEFT = 8  # one place in so many is left to other requests
Event = tuple[str, int, Any]  # kind (piece, answer, end, error), which input, what


@dataclass(eq=False)
class Ticket:
    """A request on its way through a worker. Its events arrive in the loop that it was made in."""

    task: AnyTask
    options: Options
    key: str  # equal keys: equal options
    inputs: Sequence[Any]
    streamed: bool = False
    cancelled: bool = False
    left: int = 0  # inputs that are not answered yet
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    queue: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    outbox: list[tuple[Ticket, Event]] = field(default_factory=list)  # the worker's

    def tell(self, kind: str, number: int = 0, what: Any = None) -> None:
        """Called in the worker's thread; the event waits for the worker's next `post`."""
        if not self.cancelled:
            self.outbox.append((self, (kind, number, what)))

    def answered(self, number: int, answer: dict[str, Any]) -> None:
        self.left -= 1
        self.tell("answer", number, answer)
        if not self.left:
            self.tell("end")

    def fail(self, error: BaseException) -> None:
        self.tell("error", 0, error)
        self.cancelled = True

    @property
    def beam(self) -> int:
        """How many texts are written for each input."""
        return int(getattr(self.options.get("decoding"), "beam", 1))

    async def events(self) -> AsyncGenerator[Event, None]:
        """Until the end; an error is raised. Leaving the loop early stops the work."""
        try:
            while True:
                event = await self.queue.get()
                if event[0] == "error":
                    raise event[2]
                if event[0] == "end":
                    return
                yield event
        finally:
            self.cancelled = True


@dataclass(frozen=True)
class Call:
    """Other work with the run, done beside its thread."""

    work: Callable[[Run], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


@dataclass(frozen=True, eq=False)
class TicketInput:
    """One input of a ticket."""

    ticket: Ticket
    number: int
    item: Any


def by_turns(parts: Sequence[TicketInput]) -> list[TicketInput]:
    """The first input of each request, then the second of each, and so on."""
    ranks, counts = [], Counter[Ticket]()
    for part in parts:
        ranks.append(counts[part.ticket])
        counts[part.ticket] += 1
    return [parts[at] for at in sorted(range(len(parts)), key=ranks.__getitem__)]


def post(outbox: list[tuple[Ticket, Event]]) -> None:
    """Send the events: one call to a loop for all of its events, as each call wakes it."""
    events, outbox[:] = list(outbox), []
    for loop in {ticket.loop for ticket, _ in events}:
        own = [(ticket.queue, event) for ticket, event in events if ticket.loop is loop]
        if not loop.is_closed():
            loop.call_soon_threadsafe(put_all, own)


def put_all(events: list[tuple[asyncio.Queue[Event], Event]]) -> None:
    for queue, event in events:
        queue.put_nowait(event)


class Worker:
    """The thread of one model. `load` returns the run; its errors go to every waiting request."""

    def __init__(self, name: str, load: Callable[[], Run], limits: Limits, counters: Counters) -> None:
        self.name, self.load, self.limits, self.counters = name, load, limits, counters
        self.changed = threading.Condition()
        self.new: deque[Ticket | Call] = deque()
        self.closed = False
        self.failed: BaseException | None = None
        self.model: Any = None  # once it is loaded
        self.bytes = 0
        self.used = time.monotonic()
        self.answers = PastAnswers(limits.answers, limits.kept)
        self._outbox: list[tuple[Ticket, Event]] = []
        self._parts: dict[str, list[TicketInput]] = {}  # waiting for a batch of their kind
        self._waiting: deque[tuple[TicketInput, Writing]] = deque()  # for a place among those that are written
        self._written: dict[Writing, TicketInput] = {}
        self._together: Together | None = None
        self._beside = ThreadPoolExecutor(1, f"beside {name}", silent.set, (True,))
        self.thread = threading.Thread(target=self._run, name=f"model {name}", daemon=True)
        self.thread.start()

    # -- from the loop

    def ask(self, ticket: Ticket) -> Ticket:
        self._put(ticket)
        return ticket

    async def call(self, work: Callable[[Run], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(Call(work, future, loop))
        return await future

    def _put(self, new: Ticket | Call) -> None:
        with self.changed:
            if self.closed:
                raise Closed
            self.used = time.monotonic()
            if isinstance(new, Ticket):
                new.outbox = self._outbox
            self.new.append(new)
            self.changed.notify()

    @property
    def idle(self) -> bool:
        return not (self.new or self._parts or self._waiting or self._written)

    def close(self) -> None:
        """Finish the requests that have come, then end the thread."""
        with self.changed:
            self.closed = True
            self.changed.notify()

    # -- in the thread

    def _run(self) -> None:
        silent.set(True)
        try:
            run = self.load()
            self.model = run.model
            self.bytes = sum(weight.numel() * weight.element_size() for weight in run.model.parameters())
        except BaseException as error:
            self._fail(Refused(409, f"the run {self.name} is broken: {reason(error)}"))
            return
        try:
            with current(device_of(run.model)):
                while self._take(run):
                    post(self._outbox)  # errors of what was read
                    self._answer_parts(run)
                    self._write(run)
                    post(self._outbox)
        except BaseException as error:  # a bug of ours: no request must wait for ever
            self._fail(error)
        finally:
            self._beside.shutdown()

    def _fail(self, error: BaseException) -> None:
        """End, and give the error to every waiting request."""
        with self.changed:
            self.failed, self.closed = error, True
        parts = [*(part for parts in self._parts.values() for part in parts), *self._written.values()]
        parts += [part for part, _ in self._waiting]
        for waiting in [*self.new, *(part.ticket for part in parts)]:
            refuse(waiting, error)
        post(self._outbox)

    def _take(self, run: Run) -> bool:
        """Begin new requests; wait if there is nothing to do. False: the worker ends."""
        with self.changed:
            while not self.new and self.idle and not self.closed:
                self.changed.wait()
            new = list(self.new)
            self.new.clear()
            if not new and self.idle:
                return False
        for work in new:
            if isinstance(work, Call):
                self._beside.submit(do, work, run)
            elif not work.cancelled:
                self._begin(run, work)
        return True

    def _begin(self, run: Run, ticket: Ticket) -> None:
        try:
            ticket.options = ticket.task.desk.settled(run, ticket.options)
            read = ticket.task.desk.reader(run, ticket.options)
            ticket.left = len(ticket.inputs)
            for number, sent in enumerate(ticket.inputs):
                part = TicketInput(ticket, number, read(sent))
                writing = ticket.task.desk.writing(run, part.item, ticket.options)
                if writing is None:
                    self._parts.setdefault(ticket.key, []).append(part)
                else:
                    writing.streamed = ticket.streamed
                    self._waiting.append((part, writing))
        except Exception as error:
            ticket.fail(error)

    def _answer_parts(self, run: Run) -> None:
        """Answer one batch of inputs with the same options, those that have waited longest. What does not fit waits
        behind those with other options."""
        if not self._parts:
            return
        key = next(iter(self._parts))
        waiting = by_turns([part for part in self._parts.pop(key) if not part.ticket.cancelled])
        count = max(1, self.limits.rows // max((part.ticket.beam for part in waiting), default=1))
        parts, rest = waiting[:count], waiting[count:]
        if rest:
            self._parts[key] = rest
        if parts:
            self._answer(run, parts)

    def _answer(self, run: Run, parts: list[TicketInput]) -> None:
        self.counters.batch_size.labels(model=self.name).observe(len(parts))
        task, options = parts[0].ticket.task, parts[0].ticket.options
        token = unwanted.set(lambda: all(part.ticket.cancelled for part in parts))
        left = list(parts)
        try:
            for answer in task.desk.ask(run, [part.item for part in parts], options):
                part = left.pop(0)
                self._deliver(part, answer)
        except Stopped:
            self.counters.stopped.inc(len({part.ticket for part in parts}))
        except Exception as error:
            if len({part.ticket for part in left}) == 1:
                left[0].ticket.fail(error)
            else:  # an error in one request must not fail the others
                for ticket in dict.fromkeys(part.ticket for part in left):
                    self._answer(run, [part for part in left if part.ticket is ticket])
        finally:
            unwanted.reset(token)

    def _write(self, run: Run) -> None:
        """The next token of every text that is being written."""
        if not self._waiting and not self._written:
            return
        together = self._together = self._together or Together(run)  # type: ignore[arg-type] # its task says so
        for writing, part in list(self._written.items()):
            if part.ticket.cancelled:
                together.leave(writing)
                del self._written[writing]
                self.counters.stopped.inc()
        try:
            told = together.join(self._joining() if together.is_open else [])
            if self._written:
                self.counters.batch_size.labels(model=self.name).observe(len(self._written))
                told = told + together.step()
        except Exception as error:  # no text can go on: their states may be of different steps
            for part in self._written.values():
                part.ticket.fail(error)
            self._written.clear()
            self._together = None
            return
        self.counters.tokens.labels(model=self.name).inc(sum(written.tokens for written in told))
        for written in told:
            self._tell(written)

    def _joining(self) -> list[Writing]:
        """Those that are written from now on. A request leaves some places to requests that come after it."""
        if not self._waiting or len(self._written) >= self.limits.rows:
            return []
        held = Counter(part.ticket for part in self._written.values())
        writings, joining, left = dict(self._waiting), [], []
        for part in by_turns([part for part in writings if not part.ticket.cancelled]):
            places = self.limits.rows - (len(self._written) - held[part.ticket])  # those of nobody else
            if held[part.ticket] < max(min(1, places), places - places // LEFT):
                held[part.ticket] += 1
                self._written[writings[part]] = part
                joining.append(writings[part])
            else:
                left.append((part, writings[part]))
        self._waiting = deque(left)
        return joining

    def _tell(self, written: Written) -> None:
        part = self._written[written.writing]
        if written.failed:
            part.ticket.fail(written.failed)
        elif written.piece and part.ticket.streamed:
            part.ticket.tell("piece", part.number, written.piece)
        if written.answer is not None:
            self._deliver(part, written.answer)
        if written.answer is not None or written.failed:
            del self._written[written.writing]

    def _deliver(self, part: TicketInput, answer: Answer) -> None:
        """An answer as plain data, with the name by which its attention can be asked for."""
        try:
            data = answer.to_dict()
        except Exception as error:
            part.ticket.fail(error)
            return
        name = secrets.token_urlsafe(9)
        self.answers.add(name, answer)
        written = list(getattr(answer, "written", ()))  # whoever goes through its steps follows these
        part.ticket.answered(part.number, {"id": name, **data, **({"written": written} if written else {})})


def reason(error: BaseException) -> str:
    """Why a run is broken, for people: our own message, or the class of any other error."""
    return str(error) if isinstance(error, ValueError | OSError) else type(error).__name__


class Closed(Exception):
    """The worker ends; a new worker can be started."""


def do(call: Call, run: Run) -> None:
    def settle(method: str, value: Any) -> None:
        if not call.future.done():
            getattr(call.future, method)(value)

    if call.future.cancelled():
        return
    try:
        with current(device_of(run.model)):
            result = call.work(run)
    except Exception as error:
        call.loop.call_soon_threadsafe(settle, "set_exception", error)
    else:
        call.loop.call_soon_threadsafe(settle, "set_result", result)


def refuse(work: Ticket | Call, error: BaseException) -> None:
    if isinstance(work, Ticket):
        work.fail(error)
        return

    def fail(future: asyncio.Future[Any] = work.future) -> None:
        if not future.done():
            future.set_exception(error)

    work.loop.call_soon_threadsafe(fail)
