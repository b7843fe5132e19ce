"""Steps of a search as CUDA graphs, and the graphs that are kept.

A step is many short kernels. Launching them one by one, and asking the host after every step what goes on, takes
longer than running them. So a whole step, with its rules and its choice of tokens, is one graph, and the host
follows behind. A graph needs tensors of fixed shapes: rows come in buckets, and pasts are in buffers
(`State.fixed`).

Graphs are kept with the model: the next batch of the same shapes is written by the same graph. A search takes its
graph out and puts it back, so that no two threads write into the same tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.layers.encoder_decoder import NO_LIMIT
from regard.layers.replay import addresses, capture, replays, reserved, run_aside, syncing_never
from regard.layers.state import SOURCES, Pairs, Room, State, copy_all, over_rows

WORTH = 8  # steps. A capture takes 30 ms, as long as some 20 steps of a small model, and serves later batches too
KEPT = 16  # graphs of a model, each with the tensors of its step
KEPT_SHARE = 0.25  # of a GPU's memory, for the tensors of all graphs of a model
SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)  # rows of a batch; beyond, multiples of the last
LEAST_PLACES = 64

log = logging.getLogger("regard.decode")

T = TypeVar("T")


class Input(Protocol):
    """What a graph reads."""

    def tensors(self) -> Iterable[Tensor]: ...

    def loading(self, *new: Any) -> Pairs: ...


class Recording(NamedTuple):
    """Work that can be done again and again."""

    launch: Callable[..., Any]  # a step returns what the host is told, `start` a state
    input: Any  # an Input, static; a step overwrites it by what follows from it
    place: Tensor  # () where pasts are written next
    reads: Any = None  # what it reads beside these, so that it is not freed
    bytes: int = 0  # of GPU memory

    def load(self, begun: Any, size: int) -> None:
        """Go on from this state, whose pasts have so many places."""
        copy_all(self.input.loading(begun))
        self.place.fill_(size)


recordings: WeakKeyDictionary[nn.Module, dict[Any, Recording]] = WeakKeyDictionary()
read_before: WeakKeyDictionary[nn.Module, set[Any]] = WeakKeyDictionary()  # keys of sources
refused: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()  # models whose step is no graph, and why


told: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()  # what was said of a model last


def tell(model: nn.Module, text: str) -> None:
    """Say it under --debug, unless it was said last."""
    if told.get(model) != text:
        told[model] = text
        log.debug("%s", text)


def refuse(model: Any, error: Exception) -> None:
    """A capture failed: the model's work is no graph from now on. Errors are of many kinds, by torch and Triton;
    one that says that something was asked wrongly is raised again."""
    if isinstance(error, ValueError):
        raise error
    refused[model] = f"{type(error).__name__}: {error}"
    tell(model, f"without graphs: {refused[model]}")


def take(model: nn.Module, key: Any, record: Callable[[], Recording]) -> Recording:
    """The graph of this key, no longer kept; it is made where there is none."""
    kept = recordings.setdefault(model, {}).pop(key, None)
    if kept is not None:
        return kept
    device = next(model.parameters()).device
    before = reserved(device)
    made = record()
    static = sum(tensor.numel() * tensor.element_size() for tensor in made.input.tensors())
    return made._replace(bytes=max(static, reserved(device) - before))


def give_back(model: nn.Module, key: Any, recording: Recording) -> None:
    """Keep a graph; those that were used longest ago go."""
    kept = recordings.setdefault(model, {})
    kept[key] = recording
    room = KEPT_SHARE * _memory(recording.place.device)
    while len(kept) > KEPT or (len(kept) > 1 and kept_bytes(model) > room):
        del kept[next(iter(kept))]
    size = kept_bytes(model) / 2**20
    tell(model, f"{len(kept)} CUDA graphs of {type(model).__name__} are kept: {size:,.0f} MiB")


def kept_bytes(model: nn.Module) -> int:
    """What the graphs of a model's searches take of a GPU's memory, those at work left out."""
    return sum(recording.bytes for recording in [*recordings.get(model, {}).values()])


def graph_memory(model: nn.Module) -> tuple[int, int]:
    """How many CUDA graphs of a model are kept, of searches and of other answers, and their bytes of GPU memory."""
    count, size = len(recordings.get(model, {})), kept_bytes(model)
    if model in replays:
        replay = replays[model].replay
        return count + len(replay.recordings), size + replay.bytes
    return count, size


def _memory(device: torch.device) -> float:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else float("inf")


def bucket(rows: int) -> int:
    """The size of the batch that so many rows are written in."""
    return next((size for size in SIZES if size >= rows), -(-rows // SIZES[-1]) * SIZES[-1])


def capacity_for(places: int, most: int) -> int:
    """The capacity of buffers for so many places: a power of two, or the most places that the model can have."""
    return min(max(LEAST_PLACES, 1 << (places - 1).bit_length()), most)


def most_places(model: Any) -> int:
    """How many places a past of the model may have."""
    return getattr(model, "max_target_positions", NO_LIMIT)


def most_sources(model: Any) -> int:
    """How many places a source of the model may have."""
    return getattr(model, "max_source_positions", NO_LIMIT)


def room(model: Any, capacity: int, device: torch.device) -> Room:
    """Room for pasts of this capacity, at place 0."""
    return Room(capacity, most_sources(model), torch.zeros((), dtype=torch.long, device=device))


def captured(launch: Callable[[], T]) -> Callable[[], T]:
    """The work, on the current GPU, as a CUDA graph; what it returns is overwritten by the next."""
    stream = torch.cuda.Stream(torch.cuda.current_device())
    run_aside(launch, stream)
    graph, told = capture(launch, stream)

    def replay() -> T:
        graph.replay()
        return told

    return replay


def on_gpu(tensor: Tensor) -> bool:
    """Can work on this be a graph?"""
    return tensor.is_cuda


class Source(NamedTuple):
    """What `start` reads."""

    tokens: Tensor  # (B, S)
    mask: Tensor  # (B, S)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self)

    def loading(self, new: Source, left: int) -> Pairs:
        """What is copied where to make this source, of a fixed shape, the new one behind so much padding. Rows
        beyond those of the new one repeat its first."""
        if self.mask.shape[1] > new.mask.shape[1]:
            self.mask.zero_()
        for static, side in zip(self, new, strict=True):
            yield from over_rows(static[:, left : left + side.shape[1]], side)


def _unread(model: Any, size: int) -> str:
    """Why reading a source of this size is not a graph; "": it is."""
    if not hasattr(model, "padded_side"):
        return f"{type(model).__name__} does not say on which side its sources are padded"
    if tracing():
        return "attention is traced"
    if sum(_padding(model, size)) < 0:
        return f"{size} tokens are more than the model has places for"
    return refused.get(model, "")


def _padding(model: Any, size: int) -> tuple[int, int]:
    """How many places of padding, left and right, a source of this size gets; below 0: it is too long."""
    if not model.padded_side:
        return 0, 0
    left = model.padded_side == "left"
    longest = most_places(model) if left else model.max_source_positions
    missing = min(-(-size // SOURCES) * SOURCES, longest) - size
    return (missing, 0) if left else (0, missing)


@contextmanager
def started(model: Any, source: Tensor, mask: Tensor) -> Iterator[tuple[State, bool]]:
    """The state of model.start(source, mask), and whether it is a graph's. Then it lies in tensors that others
    overwrite afterwards, and has as many rows as a bucket: those beyond the source repeat the first.

    On a GPU it is a graph from the second source of a shape on, for a model that says at which side its sources can
    be padded, so that few shapes occur ("": at none)."""
    given, left = Source(source, mask), 0
    key, recording = None, None
    if on_gpu(source) and source.shape[1]:
        why = _unread(model, source.shape[1])
        if why:
            tell(model, f"a source is read without a graph: {why}")
        else:
            left, right = _padding(model, source.shape[1])
            key, recording = _reader(model, given, left, right)
    if recording is None:
        yield model.start(source, mask), False
        return
    try:
        copy_all(recording.input.loading(given, left))
        state = recording.launch()
        yield state.since(left) if left else state, True
    finally:
        give_back(model, key, recording)


def _reader(model: Any, given: Source, left: int, right: int) -> tuple[Any, Recording | None]:
    """The graph that reads such a source with so much padding, and its key; None: it is read without."""
    shapes = [(bucket(len(side)), left + side.shape[1] + right, *side.shape[2:]) for side in given]
    key = "start", addresses(model), *shapes, given.tokens.dtype
    if key not in read_before.setdefault(model, set()):
        read_before[model].add(key)
        return key, None

    def record() -> Recording:
        static = Source(*(side.new_zeros(shape) for side, shape in zip(given, shapes, strict=True)))
        copy_all(static.loading(given, left))

        def launch() -> State:
            with syncing_never():
                return model.start(*static)

        place = torch.zeros((), dtype=torch.long, device=given.tokens.device)
        return Recording(captured(launch), static, place)

    try:
        return key, take(model, key, record)
    except Exception as error:
        refuse(model, error)
        return key, None


class Copied:
    """A tensor on its way from the GPU to the host."""

    def __init__(self, tensor: Tensor):
        self.copy: Tensor | None = None
        self.envelope: Envelope | None = None
        if not tensor.is_cuda:
            self.copy = tensor.clone()
            return
        stream = torch.cuda.current_stream(tensor.device)
        self.key = stream.cuda_stream, tensor.device, tensor.shape, tensor.dtype
        try:
            self.envelope = envelopes.setdefault(self.key, []).pop()
        except IndexError:
            self.envelope = Envelope(torch.empty_like(tensor, device="cpu").pin_memory())
        self.envelope.tensor.copy_(tensor, non_blocking=True)
        self.envelope.arrived.record(stream)

    def keep(self, sentences: np.ndarray) -> None:
        """These sentences alone, of (.., B, P)."""
        self.copy = torch.from_numpy(self.wait().numpy()[..., sentences, :])

    def wait(self) -> Tensor:
        if self.copy is None:
            assert self.envelope is not None
            self.envelope.arrived.synchronize()
            self.copy = self.envelope.tensor.clone()
            self.forget()
        return self.copy

    def forget(self) -> None:
        """It is not wanted any more; the next copy comes behind it on the stream."""
        if self.envelope is not None:
            envelopes[self.key].append(self.envelope)
        self.envelope = None


class Envelope:
    """Pinned memory that a tensor of one GPU is copied to, used again: to make it anew takes longer than the
    copy."""

    def __init__(self, tensor: Tensor):
        self.tensor, self.arrived = tensor, torch.cuda.Event()


envelopes: dict[Any, list[Envelope]] = {}  # that are free
