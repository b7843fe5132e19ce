"""Watch the attention of `transformers` models (version 5 or newer) through their attention interface.

Before each call an attention layer asks `AttentionInterface.get_interface(implementation, eager)` for a function.
While a trace watches, it gets a function that also calls `eager`, the model's own plain formula, for the weights:
relative positions, soft caps, sinks and grouped queries are the model's. Nothing here imports transformers."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.record import Trace, pooled, watching
from regard.base.shared_change import SharedChange
from regard.errors import BadInput

LIBRARY = "transformers.modeling_utils"
ROOM = 1 << 22  # weights that are computed at once: 16 MiB
READABLE = (None, "eager", "sdpa")  # implementations whose masks are known


def is_attention(module: nn.Module) -> bool:
    return LIBRARY in sys.modules and _asks_for_interface(type(module))


def _asks_for_interface(kind: type[nn.Module]) -> bool:
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    return code is not None and "get_interface" in code.co_names


@contextmanager
def watch(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within it, what these modules do is shown to the traces of the calling thread."""
    with ExitStack() as stack:
        if any(is_attention(module) for module in modules):
            stack.enter_context(_watched_interface())
        yield


def _watch_interface() -> Callable[[], None]:
    interface: Any = sys.modules[LIBRARY].AttentionInterface
    original = interface.get_interface

    def get_interface(
        self: Any, attn_implementation: str | None, default: Callable[..., Any]
    ) -> Callable[..., Any]:
        chosen = original(self, attn_implementation, default)
        if torch.compiler.is_compiling():
            return chosen
        return partial(_attend, chosen, default, attn_implementation)

    interface.get_interface = get_interface

    def undo() -> None:
        interface.get_interface = original

    return undo


_watched_interface = SharedChange(_watch_interface)


@dataclass(frozen=True)
class Call:
    """A call of an attention layer: what its weights are computed from, also again."""

    module: nn.Module
    eager: Callable[..., Any]
    fused: bool
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: dict[str, Any]

    def show(self) -> None:
        """To the traces that watch this layer."""
        for seen in watching(self.module):
            _show(seen, self)

    @property
    def tensors(self) -> list[Tensor]:
        held = (self.query, self.key, self.value, self.mask, *self.options.values())
        return [x for x in held if isinstance(x, Tensor)]


keeping: ContextVar[Callable[[Call], None] | None] = ContextVar("keeping", default=None)  # told of each call


def _attend(
    chosen: Callable[..., Any],
    eager: Callable[..., Any],
    implementation: str | None,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> Any:
    """What the layer would have called, with the same result."""
    if implementation not in READABLE and watching(module):
        raise BadInput(
            f"a trace reads eager and sdpa attention, and this model has {implementation!r}; "
            'call model.set_attn_implementation("sdpa") first'
        )
    call = Call(module, eager, implementation == "sdpa", query, key, value, attention_mask, options)
    call.show()
    if (keep := keeping.get()) is not None:
        keep(call)
    return chosen(module, query, key, value, attention_mask, **options)


@torch.no_grad()
def _show(seen: Trace, call: Call) -> None:
    """The weights of the traced queries, of all heads, without dropout."""
    module, query, key = call.module, call.query, call.key
    count, size = query.shape[-2], key.shape[-2]
    queries = seen.take(module, count, size)
    if not queries:
        return
    told = partial(_weights_of, call)
    at_once = max(1, ROOM // (size * query.shape[0] * query.shape[1]))
    if 0 < seen.pool < len(queries):
        ends = [row * len(queries) // seen.pool for row in range(seen.pool + 1)]
        for first, end in pairwise(ends):
            seen.keep_weights(module, *_largest(told, queries[first:end], at_once, seen.pool))
    else:
        for rows in _in_parts(queries, at_once):
            seen.keep_weights(module, *told(rows))
    sides = {"queries": query[..., queries, :], "keys": key, "values": call.value}
    seen.keep_beside(module, {kind: partial(_of_heads, seen, query, x) for kind, x in sides.items()})


def _in_parts(rows: list[int], size: int) -> Iterator[list[int]]:
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def _largest(
    told: Callable[[list[int]], tuple[Tensor, Tensor | None]], rows: list[int], at_once: int, side: int
) -> tuple[Tensor, Tensor | None]:
    """Of these rows together, the largest weights in `side` columns, and where any of them may look."""
    weights, allowed = None, None
    for part in _in_parts(rows, at_once):
        own, mask = told(part)
        own = pooled(own, side, -1).amax(-2, keepdim=True)
        weights = own if weights is None else torch.maximum(weights, own)
        if mask is not None:
            mask = pooled(mask.expand(*mask.shape[:-2], len(part), -1), side, -1).amax(-2, keepdim=True)
            allowed = mask if allowed is None else allowed | mask
    assert weights is not None
    return weights, allowed


def _weights_of(call: Call, queries: list[int]) -> tuple[Tensor, Tensor | None]:
    """The weights of these queries, of all heads, and where they may look (None: everywhere)."""
    query, key, mask, options = call.query, call.key, call.mask, call.options
    count, size = query.shape[-2], key.shape[-2]
    causal = call.fused and mask is None and count > 1 and _is_causal(call.module, options)
    if causal:
        places = torch.arange(size, device=query.device)
        mask = (places <= torch.tensor(queries, device=query.device)[:, None])[None, None]

    def rows(x: Any) -> Any:
        return x[..., queries, :] if isinstance(x, Tensor) and x.shape[-2] == count else x

    mask = mask if causal else rows(mask)
    allowed = None if mask is None else mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    if mask is not None and mask.dtype == torch.bool:  # as eager attention takes it: added to the scores
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
        mask = mask.masked_fill(~allowed, torch.finfo(query.dtype).min)  # type: ignore[operator]
    options = options | {name: 0.0 for name in ("dropout",) if name in options}
    options |= {name: rows(options[name]) for name in ("position_bias",) if name in options}
    _, weights = call.eager(call.module, rows(query), key, call.value, mask, **options)
    if call.fused and allowed is not None:
        weights = weights.masked_fill(~allowed, 0)  # sdpa reads nothing where a query may look nowhere
    return weights, allowed


def _of_heads(seen: Trace, query: Tensor, x: Tensor) -> Tensor:
    """Of the traced heads; a group of queries shares a key and a value."""
    return seen.of_heads(x.repeat_interleave(query.shape[1] // x.shape[1], 1))


def _is_causal(module: nn.Module, options: dict[str, Any]) -> bool:
    """As in transformers' own call of sdpa, which may leave the mask out."""
    option = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if option is None else option)
