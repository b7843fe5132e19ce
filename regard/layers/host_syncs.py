"""What a step asks of the host: operations that wait for the GPU, or copy between its memory and the host's. They
cannot be part of a CUDA graph."""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operations whose result, or its shape, the host must know.
ASKING = {
    "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "unique_dim",
    "unique_consecutive", "unique_dim_consecutive", "bincount", "_pack_padded_sequence",
}  # fmt: skip
BY_MASK = {"index", "index_put", "index_put_", "_index_put_impl_"}  # ask how many places a mask selects
COPIES = {"_to_copy", "copy_"}
MAY_ASK = ASKING | BY_MASK | COPIES | {"repeat_interleave"}
SYNCS = "called a synchronizing CUDA operation"  # torch's warning
HERE = Path(__file__).parent.parent


class NotCapturable(Exception):
    """The step asks the host."""


class HostSyncs(TorchDispatchMode):
    """Notes in `found` what asks the host, and where; `refuse`: raises NotCapturable before it does. `of_cpu`:
    tensors on the CPU count as those of a GPU, so that a step can be looked at without one."""

    def __init__(self, *, refuse: bool = False, of_cpu: bool = False) -> None:
        super().__init__()
        self.refuse, self.of_cpu = refuse, of_cpu
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._asks(func, args, kwargs):
            self.found.append(f"{func} in {_place()}")
            if self.refuse:
                raise NotCapturable(self.found[-1])
        return func(*args, **kwargs)

    def _asks(self, func: Any, args: Any, kwargs: Any) -> bool:
        name = func._schema.name.removeprefix("aten::")
        if name not in MAY_ASK:
            return False
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        ours = self.of_cpu or any(x.is_cuda for x in tensors)
        if name in COPIES:
            wanted = [*tensors, *([kwargs["device"]] if kwargs.get("device") is not None else [])]
            kinds = {x.device.type if isinstance(x, Tensor) else torch.device(x).type for x in wanted}
            return len(kinds) > 1
        if name in BY_MASK:
            places = [x for x in args[1] if x is not None]
            if name != "index" and args[2].numel() == 1:  # torch fills what a mask selects with one number
                return False
            return ours and any(x.dtype == torch.bool for x in places)
        if name == "repeat_interleave":
            return ours and kwargs.get("output_size") is None
        return ours and name in ASKING


def _place() -> str:
    """The line of this package, or else of the caller, that is being run."""
    frames = [frame for frame in traceback.extract_stack()[:-3] if "/torch/" not in frame.filename]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(HERE)]
    frame = (own or frames)[-1] if own or frames else None
    return "the backward pass" if frame is None else f"{Path(frame.filename).name}, line {frame.lineno}"


@contextmanager
def noting_syncs(*, compiled: bool) -> Iterator[list[str]]:
    """Notes in the list what the block asks of the host, which it still does. `compiled`: operations inside a
    compiled graph cannot be seen one by one; only what waits for the GPU is."""
    found: list[str] = []
    mode = None if compiled else HostSyncs()
    with _sync_debug("warn"), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if mode is None:
            yield found
        else:
            with mode:
                yield found
            found += mode.found
    found += [
        f"{linecache.getline(line.filename, line.lineno).strip()} ({line.filename}, line {line.lineno})"
        for line in told
        if SYNCS in str(line.message)
    ]
    for line in told:
        if SYNCS not in str(line.message):
            warnings.warn_explicit(line.message, line.category, line.filename, line.lineno)


@contextmanager
def refusing_syncs(*, compiled: bool) -> Iterator[None]:
    """What waits for the GPU raises before it does, so that a capture stays valid."""
    with _sync_debug("error"):
        if compiled:
            yield
        else:
            with HostSyncs(refuse=True):
                yield


@contextmanager
def _sync_debug(mode: str) -> Iterator[None]:
    if not torch.cuda.is_available():
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # the mode warns that it is a prototype
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
