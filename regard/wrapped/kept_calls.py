"""Of a long text, what its attention is computed from is kept, so that the next look at it needs no pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from torch import nn

from regard.attention.record import watching
from regard.attention.trace_transformers import Call, keeping

MOST = 256 << 20  # bytes of queries, keys, values and masks


class KeptCalls:
    """The calls of attention layers for the text that was read last, at most `most` bytes of them."""

    def __init__(self, most: int = MOST) -> None:
        self.most, self.text = most, None  # type: int, Hashable
        self.calls: dict[nn.Module, list[Call]] = {}
        self.dropped: set[nn.Module] = set()  # layers for which there was no room

    def look(self, text: Hashable, layers: Sequence[nn.Module], read: Callable[[], object]) -> None:
        """Show traces the attention of these layers; `read` passes the model over the text where that is needed."""
        if text == self.text and all(layer in self.calls for layer in layers):
            for layer in layers:
                for call in self.calls[layer]:
                    call.show()
            return
        self.text, self.calls, self.dropped = None, {}, set()
        token = keeping.set(self._keep)
        try:
            read()
        finally:
            keeping.reset(token)
        self.text = text

    @property
    def bytes(self) -> int:
        """Masks are often shared by layers."""
        tensors = {x.data_ptr(): x.untyped_storage().nbytes() for calls in self.calls.values()
                   for call in calls for x in call.tensors}  # fmt: skip
        return sum(tensors.values())

    def _keep(self, call: Call) -> None:
        """A layer that is looked at takes the room of others."""
        if call.module in self.dropped:
            return
        self.calls.setdefault(call.module, []).append(call)
        others = [layer for layer in self.calls if layer is not call.module and not watching(layer)]
        while self.bytes > self.most and call.module in self.calls:
            leaves = others.pop(0) if others and watching(call.module) else call.module
            del self.calls[leaves]
            self.dropped.add(leaves)
