"""One program in several processes, as torchrun starts them: which one this is, and how they meet.

torchrun tells each process its rank in the environment. A program that torchrun did not start is one process: every
function here answers at once and joins nothing. Objects travel by gloo over the host's network on any device; only
tensors on GPUs go by NCCL (`group_for`)."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import BadInput, PeerLost

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup, Store

T = TypeVar("T")
_alone = False
_met = 0  # how often the others have waited for the first
NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # torchrun sets them; a Slurm script may do so too
TIMEOUT = "REGARD_TIMEOUT"  # environment: seconds to wait for another process
USUAL_TIMEOUT = 600.0
NCCL_LATER = 60.0  # seconds that NCCL waits longer, as it ends the process without a word
SETTLED = 2.0  # seconds without news after which the roll call is over


@contextmanager
def alone() -> Iterator[None]:
    """In the block this process works by itself, as if it were the only one, while the others wait for it in
    `broadcast`: whatever divides its work among processes does not do so here."""
    global _alone
    before, _alone = _alone, True
    try:
        yield
    finally:
        _alone = before


def launched() -> bool:
    """Whether torchrun started this process, or the user's script has joined a group."""
    return not _alone and _started()


def _started() -> bool:
    return _told_by_environment() or _joined()


def rank() -> int:
    """0, 1, ..; also in `alone`, where `count` is 1."""
    return _distributed().get_rank() if _joined() else _number("RANK", 0)


def count() -> int:
    """How many processes there are, on all machines."""
    if _alone:
        return 1
    return _distributed().get_world_size() if _joined() else _number("WORLD_SIZE", 1)


def local_rank() -> int:
    """The number of this process on its machine, and so of its GPU."""
    return _number("LOCAL_RANK", 0)


def local_count() -> int:
    return _number("LOCAL_WORLD_SIZE", count())


def restarts() -> int:
    """How often torchrun has started all processes again after one of them failed."""
    return _number("TORCHELASTIC_RESTART_COUNT", 0)


def is_first() -> bool:
    """Whether this is the process that writes files, progress and messages."""
    return rank() == 0


def seconds() -> float:
    """How long to wait for another process before it counts as hung."""
    text = os.environ.get(TIMEOUT) or str(USUAL_TIMEOUT)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadInput(f"{TIMEOUT} must be a number of seconds above 0, got {text!r}")
    return value


def join() -> None:
    """Meet the other processes, once; waits for all of them."""
    if not launched() or _joined():
        return
    distributed = _distributed()
    atexit.register(leave)
    with together():
        _store().set(f"host/{rank()}", socket.gethostname())
        distributed.init_process_group(
            "gloo", store=_store(), rank=rank(), world_size=count(), timeout=timedelta(seconds=seconds())
        )


def leave() -> None:
    """Close the connections to the others. May be called twice, and without having joined."""
    if _joined():
        with suppress(Exception):  # a peer may be gone already
            _distributed().destroy_process_group()
    _host_group.cache_clear()
    _nccl_group.cache_clear()


def group_for(device: torch.device) -> ProcessGroup:
    """The group in which tensors of this device travel: NCCL for GPUs, else gloo, also where a GPU is present."""
    join()
    return _nccl_group() if device.type == "cuda" else _host_group()


def gather(thing: T) -> list[T] | None:
    """Everybody's object, by rank, in the first process; None in the others."""
    if not launched():
        return [thing]
    join()
    things: list[Any] | None = [None] * count() if is_first() else None
    with together():
        _distributed().gather_object(thing, things, group=_host_group())
    return things


def gather_all(thing: T) -> list[T]:
    """Everybody's object, by rank, in every process."""
    if not launched():
        return [thing]
    join()
    things: list[Any] = [None] * count()
    with together():
        _distributed().all_gather_object(things, thing, group=_host_group())
    return things


def broadcast(thing: T) -> T:
    """The object of the first process; what the others give is ignored. They wait for it as long as it lives, since
    the first process may read data or validate in the meantime."""
    if not launched():
        return thing
    join()
    _wait_for_first()
    things = [thing]
    with together():
        _distributed().broadcast_object_list(things, src=0, group=_host_group())
    return things[0]


def of_first(work: Callable[[], T]) -> T:
    """What the first process does by itself, such as writing a file; its result in every process."""
    if not launched():
        return work()
    result: Any = None
    if is_first():
        with alone():
            result = work()
    return broadcast(result)


def barrier() -> None:
    """Go on when all processes have come here."""
    gather_all(None)


@contextmanager
def together() -> Iterator[None]:
    """Around work that needs the other processes: if one of them is gone or hangs, the error says which."""
    begun = time.monotonic()
    try:
        yield
    except (RuntimeError, ConnectionError) as error:  # torch's DistError is a RuntimeError
        if not _is_of_peers(error):
            raise
        raise PeerLost(_roll_call(time.monotonic() - begun)) from error


def tells() -> bool:
    """Whether this process is the one to tell an error that ends the program: the first to ask. Others that fail of
    it, or by the same error, end without a word."""
    if not _told_by_environment():
        return True
    try:
        return _store().add("told", 1) == 1
    except Exception:  # the store went away with the process that held it: better twice than never
        return True


def address(number: int | None = None) -> str:
    """`rank 1 on node-b`: this process, or that of a rank; without the host where it never came."""
    number = rank() if number is None else number
    if not _store.cache_info().currsize:  # nobody has met anybody
        return f"rank {number} on {socket.gethostname()}" if number == rank() else f"rank {number}"
    if number == rank():
        return f"rank {number} on {socket.gethostname()}"
    with suppress(Exception):
        if _store().check([f"host/{number}"]):
            return f"rank {number} on {_store().get(f'host/{number}').decode()}"
    return f"rank {number}"


def _wait_for_first() -> None:
    """Short waits, as no signal is heard in them."""
    global _met
    if not _told_by_environment():
        return
    _met += 1
    key = f"first/{_met}"
    with together():
        if is_first():
            _store().set(key, "")
        while not _store().check([key]):
            time.sleep(0.02)


def _roll_call(waited: float) -> str:
    """Who does not answer. Leaving the group first cuts the connections, so that nobody goes on waiting for us."""
    numbers, here = range(count()), f"here/{rank()}"
    lost = f"lost the connection to another process after {waited:.0f} s"
    if not _told_by_environment():  # the user's script has joined in a way of its own
        leave()
        return lost
    try:
        store = _store()
        store.set(here, "")
        leave()
        known, since = -1, time.monotonic()
        while time.monotonic() - since < SETTLED:
            present = [number for number in numbers if store.check([f"here/{number}"])]
            if len(present) > known:
                known, since = len(present), time.monotonic()
            time.sleep(0.05)
    except Exception:  # the store is held by torchrun, or else by the first process
        return f"{lost}: {address(0)} is gone"
    missing = [address(number) for number in numbers if number not in present]
    if not missing:
        return lost
    verb = "does" if len(missing) == 1 else "do"
    return f"{', '.join(missing)} {verb} not answer: ended, or hung for {waited:.0f} s ({TIMEOUT} sets the limit)"


def _is_of_peers(error: BaseException) -> bool:
    kinds = _distributed().DistError, ConnectionError
    words = ("gloo", "nccl", "connection", "timed out", "timeout", "broken pipe", "socket")
    return isinstance(error, kinds) or any(word in str(error).lower() for word in words)


def _told_by_environment() -> bool:
    return all(os.environ.get(name) for name in NAMES)


def _distributed() -> Any:
    import torch.distributed

    return torch.distributed


def _joined() -> bool:
    distributed = sys.modules.get("torch.distributed")  # a process that did not import torch has not joined
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


@cache
def _store() -> Store:
    """The key-value store that torchrun holds for its processes, also for those that it started before: so every
    start has keys of its own."""
    distributed = _distributed()
    # As if this were the only process: else the one that holds the store would wait for the others here, and could
    # not say which of them did not come.
    store, *_ = next(distributed.rendezvous("env://", rank(), 1, timeout=timedelta(seconds=seconds())))
    one_torchrun = _number("GROUP_WORLD_SIZE", 1) == 1  # which counts the starts; several count differently
    return distributed.PrefixStore(f"regard/{restarts() if one_torchrun else _start_number(store)}", store)


def _start_number(store: Store) -> int:
    """Agreed among the processes that live now, whatever those before them have left in the store: the first counts
    the start, and answers each of the others by a name that nobody had before."""
    name, deadline = uuid.uuid4().hex, time.monotonic() + seconds()
    store.set(f"start/name/{rank()}", name)
    if not is_first():
        while not store.check([f"start/of/{name}"]):
            _wait_until(deadline, f"{address(0)} did not come")
        number = int(store.get(f"start/of/{name}"))
        store.set(f"start/{number}/{rank()}", "")
        return number
    number = store.add("start/count", 1)
    others = set(range(1, count()))
    while others := {other for other in others if not store.check([f"start/{number}/{other}"])}:
        for other in others:
            if store.check([f"start/name/{other}"]):
                store.set(f"start/of/{store.get(f'start/name/{other}').decode()}", str(number))
        _wait_until(deadline, ", ".join(f"rank {other}" for other in sorted(others)) + " did not come")
    return number


def _wait_until(deadline: float, otherwise: str) -> None:
    if time.monotonic() > deadline:
        raise PeerLost(f"{otherwise} within {seconds():.0f} s ({TIMEOUT} sets the limit)")
    time.sleep(0.02)


@cache
def _host_group() -> ProcessGroup:
    distributed = _distributed()
    if distributed.get_backend() == "gloo":
        return distributed.group.WORLD
    return distributed.new_group(backend="gloo", timeout=timedelta(seconds=seconds()))


@cache
def _nccl_group() -> ProcessGroup:
    distributed = _distributed()
    if distributed.get_backend() == "nccl":
        return distributed.group.WORLD
    return distributed.new_group(backend="nccl", timeout=timedelta(seconds=seconds() + NCCL_LATER))


def _number(name: str, default: int) -> int:
    if not _told_by_environment():
        return default
    text = os.environ.get(name)
    if text is not None and not text.strip().isdigit():
        raise BadInput(f"{name} in the environment must be a number, got {text!r}; torchrun sets it")
    return default if text is None else int(text)
